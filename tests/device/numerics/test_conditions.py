"""What conditions show of integers is used, and true: deep nests of comparisons against the interpreter.

Lowering narrows intervals and orders values under each condition, folds comparisons that this decides and drops guards.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from examples import examples
from vyre_cuda.ir.core.types import BY_NAME, INTEGERS, Type
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.edges import EDGES, arrays
from vyre_cuda.testing.expressions import constant

EXAMPLES = examples(2)
THREADS = 64
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
BINARY = ("add", "subtract", "multiply", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor")
DIVISIONS = ("floor_divide", "remainder", "trunc_divide", "fmod", "left_shift", "right_shift", "multiply_high")
UNARY = ("negative", "absolute", "invert", "sign", "bitwise_count", "count_leading_zeros")


class Nest:
    """Writes a program of conditions and arithmetic on a few integers of one type and its casts."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.type = draw(st.sampled_from(INTEGERS))
        self.b = vc.Builder("nest", block=THREADS, index=draw(st.sampled_from((vc.u32, vc.u64))))
        inputs = [self.b.input(f"x{n}", self.type) for n in range(3)]
        table = self.b.inout("table", vc.u8)
        self.trace = self.b.output("trace", vc.u32, size=THREADS)
        self.b.work(THREADS)
        self.i = self.b.let("i", vc.global_id.x)
        self.values = [self.b.let("x", x[self.i]) for x in inputs]
        self.table = table
        self.total = self.b.var("total", vc.u32(1))
        self.marks = 0
        self.body(4)
        self.trace[self.i] = self.total
        self.program = self.b.build()
        self.arguments = [draw(arrays(self.type, THREADS)) for _ in inputs]
        self.arguments.append(np.arange(draw(st.integers(0, 40)), dtype=np.uint8))

    def pick(self) -> vc.Value:
        return self.values[self.draw(st.integers(0, len(self.values) - 1))]

    def literal(self, type_: Type) -> vc.Value:
        small = st.integers(0, 20).map(lambda n: n & ((1 << type_.bits) - 1))
        return constant(type_, self.draw(small | st.sampled_from(EDGES[type_])))

    def operand(self) -> vc.Value:
        return self.pick() if self.draw(st.booleans()) else self.literal(self.type)

    def mark(self) -> None:
        self.marks += 1
        self.total.set(self.total * 31 + self.marks)

    def body(self, depth: int) -> None:
        count = len(self.values)
        for _ in range(self.draw(st.integers(1, 4))):
            self.statement(depth)
        del self.values[count:]

    def statement(self, depth: int) -> None:
        kind = self.draw(st.integers(0, 6 if depth else 3))
        if kind == 0:
            self.values.append(self.b.let("v", self.computed()))
        elif kind == 1:
            self.total.set(self.total * 31 + vc.u32(self.pick()))
        elif kind == 2:
            self.total.set(self.total + vc.u32(self.table[self.pick()]) + 1)
        elif kind == 3:
            condition = self.condition()
            self.total.set(vc.where(condition, self.total * 3, self.total + 7))
        else:
            with self.b.if_(self.condition()):
                self.mark()
                self.body(depth - 1)
            if kind == 5:
                with self.b.else_():
                    self.mark()
                    self.body(depth - 1)
            elif kind == 6:
                with self.b.if_(self.condition()):
                    self.trace[self.i] = self.total
                    self.b.return_()

    def computed(self) -> vc.Value:
        way = self.draw(st.integers(0, 4))
        if way == 0:
            return getattr(vc, self.draw(st.sampled_from(UNARY)))(self.pick())
        if way == 1:
            return getattr(vc, self.draw(st.sampled_from(DIVISIONS)))(self.pick(), self.literal(self.type))
        if way == 2:
            other = BY_NAME[self.draw(st.sampled_from(INTEGERS)).name]
            return self.type(getattr(vc, self.draw(st.sampled_from(BINARY)))(other(self.pick()), self.literal(other)))
        return getattr(vc, self.draw(st.sampled_from(BINARY)))(self.pick(), self.operand())

    def condition(self) -> vc.Value:
        left, right = self.pick(), self.operand()
        if self.draw(st.integers(0, 4)) == 0:
            other = self.draw(st.sampled_from(INTEGERS))
            left, right = other(left), other(right)
        found = getattr(vc, self.draw(st.sampled_from(COMPARISONS)))(left, right)
        joined = self.draw(st.integers(0, 5))
        if joined == 0:
            return found & self.condition()
        if joined == 1:
            return found | self.condition()
        return ~found if joined == 2 else found


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    return Nest(draw)


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(nest=nests())
def test_nested_conditions_agree(shared_device: vc.Device, nest: Nest) -> None:
    note(nest.program.text())

    assert_same(vc.evaluate(nest.program, *nest.arguments), shared_device.run(nest.program, *nest.arguments))
