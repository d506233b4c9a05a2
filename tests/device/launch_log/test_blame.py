"""A fault or timeout that comes out later says which launches may have made it: kernel, how long ago, from where."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_ptx import POKE

pytestmark = [pytest.mark.device, pytest.mark.emulator]

HERE = Path(__file__).name
N = 256
CUDA_ERROR_LAUNCH_TIMEOUT = 702

SAXPY = "saxpy ({}:{})".format(*(programs.saxpy().source or ()))


@pytest.fixture
def poke(device: vc.Device) -> vc.ForeignKernel:
    return device.load(POKE, "poke", signature="ptr")


DETAILS = re.compile(r"( with [^\n]*?)?, launched at [^,\n]+:\d+(?=,)")


def without_lines(launches: tuple[str, ...] | str) -> tuple[str, ...]:
    """The launches without arguments and lines; test_launch_arguments.py and test_origins.py are about those."""
    lines = (launches,) if isinstance(launches, str) else launches
    return tuple(DETAILS.sub("", line) for line in lines)


def lost(device: vc.Device) -> vc.DeviceLostError:
    with pytest.raises(vc.DeviceLostError) as caught:
        device.synchronize()
    return caught.value


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["threaded", "lazy"])
def test_fault_names_the_launches_behind_it_newest_first(
    mode: str,
    device: vc.Device,
    saxpy: vc.Kernel,
    poke: vc.ForeignKernel,
    arrays: tuple[vc.DeviceArray, ...],
    emulator: Emulator,
) -> None:
    emulator.stream_mode("lazy")
    poke.launch(16, grid=1, block=1)
    saxpy.launch(*arrays, 2.0)
    saxpy.launch(*arrays, 2.0)
    if mode == "threaded":
        emulator.stream_mode("threaded")
    error = lost(device)

    assert [line.split(" in ")[0] for line in without_lines(error.launches)] == [
        f"{SAXPY}, 1 launch ago",
        f"{SAXPY}, 2 launches ago",
        "poke, 3 launches ago",
    ]
    assert f"{SAXPY}, 1 launch ago in call order" in without_lines(str(error))[0]


def test_launches_that_were_waited_for_are_out_of_the_question(
    device: vc.Device, saxpy: vc.Kernel, poke: vc.ForeignKernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    emulator.stream_mode("lazy")
    for _ in range(3):
        saxpy.launch(*arrays, 2.0)
    device.synchronize()
    saxpy.launch(*arrays, 2.0)
    arrays[2].numpy()
    poke.launch(16, grid=1, block=1)

    assert without_lines(lost(device).launches) == ("poke, 1 launch ago in call order",)


def test_fault_on_a_stream_names_the_stream(device: vc.Device, poke: vc.ForeignKernel, emulator: Emulator) -> None:
    emulator.stream_mode("lazy")
    stream = device.stream()
    handle = stream.handle
    poke.launch(16, grid=1, block=1, stream=stream)
    with pytest.raises(vc.DeviceLostError) as caught:
        stream.synchronize()

    assert without_lines(caught.value.launches) == (f"poke, 1 launch ago on stream {handle:#x}",)


def test_stream_in_the_place_of_another_does_not_inherit_its_launches(
    device: vc.Device, saxpy: vc.Kernel, poke: vc.ForeignKernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    first = device.stream()
    saxpy.launch(*arrays, 2.0, stream=first)
    del first
    emulator.stream_mode("lazy")
    poke.launch(16, grid=1, block=1, stream=device.stream())

    assert [line.partition(",")[0] for line in lost(device).launches] == ["poke with 0x10"]


def test_more_launches_than_are_remembered_are_counted(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], poke: vc.ForeignKernel, emulator: Emulator
) -> None:
    emulator.stream_mode("lazy")
    poke.launch(16, grid=1, block=1)
    call = saxpy.bind(*arrays, 2.0)
    for _ in range(40):
        call()
    launches = device.context.in_flight()

    assert len(launches) == 33
    assert launches[-1] == "9 launches before those in call order"
    lost(device)


@pytest.mark.parametrize("how", ["call", "rebound", "graph"])
def test_every_way_of_launching_is_remembered(
    how: str, device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    call = saxpy.bind(*arrays, 2.0)
    call()
    with device.record() as graph:
        saxpy.launch(*arrays, 2.0)
    graph.replay()
    device.synchronize()
    emulator.stream_mode("lazy")
    if how == "call":
        call()
    elif how == "rebound":
        call(*arrays, 3.0)
    else:
        graph.replay()

    name = f"a graph of 1 step ({SAXPY})" if how == "graph" else SAXPY
    assert without_lines(device.context.in_flight()) == (f"{name}, 1 launch ago in call order",)


def test_submitted_calls_are_remembered_until_they_end(device: vc.Device, saxpy: vc.Kernel, emulator: Emulator) -> None:
    x = np.ones(N, np.float32)
    emulator.stream_mode("lazy")
    first, second = saxpy.submit(x, x, 2.0), saxpy.submit(x, x, 3.0)

    assert without_lines(device.context.in_flight()) == (f"{SAXPY}, a call with host arrays",) * 2
    first.result()
    assert without_lines(device.context.in_flight()) == (f"{SAXPY}, a call with host arrays",)
    second.result()
    assert without_lines(device.context.in_flight()) == ()


@pytest.mark.parametrize("keep", ["kept", "dropped"])
@pytest.mark.parametrize("kind", ["kernel", "worker"])
def test_calls_that_have_ended_are_not_named_though_nobody_has_waited(
    device: vc.Device, saxpy: vc.Kernel, emulator: Emulator, kind: str, keep: str
) -> None:
    x = np.ones(N, np.float32)
    with device.worker([saxpy]) as worker:

        def submit() -> vc.Pending:
            return saxpy.submit(x, x, 2.0) if kind == "kernel" else worker.submit(saxpy, x, x, 2.0)

        pending = [submit() for _ in range(5)]
        device.synchronize()
        if keep == "dropped":
            pending.clear()
        assert without_lines(device.context.in_flight()) == ()

        if kind == "worker":
            worker.pause()
        else:
            emulator.set("held", 1)
        pending.append(submit())
        what = "a call of a worker" if kind == "worker" else "a call with host arrays"
        assert without_lines(device.context.in_flight()) == (f"{SAXPY}, {what}",)
        emulator.set("held", 0)


def test_watchdog_of_the_driver_names_the_kernel_too(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    emulator.stream_mode("lazy")
    saxpy.launch(*arrays, 2.0)
    emulator.fail("cuStreamQuery", result=CUDA_ERROR_LAUNCH_TIMEOUT)
    error = lost(device)

    assert "CUDA_ERROR_LAUNCH_TIMEOUT" in str(error)
    assert without_lines(error.launches) == (f"{SAXPY}, 1 launch ago in call order",)


def test_timeout_of_a_wait_names_the_launches(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    emulator.set("held", 1)
    stream = device.stream()
    saxpy.launch(*arrays, 2.0, stream=stream)
    handle = stream.handle
    waits = (device.synchronize, stream.synchronize, stream.record().synchronize)
    for wait in waits:
        with pytest.raises(vc.KernelTimeoutError) as caught:
            wait(timeout=0.0)
        assert without_lines(caught.value.launches) == (f"{SAXPY}, 1 launch ago on stream {handle:#x}",)
        assert f"{SAXPY}, 1 launch ago" in without_lines(str(caught.value))[0]
    emulator.set("held", 0)


def test_timeout_of_a_result_names_what_is_in_flight(device: vc.Device, saxpy: vc.Kernel, emulator: Emulator) -> None:
    x = np.ones(N, np.float32)
    emulator.set("held", 1)
    pending = saxpy.submit(x, x, 2.0)
    with pytest.raises(vc.KernelTimeoutError) as caught:
        pending.result(timeout=0.0)

    assert without_lines(caught.value.launches) == (f"{SAXPY}, a call with host arrays",)
    emulator.set("held", 0)
    pending.result()


def test_close_that_gives_up_names_the_launches(saxpy: vc.Kernel, emulator: Emulator) -> None:
    x = np.ones(N, np.float32)
    emulator.set("held", 1)
    pending = saxpy.submit(x, x, 2.0)
    with pytest.raises(vc.KernelTimeoutError) as caught:
        saxpy.device.close(timeout=0.0)

    assert without_lines(caught.value.launches) == (f"{SAXPY}, a call with host arrays",)
    assert "saxpy" in str(caught.value)
    del pending


# ---- traced launches -------------------------------------------------------------------------------------------------


def test_tracing_is_off_at_first_and_can_be_switched(device: vc.Device) -> None:
    assert device.trace_launches is False
    device.trace_launches = True
    assert device.trace_launches is True
    assert device.context.recordings == 1
    device.trace_launches = False
    assert device.trace_launches is False
    assert device.context.recordings == 0


def test_traced_launch_says_arguments_and_line(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    device.trace_launches = True
    emulator.stream_mode("lazy")
    saxpy.launch(*arrays, 2.0)
    line = _line_before()

    (told,) = device.context.in_flight()
    x, _, out = (array._alive().address for array in arrays)
    assert told.startswith(f"saxpy(x=float32[{N}] at {x:#x}, y=float32[{N}] at ")
    assert f"out=float32[{N}] at {out:#x}, a=2.0)" in told
    assert told.endswith(f"{HERE}:{line}, 1 launch ago in call order")


def _line_before() -> int:
    """The line of the test above this call."""
    frame = sys._getframe(1)
    return frame.f_lineno - 1


def test_every_traced_way_says_its_line(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    x = np.ones(N, np.float32)
    call = saxpy.bind(*arrays, 2.0)
    with device.record() as graph:
        saxpy.launch(*arrays, 2.0)
    poke = device.load(POKE, "poke", signature="ptr")
    bound_poke = poke.bind(arrays[2], grid=1, block=1)
    device.trace_launches = True
    emulator.stream_mode("lazy")
    ways: list[Callable[[], object]] = [
        lambda: saxpy.launch(*arrays, 2.0),
        lambda: saxpy.launch(*arrays, grid=4, a=2.0),
        call,
        lambda: call(*arrays, 5.0),
        graph.replay,
        lambda: poke.launch(arrays[2], grid=1, block=1),
        bound_poke,
        lambda: saxpy.submit(x, x, 2.0),
    ]
    for number, way in enumerate(ways):
        kept = way()
        told = device.context.in_flight()
        assert len(told) == 1, number
        assert re.search(rf"launched at .*{HERE}:\d+", told[0]), number
        device.synchronize()
        del kept


def test_fault_of_a_traced_launch_says_who_launched_it(
    device: vc.Device, poke: vc.ForeignKernel, emulator: Emulator
) -> None:
    device.trace_launches = True
    emulator.stream_mode("lazy")
    poke.launch(16, grid=1, block=1)
    error = lost(device)

    assert f"poke(0=16, grid=1, block=1), launched at {__file__}:" in str(error)


def test_text_of_a_failed_call_is_not_given_to_another_device(
    device: vc.Device, saxpy: vc.Kernel, arrays: tuple[vc.DeviceArray, ...], emulator: Emulator
) -> None:
    device.trace_launches = True
    with pytest.raises(TypeError):
        saxpy.launch(arrays[0], 2.0)
    with vc.Device("emulator") as other:
        kernel = other.compile(programs.saxpy())
        x = other.zeros(N, vc.f32)
        emulator.stream_mode("lazy")
        kernel.launch(x, x, other.empty(N, vc.f32), 1.0)

        assert without_lines(other.context.in_flight()) == (f"{SAXPY}, 1 launch ago in call order",)


def test_results_are_the_same_while_watched(device: vc.Device, saxpy: vc.Kernel) -> None:
    x = np.arange(N, dtype=np.float32)
    device.trace_launches = True

    np.testing.assert_array_equal(saxpy(x, x, 2.0), 3 * x)
    np.testing.assert_array_equal(saxpy(x=x, y=x, a=2.0), 3 * x)
    np.testing.assert_array_equal(saxpy.timed(x, x, 2.0).outputs, 3 * x)
    np.testing.assert_array_equal(saxpy.record(x, x, 2.0).replay(), 3 * x)
