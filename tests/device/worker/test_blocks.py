"""Workers of several blocks: which calls run side by side, and which keep their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.compare import assert_same

from .. import programs
from ..foreign_library import Library

IDLE = 0.2  # seconds
X = np.arange(300, dtype=np.float32)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    side_by_side([partial(guarded, number) for number in range(count)])
    assert failures == []


@pytest.mark.parametrize("blocks", [2, 3])
def test_submitted_calls_are_spread_over_the_blocks(device: vc.Device, blocks: int) -> None:
    saxpy = device.compile(programs.saxpy())
    with Worker(device, [saxpy], blocks=blocks, idle=30.0, busy=30.0) as worker:
        worker.pause()  # none ends before the next is there
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(60)]
        worker.resume()
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())
        assert worker.stats().launches == worker.stats().running == blocks
        worker.pause()
        assert worker.stats().running == 0
        worker.resume()
        np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))


def test_one_caller_keeps_one_block(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    with Worker(device, [saxpy], blocks=3, idle=30.0, busy=30.0) as worker:
        for a in range(30):
            np.testing.assert_array_equal(np.float32(a + 1) * X, worker.call(saxpy, X, X, float(a)))
        assert worker.stats().running == worker.stats().launches == 1


def test_calls_that_write_the_same_array_keep_their_order(device: vc.Device) -> None:
    """Additions that are not atomic: none may be lost, whichever threads make them."""
    add = device.compile(programs.add_to())
    shared = device.zeros(100, vc.i32)
    one = device.array(np.ones(100, np.int32))
    own = [device.zeros(100, vc.i32) for _ in range(4)]
    turns = 60

    with Worker(device, [add], blocks=3, idle=IDLE, busy=0.003) as worker:

        def work(number: int) -> None:
            for _ in range(turns):
                worker.call(add, shared, one)
                worker.call(add, own[number], one)

        in_threads(4, work)
    np.testing.assert_array_equal(np.full(100, 4 * turns), shared.numpy())
    for array in own:
        np.testing.assert_array_equal(np.full(100, turns), array.numpy())


def test_parts_of_an_array(device: vc.Device) -> None:
    """Neighbors, and parts that overlap."""
    add = device.compile(programs.add_to())
    whole = device.zeros(90, vc.i32)
    one = device.array(np.ones(60, np.int32))
    parts = [whole[:30], whole[30:60], whole[60:], whole[15:75]]
    turns = 50

    with Worker(device, [add], blocks=4, idle=IDLE, busy=0.003) as worker:

        def work(number: int) -> None:
            for _ in range(turns):
                worker.call(add, parts[number], one[: parts[number].size])

        in_threads(4, work)
    expected = np.full(90, turns)
    expected[15:75] += turns
    np.testing.assert_array_equal(expected, whole.numpy())


def test_a_chain_between_threads(device: vc.Device) -> None:
    """Each thread's call reads what the one before it wrote, a call of another thread."""
    saxpy = device.compile(programs.saxpy())
    arrays = [device.array(X), device.zeros(300, vc.f32), device.zeros(300, vc.f32)]
    turn = threading.Condition()
    state = {"next": 0}
    steps = 90

    with Worker(device, [saxpy], blocks=3, idle=IDLE, busy=0.003) as worker:

        def work(number: int) -> None:
            while True:
                with turn:
                    turn.wait_for(lambda: state["next"] % 3 == number or state["next"] >= steps)
                    step = state["next"]
                    if step >= steps:
                        return
                    before, after = arrays[step % 3], arrays[(step + 1) % 3]
                    worker.call(saxpy, before, before, after, 0.0)
                    state["next"] += 1
                    turn.notify_all()

        in_threads(3, work)
    assert_same(X, arrays[steps % 3].numpy())


def test_results_that_are_cleared_first(device: vc.Device) -> None:
    kernel = device.compile(programs.every_second())
    x = np.arange(1, 400, dtype=np.uint32)
    expected = kernel(x)
    dx = device.array(x)

    with Worker(device, [kernel], blocks=3, idle=IDLE, busy=0.003) as worker:

        def work(number: int) -> None:
            spread = device.array(np.full(798, number, np.uint32))
            for _ in range(20):
                worker.call(kernel, dx, spread)
                assert_same(expected, spread.numpy())

        in_threads(4, work)


def test_readers_do_not_keep_a_writer_waiting(device: vc.Device) -> None:
    """Readers in all blocks, whose calls overlap each other without end."""
    saxpy, add = device.compile(programs.saxpy()), device.compile(programs.add_to())
    shared, one = device.zeros(300, vc.i32), device.array(np.ones(300, np.int32))
    writes = 20
    over = threading.Event()

    with Worker(device, [saxpy, add], blocks=3, idle=IDLE) as worker:

        def work(number: int) -> None:
            if number == 0:
                for _ in range(writes):
                    worker.call(add, shared, one)
                over.set()
                return
            out = device.zeros(300, vc.i32)
            while not over.is_set():
                worker.call(add, out, shared)

        in_threads(4, work)
    np.testing.assert_array_equal(np.full(300, writes), shared.numpy())


def test_wrap_of_the_numbers(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    with Worker(device, [saxpy], blocks=2, idle=IDLE, first=2**32 - 40) as worker:
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(150)]
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())


@pytest.mark.parametrize("blocks", [0, -1, 33, 1000])
def test_numbers_of_blocks_out_of_range(device: vc.Device, blocks: int) -> None:
    with pytest.raises(ValueError, match="blocks="):
        device.worker([programs.saxpy()], blocks=blocks)


def test_a_call_for_a_block_that_has_not_begun_leaves_the_default_stream_alone(
    device: vc.Device, library: Library
) -> None:
    """A capture would end if the driver were asked about that stream."""
    saxpy, blocking = device.compile(programs.saxpy()), library.stream(blocking=True)
    with Worker(device, [saxpy], blocks=2, idle=30.0) as worker:
        worker.pause()
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(2)]
        blocking.begin_capture()
        for one in pending:
            with pytest.raises(vc.KernelTimeoutError):
                one.result(timeout=0.01)
        blocking.end_capture().destroy()
        worker.resume()
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())
    blocking.destroy()
