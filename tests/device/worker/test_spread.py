"""Calls whose grid has many blocks, on workers of several blocks: each block of the grid runs once, wherever its part
of the call is, and what comes before and after the call keeps its order with all parts."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from .test_blocks import in_threads
from .test_streams import late_saxpy

BLOCK = 32
GRID = 24  # blocks: parts for three blocks of a worker, and more
X = np.arange(GRID * BLOCK, dtype=np.float32)
IDLE = 0.2  # seconds


def counting() -> vc.Program:
    """One more at the place of its block, by each thread."""
    b = vc.Builder("counting", block=BLOCK)
    counts = b.inout("counts", vc.u32)
    at = b.let("at", vc.block_id.x + vc.grid_dim.x * (vc.block_id.y + vc.grid_dim.y * vc.block_id.z))
    with b.if_(at < counts.size):
        b.atomic_add(counts, at, vc.u32(1))
    return b.build()


def add_to() -> vc.Program:
    """h += x, element by element, and not by atomics"""
    b = vc.Builder("add_to", block=BLOCK)
    h, x = b.inout("h", vc.i32), b.input("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < h.size):
        h[i] = h[i] + x[i]
    return b.build()


def reversed_in_blocks() -> vc.Program:
    b = vc.Builder("reversed_in_blocks", block=(8, 4, 1))
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size, zeroed=False)
    kept = b.shared("kept", vc.f32, BLOCK)
    i = b.let("i", vc.thread_id.x + 8 * vc.thread_id.y)
    at = b.let("at", vc.block_id.x * BLOCK + i)
    kept[i] = x[at]
    b.barrier()
    out[at] = kept[BLOCK - 1 - i]
    return b.build()


@pytest.fixture
def saxpy(device: vc.Device) -> vc.Kernel:
    return device.compile(programs.saxpy(BLOCK))


def test_a_call_with_many_blocks_uses_all_blocks_of_the_worker(device: vc.Device, saxpy: vc.Kernel) -> None:
    for blocks, blocks_of_grid, used in ((4, GRID, 4), (7, 12, 6), (4, 8, 4), (4, 7, 1), (2, GRID, 2), (1, GRID, 1)):
        x = X[: blocks_of_grid * BLOCK]
        dx, out = device.array(x), device.zeros(x.size, vc.f32)
        with Worker(device, [saxpy], blocks=blocks, idle=30.0, busy=30.0) as worker:
            assert_same(saxpy(x, x, 2.0), worker.call(saxpy, x, x, 2.0))
            assert worker.stats().running == used
            worker.call(saxpy, dx, dx, out, 3.0)
            assert_same(saxpy(x, x, 3.0), out.numpy())
            worker.bind(saxpy, dx, dx, out, 4.0)()
            assert_same(saxpy(x, x, 4.0), out.numpy())
            assert_same(saxpy(x, x, 5.0), worker.submit(saxpy, x, x, 5.0).result())
            assert worker.stats() == vc.WorkerStats(running=used, calls=4, launches=used, pauses=0)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
def test_each_block_of_a_grid_runs_once(device: vc.Device, blocks: int) -> None:
    kernel = device.compile(counting())
    grids = [(31, 1, 1), (1, 31, 1), (1, 1, 31), (2, 3, 5), (7, 5, 1), (3, 1, 11), (40, 2, 2), (1, 2, 4), (1, 1, 1)]
    with Worker(device, [kernel], blocks=blocks, idle=IDLE) as worker:
        for grid in grids:
            size = grid[0] * grid[1] * grid[2]
            counts = device.zeros(size + 1, vc.u32)
            worker.call(kernel, counts, grid=grid)
            assert counts.numpy().tolist() == [BLOCK] * size + [0]


def test_shared_memory_and_barriers_of_a_block(device: vc.Device, saxpy: vc.Kernel) -> None:
    reverse = device.compile(reversed_in_blocks())
    with Worker(device, [reverse, saxpy], blocks=3, idle=IDLE) as worker:
        for turn in range(5):
            assert_same(X.reshape(GRID, BLOCK)[:, ::-1].ravel(), worker.call(reverse, X, grid=GRID))
            assert_same(saxpy(X, X, float(turn)), worker.call(saxpy, X, X, float(turn)))


def test_parameters_in_a_row_beside_the_slot(device: vc.Device) -> None:
    b = vc.Builder("many", block=BLOCK)
    out = b.output("out", vc.f64, size=b.scalar("n", vc.u32), zeroed=False)
    total = vc.f64(0)
    for number in range(40):
        total = total + b.scalar(f"s{number}", vc.f64)
    value = b.let("value", total)
    with b.if_(vc.global_id.x < out.size):
        out[vc.global_id.x] = value
    kernel = device.compile(b.build())
    with Worker(device, [kernel], blocks=2, idle=30.0, busy=30.0, first=62) as worker:
        for turn in range(5):
            found = worker.call(kernel, 8 * BLOCK, *map(float, range(39)), float(turn))
            assert_same(np.full(8 * BLOCK, sum(range(39)) + turn, np.float64), found)
        assert worker.stats().running == 2


def test_calls_keep_their_order_with_all_parts_of_others(device: vc.Device) -> None:
    """Additions that are not atomic, of large arrays and of pieces of them: none may be lost."""
    add = device.compile(add_to())
    size, turns = GRID * BLOCK, 30
    whole, one = device.zeros(size, vc.i32), device.array(np.ones(size, np.int32))
    pieces = [whole, whole[: size // 2], whole[100:200], whole]

    with Worker(device, [add], blocks=3, idle=IDLE, busy=0.003) as worker:

        def work(number: int) -> None:
            piece = pieces[number]
            for _ in range(turns):
                worker.call(add, piece, one[: piece.size])

        in_threads(4, work)
    expected = np.full(size, 2 * turns)
    expected[: size // 2] += turns
    expected[100:200] += turns
    np.testing.assert_array_equal(expected, whole.numpy())


def test_pauses_between_calls_of_several_threads(device: vc.Device, saxpy: vc.Kernel) -> None:
    with Worker(device, [saxpy], blocks=3, idle=IDLE, busy=0.002) as worker:

        def work(number: int) -> None:
            for turn in range(15):
                if number == 0:
                    worker.pause(60.0)
                    assert worker.stats().running == 0
                    worker.resume()
                else:
                    a = np.float32(100 * number + turn)
                    np.testing.assert_array_equal(a * X + X, worker.call(saxpy, X, X, a))

        in_threads(3, work)


def test_calls_that_wait_for_resume(device: vc.Device, saxpy: vc.Kernel) -> None:
    """No block has begun, and each that gets a part is launched by the thread that waits."""
    with Worker(device, [saxpy], blocks=3, idle=30.0, busy=30.0) as worker:
        worker.pause()
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(3)]
        with pytest.raises(vc.KernelTimeoutError):
            pending[0].result(0.02)
        worker.resume()
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())
        assert worker.stats().running == 3


def test_a_close_finishes_calls_that_are_spread(device: vc.Device, saxpy: vc.Kernel) -> None:
    """What was submitted before it ends well, also for other threads; each later call is refused."""
    for turn in range(3):
        worker = Worker(device, [saxpy], blocks=3, idle=IDLE, busy=0.002)
        refused: list[str] = []

        def work(number: int, worker: Worker = worker, refused: list[str] = refused) -> None:
            a = np.float32(number)
            while True:
                try:
                    found = worker.call(saxpy, X, X, a)
                except vc.Error as error:
                    refused.append(str(error))
                    break
                np.testing.assert_array_equal(a * X + X, found)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        pending = [worker.submit(saxpy, X, X, np.float32(a)) for a in range(4 + turn)]
        worker.close(timeout=60.0)
        for thread in threads:
            thread.join()
        assert len(refused) == 2
        assert all("the worker is closed" in one for one in refused)
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())


def test_wrap_of_the_numbers(device: vc.Device, saxpy: vc.Kernel) -> None:
    with Worker(device, [saxpy], blocks=2, idle=IDLE, first=2**32 - 40) as worker:
        pending = [worker.submit(saxpy, X, X, float(a)) for a in range(150)]
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())


def test_results_that_are_cleared_first_stay_in_one_block(device: vc.Device) -> None:
    """The parts of the call would not know when that is done."""
    kernel = device.compile(programs.every_second())
    x = np.arange(1, GRID * BLOCK + 1, dtype=np.uint32)
    expected, dx = kernel(x), device.array(x)
    with Worker(device, [kernel], blocks=3, idle=30.0, busy=30.0) as worker:
        for _ in range(3):
            spread = device.array(np.full(2 * x.size, 7, np.uint32))
            worker.call(kernel, dx, spread)
            assert_same(expected, spread.numpy())
        assert worker.stats().running == 1
        assert_same(expected, worker.call(kernel, x))  # host arrays are cleared by the host
        assert worker.stats().running == 3


def test_a_stream_waits_for_all_parts(device: vc.Device, saxpy: vc.Kernel) -> None:
    late = device.compile(late_saxpy(), block=BLOCK)
    stream = device.stream()
    x, y, out = (device.array(X) for _ in range(3))
    device.synchronize()  # without time, a call does not begin behind copies
    with Worker(device, [late], blocks=3, idle=IDLE, busy=1e-4) as worker:
        for turn in range(3):
            with contextlib.suppress(vc.KernelTimeoutError):
                worker.call(late, x, x, y, float(turn + 1), 3000, timeout=0.0)
            stream.wait(worker)
            saxpy.launch(y, x, out, 1.0, stream=stream)
            stream.synchronize()
            np.testing.assert_array_equal(np.float32(turn + 3) * X, out.numpy())


@pytest.mark.emulator
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_launch_that_fails_leaves_no_part_behind(device: vc.Device, emulator: Emulator, nth: int) -> None:
    add = device.compile(add_to())
    h, one = (device.array(np.ones(GRID * BLOCK, np.int32)) for _ in range(2))
    with Worker(device, [add], blocks=3, idle=30.0, busy=30.0) as worker:
        emulator.fail("cuLaunchKernel", nth=nth, result=701)
        with pytest.raises(vc.DriverError):
            worker.call(add, h, one)
        assert worker.stats().running == nth - 1
        np.testing.assert_array_equal(np.ones(GRID * BLOCK), h.numpy())
        worker.call(add, h, one)
        np.testing.assert_array_equal(np.full(GRID * BLOCK, 2), h.numpy())
        assert worker.stats().running == 3
