"""Counted loops with the meaning of Python's range on exact integers: no wrap at the end of the type.

The counter is a mutable register that only the loop itself writes. Where the next value could wrap, or the way from
start to end is longer than half of the type, a loop of known length counts its trips; any other one that could wrap
checks before it steps how far away the end is, and that distance is exact as an unsigned number. With a step of 0 there
is no trip.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import SIGNED, UNSIGNED
from vyre_cuda.codegen.ssa.foldable import may_fold
from vyre_cuda.codegen.ssa.intervals import FULL
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type

# A loop with more trips than this, if known in advance, is not unrolled: the assembler would unroll hundreds (spec of
# ptxas 13).
_MOST_UNROLLED_TRIPS = 32


class CountedLoop:
    """One for statement. `enters` is the predicate that there is a first trip, `step` the step if it is a constant."""

    __slots__ = (
        "_b",
        "_declared",
        "_left",
        "_rest",
        "_signed",
        "_type",
        "_unsigned",
        "_wraps",
        "counter",
        "enters",
        "register",
        "start",
        "step",
        "step_value",
        "stop",
        "trips",
    )

    def __init__(self, builder: Builder, type_: Type, start: int, stop: int, step: int) -> None:
        self._b = builder
        self._declared = type_
        self._signed = type_.kind == "signed"
        self._type = builder.function.types[start]
        self._unsigned = UNSIGNED[self._type]
        self.start, self.stop, self.step_value = start, stop, step
        self.step = builder.constant_of(step)
        self.trips = self._trips()
        self._left: int | None = None  # the register of the trips to come
        self._rest: tuple[int, int] | None = None
        self.enters = self._enters()
        self._wraps = True
        self.register = -1
        self.counter = -1

    @property
    def stays_rolled(self) -> bool:
        """Whether the assembler is told not to unroll: long loops, and those whose length it would get wrong.

        ptxas treats stop - start as a signed number, and makes one trip if that overflows; a length that it cannot work
        out in advance it handles correctly for unsigned counters. Where it unrolls such a loop it compares with a few
        steps, whose sum overflows, too (docs/compiler-defects.md).
        """
        if self.trips is not None:
            return self.trips > _MOST_UNROLLED_TRIPS
        if self._wraps:
            return False
        half = FULL[SIGNED[self._type]][1]
        if abs(self.step or 0) > half // _MOST_UNROLLED_TRIPS:
            return True
        ends = (self.start, self.stop)
        return self._is_long() and (self._signed or all(may_fold(self._b.function, end) for end in ends))

    def _is_long(self) -> bool:
        """Whether stop - start, rounded up to whole steps, may be more than half of the type."""
        start, stop = (self._b.facts.tight_range(end) for end in (self.start, self.stop))
        step = self.step or 0
        longest = (stop[1] - start[0] if step > 0 else start[1] - stop[0]) + abs(step) - 1
        return longest > FULL[SIGNED[self._type]][1]

    def _trips(self) -> int | None:
        first, end = self._b.constant_of(self.start), self._b.constant_of(self.stop)
        if first is None or end is None or not self.step:
            return None
        return max(0, -((first - end) // self.step))

    def _enters(self) -> int:
        b = self._b
        start, stop, step = self.start, self.stop, self.step_value
        zero = b.constant(self._type, 0)
        if self.step is not None:
            if self.step == 0:
                return b.false
            return b.apply("less", start, stop) if self.step > 0 else b.apply("less", stop, start)
        if not self._signed:
            return b.apply("logical_and", b.apply("less", start, stop), b.apply("not_equal", step, zero))
        up = b.apply("logical_and", b.apply("less", zero, step), b.apply("less", start, stop))
        down = b.apply("logical_and", b.apply("less", step, zero), b.apply("less", stop, start))
        return b.apply("logical_or", up, down)

    def begin(self) -> None:
        """Before the first trip, in the code that has asked `enters`."""
        b = self._b
        function = b.function
        # Tested here: what a branch of the body shows does not hold after a `continue`.
        self._wraps = not self._steps_without_wrap()
        self.register = function.register(self._type)
        function.effect("set", (self.start,), self.register)
        if self.trips is not None and (self._wraps or self._is_long()):
            type_ = "u32" if self.trips <= FULL["u32"][1] else "u64"
            self._left = function.register(type_)
            function.effect("set", (b.constant(type_, self.trips),), self._left)
        if self._signed and self.step is None:
            up = b.apply("less", b.constant(self._type, 0), self.step_value)
            ahead = b.apply("subtract", self.stop, self.start)
            behind = b.apply("subtract", self.start, self.stop)
            distance = b.convert("retype", self._unsigned, b.apply("where", up, ahead, behind))
            magnitude = b.convert("retype", self._unsigned, b.apply("absolute", self.step_value))
            rest = function.register(self._unsigned)
            function.effect("set", (distance,), rest)
            self._rest = (rest, magnitude)

    def assume(self) -> None:
        """At the top of the body, in its scope: make the counter and state what is known about it."""
        b = self._b
        facts = b.facts
        self.counter = b.function.register_value(self.register)
        facts.observe(self.counter)
        facts.set_range(self.counter, self._declared.minimum, self._declared.maximum)
        if self.step is not None or not self._signed:
            up = self.step is None or self.step > 0
            low, high = (self.counter, self.stop) if up else (self.stop, self.counter)
            facts.assume_order(low, high, True)
            first, last = (self.start, self.counter) if up else (self.counter, self.start)
            facts.assume_order(first, last, False)
        if self.ends is not None:
            facts.set_range(self.counter, min(self.ends), max(self.ends))

    @property
    def ends(self) -> tuple[int, int] | None:
        """The counter in the first and in the last trip, if they and all in between are known."""
        return (self._first, self._first + (self.trips - 1) * (self.step or 0)) if self.trips else None

    @property
    def _first(self) -> int:
        return self._b.constant_of(self.start) or 0

    def advance(self, body: int) -> None:
        """At the end of a trip: step, and go to the label `body` when there is another one.

        These values see the counter before and after the step, so none is shared or simplified.
        """
        function = self._b.function
        if self._left is not None:
            again = self._count_down(self._left)
            self._step_counter()
        elif not self._wraps:
            following = self._step_counter()
            ends = (following, self.stop) if (self.step or 0) > 0 else (self.stop, following)
            again = function.fresh("less", "pred", ends)
        else:
            distance, magnitude = self._distance()
            again = function.fresh("less", "pred", (magnitude, distance))
            if self._rest is not None:
                less = function.fresh("subtract", self._unsigned, (distance, magnitude))
                function.pinned[less] = self._rest[0]
            self._step_counter()
        function.effect("branch", (again,), (body, False))

    def _count_down(self, register: int) -> int:
        """Subtract one from the remaining trips, and test whether any are left."""
        b, function = self._b, self._b.function
        type_ = function.registers[register]
        left = function.fresh("subtract", type_, (function.register_value(register), b.constant(type_, 1)))
        function.pinned[left] = register
        return function.fresh("not_equal", "pred", (left, b.constant(type_, 0)))

    def _step_counter(self) -> int:
        function = self._b.function
        following = function.fresh("add", self._type, (self.counter, self.step_value))
        function.pinned[following] = self.register
        return following

    def _distance(self) -> tuple[int, int]:
        """How far the end is from the counter, and how far a step goes, both unsigned."""
        b = self._b
        if self._rest is not None:
            return b.function.register_value(self._rest[0]), self._rest[1]
        if self.step is None:
            return b.function.fresh("subtract", self._unsigned, (self.stop, self.counter)), self.step_value
        ends = (self.stop, self.counter) if self.step > 0 else (self.counter, self.stop)
        return b.function.fresh("subtract", self._unsigned, ends), b.constant(self._unsigned, abs(self.step))

    def _steps_without_wrap(self) -> bool:
        """Whether counter + step stays in the type on every trip."""
        if self.step is None:
            return False
        low, high = FULL[self._type]
        if self.trips is not None:
            return low <= self._first + self.trips * self.step <= high
        end_low, end_high = self._b.facts.tight_range(self.stop)
        return end_high - 1 + self.step <= high if self.step > 0 else end_low + 1 + self.step >= low
