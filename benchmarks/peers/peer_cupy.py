"""CuPy: RawKernel on CuPy arrays, a captured graph, and `set`/`get` around the kernel for host arrays."""

from __future__ import annotations

from time import perf_counter_ns

import cupy as cp
import numpy as np
from harness.inputs import BLOCK
from harness.timing import Line, Task, host_task, measure_blocks, measure_trips

from peers.common import KERNEL, Run, Way, read_options, report


class Saxpy:
    """The kernel with every set on the device, on a stream of its own."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.kernel = cp.RawKernel(KERNEL, "saxpy")
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.grid, self.block, self.n = (-(-run.elements // BLOCK),), (BLOCK,), np.uint32(run.elements)
        self.arguments = [
            (cp.asarray(s.x), cp.asarray(s.y), cp.empty(run.elements, cp.float32), np.float32(s.a), self.n)
            for s in run.sets
        ]
        self.stream.synchronize()

    def task(self, id: str, sets: int) -> Task:
        outs = [arguments[2] for arguments in self.arguments]
        return Task(id, self.run.sets[:sets], lambda i: outs[i].get(), lambda i: outs[i].fill(np.nan), exact=False)

    def enqueue(self, id: str) -> Line:
        kernel, grid, threads = self.kernel, self.grid, self.block
        order = [self.arguments[i] for i in self.run.order]

        def block() -> None:
            for arguments in order:
                kernel(grid, threads, arguments)

        return measure_blocks(self.task(id, len(self.run.sets)), block, self.stream.synchronize, self.run.counts)

    def replay(self, id: str) -> Line:
        self.stream.begin_capture()
        self.kernel(self.grid, self.block, self.arguments[0])
        graph, stream, calls = self.stream.end_capture(), self.stream, range(self.run.counts.block_calls)

        def block() -> None:
            for _ in calls:
                graph.launch(stream)

        return measure_blocks(self.task(id, 1), block, stream.synchronize, self.run.counts)

    def launch_sync(self, id: str) -> Line:
        kernel, grid, threads, synchronize = self.kernel, self.grid, self.block, self.stream.synchronize

        def trip(number: int) -> int:
            arguments = self.arguments[number]
            begin = perf_counter_ns()
            kernel(grid, threads, arguments)
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self.task(id, len(self.run.sets)), trip, self.run.counts)

    def host(self, id: str) -> Line:
        kernel, grid, threads = self.kernel, self.grid, self.block
        x, y, out, _, n = self.arguments[0]
        scalars = [arguments[3] for arguments in self.arguments]

        def trip(number: int) -> int:
            s, a = self.run.sets[number], scalars[number]
            begin = perf_counter_ns()
            x.set(s.x)
            y.set(s.y)
            kernel(grid, threads, (x, y, out, a, n))
            out.get(out=s.result)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, self.run.sets, exact=False), trip, self.run.counts)


if __name__ == "__main__":
    saxpy = Saxpy(read_options())
    report(
        cp.__version__,
        [
            Way("launch_enqueue", "RawKernel", saxpy.enqueue),
            Way("replay_enqueue", "graph", saxpy.replay),
            Way("launch_sync", "RawKernel", saxpy.launch_sync),
            Way("host_dispatch", "set, RawKernel, get", saxpy.host),
        ],
    )
