"""Events that are used again, small copies through memory that the device keeps, and waits under the GIL."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda._native.memory.adopted import named_stream
from vyre_cuda.testing.emulator import Emulator

from .. import programs

F32 = np.float32
SMALL = 4096  # elements of f32 in the largest copy that is small
SLOW_US = 5_000


@pytest.fixture
def slow(own_device: vc.Device, emulator: Emulator) -> Iterator[vc.Device]:
    """A device whose work takes longer than any wait under the GIL."""
    emulator.stream_mode("threaded")
    emulator.set("delay_us", SLOW_US)
    yield own_device
    emulator.set("delay_us", 0)


# ---- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
def test_events_that_are_dropped_are_recorded_again(own_device: vc.Device, emulator: Emulator) -> None:
    stream = own_device.stream()
    stream.record()
    before = emulator.count("cuEventCreate"), emulator.count("cuEventRecord"), emulator.live()["events"]

    for _ in range(100):
        stream.record()

    after = emulator.count("cuEventCreate"), emulator.count("cuEventRecord"), emulator.live()["events"]
    assert after == (before[0], before[1] + 100, before[2])


@pytest.mark.emulator
def test_few_events_are_kept_and_none_after_a_close(own_device: vc.Device, emulator: Emulator) -> None:
    stream = own_device.stream()
    before = emulator.live().get("events", 0)
    held = [stream.record() for _ in range(50)]
    most = emulator.live()["events"]

    held.clear()
    kept = emulator.live()["events"]
    del stream
    own_device.close()

    assert most == before + 50
    assert before < kept < most
    assert emulator.live().get("events", 0) <= before  # those of other devices


@pytest.mark.emulator
def test_a_stream_waits_for_what_the_event_was_though_it_is_recorded_again(own_device: vc.Device) -> None:
    kernel = own_device.compile(programs.add_to())
    first, second, third = (own_device.stream() for _ in range(3))
    x, one = own_device.array(np.zeros(64, np.int32)), own_device.array(np.ones(64, np.int32))
    own_device.synchronize()

    for _ in range(20):
        kernel.launch(x, one, stream=first)
        second.wait(first.record())  # dropped at once, and used again by the other stream
        third.record()
        kernel.launch(x, one, stream=second)
        first.wait(second.record())

    np.testing.assert_array_equal(np.full(64, 40), x.numpy())


@pytest.mark.emulator
def test_an_event_of_an_adopted_stream_is_not_used_again(
    own_device: vc.Device, device_name: int | str, emulator: Emulator
) -> None:
    """A capture of its owner may have it."""
    other = vc.Device(device_name)
    theirs = other.stream()
    adopted = named_stream(own_device.context, theirs.handle)
    assert adopted is not None
    before = emulator.count("cuEventCreate"), emulator.live().get("events", 0)

    for _ in range(5):
        adopted.record().synchronize()

    assert (emulator.count("cuEventCreate"), emulator.live().get("events", 0)) == (before[0] + 5, before[1])


def test_elapsed_time_is_between_events_that_were_used_before(own_device: vc.Device) -> None:
    stream = own_device.stream()
    kernel = own_device.compile(programs.add_to())
    x, one = own_device.array(np.zeros(64, np.int32)), own_device.array(np.ones(64, np.int32))
    for _ in range(3):
        stream.record()

    start = stream.record()
    kernel.launch(x, one, stream=stream)
    stop = stream.record()
    stop.synchronize()

    assert stop.elapsed_ms(start) >= 0


def test_events_are_released_by_threads_while_the_device_closes(device_name: int | str) -> None:
    for _ in range(20):
        device = vc.Device(device_name)
        stream = device.stream()
        held = [[stream.record() for _ in range(20)] for _ in range(4)]
        gate = threading.Barrier(5)

        def release(events: list[object], gate: threading.Barrier = gate) -> None:
            gate.wait()
            events.clear()

        threads = [threading.Thread(target=release, args=(events,)) for events in held]
        for thread in threads:
            thread.start()
        gate.wait()
        device.close()
        for thread in threads:
            thread.join()


# ---- small copies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["eager", "threaded", "lazy"])
@pytest.mark.emulator
def test_more_small_copies_than_there_is_room_for_arrive_unmixed(
    own_device: vc.Device, emulator: Emulator, mode: str
) -> None:
    emulator.stream_mode(mode)  # type: ignore[arg-type]
    values = np.random.default_rng(5).integers(0, 1 << 30, (100, 900), np.int32)
    arrays = [own_device.empty(900, vc.i32) for _ in values]

    for array, value in zip(arrays, values, strict=True):
        array.copy_from(value)
        value_before = value.copy()
        value[:] = -1  # it was read
        value[:] = value_before
    copies = [array.numpy() for array in arrays]

    np.testing.assert_array_equal(values, np.stack(copies))


def test_a_small_copy_reads_its_source_before_it_returns(own_device: vc.Device) -> None:
    source = own_device.pinned_empty(SMALL, vc.f32)
    array = own_device.empty(SMALL, vc.f32)

    source[:] = 3
    array.copy_from(source)
    source[:] = 4

    np.testing.assert_array_equal(np.full(SMALL, 3, F32), array.numpy())


@pytest.mark.parametrize("count", [0, 1, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL])
@pytest.mark.parametrize("offset", [0, 1, 100])
def test_copies_of_any_size_go_where_they_should(own_device: vc.Device, count: int, offset: int) -> None:
    background = np.arange(4 * SMALL, dtype=F32)
    array = own_device.array(background)
    data = np.random.default_rng(count).random(count, F32)

    array.copy_from(data, offset)
    expected = background.copy()
    expected[offset : offset + count] = data
    out = np.empty(count, F32)

    np.testing.assert_array_equal(expected, array.numpy())
    assert array[offset : offset + count].numpy(out=out) is out
    np.testing.assert_array_equal(data, out)


@pytest.mark.emulator
def test_a_small_copy_waits_as_long_as_the_work_before_it_takes(slow: vc.Device) -> None:
    kernel = slow.compile(programs.add_to())
    stream = slow.stream()
    x, one = slow.array(np.zeros(64, np.int32)), slow.array(np.ones(64, np.int32))

    for on in (None, stream, None, stream):
        kernel.launch(x, one, stream=on)
        last = x.numpy()
        x.copy_from(last + 1)

    np.testing.assert_array_equal(np.full(64, 8), x.numpy())


@pytest.mark.thin
@pytest.mark.emulator
def test_copies_that_were_given_up_write_to_nothing(slow: vc.Device) -> None:
    """A wait under the GIL ends before its copy does; the bytes that it was given serve nobody else meanwhile."""
    arrays = [slow.array(np.full(1000, i, np.int32)) for i in range(30)]

    for turn in range(3):
        for i, array in enumerate(arrays):
            array.copy_from(np.full(1000, 100 * turn + i, np.int32))
        for i in (0, 29, 7):
            np.testing.assert_array_equal(np.full(1000, 100 * turn + i), arrays[i].numpy())


def there_and_back(array: vc.DeviceArray) -> np.ndarray:
    array.copy_from(np.ones(array.size, array.dtype))
    return array.numpy()


@pytest.mark.emulator
def test_threads_copy_at_a_time(own_device: vc.Device, emulator: Emulator) -> None:
    emulator.stream_mode("threaded")
    wrong: list[object] = []

    def work(seed: int) -> None:
        array = own_device.empty(700, vc.i32)
        for turn in range(50):
            value = np.full(700, 1000 * seed + turn, np.int32)
            array.copy_from(value)
            if not np.array_equal(value, array.numpy()):
                wrong.append((seed, turn))

    side_by_side([partial(work, seed) for seed in range(6)])

    assert wrong == []


@pytest.mark.emulator
def test_a_trim_takes_the_memory_of_small_copies_back(own_device: vc.Device) -> None:
    before = own_device.memory_stats().pinned_live_bytes
    array = own_device.array(np.arange(50, dtype=F32))
    during = own_device.memory_stats().pinned_live_bytes

    own_device.trim()
    after = own_device.memory_stats()
    array.copy_from(np.zeros(50, F32))

    assert before == 0 < during
    assert (after.pinned_live_bytes, after.pinned_idle_bytes) == (0, 0)
    np.testing.assert_array_equal(np.zeros(50, F32), array.numpy())


@pytest.mark.emulator
@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamQuery"])
def test_a_driver_call_of_a_small_copy_that_fails_is_told(
    own_device: vc.Device, emulator: Emulator, function: str
) -> None:
    array = own_device.array(np.arange(50, dtype=F32))
    own_device.synchronize()
    emulator.fail(function, result=1)

    with pytest.raises(vc.DriverError, match=function):
        there_and_back(array)

    array.copy_from(np.full(50, 7, F32))
    np.testing.assert_array_equal(np.full(50, 7, F32), array.numpy())


# ---- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
@pytest.mark.parametrize("way", ["device", "stream"])
def test_a_wait_that_takes_long_lets_other_threads_run(own_device: vc.Device, emulator: Emulator, way: str) -> None:
    """The work ends when another thread has run, which it can only during the wait."""
    kernel = own_device.compile(programs.add_to())
    x, one = own_device.array(np.zeros(64, np.int32)), own_device.array(np.ones(64, np.int32))
    stream, waits = own_device.stream(), threading.Event()

    def let_it_end() -> None:
        waits.wait()
        emulator.set("held", 0)

    other = threading.Thread(target=let_it_end)
    other.start()
    emulator.set("held", 1)
    kernel.launch(x, one, stream=stream)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # no thread has a turn that this one does not give away
    try:
        waits.set()
        (own_device if way == "device" else stream).synchronize(timeout=100.0)
    finally:
        sys.setswitchinterval(interval)
        waits.set()
        other.join()

    np.testing.assert_array_equal(np.ones(64), x.numpy())
