"""print on the device: the lines of vc.evaluate, shown by the end of a call and by every wait.

Lines of different threads may come in any order on a GPU.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.types import TYPES
from vyre_cuda.testing.edges import EDGES
from vyre_cuda.testing.emulator import Emulator

from ..cached_kernels import Open

Capture = pytest.CaptureFixture[str]
X = np.arange(6, dtype=np.int32)
LINES = [f"x[{i}] = {i}" for i in range(6)]


def told(capfd: Capture) -> list[str]:
    """What was printed since the last call, sorted; the driver may write it through the buffer of C's stdout."""
    ctypes.CDLL(None).fflush(None)
    return sorted(capfd.readouterr().out.splitlines())


def teller(block: int = 4) -> vc.Program:
    """Tells each element of x, and adds 0."""
    b = vc.Builder("teller", block=block, index=vc.i32)
    x = b.inout("x", vc.i32)
    i = vc.global_id.x
    with b.if_(i < x.size):
        b.print("x[{}] = {}", i, x[i])
        x[i] = x[i] + 0
    return b.build()


# ---- lines


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_edge_values_are_printed_as_evaluate_prints_them(device: vc.Device, type_: vc.Type, capfd: Capture) -> None:
    b = vc.Builder("edges", block=32)
    x = b.input("x", type_)
    b.work(x.size)
    i = vc.global_id.x
    with b.if_(i < x.size):
        b.print("{}: {}", i, x[i])
    program = b.build()
    unsigned = np.dtype(f"u{type_.itemsize}")
    given = np.array(EDGES[type_], unsigned).view(type_.dtype)

    vc.evaluate(program, given)
    expected = told(capfd)
    device.run(program, given)

    assert len(expected) == len(EDGES[type_])
    assert told(capfd) == expected


def test_eight_values_and_text_with_percent_signs(device: vc.Device, capfd: Capture) -> None:
    b = vc.Builder("eight", block=1)
    b.work(1)
    b.print("100% %d {{}} " + "{} " * 8 + "\u00e9", *(type_(1) for type_ in (*TYPES[1:7], vc.f32, vc.f64)))
    b.print("no value")

    device.run(b.build())

    assert told(capfd) == ["100% %d {} 1 1 1 1 1 1 1 1 \u00e9", "no value"]


def test_lines_of_a_thread_are_in_its_order(device: vc.Device, capfd: Capture) -> None:
    b = vc.Builder("order", block=64)
    x = b.inout("x", vc.u32)
    i = vc.global_id.x
    with b.for_(x[i]) as j:
        with b.if_(j == 1):
            b.print("{} is at one", i)
        with b.else_():
            b.print("{} is at {}", i, j)
    given = np.arange(64, dtype=np.uint32) % 4

    device.run(b.build(), given)
    ctypes.CDLL(None).fflush(None)
    shown = capfd.readouterr().out.splitlines()

    by_thread: dict[int, list[str]] = {}
    for line in shown:
        by_thread.setdefault(int(line.split()[0]), []).append(line.rsplit(" ", 1)[1])
    assert by_thread == {i: ["0", "one", "2"][: i % 4] for i in range(64) if i % 4}


def test_threads_print_between_grid_barriers(device: vc.Device, capfd: Capture) -> None:
    b = vc.Builder("meeting", block=32)
    x = b.inout("x", vc.u32)
    i = vc.global_id.x
    x[i] = x[i] + 1
    b.grid_barrier()
    with b.if_(i % 32 == 0):
        b.print("{} sees {}", i, x[(i + 32) % x.size])

    device.run(b.build(), np.zeros(96, np.uint32))

    assert told(capfd) == ["0 sees 1", "32 sees 1", "64 sees 1"]


def test_an_assertion_that_fails_shows_what_was_printed_before(device: vc.Device, capfd: Capture) -> None:
    b = vc.Builder("failing", block=4)
    x = b.inout("x", vc.u32)
    b.print("before")
    b.assert_(x[0] == 1, "x is not 1")
    b.print("behind")

    with pytest.raises(vc.KernelAssertionError):
        device.run(b.build(), np.zeros(1, np.uint32))

    assert told(capfd) == ["before"] * 4


@pytest.mark.parametrize("options", [{"bounds": "trap"}, {"bounds": "off"}, {"precision": "fast"}], ids=str)
def test_options_keep_lines(device: vc.Device, options: dict[str, Any], capfd: Capture) -> None:
    device.compile(teller(), **options)(X)

    assert told(capfd) == LINES


