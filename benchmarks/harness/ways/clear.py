"""A bound call whose kernel leaves elements unwritten, so that each launch clears its output first."""

from __future__ import annotations

from harness import programs
from harness.inputs import select_sets
from harness.timing import Line
from harness.ways.base import Bench, SaxpyGroup


class Clear(SaxpyGroup):
    """Two pieces of work for every call."""

    ROWS = ("call_clear_same", "call_clear_changed")

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, programs.select(), select_sets(bench.seed, bench.counts))

    def call_clear_same(self, id: str) -> Line:
        return self.call_same(id)

    def call_clear_changed(self, id: str) -> Line:
        return self.call_changed(id)
