"""Calls with device arrays that are left before they have ended: nobody waits for them, and the order of others keeps
to them."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from .test_streams import LIMIT, LONG, X, await_, late, late_saxpy, saxpy

__all__ = ["late", "late_saxpy", "saxpy"]


PATIENCE = 9.0  # seconds: less than the context waits, by default, for what it cannot leave


def leave(worker: vc.Worker, *args: object, limit: float = 0.01) -> float:
    """Returns how many seconds the call took, which has not ended."""
    begin = time.monotonic()
    with pytest.raises(vc.KernelTimeoutError):
        worker.call(*args, timeout=limit)
    return time.monotonic() - begin


def leave_long(worker: vc.Worker, late: vc.Kernel, x: vc.DeviceArray, y: vc.DeviceArray, a: float) -> None:
    """Leave a call of `late` that takes some ten times as long as the wait for it. How many trips that are depends on
    the device, and on what else this machine does: each call that ends in time makes the next one longer."""
    trips = 1000
    for more in (1, 10):
        trips *= more
        with contextlib.suppress(vc.KernelTimeoutError):
            while True:
                worker.call(late, x, x, y, a, trips, timeout=0.01)
                trips *= 2


@pytest.mark.emulator
@pytest.mark.parametrize("blocks", [1, 3])
def test_what_comes_later_is_behind_a_call_that_was_left(
    device: vc.Device, saxpy: vc.Kernel, emulator: Emulator, blocks: int
) -> None:
    x, y, z = device.array(X), device.zeros(40, vc.f32), device.zeros(40, vc.f32)
    device.synchronize()
    with Worker(device, [saxpy], blocks=blocks, idle=LIMIT, busy=1e-4) as worker:
        emulator.set("held", 1)
        try:
            assert leave(worker, saxpy, x, x, y, 2.0) < PATIENCE  # y = 3 x
            saxpy.launch(y, x, z, 1.0)  # z = 4 x
            with pytest.raises(vc.KernelTimeoutError):
                device.synchronize(timeout=0.01)
        finally:
            emulator.set("held", 0)
        np.testing.assert_array_equal(4 * X, z.numpy())
        worker.call(saxpy, z, y, x, 1.0, timeout=LIMIT)  # x = 7 x
        np.testing.assert_array_equal(7 * X, x.numpy())


def test_a_launch_is_behind_a_long_call_that_was_left(device: vc.Device, saxpy: vc.Kernel, late: vc.Kernel) -> None:
    x, y, z = device.array(X), device.zeros(40, vc.f32), device.zeros(40, vc.f32)
    with Worker(device, [late], idle=LIMIT, busy=1e-4) as worker:
        leave_long(worker, late, x, y, 2.0)
        saxpy.launch(y, x, z, 1.0)
        np.testing.assert_array_equal(4 * X, z.numpy())


def test_a_call_that_a_pause_kept_back_never_runs_once_it_was_left(device: vc.Device, saxpy: vc.Kernel) -> None:
    add, x, y = device.compile(programs.add_to()), device.array(X), device.zeros(40, vc.f32)
    h, d = device.zeros(40, vc.i32), device.array(np.full(40, 3, np.int32))
    with Worker(device, [saxpy, add], idle=LIMIT) as worker:
        worker.call(saxpy, x, x, y, 1.0)
        worker.pause()
        assert leave(worker, saxpy, x, x, y, 2.0) < PATIENCE
        assert leave(worker, add, h, d) < PATIENCE
        y.fill(9.0)
        worker.resume()
        worker.call(add, h, d, timeout=LIMIT)
        np.testing.assert_array_equal(np.full(40, 9, np.float32), y.numpy())
        np.testing.assert_array_equal(np.full(40, 3, np.int32), h.numpy())


@pytest.mark.emulator
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_call_can_be_left_while_a_pause_waits_for_the_one_before(
    device: vc.Device, saxpy: vc.Kernel, emulator: Emulator, blocks: int
) -> None:
    x, y, z, out = device.array(X), *(device.zeros(40, vc.f32) for _ in range(3))
    device.synchronize()
    took: list[float] = []
    with Worker(device, [saxpy], blocks=blocks, idle=LIMIT) as worker:
        emulator.set("held", 1)
        try:
            first = worker.submit(saxpy, X, X, 1.0)
            before = threading.Thread(target=lambda: took.append(leave(worker, saxpy, x, x, y, 2.0, limit=0.5)))
            before.start()
            await_(lambda: worker.stats().calls == 2)
            with pytest.raises(vc.KernelTimeoutError):
                worker.pause(timeout=0.01)
            took.append(leave(worker, saxpy, x, x, z, 5.0))  # it waits for the end of the pause
            before.join()
            assert max(took) < PATIENCE
            saxpy.launch(y, x, out, 1.0)  # out = 4 x
        finally:
            emulator.set("held", 0)
        device.synchronize()
        z.fill(9.0)
        worker.resume()
        worker.call(saxpy, x, x, device.zeros(40, vc.f32), 1.0, timeout=LIMIT)
        np.testing.assert_array_equal(2 * X, first.result(LIMIT))
        np.testing.assert_array_equal(4 * X, out.numpy())
        np.testing.assert_array_equal(np.full(40, 9, np.float32), z.numpy())


def test_a_stream_that_waits_for_a_worker_outlives_it(device: vc.Device, saxpy: vc.Kernel, late: vc.Kernel) -> None:
    stream, x, y = device.stream(), device.array(X), device.zeros(40, vc.f32)
    late.launch(x, x, y, 1.0, 2 * LONG, stream=stream)  # ends long after the worker
    worker = Worker(device, [late], idle=LIMIT)
    pending = [worker.submit(late, X, X, 2.0, LONG // 100) for _ in range(30)]
    stream.wait(worker)
    worker.close(timeout=LIMIT)
    del pending, worker
    with Worker(device, [saxpy], idle=LIMIT) as other:  # would get its ring
        other.call(saxpy, X, X, 3.0, timeout=LIMIT)
        stream.synchronize(timeout=LIMIT)
