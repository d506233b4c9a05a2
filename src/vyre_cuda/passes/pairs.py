"""Whether two steps become one: asked once for all pairs that are alike.

The answer depends on the programs, the launches, and which arrays and scalars of both are the same or meet; where the
memory is does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from vyre_cuda.passes.merge import Merge
from vyre_cuda.passes.part import Parts
from vyre_cuda.passes.steps import Refused, Span, Step


class Pairs:
    """Without `merged`, whether `Merge` takes both."""

    def __init__(self, merged: Callable[[Sequence[Step]], object] | None = None) -> None:
        self._parts = Parts()
        self._merged = self._added if merged is None else merged
        self._found: dict[Hashable, Refused | None] = {}
        self._programs: list[Step] = []  # those of the keys must not be freed

    def _added(self, steps: Sequence[Step]) -> None:
        made = Merge(steps[0].geometry, parts=self._parts)
        for step in steps:
            made.add(step)

    def refused(self, one: Step, other: Step) -> Refused | None:
        """Why they stay apart; None: they become one."""
        key = _key(one, other)
        if key not in self._found:
            try:
                self._merged([one, other])
                self._note(key, one, other, None)
            except Refused as why:
                self._note(key, one, other, why)
        return self._found[key]

    def known(self, one: Step, other: Step) -> Refused | None:
        """The same as far as it was noted or asked; None, too, where it was not."""
        return self._found.get(_key(one, other))

    def note(self, one: Step, other: Step, why: Refused) -> None:
        self._note(_key(one, other), one, other, why)

    def _note(self, key: Hashable, one: Step, other: Step, why: Refused | None) -> None:
        self._programs += (one, other)
        self._found[key] = None if why is None else why.with_traceback(None)  # which has the frames of all callers


def _key(one: Step, other: Step) -> Hashable:
    arrays: dict[Span, int] = {}
    ends: list[tuple[int, int, int]] = []  # memory, first byte, the byte behind the last
    scalars: dict[Hashable, int] = {}
    numbers: list[Hashable] = []
    for step in (one, other):
        for p in step.program.parameters:
            if not p.is_buffer:
                numbers.append(scalars.setdefault(step.scalars[p.name], len(scalars)))
                continue
            span = step.spans[p.name]
            numbers.append(arrays.setdefault(span, len(arrays)))
            ends.append((span.memory, span.first, span.first + span.count * p.type.itemsize))
    meeting = [
        (a[1] < b[2] and b[1] < a[2], a[2] - a[1] == b[2] - b[1] and a[1] == b[1]) if a[0] == b[0] else None
        for k, a in enumerate(ends)
        for b in ends[:k]
    ]
    shapes = tuple(span.shape for span in arrays)
    launches = tuple((id(step.program), step.geometry, step.options) for step in (one, other))
    return launches, tuple(numbers), shapes, tuple(meeting)
