"""The input sets as PyTorch tensors, for the peers that work on those; on the current stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch
from harness.inputs import Floats
from harness.timing import Line, Task, host_task, measure_blocks, measure_trips

from peers.common import Run

# Computes into the third tensor: x, y, out, a.
Launch = Callable[[Any, Any, Any, float], object]


@dataclass(frozen=True, slots=True)
class HostSet:
    """Tensors that share the memory of a set's NumPy arrays."""

    x: Any
    y: Any
    a: float
    result: Any


class TorchSets:
    """Every set on the device, and the tasks on them for one `launch`."""

    def __init__(self, run: Run, launch: Launch) -> None:
        self.run = run
        self.launch = launch
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.sets = [
            (torch.from_numpy(s.x).cuda(), torch.from_numpy(s.y).cuda(), torch.empty(s.x.size, device="cuda"), s.a)
            for s in run.sets
        ]
        self.host_sets = [
            HostSet(torch.from_numpy(s.x), torch.from_numpy(s.y), s.a, torch.from_numpy(s.result)) for s in run.sets
        ]
        self.stream.synchronize()

    def task(self, id: str, sets: int) -> Task:
        def read(number: int) -> Floats:
            values: Floats = self.sets[number][2].cpu().numpy()
            return values

        def poison(number: int) -> None:
            self.sets[number][2].fill_(np.nan)

        return Task(id, self.run.sets[:sets], read, poison, exact=False)

    def enqueue(self, id: str) -> Line:
        launch, order = self.launch, [self.sets[i] for i in self.run.order]

        def block() -> None:
            for x, y, out, a in order:
                launch(x, y, out, a)

        return measure_blocks(self.task(id, len(self.sets)), block, self.stream.synchronize, self.run.counts)

    def replay(self, id: str) -> Line:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.launch(*self.sets[0])
        replay, calls = graph.replay, range(self.run.counts.block_calls)

        def block() -> None:
            for _ in calls:
                replay()

        return measure_blocks(self.task(id, 1), block, self.stream.synchronize, self.run.counts)

    def launch_sync(self, id: str) -> Line:
        launch, synchronize = self.launch, self.stream.synchronize

        def trip(number: int) -> int:
            x, y, out, a = self.sets[number]
            begin = perf_counter_ns()
            launch(x, y, out, a)
            synchronize()
            return perf_counter_ns() - begin

        return measure_trips(self.task(id, len(self.sets)), trip, self.run.counts)

    def host(self, id: str) -> Line:
        launch = self.launch
        x, y, out, _ = self.sets[0]

        def trip(number: int) -> int:
            s = self.host_sets[number]
            begin = perf_counter_ns()
            x.copy_(s.x)
            y.copy_(s.y)
            launch(x, y, out, s.a)
            s.result.copy_(out)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, self.run.sets, exact=False), trip, self.run.counts)

    def host_pinned(self, id: str) -> Line:
        launch, synchronize = self.launch, self.stream.synchronize
        x, y, out, _ = self.sets[0]
        pinned_x, pinned_y, pinned_out = (torch.empty(self.run.elements).pin_memory() for _ in range(3))

        def trip(number: int) -> int:
            s = self.host_sets[number]
            begin = perf_counter_ns()
            pinned_x.copy_(s.x)
            pinned_y.copy_(s.y)
            x.copy_(pinned_x, non_blocking=True)
            y.copy_(pinned_y, non_blocking=True)
            launch(x, y, out, s.a)
            pinned_out.copy_(out, non_blocking=True)
            synchronize()
            s.result.copy_(pinned_out)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, self.run.sets, exact=False), trip, self.run.counts)