@pytest.mark.emulator
def test_a_print_races_with_nothing(capfd: Capture) -> None:
    with vc.Device("emulator", check="races") as device:
        device.run(teller(), X)

    assert told(capfd) == LINES


# ---- ways to launch


def _launch(device: vc.Device, kernel: vc.Kernel) -> None:
    array = device.array(X)
    kernel.launch(array)
    device.synchronize()


def _copy(device: vc.Device, kernel: vc.Kernel) -> None:
    array = device.array(X)
    kernel.launch(array)
    array.numpy()


def _stream(device: vc.Device, kernel: vc.Kernel) -> None:
    array, stream = device.array(X), device.stream()
    kernel.launch(array, stream=stream)
    stream.synchronize()


def _event(device: vc.Device, kernel: vc.Kernel) -> None:
    array, stream = device.array(X), device.stream()
    kernel.launch(array, stream=stream)
    stream.record().synchronize()


def _bound(device: vc.Device, kernel: vc.Kernel) -> None:
    call = kernel.bind(device.array(X))
    call()
    device.synchronize()


def _replay(device: vc.Device, kernel: vc.Kernel) -> None:
    array = device.array(X)
    with device.record() as graph:
        kernel.launch(array)
    graph.replay()
    device.synchronize()


def _replay_of_a_call(device: vc.Device, kernel: vc.Kernel) -> None:
    kernel.record(X).replay()


def _await(device: vc.Device, kernel: vc.Kernel) -> None:
    async def awaited() -> None:
        await kernel.submit(X)

    asyncio.run(awaited())


WAYS: list[Callable[[vc.Device, vc.Kernel], object]] = [
    lambda device, kernel: kernel(X),
    lambda device, kernel: kernel.submit(X).result(),
    lambda device, kernel: kernel.timed(X),
    *(_launch, _copy, _stream, _event, _bound, _replay, _replay_of_a_call, _await),
]


@pytest.mark.parametrize("way", WAYS, ids=["call", "submit", "timed", *(way.__name__ for way in WAYS[3:])])
def test_lines_are_shown_by_the_end_of_a_call_and_by_waits(
    device: vc.Device, way: Callable[[vc.Device, vc.Kernel], object], capfd: Capture
) -> None:
    kernel = device.compile(teller())

    for _ in range(2):
        way(device, kernel)

        assert told(capfd) == LINES


def test_a_repeated_step_prints_each_time(device: vc.Device, capfd: Capture) -> None:
    kernel, array = device.compile(teller()), device.array(X)
    with device.record() as graph, graph.repeat(3):
        kernel.launch(array)

    graph.replay()
    device.synchronize()

    assert told(capfd) == sorted(LINES * 3)


def test_iterations_of_a_call_print_each_time(device: vc.Device, capfd: Capture) -> None:
    device.compile(teller()).timed(X, iterations=3)

    assert told(capfd) == sorted(LINES * 3)


# ---- kernels from files


def test_a_kernel_from_the_disk_cache_prints(opened: Open, capfd: Capture) -> None:
    opened().compile(teller())(X)
    assert told(capfd) == LINES
    second = opened()

    second.compile(teller())(X)

    assert second.stats().disk_cache_hits == 1
    assert told(capfd) == LINES


def test_a_kernel_from_a_bundle_prints(device: vc.Device, tmp_path: Path, capfd: Capture) -> None:
    vc.bundle([teller()], tmp_path / "a.vyre", targets=("sm_80", "sm_90"), cubins=False)

    kernel = vc.load_bundle(tmp_path / "a.vyre").on(device)["teller"]
    kernel(X)

    assert kernel.lowered.prints
    assert told(capfd) == LINES


# ---- failures


@pytest.mark.emulator
def test_a_driver_that_cannot_show_lines_is_an_error(emulator: Emulator, capfd: Capture) -> None:
    with vc.Device("emulator") as device:
        kernel = device.compile(teller())
        kernel(X)
        emulator.fail("cuStreamSynchronize", result=2)

        with pytest.raises(vc.Error, match="cuStreamSynchronize"):
            kernel(X)

        np.testing.assert_array_equal(kernel(X), X)
        assert told(capfd) == sorted(LINES * 3)


@pytest.mark.emulator
def test_a_context_that_prints_nothing_makes_no_call_for_it(emulator: Emulator) -> None:
    b = vc.Builder("quiet")
    x = b.inout("x", vc.i32)
    x[vc.global_id.x] = 1
    with vc.Device("emulator") as device:
        kernel = device.compile(b.build())
        before = emulator.count("cuStreamSynchronize")
        kernel(X)
        device.synchronize()

        assert emulator.count("cuStreamSynchronize") == before
