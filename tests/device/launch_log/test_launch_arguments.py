"""What a launch was called with is told with a later fault: always, of every way of launching, whole or not at all."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_ptx import POKE

pytestmark = [pytest.mark.device, pytest.mark.emulator]

N = 256
X = np.ones(N, np.float32)
NUMBERS = [vc.u8, vc.i8, vc.u16, vc.i16, vc.u32, vc.i32, vc.u64, vc.i64]
FLOATS = [vc.f16, vc.bf16, vc.f32, vc.f64]


@pytest.fixture(autouse=True)
def lazy(device: vc.Device, emulator: Emulator) -> None:
    """What is launched stays in flight until somebody waits."""
    emulator.stream_mode("lazy")


def told(device: vc.Device) -> str:
    """The arguments of the newest launch as they are told; none: ''."""
    found = re.search(r" with (.*?), (?:launched at|\d+ launch|a call with)", device.context.in_flight()[0])
    return "" if found is None else found[1]


def shown(array: vc.DeviceArray) -> str:
    return f"{array.dtype}[{len(array)}] at {address(array):#x}"


def address(array: vc.DeviceArray) -> int:
    return array._alive().address


# ---- every way -------------------------------------------------------------------------------------------------------


def test_every_way_of_launching_tells_its_arguments(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    x, y, out = device.array(X), device.array(X), device.empty(N, vc.f32)
    other = device.array(X)
    call = saxpy.bind(x, y, out, 2.0)
    ways: dict[str, tuple[float, vc.DeviceArray, Callable[[], object]]] = {
        "launch": (2.5, x, lambda: saxpy.launch(x, y, out, 2.5)),
        "launch with another array": (3.5, other, lambda: saxpy.launch(other, y, out, 3.5)),
        "launch by name": (-1.0, x, lambda: saxpy.launch(x, out=out, a=-1.0, y=y)),
        "bound call": (2.0, x, lambda: call()),
        "bound call, changed": (0.1, other, lambda: call(other, y, out, 0.1)),
        "bound call, as changed": (0.1, other, lambda: call()),
    }
    for way, (a, first, launch) in ways.items():
        for _ in range(3):  # plain, with a graph made for it, with that again
            device.synchronize()
            launch()

            assert told(device) == f"x={shown(first)}, y={shown(y)}, out=float32 at {address(out):#x}, a={a}", way


def test_call_with_host_arrays_tells_sizes_and_scalars(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    pending = [saxpy.submit(X[:count], X[:count], float(count)) for count in (4, 100)]

    lines = device.context.in_flight()

    for count in (4, 100):
        assert any(re.search(rf"x=float32\[{count}\] at 0x[0-9a-f]+, .*, a={count}\.0,", line) for line in lines), lines
    del pending


def test_kernel_of_a_module_tells_what_its_signature_knows(device: vc.Device, tmp_path: Path) -> None:
    poke = device.load(POKE, "poke", signature="ptr")
    out = device.empty(N, vc.f32)
    poke.launch(out, grid=1, block=1)
    assert told(device) == f"{address(out):#x}"
    device.synchronize()
    bound = poke.bind(address(out), grid=1, block=1)
    bound()

    assert told(device) == f"{address(out):#x}"


def test_kernel_of_a_bundle_tells_names_and_types(device: vc.Device, tmp_path: Path) -> None:
    device.compile(programs.saxpy()).export(tmp_path / "k.vyre", targets=["sm_90"])
    kernel = vc.load_bundle(tmp_path / "k.vyre").on(device)["saxpy"]
    x, out = device.array(X), device.empty(N, vc.f32)
    kernel.launch(x, x, out, 7.0)

    assert told(device) == f"x={shown(x)}, y={shown(x)}, out=float32 at {address(out):#x}, a=7.0"


def test_replay_tells_its_kernels_and_no_arguments(device: vc.Device) -> None:
    add_to = device.compile(programs.add_to())
    arrays = device.array(np.zeros(N, np.int32)), device.array(np.ones(N, np.int32))
    for _ in range(40):  # other launches' arguments are in all of the ring
        add_to.launch(*arrays)
    with device.record() as graph:
        add_to.launch(*arrays)
    device.synchronize()
    graph.replay()

    assert told(device) == ""
    assert "add_to" in device.context.in_flight()[0]


# ---- values ----------------------------------------------------------------------------------------------------------


def scalar_program(type_: vc.Type) -> vc.Program:
    b = vc.Builder(f"of_{type_.name}")
    out = b.inout("out", type_)
    a = b.scalar("a", type_)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a
    return b.build()


@pytest.fixture(scope="module")
def scalars() -> Iterator[tuple[vc.Device, dict[str, tuple[vc.Kernel, vc.DeviceArray]]]]:
    with vc.Device("emulator") as device:
        types = [*NUMBERS, *FLOATS, vc.bool_]
        yield device, {t.name: (device.compile(scalar_program(t)), device.empty(3, t)) for t in types}


def value_told(scalars: Any, type_: vc.Type, value: Any) -> str:
    device, kernels = scalars
    kernel, array = kernels[type_.name]
    kernel.launch(array, value)
    return told(device).rpartition("a=")[2]


@pytest.mark.parametrize("type_", NUMBERS, ids=lambda t: t.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_integers_are_told_exactly(scalars: Any, type_: vc.Type, data: st.DataObject) -> None:
    value = data.draw(st.integers(type_.minimum, type_.maximum))

    assert value_told(scalars, type_, value) == str(value)


@pytest.mark.parametrize("type_", FLOATS, ids=lambda t: t.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_floats_are_told_so_that_they_can_be_read_back(scalars: Any, type_: vc.Type, data: st.DataObject) -> None:
    word = np.dtype(f"u{type_.itemsize}")
    bits = data.draw(st.integers(0, 2**type_.bits - 1))
    value = np.array(bits, word).view(type_.dtype)[()]

    with np.errstate(invalid="ignore"):  # a signaling NaN
        text = value_told(scalars, type_, value)
        back = type_.dtype.type(float(text))
        is_nan = bool(np.isnan(value))

    assert np.isnan(back) == is_nan
    assert is_nan or back.view(word) == bits, (text, value)
    assert text.lstrip("-") in ("nan", "inf") or set(text) & set(".e")


def test_flags_are_told_as_such(scalars: Any) -> None:
    assert [value_told(scalars, vc.bool_, value) for value in (True, False)] == ["True", "False"]


# ---- limits ----------------------------------------------------------------------------------------------------------


def wide_program(buffers: int) -> vc.Program:
    b = vc.Builder("wide")
    arrays = [b.inout(f"h{number}", vc.u32) for number in range(buffers)]
    i = b.let("i", vc.global_id.x)
    for array in arrays:
        with b.if_(i < array.size):
            array[i] = i
    return b.build()


@pytest.mark.parametrize("buffers", [1, 4, 5, 6, 7, 12])
def test_arguments_past_the_first_48_bytes_are_an_ellipsis(buffers: int, device: vc.Device) -> None:
    kernel = device.compile(wide_program(buffers))
    arrays = [device.empty(N + number, vc.u32) for number in range(buffers)]
    kernel.launch(*arrays)
    parts = told(device).split(", ")
    named = min(buffers, 6)

    assert [part.partition("=")[0] for part in parts[:named]] == [f"h{number}" for number in range(named)]
    for part, array in zip(parts, arrays, strict=False):
        assert part == "..." or part.endswith(f" at {address(array):#x}")
    assert parts[named:] == (["..."] if buffers > 6 else [])


def test_message_of_a_fault_is_whole_and_has_the_newest_launch(device: vc.Device) -> None:
    poke = device.load(POKE, "poke", signature="ptr")
    kernel = device.compile(wide_program(12))
    arrays = [device.empty(N, vc.u32) for _ in range(12)]
    poke.launch(16, grid=1, block=1)
    for _ in range(20):
        kernel.launch(*arrays)
    with pytest.raises(vc.DeviceLostError) as caught:
        device.synchronize()

    assert "h0=uint32" in str(caught.value)
    assert str(caught.value).endswith("only a new process can use it again")
    assert len(caught.value.launches) >= 10
    assert all(" ago in call order" in line for line in caught.value.launches)


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_arguments_are_those_of_one_launch_however_many_threads_launch_on_a_stream(device: vc.Device) -> None:
    threads, rounds = 4, 300
    kernels = [device.compile(wide_program(3)), device.compile(programs.saxpy())]
    arrays = [[device.empty(N + t, vc.u32) for _ in range(3)] for t in range(threads)]
    floats = [[device.empty(N + t, vc.f32) for _ in range(3)] for t in range(threads)]
    allowed = set()
    for t in range(threads):
        allowed.add(", ".join(f"h{number}={shown(array)}" for number, array in enumerate(arrays[t])))
        x, y, out = floats[t]
        allowed.add(f"x={shown(x)}, y={shown(y)}, out=float32 at {address(out):#x}, a={float(t)}")
    done = threading.Event()
    wrong: list[str] = []

    def launch(t: int) -> None:
        for _ in range(rounds):
            kernels[0].launch(*arrays[t])
            kernels[1].launch(*floats[t], float(t))

    def look() -> None:
        while not done.is_set():
            for line in device.context.in_flight():
                found = re.search(r" with (.*), launched at", line)
                if found is not None and found[1] not in allowed:
                    wrong.append(line)

    workers = [threading.Thread(target=launch, args=(t,)) for t in range(threads)]
    reader = threading.Thread(target=look)
    reader.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done.set()
    reader.join()

    assert wrong == []
