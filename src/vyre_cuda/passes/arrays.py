"""The arrays of a program made of several steps, and which parameters of the steps they are."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import combinations
from typing import TypeAlias

from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.types import Type
from vyre_cuda.passes.facts import facts_of
from vyre_cuda.passes.part import Seen
from vyre_cuda.passes.ranges import Covered, Range
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.records import FrozenRecord, Record

Key: TypeAlias = tuple[Span, Type]  # equal ones are the same array


class Array(Record, eq=False):
    """A buffer of the merged program: `first` is the parameter that touches it first, `users` are the programs,
    `checked` is what was seen of it if each thread has one element there."""

    name: str
    type: Type
    span: Span
    range: Range
    first: Parameter
    users: dict[str, None]
    touches: int = 0
    is_written: bool = False
    is_writable: bool = False
    is_read: bool = False
    seen: Seen | None = None
    checked: Seen | None = None


class Touch(FrozenRecord, eq=False):
    """A buffer parameter of a step, and the array that it is, None for a new one."""

    parameter: Parameter
    key: Key
    range: Range
    array: Array | None
    writes: bool

    @property
    def is_empty(self) -> bool:
        return self.range[1] == self.range[2]


class Arrays:
    """`found` has them in the order in which steps touch them."""

    def __init__(self) -> None:
        self.found: dict[Key, Array] = {}
        # Bytes: of arrays that are written, of all, and of arrays that met another one when they came.
        self._written, self._touched, self._twice = Covered(), Covered(), Covered()

    def touches(self, step: Step) -> list[Touch]:
        """What a step touches. Raises Refused where it is not the arrays so far, or others apart from them."""
        found: list[Touch] = []
        here: set[Key] = set()
        written = facts_of(step.program).written
        for p in step.program.parameters:
            if p.is_buffer:
                key = step.spans[p.name], p.type
                if p.kind == "out" and key in here:
                    raise Refused(
                        f"{p.name} of {step.program.name} is the same memory as another of its arrays", Kind.OVERLAP
                    )
                here.add(key)
                writes = p.kind == "out" or p.name in written
                found.append(Touch(p, key, _range(*key), self.found.get(key), writes))
        self.check_ranges(step, found)
        return found

    def add(
        self, step: Step, touches: Sequence[Touch], take: Callable[[str], str], read: Container[str]
    ) -> dict[str, str]:
        """The names of its arrays, by those of its parameters, of which it reads some."""
        names: dict[str, str] = {}
        for touch in touches:
            p = touch.parameter
            array = self.found.get(touch.key)
            if array is None:
                array = self.found[touch.key] = Array(take(p.name), p.type, touch.key[0], touch.range, p, {})
                if not touch.is_empty:
                    if self._touched.meets((touch.range,)):
                        self._twice.add((touch.range,))
                    self._touched.add((touch.range,))
            if touch.writes and not array.is_written and not touch.is_empty:
                self._written.add((touch.range,))
            array.users.setdefault(step.program.name)
            array.touches += 1
            array.is_written |= touch.writes
            array.is_writable |= p.is_writable
            array.is_read |= p.name in read
            names[p.name] = array.name
        return names

    def check_ranges(self, step: Step, touches: Sequence[Touch]) -> None:
        """Arrays that are not the same may meet only where nobody writes."""
        if _any_meet(touches):
            one, other = next((a, b) for a, b in combinations(touches, 2) if a.key != b.key and _conflict(a, b))
            raise _refused(step, other, one.parameter.name, step.program.name, one.range)
        for touch in touches:
            if touch.is_empty:
                continue
            if touch.array is None:
                meets = (self._touched if touch.writes else self._written).meets((touch.range,))
            else:
                meets = touch.writes and not touch.array.is_written and self._twice.meets((touch.range,))
            if meets:
                others = (a for a in self.found.values() if a is not touch.array and (touch.writes or a.is_written))
                found = next(array for array in others if _overlap(array.range, touch.range))
                raise _refused(step, touch, found.name, next(iter(found.users)), found.range)


def _range(span: Span, type_: Type) -> Range:
    return span.memory, span.first, span.first + span.count * type_.itemsize, span.shape


def _any_meet(touches: Sequence[Touch]) -> bool:
    """Whether two other arrays among these have bytes in common, and one of them is written."""
    found: dict[Key, tuple[Range, bool]] = {}
    for touch in touches:
        before = found.get(touch.key)
        found[touch.key] = touch.range, touch.writes or (before is not None and before[1])
    ranges = sorted([(*each[:3], is_written) for each, is_written in found.values() if each[1] < each[2]])
    memory, behind, behind_written = None, 0, 0  # all before this one, and those of them that are written
    for each, begin, end, is_written in ranges:
        if each != memory:
            memory, behind, behind_written = each, begin, begin
        if begin < (behind if is_written else behind_written):
            return True
        behind = max(behind, end)
        if is_written:
            behind_written = max(behind_written, end)
    return False


def _conflict(one: Touch, other: Touch) -> bool:
    return (one.writes or other.writes) and _overlap(one.range, other.range)


def _overlap(one: Range, other: Range) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _refused(step: Step, touch: Touch, other: str, called: str, there: Range) -> Refused:
    same = touch.range[:3] == there[:3]
    how = "are the same memory with other types or shapes" if same else "share part of their memory"
    names = f"{other} of {called} and {touch.parameter.name} of {step.program.name}"
    return Refused(f"{names} {how}", Kind.VIEW if same else Kind.OVERLAP)
