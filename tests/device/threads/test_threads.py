"""Many threads do everything at once to one device, and to one kernel and one bound call of it: every result is right,
nothing is left behind, nobody hangs."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc

from .. import programs

F32 = np.float32
THREADS = 6


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Worker:
    """One thread's operations, in an order of its own; each checks what it computes."""

    def __init__(self, device: vc.Device, seed: int, shared: vc.Kernel, counted: vc.BoundCall) -> None:
        self.device = device
        self.random = random.Random(seed)
        self.kernel = shared
        self.counted = counted
        self.launches = 0
        self.stream = device.stream()

    def input(self) -> np.ndarray:
        return np.full(self.random.randrange(1, 400), self.random.randrange(1000), F32)

    def call(self) -> None:
        x, a = self.input(), float(self.random.randrange(9))
        np.testing.assert_array_equal(F32(a) * x + x, self.kernel(x, x, a))

    def submit(self) -> None:
        x = self.input()
        pending = [self.kernel.submit(x, x, float(a)) for a in range(3)]
        pending.pop()
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(F32(a) * x + x, one.result(timeout=60))

    def launch(self) -> None:
        x = self.input()
        on_device, out = self.device.array(x), self.device.zeros(x.size, vc.f32)
        stream = self.stream if self.random.random() < 0.5 else None
        self.kernel.launch(on_device, on_device, out, 2.0, stream=stream)
        np.testing.assert_array_equal(3 * x, out.numpy())

    def bound(self) -> None:
        self.counted()
        self.launches += 1

    def compile(self) -> None:
        limit = self.random.randrange(50)
        kernel = self.device.compile(programs.guarded(1000 + limit))
        x = np.arange(64, dtype=np.uint32)
        np.testing.assert_array_equal(x, kernel(x))

    def allocate(self) -> None:
        arrays = [self.device.zeros(self.random.randrange(1, 3000), vc.u32) for _ in range(3)]
        self.random.shuffle(arrays)
        arrays.pop().free()
        for array in arrays:
            assert not array.numpy().any()

    def synchronize(self) -> None:
        self.device.synchronize(timeout=60)

    def events(self) -> None:
        event = self.stream.record()
        self.device.stream().wait(event)
        event.synchronize(timeout=60)

    def work(self, turns: int) -> None:
        operations: list[Callable[[], None]] = [
            self.call,
            self.submit,
            self.launch,
            self.bound,
            self.compile,
            self.allocate,
            self.synchronize,
            self.events,
        ]
        for _ in range(turns):
            self.random.choice(operations)()


def run_all(works: list[Callable[[], None]]) -> list[BaseException]:
    """What went wrong in the threads, which all began at one moment and all ended."""
    wrong: list[BaseException] = []
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        begin.wait()
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    side_by_side([partial(run, work) for work in works])
    return wrong


@pytest.mark.parametrize("turns", [40, pytest.param(1500, marks=[pytest.mark.slow, pytest.mark.thin])])
def test_everything_at_once_is_right(device_name: int | str, turns: int) -> None:
    with vc.Device(device_name) as device:
        total, one = device.zeros(500, vc.i32), device.array(np.ones(500, np.int32))
        counted = device.compile(programs.add_to()).bind(total, one)
        kernel = device.compile(programs.saxpy())
        workers = [Worker(device, seed, kernel, counted) for seed in range(THREADS)]

        assert run_all([lambda worker=worker: worker.work(turns) for worker in workers]) == []
        np.testing.assert_array_equal(np.full(500, sum(worker.launches for worker in workers)), total.numpy())


@pytest.mark.emulator
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.thin])])
def test_a_close_in_the_middle_ends_everybody(leak_check, device_name: int | str, rounds: int) -> None:
    for round_ in range(rounds):
        device = vc.Device(device_name)
        total, one = device.zeros(500, vc.i32), device.array(np.ones(500, np.int32))
        counted = device.compile(programs.add_to()).bind(total, one)
        kernel = device.compile(programs.saxpy())
        workers = [Worker(device, 100 * round_ + seed, kernel, counted) for seed in range(THREADS)]
        first = Worker(device, round_, kernel, counted)

        def close(device: vc.Device = device, first: Worker = first) -> None:
            first.work(5)
            device.close()

        wrong = run_all([close, close, *(lambda worker=worker: worker.work(1 << 30) for worker in workers)])

        assert {type(error) for error in wrong} <= {vc.DeviceUnavailableError}
        assert len(wrong) >= THREADS
        assert leak_check.new() == {}
