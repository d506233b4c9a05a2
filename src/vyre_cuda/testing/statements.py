"""Random statements whose result does not depend on the order of threads.

A buffer that is stored to belongs element by element to threads. What threads share is only added to, exchanged
between two barriers, or set by one compare-exchange. Barriers stand in uniform control flow and before every return;
loops make few trips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from vyre_cuda.ir.builder import Builder
from vyre_cuda.ir.handles import Buffer
from vyre_cuda.ir.nodes import ORDERS, SCOPES
from vyre_cuda.ir.operators import Expression
from vyre_cuda.ir.types import INTEGERS, NUMBERS, Type, bool_, f32, i32, u32
from vyre_cuda.ir.values import Value
from vyre_cuda.testing.expressions import Expressions

_FAR = 1 << 20  # beyond every buffer


@dataclass(frozen=True)
class Flow:
    """What the place of a statement allows.

    `uniform`: the threads of a block are together. `loop` says whether break and continue are allowed: "" for no,
    "uniform" only while threads are together, "any".
    """

    depth: int = 0
    uniform: bool = False
    loop: str = ""
    may_return: bool = False


@dataclass
class Targets:
    """What statements may change, by the rule that keeps it free of races."""

    thread: Value
    lane: Value  # linear in the block
    threads: int  # of a block
    own: list[tuple[Buffer, Value]] = field(default_factory=list)
    sums: list[Buffer] = field(default_factory=list)
    agreed: list[tuple[Buffer, Value, Value]] = field(default_factory=list)


class Statements:
    """Writes random statements with a builder."""

    def __init__(self, builder: Builder, expressions: Expressions, targets: Targets) -> None:
        self.b = builder
        self.e = expressions
        self.targets = targets

    def block(self, most: int, flow: Flow) -> None:
        """Up to `most` statements, then perhaps one that leaves the block."""
        for _ in range(self.e.draw(st.integers(0, most))):
            self.e.pick(self._kinds(flow))(flow)

    def _kinds(self, flow: Flow) -> list[Callable[[Flow], None]]:
        kinds: list[Callable[[Flow], None]] = [self._let, self._var, self._assert]
        kinds += [self._assign] * 2
        if self.targets.own:
            kinds += [self._store, self._store, self._store_outside, self._own_atomic]
        if self.targets.sums:
            kinds.append(self._sum)
        if self.targets.agreed:
            kinds.append(self._agree)
        if flow.depth < 3:
            kinds += [self._if, self._for, self._while]
        if flow.loop == "any" or (flow.loop and flow.uniform):
            kinds += [self._leave_pass] * 2
        if flow.may_return:
            kinds.append(self._return)
        if flow.uniform:
            kinds += [self._exchange, self._count_together, self._uniform_if, self._uniform_for, self._uniform_while]
        return kinds

    # ---- locals

    def _let(self, flow: Flow) -> None:
        uniform = self.e.chance(4)
        type_ = self.e.type_()
        value = self.e.same_in_block(type_) if uniform else self.e.any(type_)
        self.e.add(self.b.let("v", value), uniform=uniform)

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
        outside: list[Expression] = [self.targets.thread + _FAR, -1 - i32(self.targets.thread), i32(-1)]
        outside.append(u32(0xFFFFFFFF))
        index = self.e.pick(outside)
        if self.e.chance(2):
            self.e.add(buffer[index])
        else:
            buffer[index] = self.e.any(buffer.type)

    def _own_atomic(self, flow: Flow) -> None:
        pool = [(b, index) for b, index in self.targets.own if b.type in NUMBERS]
        if not pool:
            self._store(flow)
            return
        buffer, index = self.e.pick(pool)
        order, scope = self._ordering()
        value = self.e.any(buffer.type, 2)
        if buffer.type in INTEGERS and self.e.chance(2):
            desired = self.e.any(buffer.type, 2)
            self.e.add(self.b.atomic_compare_exchange(buffer, index, value, desired, order=order, scope=scope))
        else:
            self.e.add(self.b.atomic_add(buffer, index, value, order=order, scope=scope))

    def _sum(self, flow: Flow) -> None:
        buffer = self.e.pick(self.targets.sums)
        order, scope = self._ordering()
        index = self.e.index(self.targets.thread)
        self.b.atomic_add(buffer, index, self._addend(buffer.type), order=order, scope=scope)

    def _agree(self, flow: Flow) -> None:
        buffer, expected, desired = self.e.pick(self.targets.agreed)
        order, scope = self._ordering()
        index = self.e.index(self.targets.thread)
        self.b.atomic_compare_exchange(buffer, index, expected, desired, order=order, scope=scope)

    def _addend(self, type_: Type) -> Expression:
        """Something to add in any order: floats are small and whole, so sums are exact."""
        if type_ is f32:
            small: Value = f32(self.e.any(u32, 2) % 8)
            return small - 3.0
        return self.e.any(type_, 2)

    def _ordering(self) -> tuple[str, str]:
        return self.e.pick(ORDERS), self.e.pick(SCOPES)

    # ---- branches and loops of single threads

    def _if(self, flow: Flow) -> None:
        inside = Flow(flow.depth + 1, False, flow.loop if flow.loop == "any" else "", flow.may_return)
        self._branch(self.e.any(bool_, 2), inside)

    def _branch(self, condition: Expression, inside: Flow) -> None:
        with self.b.if_(condition), self.e.nested():
            self.block(3, inside)
        if self.e.chance(2):
            with self.b.else_(), self.e.nested():
                self.block(3, inside)

    def _for(self, flow: Flow) -> None:
        inside = Flow(flow.depth + 1, False, "any", flow.may_return)
        self._loop(self.e.any(self.e.pick((u32, i32)), 1), self.e.any, inside)

    def _loop(self, base: Expression, any_: Callable[[Type, int], Expression], inside: Flow) -> None:
        """At most 4 trips: the bounds are at most 4 apart, and where one wraps the other way is no trip."""
        low = self.b.let("lo", base)
        up = not (low.type is i32 and self.e.chance(3))
        high = low + self.e.draw(st.integers(0, 4))
        if self.e.chance(3):
            step: Expression = self.b.let("by", any_(low.type, 1))  # a local, as it may be 0
            if low.type is i32:
                step = i32(u32(step) >> 1)
        else:
            step = low.type(self.e.draw(st.integers(1, 3)))
        loop = self.b.for_(low, high, step) if up else self.b.for_(high, low, -step)
        with loop as counter, self.e.nested():
            self.e.add(counter, uniform=inside.uniform)
            self.block(3, inside)

    def _while(self, flow: Flow) -> None:
        self._fueled(lambda: self.e.any(bool_, 2), Flow(flow.depth + 1, False, "any", flow.may_return))

    def _fueled(self, condition: Callable[[], Expression], inside: Flow) -> None:
        fuel = self.b.var("fuel", u32(self.e.draw(st.integers(0, 4))))
        with self.e.nested(), self.b.while_(lambda: (fuel > 0) & condition()):
            fuel.set(fuel - 1)
            self.block(3, inside)

    def _leave_pass(self, flow: Flow) -> None:
        condition = self.e.same_in_block(bool_) if flow.loop == "uniform" else self.e.any(bool_, 2)
        with self.b.if_(condition):
            if self.e.chance(2):
                self.b.break_()
            else:
                self.b.continue_()

    def _return(self, flow: Flow) -> None:
        with self.b.if_(self.e.any(bool_, 2)):
            self.b.return_()

    def _assert(self, flow: Flow) -> None:
        """Holds for all values, which no part of the compiler is to assume."""
        type_ = self.e.pick(INTEGERS)
        x = self.b.let("x", self.e.any(type_, 2))
        y = self.e.any(type_, 1)
        self.b.assert_((x <= y) | (x > y), 'cannot "fail"\n')

    # ---- what a block does together

    def _exchange(self, flow: Flow) -> None:
        """Every thread writes its element; after a barrier any may be read."""
        tile = self._tile(self.e.type_())
        tile[self.targets.lane] = self.e.any(tile.type)
        self.b.barrier()
        self.e.add(tile[self.e.index(self.targets.lane)])
        self.b.barrier()

    def _count_together(self, flow: Flow) -> None:
        """Threads add to shared elements; after a barrier all see the sums."""
        tile = self._tile(self.e.pick(NUMBERS))
        with self.b.if_(self.e.any(bool_, 2)):
            order, scope = self._ordering()
            index = self.e.index(self.targets.lane)
            self.b.atomic_add(tile, index, self._addend(tile.type), order=order, scope=scope)
        self.b.barrier()
        self.e.add(tile[self.e.index(self.targets.lane)])
        self.b.barrier()

    def _tile(self, type_: Type) -> Buffer:
        return self.b.shared("tile", type_, max(1, self.targets.threads + self.e.draw(st.integers(-2, 2))))

    def _uniform_if(self, flow: Flow) -> None:
        if flow.depth < 2:
            self._branch(self.e.same_in_block(bool_), Flow(flow.depth + 1, True, flow.loop))

    def _uniform_for(self, flow: Flow) -> None:
        if flow.depth < 2:
            base = self.e.same_in_block(self.e.pick((u32, i32)), 1)
            self._loop(base, self.e.same_in_block, Flow(flow.depth + 1, True, "uniform"))

    def _uniform_while(self, flow: Flow) -> None:
        if flow.depth < 2:
            self._fueled(lambda: self.e.same_in_block(bool_, 1), Flow(flow.depth + 1, True, "uniform"))
