"""Random typed expressions over what a program has at one point, free of what the language leaves open.

NaN never reaches a bitcast. A leaf is a constant, a local, a variable, a scalar, a size, an id, or an element of an
input or of a buffer's element that belongs to the thread. Uniform expressions have one value in the whole block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import strategies as st

from vyre_cuda.ir import functions as vc
from vyre_cuda.ir.handles import Buffer, Variable
from vyre_cuda.ir.operators import Expression
from vyre_cuda.ir.ops import OPS
from vyre_cuda.ir.scalars import value_of
from vyre_cuda.ir.types import TYPES, Type, bool_, f32, i32, u32
from vyre_cuda.ir.values import Value, apply
from vyre_cuda.testing.edges import bit_patterns, from_bits

T = TypeVar("T")
Producer = tuple[str, tuple[Type, ...]]


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


PRODUCERS: dict[Type, list[Producer]] = {type_: _producers(type_) for type_ in TYPES}


def constant(type_: Type, bits: int) -> Value:
    """A literal with this bit pattern."""
    value: Value = type_(from_bits(type_, [bits])[0] if type_.is_float else value_of(type_, bits))
    return value


def apply_safely(name: str, result: Type, operands: Sequence[Expression]) -> Value:
    """The op applied, bits of a NaN kept from showing."""
    if name == "cast":
        cast: Value = result(operands[0])
        return cast
    if name == "bitcast":
        (x,) = (operand.read() for operand in operands)
        return vc.bitcast(vc.where(vc.isnan(x), 0.0, x) if x.type.is_float else x, result)
    return apply(name, *operands)


class Expressions:
    """What a program has at one point, and expressions of it. Names made in a `nested` block end with it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.thread: Value | None = None  # indices are near it
        self.values: dict[Type, list[Value]] = {t: [] for t in TYPES}
        self.uniform: dict[Type, list[Value]] = {t: [] for t in TYPES}
        self.variables: dict[Type, list[Variable]] = {t: [] for t in TYPES}
        self.inputs: dict[Type, list[Buffer]] = {t: [] for t in TYPES}
        self.own: dict[Type, list[tuple[Buffer, Value]]] = {t: [] for t in TYPES}  # buffer, the thread's index in it

    @contextmanager
    def nested(self) -> Iterator[None]:
        """A block of the program."""
        pools: list[list[Any]] = [p for by in (self.values, self.uniform, self.variables) for p in by.values()]
        sizes = [len(pool) for pool in pools]
        yield
        for pool, size in zip(pools, sizes, strict=True):
            del pool[size:]

    def pick(self, items: Sequence[T]) -> T:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def chance(self, one_in: int) -> bool:
        """True in one of so many cases; False is the simpler answer."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def add(self, value: Value, *, uniform: bool = False) -> None:
        """A value that later expressions may use."""
        self.values[value.type].append(value)
        if uniform:
            self.uniform[value.type].append(value)

    def type_(self) -> Type:
        return self.pick((u32, f32, i32, bool_))

    def any(self, type_: Type, depth: int = 3) -> Expression:
        """An expression of this type."""
        if depth == 0 or self.draw(st.integers(0, 2)) == 0:
            return self._leaf(type_, depth)
        name, operands = self.pick(PRODUCERS[type_])
        return apply_safely(name, type_, [self.any(t, depth - 1) for t in operands])

    def same_in_block(self, type_: Type, depth: int = 2) -> Expression:
        """A uniform expression of this type."""
        if depth == 0 or not self.draw(st.booleans()):
            known = self.uniform[type_]
            return self.pick(known) if known and self.chance(2) else self.literal(type_)
        name, operands = self.pick(PRODUCERS[type_])
        return apply_safely(name, type_, [self.same_in_block(t, depth - 1) for t in operands])

    def literal(self, type_: Type) -> Value:
        return constant(type_, self.draw(bit_patterns(type_)))

    def index(self, own: Value, depth: int = 2) -> Expression:
        """An index, often in bounds: near the thread's own, a small one, one brought into range, anything."""
        sizes = [buffer.size for pool in self.inputs.values() for buffer in pool]
        ways: list[Callable[[], Expression]] = [
            lambda: own,
            lambda: own + self.draw(st.integers(0, 3)),
            lambda: u32(self.draw(st.integers(0, 5))),
            lambda: i32(own) - self.draw(st.integers(0, 3)),
            lambda: self.any(u32, depth) % (self.pick(sizes) if sizes else 16),
            lambda: self.any(self.pick((u32, i32)), depth),
        ]
        return self.pick(ways)()

    def _leaf(self, type_: Type, depth: int) -> Expression:
        ways: list[Callable[[], Expression]] = [lambda: self.literal(type_)]
        if self.values[type_]:
            ways += [lambda: self.pick(self.values[type_])] * 2
        if self.variables[type_]:
            ways += [lambda: self.pick(self.variables[type_])] * 2
        if self.inputs[type_] and self.thread is not None:
            near = self.thread
            ways += [lambda: self.pick(self.inputs[type_])[self.index(near, max(depth - 1, 0))]] * 2
        if self.own[type_]:
            ways.append(lambda: self._own_element(type_))
        return self.pick(ways)()

    def _own_element(self, type_: Type) -> Value:
        buffer, index = self.pick(self.own[type_])
        return buffer[index]
