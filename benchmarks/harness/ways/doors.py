"""What stands around launches: a point in a stream, a wait with nothing to wait for, small copies, a replay."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter_ns

import vyre_cuda as vc
from harness import programs
from harness.inputs import Floats, saxpy_sets
from harness.timing import Line, Task, host_task, measure_blocks, measure_trips
from harness.ways.base import Bench, SaxpyGroup, pinned_copy

# Launches in the graph that is replayed.
GRAPH_NODES = 100


class Doors(SaxpyGroup):
    """Copies are of what the kernel computes, so that every row has a result to compare."""

    ROWS = ("event_record", "idle_synchronize", "small_h2d", "small_d2h", "graph_enqueue")

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, programs.saxpy(), saxpy_sets(bench.seed, bench.counts))
        self.outs = [out for _, _, out, _ in self.arrays]

    def event_record(self, id: str) -> Line:
        record, calls = self.stream.record, range(self.counts.block_calls)

        def block() -> None:
            for _ in calls:
                record()

        return measure_blocks(self._nothing_to_do(id), block, self.stream.synchronize, self.counts)

    def idle_synchronize(self, id: str) -> Line:
        synchronize = self.stream.synchronize

        def trip(_: int) -> int:
            begin = perf_counter_ns()
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self._nothing_to_do(id), trip, self.counts)

    def small_h2d(self, id: str) -> Line:
        sources = [pinned_copy(self.device, s.expected) for s in self.sets]
        outs, synchronize = self.outs, self.device.synchronize

        def trip(number: int) -> int:
            out, source = outs[number], sources[number]
            begin = perf_counter_ns()
            out.copy_from(source)
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self.task(id, rotates=True), trip, self.counts)

    def small_d2h(self, id: str) -> Line:
        sets = [replace(s, result=pinned_copy(self.device, s.result)) for s in self.sets]
        outs = self._filled()

        def trip(number: int) -> int:
            out, result = outs[number], sets[number].result
            begin = perf_counter_ns()
            out.numpy(out=result)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.counts)

    def graph_enqueue(self, id: str) -> Line:
        with self.device.record() as graph:
            for _ in range(GRAPH_NODES):
                self.kernel.launch(*self.arrays[0])
        replay, stream, synchronize = graph.replay, self.stream, self.stream.synchronize

        def trip(_: int) -> int:
            begin = perf_counter_ns()
            replay(stream=stream)
            elapsed = perf_counter_ns() - begin
            synchronize()
            return elapsed

        return measure_trips(self.task(id, rotates=False), trip, self.counts)

    def _filled(self) -> list[vc.DeviceArray]:
        for out, s in zip(self.outs, self.sets, strict=True):
            out.copy_from(s.expected)
        return self.outs

    def _nothing_to_do(self, id: str) -> Task:
        """What is there stays."""
        outs = self._filled()

        def read(number: int) -> Floats:
            values: Floats = outs[number].numpy()
            return values

        return Task(id, self.sets[:1], read, lambda number: None)
