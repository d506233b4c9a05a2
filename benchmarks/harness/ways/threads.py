"""Launches a second from several Python threads: each has a stream, an output and a bound call of its own, launches in
blocks and drains after each block. With a GIL one thread at a time launches, and waits overlap.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns

from harness import programs
from harness.inputs import saxpy_sets
from harness.timing import WrongResult
from harness.ways.base import Bench, SaxpyGroup

THREADS = (1, 2, 4, 8)
ROW = "scaling_python"


class Scaling(SaxpyGroup):
    """No figure of a call, but a rate for each number of threads."""

    ROWS = (ROW,)
    ONE_CORE = False

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, programs.saxpy(), saxpy_sets(bench.seed, bench.counts))
        self.streams = [self.device.stream() for _ in range(max(THREADS))]

    def rate(self, threads: int) -> float:
        """Launches a second of so many threads together."""
        task = self.task(ROW, rotates=True)
        gate = threading.Barrier(threads + 1)
        failures: list[BaseException] = []
        for number in range(threads):
            task.poison(number)

        def work(number: int) -> None:
            try:
                stream = self.streams[number]
                call = self.kernel.bind(*self.arrays[number], stream=stream)
                calls = range(self.counts.block_calls)
                for blocks in (-(-self.counts.thread_blocks // 10), self.counts.thread_blocks):
                    for _ in range(blocks):
                        for _ in calls:
                            call()
                        stream.synchronize()
                    gate.wait()
            except BaseException as failure:
                failures.append(failure)
                gate.abort()

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        try:
            gate.wait()
            begin = perf_counter_ns()
            gate.wait()
            elapsed = perf_counter_ns() - begin
        except threading.BrokenBarrierError:
            raise WrongResult(f"a thread failed: {failures[:1]!r}") from None
        finally:
            for worker in workers:
                worker.join()
        for number in range(threads):
            task.verify(number)
        return threads * self.counts.thread_blocks * self.counts.block_calls / (elapsed / 1e9)
