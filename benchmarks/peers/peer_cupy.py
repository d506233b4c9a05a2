"""CuPy: RawKernel on CuPy arrays, a captured graph, and `set`/`get` around the kernel for host arrays."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter_ns

import cupy as cp
import cupyx
import numpy as np
from harness.inputs import BLOCK, Floats, InputSet
from harness.timing import Line, Task, host_task, measure_blocks, measure_trips

from peers.common import KERNEL, Run, Way, allocation, read_options, report


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
        self.kept: list[cp.ndarray] = []  # what recorded graphs read

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

    def chain(self, id: str) -> Line:
        sets = self.run.chain()
        work = [[cp.empty(self.run.elements, cp.float32) for _ in range(2)] for _ in sets]
        graphs = [self.record(s, buffers) for s, buffers in zip(sets, work, strict=True)]
        stream, last = self.stream, (self.run.counts.nodes - 1) % 2

        def trip(number: int) -> int:
            graph = graphs[number]
            begin = perf_counter_ns()
            graph.launch(stream)
            stream.synchronize()
            return perf_counter_ns() - begin

        task = Task(id, sets, lambda i: work[i][last].get(), lambda i: work[i][last].fill(np.nan), exact=False)
        return measure_trips(task, trip, self.run.counts.long())

    def record(self, s: InputSet, work: list[cp.ndarray]) -> cp.cuda.Graph:
        x, source, a = cp.asarray(s.x), cp.asarray(s.y), np.float32(s.a)
        self.kept += [x, source]
        self.stream.synchronize()
        self.stream.begin_capture()
        for node in range(self.run.counts.nodes):
            self.kernel(self.grid, self.block, (x, source, work[node % 2], a, self.n))
            source = work[node % 2]
        return self.stream.end_capture()

    def large(self, id: str) -> Line:
        return self.large_sets(id, self.run.large())

    def large_pinned(self, id: str) -> Line:
        return self.large_sets(id, [replace(s, x=pinned(s.x), result=pinned(s.result)) for s in self.run.large()])

    def large_sets(self, id: str, sets: list[InputSet]) -> Line:
        kernel, threads, elements = cp.RawKernel(KERNEL, "scale"), self.block, sets[0].x.size
        x, out, n = cp.empty(elements, cp.float32), cp.empty(elements, cp.float32), np.uint32(elements)
        grid, scalars = (-(-elements // BLOCK),), [np.float32(s.a) for s in sets]

        def trip(number: int) -> int:
            s, a = sets[number], scalars[number]
            begin = perf_counter_ns()
            x.set(s.x)
            kernel(grid, threads, (x, out, a, n))
            out.get(out=s.result)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.run.counts.long())

    def allocate(self, id: str) -> Line:
        return allocation(
            self.run.counts,
            id,
            lambda values: cp.asarray(values).get(),
            lambda elements: cp.empty(elements, cp.float32),
            self.stream.synchronize,
        )


def pinned(values: Floats) -> Floats:
    """The values in page-locked memory."""
    array: Floats = cupyx.empty_pinned(values.shape, values.dtype)
    array[:] = values
    return array


if __name__ == "__main__":
    saxpy = Saxpy(read_options())
    report(
        cp.__version__,
        [
            Way("launch_enqueue", "RawKernel", saxpy.enqueue),
            Way("replay_enqueue", "graph", saxpy.replay),
            Way("launch_sync", "RawKernel", saxpy.launch_sync),
            Way("host_dispatch", "set, RawKernel, get", saxpy.host),
            Way("large_host", "set, RawKernel, get", saxpy.large),
            Way("large_host", "page-locked, set, RawKernel, get", saxpy.large_pinned),
            Way("graph", "captured graph", saxpy.chain),
            Way("alloc_free", "cp.empty", saxpy.allocate),
        ],
    )
