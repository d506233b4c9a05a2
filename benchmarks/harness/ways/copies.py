"""One large array across the link, each way, from and to page-locked, pageable and new memory."""

from __future__ import annotations

import inspect
from dataclasses import replace
from time import perf_counter_ns

import numpy as np

import vyre_cuda as vc
from harness.inputs import Floats, InputSet, copy_sets
from harness.timing import Line, Task, host_task, measure_trips
from harness.ways.base import Bench, Group, NotThere, pinned_copy


class Copies(Group):
    """Every row rotates among arrays that no cache holds."""

    ROWS = ("copy_h2d_pinned", "copy_h2d_pageable", "copy_d2h_pinned", "copy_d2h_pageable", "copy_d2h_new")

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.sets = copy_sets(bench.seed, bench.counts)
        self.arrays = [self.device.array(s.x) for s in self.sets]
        self.nothing = np.full(self.sets[0].x.size, np.nan, np.float32)

    def copy_h2d_pinned(self, id: str) -> Line:
        return self._in(id, [replace(s, x=pinned_copy(self.device, s.x)) for s in self.sets])

    def copy_h2d_pageable(self, id: str) -> Line:
        return self._in(id, self.sets)

    def copy_d2h_pinned(self, id: str) -> Line:
        return self._out(id, [replace(s, result=pinned_copy(self.device, s.result)) for s in self.sets])

    def copy_d2h_pageable(self, id: str) -> Line:
        return self._out(id, self.sets)

    def copy_d2h_new(self, id: str) -> Line:
        arrays = self._filled()
        results: list[Floats] = [s.result for s in self.sets]

        def trip(number: int) -> int:
            array = arrays[number]
            begin = perf_counter_ns()
            results[number] = self.nothing  # the result before is given back, as the twin does
            results[number] = array.numpy()
            return perf_counter_ns() - begin

        def poison(number: int) -> None:
            results[number] = self.nothing

        task = Task(id, self.sets, lambda number: results[number], poison)
        return measure_trips(task, trip, self.counts.copying())

    def _in(self, id: str, sets: list[InputSet]) -> Line:
        """`copy_from` returns when the host memory has been read, so the copy's end is waited for as well."""
        arrays, synchronize = self.arrays, self.device.synchronize

        def trip(number: int) -> int:
            array, x = arrays[number], sets[number].x
            begin = perf_counter_ns()
            array.copy_from(x)
            synchronize()
            return perf_counter_ns() - begin

        def read(number: int) -> Floats:
            values: Floats = arrays[number].numpy()
            return values

        task = Task(id, sets, read, lambda number: arrays[number].copy_from(self.nothing))
        return measure_trips(task, trip, self.counts.copying())

    def _out(self, id: str, sets: list[InputSet]) -> Line:
        if "out" not in inspect.signature(vc.DeviceArray.numpy).parameters:
            raise NotThere("DeviceArray.numpy(out=)")
        arrays = self._filled()

        def trip(number: int) -> int:
            array, result = arrays[number], sets[number].result
            begin = perf_counter_ns()
            array.numpy(out=result)  # type: ignore[call-arg]
            return perf_counter_ns() - begin

        return measure_trips(host_task(id, sets), trip, self.counts.copying())

    def _filled(self) -> list[vc.DeviceArray]:
        for array, s in zip(self.arrays, self.sets, strict=True):
            array.copy_from(s.x)
        return self.arrays
