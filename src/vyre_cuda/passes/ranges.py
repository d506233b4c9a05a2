"""Bytes of memory that steps touch, and whether they meet, in less time than comparing each with each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import TypeAlias

from vyre_cuda.passes.facts import facts_of
from vyre_cuda.passes.steps import Step

# Memory, first byte, the byte behind the last, extents.
Range: TypeAlias = tuple[int, int, int, tuple[int, ...]]


def ranges(step: Step) -> tuple[set[Range], set[Range]]:
    """What the step writes, and what it touches; none of them is empty."""
    written = facts_of(step.program).written
    writes: set[Range] = set()
    all_of: set[Range] = set()
    for p in step.program.parameters:
        if p.is_buffer and step.spans[p.name].count:
            span = step.spans[p.name]
            found = (span.memory, span.first, span.first + span.count * p.type.itemsize, span.shape)
            all_of.add(found)
            if p.kind == "out" or p.name in written:
                writes.add(found)
    return writes, all_of


def meet_written(touched: Collection[Range], written: Collection[Range]) -> bool:
    """Whether one that is written meets another one; `touched` has each once, and those that are written too."""
    memory = None
    behind = behind_written = 0  # all before this one, and those of them that are written
    for each in sorted(touched):
        if each[0] != memory:
            memory, behind, behind_written = each[0], each[1], each[1]
        is_written = each in written
        if each[1] < (behind if is_written else behind_written):
            return True
        behind = max(behind, each[2])
        if is_written:
            behind_written = max(behind_written, each[2])
    return False


class Covered:
    """Bytes that are in one of many ranges."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[list[int], list[int]]] = {}  # begins and ends of a memory's, in order and apart

    def add(self, some: Collection[Range]) -> None:
        for memory, begin, end, _ in some:
            begins, ends = self._parts.setdefault(memory, ([], []))
            low, high = bisect_left(ends, begin), bisect_right(begins, end)
            if low < high:
                begin, end = min(begin, begins[low]), max(end, ends[high - 1])
            begins[low:high] = [begin]
            ends[low:high] = [end]

    def meets(self, some: Collection[Range]) -> bool:
        """Whether a byte of these is in one."""
        for memory, begin, end, _ in some:
            if memory in self._parts:
                begins, ends = self._parts[memory]
                at = bisect_right(ends, begin)
                if at < len(begins) and begins[at] < end:
                    return True
        return False
