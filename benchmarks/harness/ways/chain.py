"""A recorded graph of many saxpy kernels, each of which reads what the one before wrote."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

import vyre_cuda as vc
from harness import programs
from harness.inputs import Floats, InputSet, chain_sets
from harness.timing import Line, Task, measure_trips
from harness.ways.base import Bench, Group, need


class Chain(Group):
    """y -> t0 -> t1 -> t0 ..., one graph for each input set, replayed and waited for."""

    ROWS = ("graph_chain",)
    ONE_CORE = True

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.record = need(self.device, "record")
        self.kernel = self.device.compile(programs.saxpy())
        self.sets = chain_sets(bench.seed, bench.counts)
        self.nothing = np.full(self.sets[0].x.size, np.nan, np.float32)
        self.work = [tuple(self.device.array(self.nothing) for _ in range(2)) for _ in self.sets]
        self.inputs = [(self.device.array(s.x), self.device.array(s.y)) for s in self.sets]
        self.graphs = [self._graph(number, s) for number, s in enumerate(self.sets)]

    def _graph(self, number: int, s: InputSet) -> Any:
        (x, source), work = self.inputs[number], self.work[number]
        with self.record() as graph:
            for node in range(self.counts.nodes):
                target: vc.DeviceArray = work[node % 2]
                self.kernel.launch(x, source, target, s.a)
                source = target
        return graph

    def graph_chain(self, id: str) -> Line:
        stream = self.device.stream()
        synchronize = stream.synchronize
        replays = [graph.replay for graph in self.graphs]
        last = (self.counts.nodes - 1) % 2

        def trip(number: int) -> int:
            replay = replays[number]
            begin = perf_counter_ns()
            replay(stream=stream)
            synchronize()
            return perf_counter_ns() - begin

        def read(number: int) -> Floats:
            values: Floats = self.work[number][last].numpy()
            return values

        def poison(number: int) -> None:
            for array in self.work[number]:
                array.copy_from(self.nothing)
            self.device.synchronize()

        return measure_trips(Task(id, self.sets, read, poison), trip, self.counts.long())
