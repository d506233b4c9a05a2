"""Hypothesis strategies for valid programs with inputs, over all types, ops and statements of the language.

A program that they make has one result: no data race, no NaN whose bits show, no open order of float sums. So every
way to run it must agree with the interpreter bit for bit. Needs hypothesis, an optional extra.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from vyre_cuda.ir import functions as vc
from vyre_cuda.ir.builder import Builder
from vyre_cuda.ir.handles import Buffer
from vyre_cuda.ir.ops import OPS, Op
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.types import INTEGERS, NUMBERS, TYPES, Type, bool_, i32, u32
from vyre_cuda.ir.values import Value
from vyre_cuda.testing.edges import EDGES, arrays, from_bits, scalars, small_whole_arrays
from vyre_cuda.testing.expressions import Expressions, apply_safely
from vyre_cuda.testing.statements import Flow, Statements, Targets

Arguments: TypeAlias = "list[Any]"
MAX_ELEMENTS = 300
_BLOCKS: tuple[int | tuple[int, ...], ...] = (32, 1, 2, 7, 33, 64, 96, (4, 2), (8, 3, 2), (1, 5), (2, 1, 3))


def programs(*, statements: int = 6) -> st.SearchStrategy[Program]:
    """Valid programs with up to `statements` statements at the top of each of two parts."""
    return programs_with_inputs(statements=statements).map(lambda pair: pair[0])


@st.composite
def programs_with_inputs(draw: st.DrawFn, *, statements: int = 6) -> tuple[Program, Arguments]:
    """A program and arguments for it: every parameter but the outs, in declared order."""
    return _Draft(draw).finish(statements)


@st.composite
def programs_using(draw: st.DrawFn, op: Op | str, *, type_: Type | None = None) -> tuple[Program, Arguments]:
    """A program that applies one op to elements of its inputs, and inputs full of edge values.

    `type_` is the operands' type; any that the op takes if it is not given. Arguments as `programs_with_inputs`.
    """
    row = OPS[op] if isinstance(op, str) else op
    operand = type_ if type_ is not None else draw(st.sampled_from(row.types))
    result = {"same": operand, "bool": bool_, "explicit": operand}[row.result]
    if row.result == "explicit":
        result = draw(st.sampled_from([t for t in row.types if row.name == "cast" or t.bits == operand.bits]))
    operands = (bool_, operand, operand) if row.leading_bool else (operand,) * row.arity
    b = Builder(f"use_{row.name}", block=draw(st.sampled_from((64, 1, 33))))
    buffers = [b.input(f"x{number}", t) for number, t in enumerate(operands)]
    out = b.output("out", result, size=buffers[0].size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = apply_safely(row.name, result, [x[i] for x in buffers])
    return b.build(), _combinations(draw, operands)


def _combinations(draw: st.DrawFn, types: tuple[Type, ...]) -> Arguments:
    """Arrays in which edge values of the operands meet: all with all as far as MAX_ELEMENTS reaches."""
    size = draw(st.integers(1, MAX_ELEMENTS))
    columns: Arguments = []
    period = 1
    for type_ in types:
        extra = draw(st.lists(st.integers(0, (1 << type_.bits) - 1), max_size=4)) if type_ is not bool_ else []
        palette = draw(st.permutations(EDGES[type_])) + extra
        columns.append(from_bits(type_, [palette[i // period % len(palette)] for i in range(size)]))
        period *= len(palette)
    return columns


class _Draft:
    """One random program while it is drawn: first its parameters, then two parts of statements, then final stores.

    The threads of a block stay together in the first part, which may have barriers; in the second they may return.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        block = draw(st.sampled_from(_BLOCKS))
        self.b = Builder("random", block=block)
        self.axes = 1 if isinstance(block, int) else len(block)
        self.threads = int(np.prod(block))
        self.e = Expressions(draw)
        self.elements = draw(st.integers(0, MAX_ELEMENTS))
        self.arguments: Arguments = []
        self.sized: list[Buffer] = []

    def finish(self, statements: int) -> tuple[Program, Arguments]:
        self._inputs()
        stored = [self._output(n) for n in range(self.draw(st.integers(1, 3)))]
        stored += [self._inout(f"io{n}", arrays) for n in range(self.draw(st.integers(0, 2)))]
        summed = [self._inout(f"sum{n}", small_whole_arrays, NUMBERS) for n in range(self.draw(st.integers(0, 1)))]
        agreed = [self._inout(f"set{n}", arrays, INTEGERS) for n in range(self.draw(st.integers(0, 1)))]
        self._work()
        targets = self._targets()
        self._uniform_leaves()
        targets.own = [(buffer, self._own_index(targets.thread, buffer)) for buffer in stored]
        targets.own += [(buffer, targets.lane) for buffer in self._scratch()]
        targets.sums = summed
        targets.agreed = [(buffer, *self._agreement(buffer.type)) for buffer in agreed]
        for buffer, index in targets.own:
            self.e.own[buffer.type].append((buffer, index))
        writer = Statements(self.b, self.e, targets)
        writer.block(statements, Flow(uniform=True))
        writer.block(statements, Flow(may_return=True))
        for buffer, index in targets.own:
            if self.e.chance(2):
                with self.b.if_(targets.thread < buffer.size):
                    buffer[index] = self.e.any(buffer.type)
            else:
                buffer[index] = self.e.any(buffer.type)
        return self.b.build(), self.arguments

    # ---- parameters

    def _inputs(self) -> None:
        for number in range(self.draw(st.integers(0, 4))):
            type_ = self.e.type_()
            if self.e.chance(2):
                value = self.draw(scalars(type_))
                self.arguments.append(value)
                self.e.add(self.b.scalar(f"a{number}", type_), uniform=True)
            else:
                self.arguments.append(self.draw(arrays(type_, self._size())))
                buffer = self.b.input(f"x{number}", type_)
                self.e.inputs[type_].append(buffer)
                self.sized.append(buffer)

    def _output(self, number: int) -> Buffer:
        counts: list[Any] = [self.elements]
        for buffer in self.sized:
            counts += [buffer.size, buffer.size + 3, vc.minimum(buffer.size, 64)]
        counts += [vc.minimum(scalar, 40) for scalar in self.e.uniform[u32]]
        return self.b.output(f"out{number}", self.e.type_(), size=self.e.pick(counts))

    def _inout(self, name: str, fill: Any, types: tuple[Type, ...] = TYPES) -> Buffer:
        type_ = self.e.pick(types)
        self.arguments.append(self.draw(fill(type_, self._size())))
        return self.b.inout(name, type_)

    def _size(self) -> int:
        return self.e.pick((self.elements, max(0, self.elements - 1), self.elements + 1, 1, 0, 16))

    def _work(self) -> None:
        """Several axes need the work to be given; one axis has the elements of the first result as a default."""
        if self.axes > 1:
            most = (20, 6, 3)
            self.b.work(*(self.draw(st.integers(0, most[axis])) for axis in range(self.axes)))
        elif self.e.chance(3):
            self.b.work(self.draw(st.integers(0, MAX_ELEMENTS)))

    # ---- what every program begins with

    def _targets(self) -> Targets:
        """The linear number of the thread, in the launch and in its block."""
        if self.axes == 1:
            thread = self.b.let("i", vc.global_id.x)
            lane = self.b.let("lane", vc.thread_id.x)
        else:
            width = vc.grid_dim.x * vc.block_dim.x
            height = vc.grid_dim.y * vc.block_dim.y
            thread = self.b.let("i", vc.global_id.x + width * (vc.global_id.y + height * vc.global_id.z))
            within = vc.thread_id.x + vc.block_dim.x * (vc.thread_id.y + vc.block_dim.y * vc.thread_id.z)
            lane = self.b.let("lane", within)
        self.e.thread = thread
        self.e.add(thread)
        self.e.add(lane)
        return Targets(thread, lane, self.threads)

    def _uniform_leaves(self) -> None:
        for buffer in self.sized:
            self.e.add(buffer.size, uniform=True)
        for id_ in (vc.block_id, vc.block_dim, vc.grid_dim):
            self.e.add(self.b.let("u", self.e.pick((id_.x, id_.y, id_.z))), uniform=True)

    def _own_index(self, thread: Value, buffer: Buffer) -> Value:
        """A different index for every thread, in bounds for some."""
        signed: Value = i32(thread)
        return self.b.let("own", self.e.pick((thread, buffer.size - 1 - thread, thread * 3, signed)))

    def _scratch(self) -> list[Buffer]:
        if not self.e.chance(3):
            return []
        size = max(1, self.threads + self.draw(st.integers(-1, 1)))
        return [self.b.shared("scratch", self.e.type_(), size)]

    def _agreement(self, type_: Type) -> tuple[Value, Value]:
        return self.e.literal(type_), self.e.literal(type_)


__all__ = ["Arguments", "programs", "programs_using", "programs_with_inputs"]
