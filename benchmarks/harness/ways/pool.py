"""An allocation from the pool and its release, the device array object included."""

from __future__ import annotations

import numpy as np

import vyre_cuda as vc
from harness.inputs import Floats, InputSet
from harness.timing import Line, Task, measure_blocks
from harness.ways.base import Bench, Group


class Pool(Group):
    """`device.empty(n, vc.f32)`, dropped at once; sizes rotate as the twin's do."""

    ROWS = ("alloc_free",)
    ONE_CORE = True

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.sizes = [bench.counts.elements << (i % 4) for i in range(16)]

    def alloc_free(self, id: str) -> Line:
        empty, type_ = self.device.empty, vc.f32
        order = [self.sizes[i % len(self.sizes)] for i in range(self.counts.block_calls)]

        def block() -> None:
            for size in order:
                empty(size, type_)

        return measure_blocks(self._task(id), block, self.device.synchronize, self.counts)

    def _task(self, id: str) -> Task:
        """After a series every size can be had, written and read, and no two arrays at a time share memory."""
        nothing = np.zeros(0, np.float32)
        values = [np.full(size, number, np.float32) for number, size in enumerate(self.sizes)]
        sets = [InputSet(nothing, nothing, 1.0, v, nothing, nothing) for v in values]

        def read(number: int) -> Floats:
            arrays = [self.device.array(v) for v in values]
            found: Floats = arrays[number].numpy()
            return found

        return Task(id, sets, read, lambda number: None)
