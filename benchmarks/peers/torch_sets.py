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

from peers.common import Run, allocation

# Computes into the third tensor: x, y, out, a.
Launch = Callable[[Any, Any, Any, float], object]
# Computes into the second tensor: x, out, a.
Scale = Callable[[Any, Any, float], object]


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

    def chain(self, id: str) -> Line:
        sets = self.run.chain()
        inputs = [(torch.from_numpy(s.x).cuda(), torch.from_numpy(s.y).cuda()) for s in sets]
        work = [[torch.empty(self.run.elements, device="cuda") for _ in range(2)] for _ in sets]
        self.stream.synchronize()
        graphs = []
        for s, (x, source), buffers in zip(sets, inputs, work, strict=True):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for node in range(self.run.counts.nodes):
                    self.launch(x, source, buffers[node % 2], s.a)
                    source = buffers[node % 2]
            graphs.append(graph)
        synchronize, last = self.stream.synchronize, (self.run.counts.nodes - 1) % 2

        def trip(number: int) -> int:
            graph = graphs[number]
            begin = perf_counter_ns()
            graph.replay()
            synchronize()
            return perf_counter_ns() - begin

        def read(number: int) -> Floats:
            values: Floats = work[number][last].cpu().numpy()
            return values

        task = Task(id, sets, read, lambda number: work[number][last].fill_(np.nan), exact=False)
        return measure_trips(task, trip, self.run.counts.long())

    def large(self, id: str, scale: Scale, *, pinned: bool) -> Line:
        """Host tensors in and out, pageable or the caller's own page-locked ones."""
        sets = self.run.large()
        hosts = [(torch.from_numpy(s.x), torch.from_numpy(s.result)) for s in sets]
        if pinned:
            hosts = [(x.pin_memory(), result.pin_memory()) for x, result in hosts]
        x, out = (torch.empty(sets[0].x.size, device="cuda") for _ in range(2))
        synchronize = self.stream.synchronize

        def trip(number: int) -> int:
            host_x, host_out = hosts[number]
            a = sets[number].a
            begin = perf_counter_ns()
            x.copy_(host_x, non_blocking=True)
            scale(x, out, a)
            host_out.copy_(out, non_blocking=True)
            synchronize()
            return perf_counter_ns() - begin

        def read(number: int) -> Floats:
            values: Floats = hosts[number][1].numpy()
            return values

        task = Task(id, sets, read, lambda number: hosts[number][1].fill_(np.nan))
        return measure_trips(task, trip, self.run.counts.long())

    def allocate(self, id: str) -> Line:
        def round_trip(values: Floats) -> Floats:
            back: Floats = torch.from_numpy(values).cuda().cpu().numpy()
            return back

        def empty(elements: int) -> object:
            return torch.empty(elements, device="cuda")

        return allocation(self.run.counts, id, round_trip, empty, self.stream.synchronize)
