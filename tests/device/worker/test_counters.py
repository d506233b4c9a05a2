"""What a device counts of its workers."""

from __future__ import annotations

import time

import numpy as np

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker

from .. import programs

X = np.arange(300, dtype=np.float32)


def test_calls_launches_pauses_and_ends(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())
    before = device.stats()
    with Worker(device, [saxpy], idle=30.0, busy=30.0) as worker:
        for _ in range(3):
            worker.call(saxpy, X, X, 2.0)
        worker.pause()
        worker.resume()
        worker.call(saxpy, X, X, 2.0)
    after = device.stats()
    assert after.worker_calls - before.worker_calls == 4
    assert after.worker_launches - before.worker_launches == 2
    assert after.worker_pauses - before.worker_pauses == 2
    assert (after.worker_turns, after.worker_idle_ends, after.worker_errors) == (
        before.worker_turns,
        before.worker_idle_ends,
        before.worker_errors,
    )
    assert "vyre_cuda_worker_calls_total" in after.prometheus()


def test_calls_that_are_spread_are_counted(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy(32))
    x = np.arange(16 * 32, dtype=np.float32)
    before = device.stats()
    with Worker(device, [saxpy], blocks=3, idle=30.0, busy=30.0) as worker:
        for blocks in (16, 8, 7, 1):  # of the grid, which is spread from eight on
            worker.call(saxpy, x[: blocks * 32], x[: blocks * 32], 2.0)
    with Worker(device, [saxpy], blocks=1, idle=30.0, busy=30.0) as worker:
        worker.call(saxpy, x, x, 2.0)
    after = device.stats()
    assert after.worker_calls - before.worker_calls == 5
    assert after.worker_spread_calls - before.worker_spread_calls == 2
    assert "vyre_cuda_worker_spread_calls_total" in after.prometheus()


def test_it_is_counted_why_a_launch_has_ended(device: vc.Device) -> None:
    saxpy = device.compile(programs.saxpy())

    def ends(idle: float, busy: float) -> tuple[int, int]:
        """Of one launch. Launches behind one that took long stay only for a short time."""
        before = device.stats()
        with Worker(device, [saxpy], idle=idle, busy=busy) as worker:
            worker.call(saxpy, X, X, 2.0)
            while worker.stats().running:
                time.sleep(0.002)
                if busy < idle:
                    worker.call(saxpy, X, X, 2.0)
                    if worker.stats().launches > 1:
                        break
        after = device.stats()
        return after.worker_idle_ends - before.worker_idle_ends, after.worker_turns - before.worker_turns

    assert ends(0.02, 300.0) == (1, 0)
    idle_ends, turns = ends(300.0, 0.005)
    assert idle_ends == 0
    assert turns > 0
