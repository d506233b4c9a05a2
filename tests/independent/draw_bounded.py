"""Straight-line programs whose results are bounded: one approximate op, or a sum of a product."""

from __future__ import annotations

import random

from draw_expr import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from draw_folding import Folding, draw_straight
from program_tree import Expr, Program, op

_TYPES = ("f32", "f32", "f32", "f32", "f64", "f16", "bf16", "i32", "u8", "bool_")
# Nothing that is approximate, and no product that a sum may take in.
_UNARY = ("negative", "absolute", "floor", "ceil", "trunc", "rint", "sign")
_BINARY = ("minimum", "maximum", "fmin", "fmax", "copysign", "nextafter", "add", "subtract")


class Exact(Folding):
    """Operands that every precision gives to the bit, but for what it flushes."""

    unary_float = _UNARY
    binary_float = _BINARY


class Bounded(Exact):
    """What is stored."""

    def stored(self, type_: str) -> Expr:
        rng = self.rng
        if type_ not in ("f32", "f64", "f16", "bf16"):
            return self.value(type_, rng.randint(1, 3))
        kind = rng.random()
        if kind < 0.15:
            return self.value(type_, rng.randint(1, 3))
        if kind < 0.4:
            product = op(type_, "multiply", self.operand(type_), self.operand(type_))
            sides = [product, self.operand(type_) if rng.random() < 0.8 else product]
            rng.shuffle(sides)
            return op(type_, rng.choice(("add", "subtract")), *sides)
        if kind < 0.6 or type_ == "f64":
            name = rng.choice(("divide", "divide", "reciprocal", "sqrt", "multiply", "fma"))
            count = {"divide": 2, "multiply": 2, "fma": 3}.get(name, 1)
            return op(type_, name, *(self.operand(type_) for _ in range(count)))
        name = rng.choice(UNARY_FUNCTIONS + BINARY_FUNCTIONS)
        return op(type_, name, *(self.operand(type_) for _ in range(2 if name in BINARY_FUNCTIONS else 1)))

    def operand(self, type_: str) -> Expr:
        return self.value(type_, self.rng.choice((0, 0, 1, 2)))


def draw_bounded(rng: random.Random) -> Program:
    return draw_straight(rng, Bounded, _TYPES)
