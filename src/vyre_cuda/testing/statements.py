"""Random statements whose result does not depend on the order of threads.

A buffer that is stored to belongs element by element to threads. What threads share is only combined by one commutative
operation whose old values nobody reads, exchanged between two barriers, or set by one compare-exchange. What threads do
together (`together.py`) stands in control flow that is the same for them; loops make few trips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Buffer, Index
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.ops import ATOMICS, SCOPES, AtomicOp
from vyre_cuda.ir.core.types import TYPES, Type, bool_, u32
from vyre_cuda.testing.expressions import LEVELS, Expressions, Level, unsigned_of
from vyre_cuda.testing.ranges import constant_ranges

_FAR = 1 << 20  # beyond every buffer
_METHODS = {
    **{name: f"atomic_{name.removeprefix('bitwise_')}" for name in ATOMICS},
    "subtract": "atomic_sub",
    "minimum": "atomic_min",
    "maximum": "atomic_max",
}
# Atomics that give one result in every order: those of a row may be mixed on one element.
_COMMUTING = (("add", "subtract"), ("minimum",), ("maximum",), ("bitwise_and",), ("bitwise_or",), ("bitwise_xor",))


@dataclass(frozen=True)
class Flow:
    """What the place of a statement allows.

    `level`: the threads of a warp, of a block or of the grid are together, None for no others. `loop` is the level that
    the innermost loop keeps together, "any" when it keeps none, "" outside of loops; `may_return` likewise.
    """

    depth: int = 0
    level: Level | None = None
    loop: str = ""
    may_return: str = ""

    def inside(self, level: Level | None, *, loop: bool = False) -> Flow:
        """The flow of a body in which threads are together on a level."""
        here = level or "any"
        return replace(
            self,
            depth=self.depth + 1,
            level=level,
            loop=here if loop or self.loop == here else "",
            may_return=here if self.may_return == here else "",
        )

    @property
    def may_leave_loop(self) -> bool:
        return self.loop == (self.level or "any")


@dataclass
class Targets:
    """What statements may change, by the rule that keeps it free of races."""

    thread: Value
    lane: Value  # linear in the block
    threads: int  # of a block
    own: list[tuple[Buffer, Index]] = field(default_factory=list)
    combined: list[tuple[Buffer, tuple[str, ...]]] = field(default_factory=list)
    agreed: list[tuple[Buffer, Value, Value]] = field(default_factory=list)
    mail: list[tuple[Buffer, Index]] = field(default_factory=list)  # written before a grid barrier, read after it


def atomic(b: Builder, op: str, *operands: Buffer | Index, order: str, scope: str) -> Value | None:
    """An atomic of the table, through the builder's method for it."""
    result: Value | None = getattr(b, _METHODS[op])(*operands, order=order, scope=scope)
    return result


def commuting(type_: Type) -> list[tuple[str, ...]]:
    """Atomics for this type that may meet in any order, in groups that may be mixed."""
    groups = [tuple(op for op in group if type_ in ATOMICS[op].types) for group in _COMMUTING]
    return [group for group in groups if group]


ATOMIC_TYPES: tuple[Type, ...] = tuple(t for t in TYPES if commuting(t))


