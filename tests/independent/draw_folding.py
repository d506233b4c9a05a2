"""Straight-line programs that compilers fold: constants, choices between them, products, shifts and conversions.

Each store has a result of its own; loads and scalars keep some of the operands from being known.
"""

from __future__ import annotations

import random

from draw_expr import BINARY_FLOAT, BINARY_INTEGER, COMPARISONS, LOGICAL, UNARY_FLOAT, UNARY_INTEGER, Expressions, Scope
from draw_general import add_scalars
from draw_values import draw_values
from number_formats import INTEGERS, TYPES, ZERO
from program_tree import Buffer, Expr, Program, Stmt, cast, const, local, op, where

_COMBINED = ("multiply", "add", "subtract", "add_saturate", "subtract_saturate", "minimum", "maximum")


class Folding(Expressions):
    """Expressions in which most operands are constants, choices between two of them, or products of them."""

    unary_float: tuple[str, ...] = (*UNARY_FLOAT, "negative", "absolute")
    binary_float: tuple[str, ...] = (*BINARY_FLOAT, "fma")

    def stored(self, type_: str) -> Expr:
        return self.value(type_, self.rng.randint(1, 4))

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            return self.unknown("bool_") if rng.random() < 0.8 else self.const("bool_")
        if rng.random() < 0.25:
            return op("bool_", rng.choice(LOGICAL), self.condition(depth - 1), self.condition(depth - 1))
        if rng.random() < 0.1:
            return op("bool_", "logical_not", self.condition(depth - 1))
        type_ = rng.choice(self.numbers)
        return op("bool_", rng.choice(COMPARISONS), self.value(type_, depth - 1), self.value(type_, depth - 1))

    def unknown(self, type_: str) -> Expr:
        """An element or a scalar, of which the compiler knows nothing."""
        index = self.scope.program.index
        if self.rng.random() < 0.25:
            scalar = self.scalar(type_)
            if scalar is not None:
                return scalar
        buffers = [name for name in self.scope.readable if self.scope.program.buffers[name].type == type_]
        if buffers:
            return Expr("load", type_, self.rng.choice(buffers), (const(index, self.rng.randrange(4)),))
        if type_ == "bool_":
            return op("bool_", "equal", Expr("scalar", "u32", "zero"), const("u32", self.rng.randrange(2)))
        return cast(type_, self.unknown("bool_"))

    def leaf(self, type_: str) -> Expr:
        kind = self.rng.random()
        names = [name for name in self.scope.names if name.type == type_]
        if names and kind < 0.25:
            return local(type_, self.rng.choice(names).name)
        if kind < 0.45:
            return self.unknown(type_)
        if kind < 0.7:
            return self.const(type_)
        return where(self.condition(0), self.const(type_), self.const(type_))

    def value(self, type_: str, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0:
            return self.leaf(type_)
        kind = rng.random()
        if type_ == "bool_":
            return self.condition(depth)
        if kind < 0.12:
            return where(self.condition(depth - 1), self.value(type_, depth - 1), self.value(type_, depth - 1))
        if kind < 0.28:
            return cast(type_, self.value(rng.choice(self.scope.types), depth - 1))
        if kind < 0.34:
            return self.bitcast(type_, depth)
        return self._integer(type_, depth) if type_ in INTEGERS else self._float(type_, depth)

    def _integer(self, type_: str, depth: int) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.2:
            return op(type_, rng.choice(UNARY_INTEGER), self.value(type_, depth - 1))
        if kind < 0.5:
            count = const(type_, self.shift_count(type_))
            shift = rng.choice(("left_shift", "left_shift", "right_shift", "right_shift", "rotate_left"))
            return op(type_, shift, self.value(type_, depth - 1), count)
        name = rng.choice(_COMBINED if kind < 0.75 else BINARY_INTEGER)
        right = self.const(type_) if rng.random() < 0.6 else self.value(type_, depth - 1)
        return op(type_, name, self.value(type_, depth - 1), right)

    def _float(self, type_: str, depth: int) -> Expr:
        rng = self.rng
        if rng.random() < 0.35:
            return op(type_, rng.choice(self.unary_float), self.value(type_, depth - 1))
        name = rng.choice(self.binary_float)
        if name == "fma":
            return op(type_, "fma", *(self.value(type_, depth - 1) for _ in range(3)))
        right = self.const(type_) if rng.random() < 0.5 else self.value(type_, depth - 1)
        left = self.value(type_, depth - 1)
        return op(type_, name, left, self.number(right) if name == "copysign" else right)


def draw_folding(rng: random.Random, *, types: tuple[str, ...] = TYPES) -> Program:
    return draw_straight(rng, Folding, types)


def draw_straight(rng: random.Random, draws: type[Folding], types: tuple[str, ...]) -> Program:
    """Stores of what `draws` draws, each to an element of its own, and some lets between them."""
    program = Program(index=rng.choice(("u32", "u32", "u64")))
    scope = Scope(rng, program, types=types)
    for number, type_ in enumerate(("bool_", *(rng.choice(types) for _ in range(2)))):
        program.buffers[f"x{number}"] = Buffer(type_, "in", draw_values(rng, type_, 4))
        scope.readable.append(f"x{number}")
    add_scalars(scope, 2)
    results = [f"o{number}" for number in range(rng.randint(2, 4))]
    for name in results:
        program.buffers[name] = Buffer(rng.choice(types), "out", [])
    exprs = draws(scope)
    for _ in range(rng.randint(5, 14)):
        if rng.random() < 0.2:
            type_ = rng.choice(types)
            statement = Stmt("let", scope.fresh("v"), (exprs.value(type_, rng.randint(1, 3)),))
            _append(scope, statement)
            scope.declare(statement.word, type_)
            continue
        name = rng.choice(results)
        buffer = program.buffers[name]
        place = const(program.index, len(buffer.values))
        buffer.values.append(ZERO[buffer.type])
        _append(scope, Stmt("store", name, (place, exprs.stored(buffer.type))))
    for name in results:
        program.buffers[name].size = const(program.index, len(program.buffers[name].values))
    return program


def _append(scope: Scope, statement: Stmt) -> None:
    """The statement behind the lets that it needs."""
    scope.program.body += [*scope.before, statement]
    scope.before = []
