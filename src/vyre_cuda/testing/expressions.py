"""Random typed expressions over what a program has at one point, without anything that the language leaves open.

NaN never reaches an op that shows its bits or its sign. A leaf is a constant, a local, a variable, a scalar, a size, an
id, or an element of an input or of a buffer's element that belongs to the thread. An expression that is the same on a
level has one value in the whole warp, block or grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from hypothesis import strategies as st

from vyre_cuda.ir.builder import functions as vc
from vyre_cuda.ir.builder.handles import Buffer, Index, Variable
from vyre_cuda.ir.builder.operators import Expression
from vyre_cuda.ir.builder.values import Value, apply
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import BY_NAME, INTEGERS, TYPES, Type, bool_
from vyre_cuda.testing.edges import bit_patterns, from_bits

_SMALL_FLOATS = (-0.0, -1.0, 0.0, 1.0, -2.0, 2.0)

T = TypeVar("T")
Producer = tuple[str, tuple[Type, ...]]
Level = Literal["warp", "block", "grid"]
# What is the same on a level is the same on those before it.
LEVELS: tuple[Level, ...] = ("warp", "block", "grid")


def _producers(result: Type) -> list[Producer]:
    """The ops that give this type, each with operand types."""
    found: list[Producer] = []
    for op in OPS.values():
        for type_ in op.types:
            if op.name == "bitcast" and (result.bits != type_.bits or result is bool_):
                continue
            gives = {"same": type_, "bool": bool_, "explicit": result}[op.result]
            if gives is result:
                found.append((op.name, (bool_, type_, type_) if op.leading_bool else (type_,) * op.arity))
    return found


# Mathematical functions share a few groups, other ops are one each.
_FUNCTION_GROUPS = 6
_GROUPS = {name: name for name in OPS} | {
    name: f"functions {number % _FUNCTION_GROUPS}" for number, name in enumerate(FUNCTIONS)
}

PRODUCERS: dict[Type, list[Producer]] = {type_: _producers(type_) for type_ in TYPES}


def constant(type_: Type, bits: int) -> Value:
    """A literal with this bit pattern."""
    value: Value = type_(from_bits(type_, [bits])[0] if type_.is_float else value_of(type_, bits))
    return value


def without_nan(x: Expression) -> Expression:
    """The expression, 0 for a NaN."""
    value = x.read()
    return vc.where(vc.isnan(value), 0.0, value) if value.type.is_float else value


def apply_safely(name: str, result: Type, operands: Sequence[Expression]) -> Value:
    """The op applied, bits and sign of a NaN kept from showing."""
    match name:
        case "cast":
            cast: Value = result(operands[0])
            return cast
        case "bitcast":
            return vc.bitcast(without_nan(operands[0]), result)
        case "signbit":
            return vc.signbit(without_nan(operands[0]))
        case "copysign":
            return vc.copysign(operands[0], without_nan(operands[1]))
        case _:
            return apply(name, *operands)


def unsigned_of(type_: Type) -> Type:
    """The unsigned integer type of the same width."""
    return BY_NAME[f"u{type_.bits}"]


class Expressions:
    """What a program has at one point, and expressions of it. Names made in a `nested` block end with it.

    `types` are those that the program is made of; ids have the type `index`, which is among them.
    """

    def __init__(self, draw: st.DrawFn, types: Sequence[Type], index: Type) -> None:
        self.draw = draw
        self.types = tuple(types)
        self.index_type = index
        self.integers = tuple(t for t in types if t.is_integer)
        self.thread: Value | None = None  # indices are near it
        self.values: dict[Type, list[Value]] = {t: [] for t in TYPES}
        self.same: dict[Level, dict[Type, list[Value]]] = {level: {t: [] for t in TYPES} for level in LEVELS}
        self.variables: dict[Type, list[Variable]] = {t: [] for t in TYPES}
        self.inputs: dict[Type, list[Buffer]] = {t: [] for t in TYPES}
        self.own: dict[Type, list[tuple[Buffer, Index]]] = {t: [] for t in TYPES}  # buffer, the thread's index in it
        # By op, so that the many casts are as likely as one other op, and the many functions as a few.
        self._producers: dict[Type, list[list[Producer]]] = {t: [] for t in types}
        for t, rows in PRODUCERS.items():
            fitting = [row for row in rows if t in types and set(row[1]) <= set(types)]
            for group in dict.fromkeys(_GROUPS[name] for name, _ in fitting):
                self._producers[t].append([row for row in fitting if _GROUPS[row[0]] == group])

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A block of the program."""
        by_type: list[dict[Type, list[Any]]] = [self.values, self.variables, *self.same.values()]
        pools = [pool for by in by_type for pool in by.values()]
        sizes = [len(pool) for pool in pools]
        yield
        for pool, size in zip(pools, sizes, strict=True):
            del pool[size:]

    def pick(self, items: Sequence[T]) -> T:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def chance(self, one_in: int) -> bool:
        """True in one of this many cases; False is the simpler answer."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def add(self, value: Value, same: Level | None = None) -> None:
        """A value that later expressions may use; `same` is the widest level on which all threads have it."""
        self.values[value.type].append(value)
        if same is not None:
            for level in LEVELS[: LEVELS.index(same) + 1]:
                self.same[level][value.type].append(value)

    def type_(self) -> Type:
        return self.pick(self.types)

    def any(self, type_: Type, depth: int = 3) -> Expression:
        """An expression of this type."""
        kind = self.draw(st.integers(0, 8)) if depth else 0
        if kind < 3:
            return self._leaf(type_, depth)
        if kind == 8:
            return self._foldable(type_, depth - 1)
        name, operands = self.pick(self.pick(self._producers[type_]))
        return apply_safely(name, type_, [self.any(t, depth - 1) for t in operands])

    def _foldable(self, type_: Type, depth: int) -> Expression:
        """What a compiler folds, wholly or in part: choices between constants, ops on them, shifts by constants."""
        ways: list[Callable[[], Expression]] = [
            lambda: self._choice(type_, depth),
            lambda: self._of_constants(type_, depth),
        ]
        if type_.is_integer:
            ways.append(lambda: self._shifted(type_, depth))
        return self.pick(ways)()

    def _choice(self, type_: Type, depth: int) -> Value:
        """Of two constants; those of floats are often zeros of either sign, ones and twos."""
        if type_.is_float and self.draw(st.booleans()):
            pair = [type_(self.draw(st.sampled_from(_SMALL_FLOATS))) for _ in range(2)]
        else:
            pair = [self.literal(type_), self.literal(type_)]
        return vc.where(self.any(bool_, depth), *pair)

    def _of_constants(self, type_: Type, depth: int) -> Value:
        """An op whose operands are constants and choices of constants; one may be anything."""
        name, types = self.pick(self.pick(self._producers[type_]))
        operands: list[Expression] = [
            self._choice(t, depth) if self.draw(st.booleans()) else self.literal(t) for t in types
        ]
        if self.draw(st.booleans()):
            place = self.draw(st.integers(0, len(types) - 1))
            operands[place] = self.any(types[place], depth)
        return apply_safely(name, type_, operands)

    def _shifted(self, type_: Type, depth: int) -> Value:
        """Shifted or rotated by any constant, often around the width; what is shifted may be a product."""
        count = self.draw(st.integers(0, min(2 * type_.bits, type_.maximum)) | bit_patterns(type_))
        value = self.any(type_, depth)
        if self.draw(st.booleans()):
            value = apply("multiply", value, self.literal(type_))
        name = self.pick(("left_shift", "right_shift", "rotate_left", "rotate_right"))
        return apply(name, value, constant(type_, count))

    def same_in(self, level: Level, type_: Type, depth: int = 2) -> Expression:
        """An expression of this type that is the same for all threads of a warp, a block or the grid."""
        if depth == 0 or not self.draw(st.booleans()):
            known = self.same[level][type_]
            ways: list[Callable[[], Expression]] = [lambda: self.literal(type_)]
            if known:
                ways += [lambda: self.pick(known)] * 2
            if self.inputs[type_]:
                ways.append(lambda: self._element_same_in(level, type_))
            return self.pick(ways)()
        name, operands = self.pick(self.pick(self._producers[type_]))
        return apply_safely(name, type_, [self.same_in(level, t, depth - 1) for t in operands])

    def _element_same_in(self, level: Level, type_: Type) -> Value:
        buffer = self.pick(self.inputs[type_])
        indices = [self.same_in(level, self.index_type, 0) for _ in range(buffer.ndim)]
        return buffer[indices[0] if buffer.ndim == 1 else tuple(indices)]

    def literal(self, type_: Type) -> Value:
        return constant(type_, self.draw(bit_patterns(type_)))

    def index(self, own: Value, depth: int = 2) -> Expression:
        """An index, often in bounds: near the thread's own, a small one, one brought into range, anything."""
        sizes = [buffer.size for pool in self.inputs.values() for buffer in pool]
        signed = BY_NAME[f"i{self.index_type.bits}"]
        ways: list[Callable[[], Expression]] = [
            lambda: own,
            lambda: own + self.draw(st.integers(0, 3)),
            lambda: self.pick(INTEGERS)(self.draw(st.integers(0, 5))),
            lambda: signed(own) - self.draw(st.integers(0, 3)),
            lambda: self.any(self.index_type, depth) % (self.pick(sizes) if sizes else 16),
            lambda: self.any(self.pick(self.integers), depth),
        ]
        return self.pick(ways)()

    def indices(self, buffer: Buffer, own: Value, depth: int = 2) -> Index:
        """An index for each axis of a buffer; often those of the element with the thread's own number."""
        if buffer.ndim == 1:
            return self.index(own, depth)
        if self.chance(2):
            return unravelled(buffer, own)
        return tuple([self.index(own, depth) for _ in range(buffer.ndim)])

    def _leaf(self, type_: Type, depth: int) -> Expression:
        ways: list[Callable[[], Expression]] = [lambda: self.literal(type_)]
        if self.values[type_]:
            ways += [lambda: self.pick(self.values[type_])] * 2
        if self.variables[type_]:
            ways += [lambda: self.pick(self.variables[type_])] * 2
        if self.inputs[type_] and self.thread is not None:
            near = self.thread
            ways += [lambda: self._input_element(type_, near, depth)] * 2
        if self.own[type_]:
            ways.append(lambda: self._own_element(type_))
        return self.pick(ways)()

    def _input_element(self, type_: Type, near: Value, depth: int) -> Value:
        buffer = self.pick(self.inputs[type_])
        return buffer[self.indices(buffer, near, max(depth - 1, 0))]

    def _own_element(self, type_: Type) -> Value:
        buffer, index = self.pick(self.own[type_])
        return buffer[index]


def unravelled(buffer: Buffer, number: Expression) -> Index:
    """The indices of an element by its number, different ones for different numbers: the first may be out of bounds."""
    if buffer.ndim == 1:
        return number
    indices: list[Expression] = []
    for extent in reversed(buffer.shape[1:]):
        indices.append(number % extent)
        number = number // extent
    return (number, *reversed(indices))