class Statements:
    """Writes random statements with a builder."""

    def __init__(self, builder: Builder, expressions: Expressions, targets: Targets) -> None:
        self.b = builder
        self.e = expressions
        self.targets = targets

    def block(self, most: int, flow: Flow) -> None:
        """Up to `most` statements."""
        for _ in range(self.e.draw(st.integers(0, most))):
            self.e.pick(self.kinds(flow))(flow)

    def kinds(self, flow: Flow) -> list[Callable[[Flow], None]]:
        """The statements that may stand here."""
        kinds: list[Callable[[Flow], None]] = [self._let, self._var, self._assert]
        kinds += [self._assign] * 2
        if flow.depth < 2:
            kinds.append(self._print)
        if self.targets.own:
            kinds += [self._store, self._store, self._store_outside, self._own_atomic, self._own_atomic]
        if self.targets.combined:
            kinds.append(self._combine)
        if self.targets.agreed:
            kinds.append(self._agree)
        if flow.depth < 3:
            kinds += [self._if, self._for, self._while]
        if flow.may_leave_loop:
            kinds += [self._leave_pass] * 2
        if flow.may_return and flow.may_return == (flow.level or "any"):
            kinds.append(self._return)
        return kinds

    # ---- locals

    def _let(self, flow: Flow) -> None:
        type_ = self.e.type_()
        if self.e.chance(4):
            level = self.e.pick(LEVELS)
            self.e.add(self.b.let("v", self.e.same_in(level, type_)), level)
        else:
            self.e.add(self.b.let("v", self.e.any(type_)))

    def _var(self, flow: Flow) -> None:
        type_ = self.e.type_()
        self.e.variables[type_].append(self.b.var("m", self.e.any(type_)))

    def _assign(self, flow: Flow) -> None:
        pool = [variable for by_type in self.e.variables.values() for variable in by_type]
        if not pool:
            self._var(flow)
            return
        variable = self.e.pick(pool)
        variable.set(self.e.any(variable.type))

    # ---- memory

    def _store(self, flow: Flow) -> None:
        buffer, index = self.e.pick(self.targets.own)
        buffer[index] = self.e.any(buffer.type)

    def _store_outside(self, flow: Flow) -> None:
        buffer, _ = self.e.pick(self.targets.own)
        type_ = self.e.pick(self.e.integers)
        outside: list[Expression] = [self.targets.thread + _FAR]
        outside.append(type_(-1) if type_.kind == "signed" else unsigned_of(self.e.index_type)(_FAR))
        far = self.e.pick(outside)
        at: Index = far
        if buffer.ndim > 1:
            axis = self.e.draw(st.integers(0, buffer.ndim - 1))
            at = tuple([far if each == axis else self.e.index(self.targets.thread) for each in range(buffer.ndim)])
        if self.e.chance(2):
            self.e.add(buffer[at])
        else:
            buffer[at] = self.e.any(buffer.type)

    def _own_atomic(self, flow: Flow) -> None:
        """Any atomic on an element that no other thread touches."""
        pool = [(b, i) for b, i in self.targets.own if b.type in ATOMIC_TYPES and b._kind != "local"]
        if not pool:
            self._store(flow)
            return
        buffer, index = self.e.pick(pool)
        row = self.e.pick([row for row in ATOMICS.values() if buffer.type in row.types])
        operands = [self.e.any(buffer.type, 2) for _ in range(row.operands)]
        order, scope = self.ordering(row)
        old = atomic(self.b, row.name, buffer, index, *operands, order=order, scope=scope)
        if old is not None:
            self.e.add(old)

    def _combine(self, flow: Flow) -> None:
        buffer, ops = self.e.pick(self.targets.combined)
        self.combine_into(buffer, self.e.pick(ops), self.e.indices(buffer, self.targets.thread))

    def combine_into(self, buffer: Buffer, op: str, index: Index) -> None:
        """One atomic on a shared element, its old value unread."""
        order, scope = self.ordering_for_all(ATOMICS[op])
        value = self._addend(buffer.type) if op in ("add", "subtract") else self.e.any(buffer.type, 2)
        atomic(self.b, op, buffer, index, value, order=order, scope=scope)

    def _agree(self, flow: Flow) -> None:
        buffer, expected, desired = self.e.pick(self.targets.agreed)
        order, scope = self.ordering_for_all(ATOMICS["compare_exchange"])
        index = self.e.indices(buffer, self.targets.thread)
        self.b.atomic_compare_exchange(buffer, index, expected, desired, order=order, scope=scope)

    def _addend(self, type_: Type) -> Expression:
        """Something to add in any order: floats are small and whole, so sums are exact."""
        if type_.is_float:
            small: Value = type_(self.e.any(u32, 2) % 8)
            return small - 3.0
        return self.e.any(type_, 2)

    def ordering(self, row: AtomicOp) -> tuple[str, str]:
        return self.e.pick(row.orders), self.e.pick(SCOPES)

    def ordering_for_all(self, row: AtomicOp) -> tuple[str, str]:
        """For elements that threads of several blocks meet at: with the scope of a block these would race."""
        order, scope = self.ordering(row)
        return order, "device" if scope == "block" else scope

    # ---- branches and loops of single threads

    def _if(self, flow: Flow) -> None:
        self.branch(self.e.any(bool_, 2), flow.inside(None))

    def branch(self, condition: Expression, inside: Flow) -> None:
        with self.b.if_(condition), self.e.nested():
            self.block(3, inside)
        if self.e.chance(2):
            with self.b.else_(), self.e.nested():
                self.block(3, inside)

    def _for(self, flow: Flow) -> None:
        if self.e.chance(2):
            self._constant_loop(flow.inside(None, loop=True))
            return
        self.loop(self.e.any(self.e.pick(self.e.integers), 1), self.e.any, flow.inside(None, loop=True))

    def loop(self, base: Expression, any_: Callable[[Type, int], Expression], inside: Flow) -> None:
        """At most 4 trips: the bounds are at most 4 apart, and where one wraps the other way makes no trip."""
        low = self.b.let("lo", base)
        type_ = low.type
        signed = type_.kind == "signed"
        up = not (signed and self.e.chance(3))
        high = low + self.e.draw(st.integers(0, 4))
        if self.e.chance(3):
            step: Expression = self.b.let("by", any_(type_, 1))  # a local, as it may be 0
            if signed:
                step = type_(unsigned_of(type_)(step) >> 1)
        else:
            step = type_(self.e.draw(st.integers(1, 3)))
        loop = self.b.for_(low, high, step) if up else self.b.for_(high, low, -step)
        with loop as counter, self.e.nested():
            self.e.add(counter, inside.level)
            self.block(3, inside)

    def _constant_loop(self, inside: Flow) -> None:
        """Few trips between constants, often by steps as long as a part of the type and from end to end of it."""
        type_ = self.e.pick(self.e.integers)
        start, stop, step = self.e.draw(constant_ranges(type_))
        with self.b.for_(type_(start), type_(stop), type_(step)) as counter, self.e.nested():
            self.e.add(counter, "grid")
            self.block(3, inside)

    def _while(self, flow: Flow) -> None:
        self.fueled(lambda: self.e.any(bool_, 2), flow.inside(None, loop=True))

    def fueled(self, condition: Callable[[], Expression], inside: Flow) -> None:
        """A while that ends after 4 passes at the latest."""
        fuel = self.b.var("fuel", u32(self.e.draw(st.integers(0, 4))))
        with self.e.nested(), self.b.while_(lambda: (fuel > 0) & condition()):
            fuel.set(fuel - 1)
            self.block(3, inside)

    def _condition(self, flow: Flow) -> Expression:
        """One on which the threads that are together agree."""
        return self.e.any(bool_, 2) if flow.level is None else self.e.same_in(flow.level, bool_)

    def _leave_pass(self, flow: Flow) -> None:
        with self.b.if_(self._condition(flow)):
            if self.e.chance(2):
                self.b.break_()
            else:
                self.b.continue_()

    def _return(self, flow: Flow) -> None:
        with self.b.if_(self._condition(flow)):
            self.b.return_()

    def _print(self, flow: Flow) -> None:
        """A line from one thread: many would take long."""
        values = [self.e.any(self.e.type_(), 2) for _ in range(self.e.draw(st.integers(0, 3)))]
        with self.b.if_(self.targets.thread == 0):
            self.b.print("{{}} 100%" + " {}" * len(values), *values)

    def _assert(self, flow: Flow) -> None:
        """Holds for all values, which no part of the compiler is to assume."""
        type_ = self.e.pick(self.e.integers)
        x = self.b.let("x", self.e.any(type_, 2))
        y = self.e.any(type_, 1)
        self.b.assert_((x <= y) | (x > y), 'cannot "fail"\n')
