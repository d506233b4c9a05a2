"""check="races": what a launch ran into is reported with element, statements and threads, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs

pytestmark = pytest.mark.emulator

BLOCK = 64
X = np.arange(4 * BLOCK, dtype=np.uint32)
Race = Callable[[vc.Device], Any]


@pytest.fixture(scope="module")
def checked() -> Iterator[vc.Device]:
    with vc.Device("emulator", check="races") as device:
        yield device


def exchange(between: str, distance: int, type_: vc.Type = vc.u32) -> vc.Program:
    """x[i] = i; out[i] = x[i ^ distance], with what orders the threads in between."""
    b = vc.Builder("exchange", block=BLOCK)
    x = b.inout("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    x[i] = type_(i)
    if between == "warp":
        out[i] = b.broadcast(i, 0)  # a warp operation that nobody uses would go
    elif between == "block":
        b.barrier()
    elif between == "grid":
        b.grid_barrier()
    out[i] = x[i ^ distance]
    return b.build()


def all_to_one(value: Callable[[], Any]) -> vc.Program:
    """The first thread of every block stores to x[2]."""
    b = vc.Builder("all_to_one", block=BLOCK)
    x = b.inout("x", vc.u32)
    with b.if_(vc.thread_id.x == 0):
        x[2] = value()
    return b.build()


def counting(*, plain_load: bool = False, scope: str = "device") -> vc.Program:
    """Every thread adds to x[0] by an atomic; then it may load x[0]."""
    b = vc.Builder("counting", block=BLOCK)
    x = b.inout("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    b.atomic_add(x, 0, 1, scope=scope)
    out[vc.global_id.x] = x[0] if plain_load else 1
    return b.build()


def reversed_blocks(*, barrier: bool, type_: vc.Type = vc.u32, length: int = BLOCK) -> vc.Program:
    """Each block reversed by way of shared memory; without its barrier a race."""
    b = vc.Builder("reversed_blocks", block=BLOCK)
    x = b.inout("x", type_)
    b.shared("unused", vc.u8, 3)
    tile = b.shared("tile", type_, length)
    tile[vc.thread_id.x] = x[vc.global_id.x]
    if barrier:
        b.barrier()
    x[vc.global_id.x] = tile[BLOCK - 1 - vc.thread_id.x]
    return b.build()


# ---- what is a race ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [BLOCK, 1 << 14], ids=["static", "dynamic"])
def test_a_missing_barrier_is_reported_with_element_and_statements(checked: vc.Device, length: int) -> None:
    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(reversed_blocks(barrier=False, length=length), X)

    race = caught.value
    assert (race.program, race.buffer, race.code) == ("reversed_blocks", "tile", "data_race")
    assert race.first.block == race.second.block == (0, 0, 0)
    load, store = sorted((race.first, race.second), key=lambda access: access.instruction.split(".")[0][-2:])
    assert "ld.shared.u32" in load.instruction
    assert "st.shared.u32" in store.instruction
    assert race.index == store.thread[0] == BLOCK - 1 - load.thread[0]
    for access in (load, store):
        assert access.source is not None
        assert access.source[0].endswith("test_races.py")
        assert access.source[0] in str(race)
    assert load.source != store.source


@pytest.mark.parametrize("type_", [vc.u8, vc.bool_, vc.f16, vc.u32, vc.f64], ids=str)
def test_elements_side_by_side_are_apart(checked: vc.Device, type_: vc.Type) -> None:
    x = (X % 2).astype(type_.dtype)
    expected = x.reshape(-1, BLOCK)[:, ::-1].ravel()

    np.testing.assert_array_equal(expected, checked.run(reversed_blocks(barrier=True, type_=type_), x))
    with pytest.raises(vc.DataRaceError):
        checked.run(reversed_blocks(barrier=False, type_=type_), x)


def test_two_blocks_that_store_to_one_element_race(checked: vc.Device) -> None:
    with pytest.raises(vc.DataRaceError, match=r"all_to_one at x\[2\]") as caught:
        checked.run(all_to_one(lambda: vc.block_id.x), X)

    assert (caught.value.buffer, caught.value.index) == ("x", 2)
    assert (caught.value.first.block, caught.value.first.thread) == ((0, 0, 0), (0, 0, 0))
    assert (caught.value.second.block, caught.value.second.thread) == ((1, 0, 0), (0, 0, 0))


def test_stores_of_equal_values_are_no_race(checked: vc.Device) -> None:
    assert checked.run(all_to_one(lambda: 7), X)[2] == 7


def test_stores_of_one_thread_are_no_race(checked: vc.Device) -> None:
    assert checked.run(all_to_one(lambda: vc.block_id.x + 5), X, grid=1)[2] == 5


@pytest.mark.parametrize(
    ("between", "distance"),
    [("none", 0), ("warp", 1), ("warp", 31), ("block", 32), ("grid", 1), ("grid", 32), ("grid", BLOCK)],
)
def test_what_is_ordered_is_no_race(checked: vc.Device, between: str, distance: int) -> None:
    _, out = checked.run(exchange(between, distance), X)

    np.testing.assert_array_equal(X ^ distance, out)


@pytest.mark.parametrize(
    ("between", "distance"), [("none", 1), ("none", BLOCK), ("warp", 32), ("warp", BLOCK), ("block", BLOCK)]
)
def test_an_order_of_others_does_not_help(checked: vc.Device, between: str, distance: int) -> None:
    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(exchange(between, distance), X)

    assert caught.value.buffer == "x"


def test_blocks_of_a_cooperative_launch_race_between_its_barriers(checked: vc.Device) -> None:
    b = vc.Builder("late", block=BLOCK)
    x = b.inout("x", vc.u32)
    b.grid_barrier()
    with b.if_(vc.thread_id.x == 0):
        x[2] = vc.block_id.x
    b.grid_barrier()

    with pytest.raises(vc.DataRaceError, match="late at x"):
        checked.run(b.build(), X)


def test_atomics_are_no_race(checked: vc.Device) -> None:
    counts, _ = checked.run(counting(), np.zeros_like(X))

    assert counts[0] == X.size


def test_an_atomic_and_a_plain_load_race(checked: vc.Device) -> None:
    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(counting(plain_load=True), X)

    texts = sorted(access.instruction.split("ld.global")[0] for access in (caught.value.first, caught.value.second))
    assert "red." in texts[1]
    assert "red." not in texts[0]
    assert (caught.value.buffer, caught.value.index) == ("x", 0)


def narrow(*, beside: int, type_: vc.Type) -> vc.Program:
    """Each of two threads: one adds to x[0] by an atomic, the other stores to x[beside]."""
    b = vc.Builder("narrow", block=BLOCK)
    x = b.inout("x", type_)
    with b.if_(vc.thread_id.x == 0):
        b.atomic_add(x, 0, 1)
    with b.if_(vc.thread_id.x == 40):
        x[beside] = 7
    return b.build()


@pytest.mark.parametrize("type_", [vc.u8, vc.i8, vc.u16, vc.i16, vc.f16, vc.bf16], ids=str)
def test_an_atomic_on_an_element_of_a_word_leaves_the_others_alone(checked: vc.Device, type_: vc.Type) -> None:
    x = np.zeros(4, type_.dtype)

    (found,) = (checked.run(narrow(beside=1, type_=type_), x, grid=1),)

    assert [float(each) for each in found.view(type_.dtype)] == [1, 7, 0, 0]
    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(narrow(beside=0, type_=type_), x, grid=1)
    assert (caught.value.buffer, caught.value.index) == ("x", 0)


def test_atomics_of_block_scope_race_between_blocks(checked: vc.Device) -> None:
    counts, _ = checked.run(counting(scope="block"), np.zeros_like(X), grid=1)
    assert counts[0] == BLOCK

    with pytest.raises(vc.DataRaceError):
        checked.run(counting(scope="block"), X)


def test_a_message_by_release_and_acquire_is_no_race(checked: vc.Device) -> None:
    b = vc.Builder("last_block", block=BLOCK)
    x, done = b.inout("x", vc.u32), b.inout("done", vc.u32)
    total = b.output("total", vc.u32, size=1)
    blocks = X.size // BLOCK
    b.work(x.size)
    with b.if_(vc.thread_id.x == 0):
        x[vc.block_id.x] = vc.block_id.x + 1
        before = b.atomic_add(done, 0, 1, order="acq_rel")
        with b.if_(before == blocks - 1):
            total[0] = x[0] + x[1] + x[2] + x[3]

    assert checked.run(b.build(), X, np.zeros(1, np.uint32))[2][0] == 10


def test_a_release_that_nobody_acquires_orders_nothing(checked: vc.Device) -> None:
    b = vc.Builder("unheard", block=BLOCK)
    x, done = b.inout("x", vc.u32), b.inout("done", vc.u32)
    with b.if_(vc.thread_id.x == 0):
        x[1] = vc.block_id.x
        b.atomic_add(done, vc.block_id.x, 1, order="acq_rel")

    with pytest.raises(vc.DataRaceError, match="unheard at x"):
        checked.run(b.build(), X, X)


# ---- where it is raised ------------------------------------------------------------------------------------------


def racing() -> vc.Program:
    return all_to_one(lambda: vc.block_id.x)


def launched(device: vc.Device) -> vc.DeviceArray:
    x = device.array(X)
    device.compile(racing()).launch(x)
    return x


def bound(device: vc.Device) -> None:
    device.compile(racing()).bind(device.array(X))()
    device.synchronize()


def on_a_stream(device: vc.Device) -> None:
    stream = device.stream()
    device.compile(racing()).launch(device.array(X), stream=stream)
    stream.synchronize()


def replayed(device: vc.Device) -> None:
    x = device.array(X)
    with device.record() as graph:
        device.compile(racing()).launch(x)
    graph.replay()
    device.synchronize()


async def awaited(device: vc.Device) -> Any:
    return await device.compile(racing()).submit(X)


WAYS: dict[str, Race] = {
    "call": lambda device: device.compile(racing())(X),
    "keywords": lambda device: device.compile(racing())(x=X),
    "iterations": lambda device: device.compile(racing())(X, iterations=3),
    "timed": lambda device: device.compile(racing()).timed(X),
    "result": lambda device: device.compile(racing()).submit(X).result(),
    "await": lambda device: asyncio.run(awaited(device)),
    "synchronize": lambda device: (launched(device), device.synchronize()),
    "numpy": lambda device: launched(device).numpy(),
    "bind": bound,
    "replay": replayed,
    "stream": on_a_stream,
}


@pytest.mark.parametrize("mode", ["threaded", "lazy"])
@pytest.mark.parametrize("way", WAYS)
def test_every_wait_raises_and_the_device_stays_usable(way: str, mode: Any, emulator: Any) -> None:
    emulator.stream_mode(mode)
    with vc.Device("emulator", check="races") as device:
        for _ in range(2):
            with pytest.raises(vc.DataRaceError) as caught:
                WAYS[way](device)
            assert (caught.value.buffer, caught.value.index) == ("x", 2)
        np.testing.assert_array_equal(X + np.uint32(1), device.run(adding(), X))
        device.synchronize()


def adding() -> vc.Program:
    b = vc.Builder("adding", block=BLOCK)
    x = b.inout("x", vc.u32)
    x[vc.global_id.x] = x[vc.global_id.x] + 1
    return b.build()


def test_assertions_and_bounds_are_reported_as_ever(checked: vc.Device) -> None:
    bad = np.full(100, 5000, np.uint32)
    with pytest.raises(vc.KernelAssertionError, match="x must be below 100"):
        checked.run(programs.guarded(), bad)

    with pytest.raises(vc.KernelAssertionError, match="index out of bounds of x"):
        checked.compile(all_to_one(lambda: 1), bounds="trap")(X[:2])
    with pytest.raises(vc.DataRaceError):
        checked.compile(racing(), bounds="trap")(X)


# ---- which devices -----------------------------------------------------------------------------------------------


def test_a_device_without_a_check_does_not_look(checked: vc.Device) -> None:
    with vc.Device("emulator") as plain:
        assert plain.run(racing(), X)[2] < X.size // BLOCK
        assert "vyre_races" not in plain.compile(racing()).ptx
        with pytest.raises(vc.DataRaceError):
            checked.run(racing(), X)


@pytest.mark.parametrize("check", [["races"], ("races",), "races"])
def test_checks_come_by_name_or_several(check: Any) -> None:
    with vc.Device("emulator", check=check) as device, pytest.raises(vc.DataRaceError):
        device.run(racing(), X)


@pytest.mark.parametrize("check", ["race", "", ["races", "leaks"]])
def test_an_unknown_check_is_refused_with_those_there_are(check: Any) -> None:
    with pytest.raises(ValueError, match="known checks are initialized, races"):
        vc.Device("emulator", check=check)


@pytest.mark.parametrize("check", [[1], [None]])
def test_a_check_that_is_no_name_is_refused(check: Any) -> None:
    with pytest.raises(TypeError, match="a name or several"):
        vc.Device("emulator", check=check)


def test_a_race_beside_an_out_whose_size_is_that_of_a_table(checked: vc.Device) -> None:
    b = vc.Builder("p", block=BLOCK)
    x = b.inout("x", vc.u32)
    table = b.table("table", np.arange(6, dtype=np.uint32).reshape(2, 3))
    out = b.output("out", vc.u32, size=table.shape[1])
    x[1] = vc.global_id.x
    out[vc.global_id.x] = table[1, 1]

    with pytest.raises(vc.DataRaceError) as caught:
        checked.run(b.build(), X)

    assert (caught.value.buffer, caught.value.index) == ("x", 1)
