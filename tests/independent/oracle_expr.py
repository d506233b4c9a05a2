"""Expressions as Python functions of a thread.

A thread is a dict: locals by name, ids by name, arrays under "shared " or "own " and their name, and under "at" the
number of the statement that runs. What reads memory out of bounds is told to `Memory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from float_ops import float_ops
from integer_ops import BOOL_OPS, integer_ops
from number_formats import FLOATS, INTEGERS, ZERO, caster, from_bits, to_bits
from program_tree import Expr, Program, Value

Thread = dict[str, Any]
Evaluate = Callable[[Thread], Any]

OPS: dict[str, dict[str, Callable[..., Any]]] = {
    **{name: integer_ops(name) for name in INTEGERS},
    **{name: float_ops(name) for name in FLOATS},
    "bool_": BOOL_OPS,
}
FLUSHING_OPS = {**OPS, "f32": float_ops("f32", flushes=True)}


class OutOfBounds(Exception):
    """With `traps`, the first access out of bounds of a thread, which ends it."""

    def __init__(self, buffer: str, index: int) -> None:
        super().__init__(buffer, index)
        self.buffer = buffer
        self.index = index


class Memory:
    """The contents of the buffers, and whether anything was out of bounds."""

    def __init__(self, program: Program, *, traps: bool) -> None:
        self.buffers: dict[str, list[Value]] = {name: b.values.copy() for name, b in program.buffers.items()}
        self.types = {name: b.type for name, b in program.buffers.items()}
        self.types.update({name: type_ for name, (type_, _) in program.shared.items()})
        self.types.update({name: type_ for name, (type_, _) in program.own.items()})
        self.shared = program.shared
        self.own = program.own
        self.traps = traps
        self.is_missed = False

    def array(self, name: str) -> Evaluate:
        """The buffer, the shared array of the thread's block, or an array of the thread."""
        if name in self.own:
            return itemgetter(f"own {name}")
        if name in self.shared:
            return itemgetter(f"shared {name}")
        array = self.buffers[name]
        return lambda thread: array

    def missed(self, buffer: str, index: int) -> None:
        self.is_missed = True
        if self.traps:
            raise OutOfBounds(buffer, index)


class Expressions:
    """Makes functions of the expressions of one program."""

    def __init__(self, program: Program, memory: Memory, *, flushes: bool) -> None:
        self.memory = memory
        self.flushes = flushes
        self._program = program
        self._ops = FLUSHING_OPS if flushes else OPS

    def function(self, name: str, type_: str) -> Callable[..., Any]:
        """An op on operands of a type."""
        return self._ops[type_][name]

    def compile(self, expr: Expr) -> Evaluate:
        make: Callable[[Expr], Evaluate] = getattr(self, f"_{expr.kind}")
        return make(expr)

    def _const(self, expr: Expr) -> Evaluate:
        value = expr.word
        return lambda thread: value

    def _local(self, expr: Expr) -> Evaluate:
        return itemgetter(expr.word)

    _id = _local

    def _scalar(self, expr: Expr) -> Evaluate:
        value = self._program.scalars[str(expr.word)][1]
        return lambda thread: value

    def _size(self, expr: Expr) -> Evaluate:
        name = str(expr.word)
        shared, own = self._program.shared.get(name), self._program.own.get(name)
        length = shared[1] if shared else math.prod(own[1]) if own else len(self._program.buffers[name].values)
        return lambda thread: length

    def _extent(self, expr: Expr) -> Evaluate:
        name, axis = str(expr.word).split(".")
        extent = self._program.shape(name)[int(axis)]
        return lambda thread: extent

    def _position(self, expr: Expr) -> Evaluate:
        """The number of an element, row by row; -1, which no array has, where an index is out of bounds."""
        shape, indices = self._program.shape(str(expr.word)), [*map(self.compile, expr.operands)]

        def number(thread: Thread) -> int:
            at, inside = 0, True
            for extent, index in zip(shape, indices, strict=True):
                value = index(thread)
                inside = inside and 0 <= value < extent
                at = at * extent + value
            return at if inside else -1

        return number

    def _load(self, expr: Expr) -> Evaluate:
        name, index, zero = str(expr.word), self.compile(expr.operands[0]), ZERO[expr.type]
        missed, array = self.memory.missed, self.memory.array(name)

        def load(thread: Thread) -> Value:
            at, elements = index(thread), array(thread)
            if 0 <= at < len(elements):
                found: Value = elements[at]
                return found
            missed(name, at)
            return zero

        return load

    def _op(self, expr: Expr) -> Evaluate:
        operands = expr.operands
        function = self._ops[operands[0].type][str(expr.word)]
        first = self.compile(operands[0])
        if len(operands) == 1:
            return lambda thread: function(first(thread))
        second = self.compile(operands[1])
        if len(operands) == 2:
            return lambda thread: function(first(thread), second(thread))
        third = self.compile(operands[2])
        return lambda thread: function(first(thread), second(thread), third(thread))

    def _cast(self, expr: Expr) -> Evaluate:
        (operand,) = expr.operands
        convert, value = caster(operand.type, expr.type, flushes=self.flushes), self.compile(operand)
        return lambda thread: convert(value(thread))

    def _bitcast(self, expr: Expr) -> Evaluate:
        (operand,) = expr.operands
        source, target, value = operand.type, expr.type, self.compile(operand)
        return lambda thread: from_bits(target, to_bits(source, value(thread)))

    def _where(self, expr: Expr) -> Evaluate:
        condition, chosen, other = map(self.compile, expr.operands)

        def choose(thread: Thread) -> Value:
            """Both arms are evaluated, behind the condition: what they miss is missed."""
            truth = condition(thread)
            picked, left = chosen(thread), other(thread)
            found: Value = picked if truth else left
            return found

        return choose
