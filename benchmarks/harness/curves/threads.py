"""Launches from more and more threads, each with a stream and buffers of its own: time of all over launches of all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import perf_counter_ns

import numpy as np

import vyre_cuda as vc
from harness.curves.base import Bench, Measure, check
from harness.curves.clock import WrongResult
from harness.curves.programs import ELEMENTS, sum_of

_ROUNDS = 3


class _Worker:
    """What one thread works with."""

    def __init__(self, device: vc.Device, kernel: vc.Kernel) -> None:
        self.kernel, self.stream = kernel, device.stream()
        self.x, self.out = device.array(np.ones(ELEMENTS, np.float32)), device.zeros(ELEMENTS, vc.f32)

    def launch(self, blocks: int, calls: int) -> None:
        for _ in range(blocks):
            for _ in range(calls):
                self.kernel.launch(self.x, self.out, stream=self.stream)
            self.stream.synchronize()


def _together(workers: list[_Worker], blocks: int, calls: int) -> float:
    """Nanoseconds from the first launch to the last wait, over all launches."""
    gate = threading.Barrier(len(workers) + 1)
    failures: list[BaseException] = []

    def work(worker: _Worker) -> None:
        try:
            worker.launch(1, calls)
            gate.wait()
            worker.launch(blocks, calls)
            gate.wait()
        except BaseException as failure:
            failures.append(failure)
            gate.abort()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        gate.wait()
        begin = perf_counter_ns()
        gate.wait()
        elapsed = perf_counter_ns() - begin
    except threading.BrokenBarrierError:
        raise WrongResult(f"a thread failed: {failures[:1]!r}") from None
    finally:
        for thread in threads:
            thread.join()
    return elapsed / (len(workers) * blocks * calls)


def threads(bench: Bench, items: int) -> Iterator[Measure]:
    device, clock = bench.device, bench.clock

    def rounds(kernels: list[vc.Kernel], way: str) -> list[float]:
        workers = [_Worker(device, kernel) for kernel in kernels]
        once = _together(workers, 1, clock.calls)
        blocks = max(1, int(clock.seconds * 1e9 / _ROUNDS / (once * clock.calls * items)))
        times = [_together(workers, blocks, clock.calls) for _ in range(_ROUNDS)]
        for worker in workers:
            check(way, set(worker.out.numpy().tolist()), {1.0})
        return times

    one = device.compile(sum_of(1, 0))
    yield "one", lambda: rounds([one] * items, "one")
    yield "own", lambda: rounds([device.compile(sum_of(1, 0, f"own_{i}")) for i in range(items)], "own")
