"""Random expressions over what is in scope."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from draw_values import draw_integer, draw_value
from number_formats import BITS, FLOATS, INTEGERS, NUMBERS, TYPES, WRAP
from program_tree import Body, Expr, Program, Stmt, Value, cast, const, local, op, where

UNARY_INTEGER = (
    *("negative", "absolute", "invert", "bitwise_count", "count_leading_zeros", "count_trailing_zeros"),
    *("reverse_bits", "sign"),
)
BINARY_INTEGER = (
    *("add", "subtract", "multiply", "floor_divide", "remainder", "trunc_divide", "fmod", "left_shift", "right_shift"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "integer_power"),
    *("rotate_left", "rotate_right"),
    *("multiply_high", "add_saturate", "subtract_saturate"),
)
SHIFTS = ("left_shift", "right_shift", "rotate_left", "rotate_right")
UNARY_FLOAT = ("negative", "absolute", "reciprocal", "sqrt", "floor", "ceil", "trunc", "rint", "sign")
BINARY_FLOAT = (
    *("add", "subtract", "multiply", "divide", "fmod", "minimum", "maximum", "fmin", "fmax", "copysign"),
    *("nextafter", "floor_divide", "remainder"),
)
FLOAT_TESTS = ("isnan", "isinf", "isfinite", "signbit")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
UNARY_FUNCTIONS = (
    *("exp2", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "erf", "rsqrt", "sigmoid"),
)
BINARY_FUNCTIONS = ("arctan2", "power", "hypot")

IDS = (
    *("global_id.x", "thread_id.x", "block_id.x", "block_dim.x", "grid_dim.x", "lane_id", "global_id.y"),
    *("thread_id.y", "thread_id.z", "block_id.y", "block_id.z", "global_id.z", "grid_dim.y", "block_dim.y"),
)
INDEX_TYPES = ("u32",) * 8 + ("i32",) * 5 + ("u64",) * 2 + ("i64",) * 2 + ("u8", "i8", "u16", "i16")


@dataclass(frozen=True, slots=True)
class Name:
    """What is in scope: `role` is let, var or counter."""

    name: str
    type: str
    role: str


@dataclass(slots=True)
class Scope:
    """A program as it is drawn. `before` collects the lets that an expression needs in front of its statement."""

    rng: random.Random
    program: Program
    types: tuple[str, ...] = TYPES
    functions: bool = False
    names: list[Name] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    before: Body = field(default_factory=list)
    count: int = 0

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def declare(self, name: str, type_: str, role: str = "let") -> Expr:
        self.names.append(Name(name, type_, role))
        return local(type_, name)


class Expressions:
    """Draws expressions of a type. `depth` bounds how far they nest."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.rng = scope.rng
        self.index = scope.program.index
        self.floats = [t for t in scope.types if t in FLOATS]
        self.numbers = [t for t in scope.types if t in NUMBERS]
        self.by_bits = {bits: [t for t in self.numbers if BITS[t] == bits] for bits in (8, 16, 32, 64)}

    # ---- leaves ----

    def const(self, type_: str) -> Expr:
        return const(type_, draw_value(self.rng, type_))

    def scalar(self, type_: str) -> Expr | None:
        names = [name for name, (of, _) in self.scope.program.scalars.items() if of == type_]
        return Expr("scalar", type_, self.rng.choice(names)) if names else None

    def id(self) -> Expr:
        return Expr("id", self.index, self.rng.choice(IDS))

    def size(self) -> Expr:
        program = self.scope.program
        name = self.rng.choice([*program.buffers, *program.own])
        shape = program.shape(name)
        if shape and self.rng.random() < 0.7:
            return Expr("extent", self.index, f"{name}.{self.rng.randrange(len(shape))}")
        return Expr("size", self.index, name)

    def leaf(self, type_: str) -> Expr:
        rng = self.rng
        names = [name for name in self.scope.names if name.type == type_]
        kind = rng.random()
        if names and kind < 0.62:
            return local(type_, rng.choice(names[-6:] if rng.random() < 0.7 else names).name)
        if type_ == self.index and kind < 0.78:
            return self.size() if rng.random() < 0.4 else self.id()
        if kind < 0.84:
            scalar = self.scalar(type_)
            if scalar is not None:
                return scalar
        return self.const(type_)

    def named(self, expr: Expr) -> Expr:
        """The expression as something that may be used twice."""
        if expr.kind in ("local", "const", "scalar"):
            return expr
        name = self.scope.fresh("q")
        self.scope.before.append(Stmt("let", name, (expr,)))
        return local(expr.type, name)

    def number(self, expr: Expr) -> Expr:
        """The float, or one where it is NaN, whose sign and bits are unspecified."""
        value = self.named(expr)
        return where(op("bool_", "isnan", value), const(value.type, 1.0), value)

    def dynamic(self, expr: Expr) -> Expr:
        """An integer constant as a value that no compiler knows."""
        zero = cast(expr.type, Expr("scalar", "u32", "zero"))
        name = self.scope.fresh("d")
        self.scope.before.append(Stmt("let", name, (op(expr.type, "bitwise_xor", expr, zero),)))
        return local(expr.type, name)

    # ---- values ----

    def value(self, type_: str, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.12:
            return self.leaf(type_)
        kind = rng.random()
        if kind < 0.1:
            names = [name for name in self.scope.readable if self.scope.program.type_of(name) == type_]
            if names:
                name = rng.choice(names)
                return Expr("load", type_, name, (self.any_place(name, depth - 1),))
        if kind < 0.2:
            return cast(type_, self.value(rng.choice(self.scope.types), depth - 1))
        if kind < 0.24 and type_ != "bool_":
            return self.bitcast(type_, depth)
        if kind < 0.32:
            return where(self.condition(depth - 1), self.value(type_, depth - 1), self.value(type_, depth - 1))
        if type_ == "bool_":
            return self.condition(depth)
        return self.integer(type_, depth) if type_ in INTEGERS else self.float(type_, depth)

    def bitcast(self, type_: str, depth: int) -> Expr:
        source = self.rng.choice(self.by_bits[BITS[type_]] or [type_])
        operand = self.value(source, depth - 1)
        if source in FLOATS and source != type_:
            operand = self.number(operand)
        return Expr("bitcast", type_, "", (operand,))

    def integer(self, type_: str, depth: int) -> Expr:
        rng = self.rng
        if rng.random() < 0.22:
            return op(type_, rng.choice(UNARY_INTEGER), self.value(type_, depth - 1))
        name = rng.choice(BINARY_INTEGER)
        left = self.value(type_, depth - 1)
        if name in SHIFTS and rng.random() < 0.5:
            return op(type_, name, left, const(type_, self.shift_count(type_)))
        right = self.const(type_) if rng.random() < 0.4 else self.value(type_, depth - 1)
        if rng.random() < 0.1:
            right = left
        elif rng.random() < 0.15:
            left, right = right, left
        return op(type_, name, left, right)

    def shift_count(self, type_: str) -> int:
        """Any count, those of the width and more as often as those below it."""
        bits = BITS[type_]
        kind = self.rng.random()
        if kind < 0.5:
            return self.rng.randrange(bits)
        if kind < 0.85:
            return WRAP[type_](self.rng.choice((bits - 1, bits, bits, bits + 1, 2 * bits, 32, 63, 64, 128, 255)))
        return draw_integer(self.rng, type_)

    def float(self, type_: str, depth: int) -> Expr:
        rng = self.rng
        if self.scope.functions and rng.random() < 0.3:
            name = rng.choice(UNARY_FUNCTIONS + BINARY_FUNCTIONS)
            count = 2 if name in BINARY_FUNCTIONS else 1
            return op(type_, name, *(self.value(type_, depth - 1) for _ in range(count)))
        if rng.random() < 0.25:
            return op(type_, rng.choice(UNARY_FLOAT), self.value(type_, depth - 1))
        if rng.random() < 0.1:
            return op(type_, "fma", *(self.value(type_, depth - 1) for _ in range(3)))
        name = rng.choice(BINARY_FLOAT)
        left = self.value(type_, depth - 1)
        right = self.const(type_) if rng.random() < 0.3 else self.value(type_, depth - 1)
        if rng.random() < 0.08:
            right = left
        return op(type_, name, left, self.number(right) if name == "copysign" else right)

    # ---- conditions ----

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 and rng.random() < 0.5:
            return self.leaf("bool_")
        below = max(depth, 1) - 1
        kind = rng.random()
        if kind < 0.3:
            type_ = rng.choice(INDEX_TYPES)
            sides = [self.near_index(type_, below), self.bound(type_, below)]
            if rng.random() < 0.2:
                sides.reverse()
            return op("bool_", rng.choice(COMPARISONS), *sides)
        if kind < 0.45:
            return op("bool_", rng.choice(LOGICAL), self.condition(below), self.condition(below))
        if kind < 0.53:
            return op("bool_", "logical_not", self.condition(below))
        if kind < 0.6:
            return self.leaf("bool_")
        if kind < 0.67 and self.floats:
            name = rng.choice(FLOAT_TESTS)
            operand = self.value(rng.choice(self.floats), below)
            return op("bool_", name, self.number(operand) if name == "signbit" else operand)
        if kind < 0.7:
            return op("bool_", rng.choice(COMPARISONS[:2]), self.condition(below), self.condition(below))
        type_ = rng.choice(self.numbers)
        if kind < 0.74:
            return cast("bool_", self.value(type_, below))
        right = self.value(type_, below) if rng.random() < 0.6 else self.const(type_)
        return op("bool_", rng.choice(COMPARISONS), self.value(type_, below), right)

    # ---- indices ----

    def small(self, type_: str) -> Expr:
        return const(type_, WRAP[type_](self.rng.choice((0, 1, 1, 2, 3, 4, 5, 7, 8, 16, -1, -2, -3))))

    def any_index(self, depth: int) -> Expr:
        """Of any integer type, in and out of bounds."""
        return self.near_index(self.rng.choice(INDEX_TYPES), min(depth, 3))

    def any_place(self, name: str, depth: int) -> Expr:
        """An index of an array, one for each axis where there are several."""
        shape = self.scope.program.shape(name)
        if not shape:
            return self.any_index(depth)
        indices = [self.small(self.index) if self.rng.random() < 0.3 else self.any_index(depth) for _ in shape]
        return Expr("position", self.index, name, tuple(indices))

    def bound(self, type_: str, depth: int) -> Expr:
        kind = self.rng.random()
        if kind < 0.45:
            return cast(type_, self.size())
        if kind < 0.7:
            return self.small(type_)
        return self.near_index(type_, depth - 1) if kind < 0.85 else self.const(type_)

    def near_index(self, type_: str, depth: int) -> Expr:
        """Arithmetic on ids, sizes and names, as indices are made."""
        rng = self.rng
        base = self._index_leaf(type_)
        kind = rng.random()
        if depth <= 0 or kind < 0.2:
            return base
        below = depth - 1
        if kind < 0.42:
            return op(type_, rng.choice(("add", "subtract")), self.near_index(type_, below), self.small(type_))
        if kind < 0.5:
            return op(type_, "multiply", self.near_index(type_, below), self.small(type_))
        if kind < 0.56:
            return op(type_, rng.choice(SHIFTS[:2]), self.near_index(type_, below), self.small(type_))
        if kind < 0.62:
            mask = const(type_, rng.choice((1, 2, 3, 6, 7, 15, 127)))
            return op(type_, "bitwise_and", self.near_index(type_, below), mask)
        if kind < 0.7:
            return op(type_, rng.choice(BINARY_INTEGER[3:7]), self.near_index(type_, below), self.bound(type_, below))
        if kind < 0.8:
            return op(
                type_, rng.choice(("minimum", "maximum")), self.near_index(type_, below), self.bound(type_, below)
            )
        if kind < 0.86:
            name = rng.choice((*BINARY_INTEGER[:3], "bitwise_xor", "bitwise_or", *BINARY_INTEGER[-3:]))
            return op(type_, name, self.near_index(type_, below), self.near_index(type_, below))
        if kind < 0.9:
            return where(self.condition(below), self.near_index(type_, below), self.near_index(type_, below))
        if kind < 0.95:
            return op(type_, rng.choice(UNARY_INTEGER), self.near_index(type_, below))
        return cast(type_, self.near_index(rng.choice(INDEX_TYPES), below))

    def _index_leaf(self, type_: str) -> Expr:
        names = [name for name in self.scope.names if name.type == type_]
        if names and self.rng.random() < 0.75:
            return local(type_, self.rng.choice(names[-5:]).name)
        return cast(type_, self.id() if self.rng.random() < 0.7 else self.size())


def zero_scalar(program: Program) -> None:
    """What `dynamic` reads."""
    value: Value = 0
    program.scalars["zero"] = ("u32", value)
