"""out = a * x on 16 MiB of host memory in and 16 MiB out, page-locked and pageable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter_ns

import numpy as np

from harness import programs
from harness.inputs import Floats, InputSet, scale_sets
from harness.timing import Line, Task, host_task, measure_trips
from harness.ways.base import Bench, Group, pinned_copy


class Large(Group):
    """Host to host, where bandwidth counts."""

    ROWS = ("large_pinned", "large_pageable", "large_new")

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.kernel = self.device.compile(programs.scale())
        self.sets = scale_sets(bench.seed, bench.counts)

    def large_pinned(self, id: str) -> Line:
        device = self.device
        sets = [replace(s, x=pinned_copy(device, s.x), result=pinned_copy(device, s.result)) for s in self.sets]
        return self._into(id, sets)

    def large_pageable(self, id: str) -> Line:
        return self._into(id, self.sets)

    def large_new(self, id: str) -> Line:
        kernel, sets = self.kernel, self.sets
        results: list[Floats] = [s.result for s in sets]

        def trip(number: int) -> int:
            s = sets[number]
            x, a = s.x, s.a
            begin = perf_counter_ns()
            result = kernel(x, a)
            elapsed = perf_counter_ns() - begin
            results[number] = result
            return elapsed

        task = Task(id, sets, lambda number: results[number], lambda number: results[number].fill(np.nan))
        return measure_trips(task, trip, self.counts.long())

    def _into(self, id: str, sets: Sequence[InputSet]) -> Line:
        kernel = self.kernel

        def trip(number: int) -> int:
            s = sets[number]
            x, a, result = s.x, s.a, s.result
            begin = perf_counter_ns()
            kernel(x, a, out=result)
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.counts.long())
