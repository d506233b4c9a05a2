"""Programs as a tree of our own: what the generator draws, the oracle runs and the reducer cuts.

It shares nothing with the package but the text that `program_text` makes of it. Types are their names. The value of a
constant or an element is an int, a bool, or a Python float that the type holds exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

Value = int | float | bool
Body = list["Stmt"]


@dataclass(slots=True)
class Expr:
    """`kind` is const, local, scalar, size, extent, id, load, position, op, cast, bitcast or where.

    `word` is the value of a const, the name of a local, scalar or id, the array of a size, extent, load or position,
    the op of an op. A position has an operand for each axis of its array; the word of an extent is `array.axis`.
    """

    kind: str
    type: str
    word: Value | str = ""
    operands: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Stmt:
    """`kind` is the statement's first word in the text, or `set` for an assignment.

    | kind       | word          | exprs             | bodies       | detail                   |
    | ---------- | ------------- | ----------------- | ------------ | ------------------------ |
    | let var set| name          | value             |              |                          |
    | store      | buffer        | index, value      |              |                          |
    | atomic     | result or ""  | index, operands   |              | op, buffer, order, scope |
    | warp       | result        | operands          |              | op, combine or ""        |
    | if         |               | condition         | then, orelse |                          |
    | for        | counter       | start, stop, step | body         |                          |
    | while      |               | condition         | setup, body  |                          |
    | assert     | message       | condition         |              |                          |
    """

    kind: str
    word: str = ""
    exprs: tuple[Expr, ...] = ()
    bodies: tuple[Body, ...] = ()
    detail: tuple[str, ...] = ()


@dataclass(slots=True)
class Buffer:
    """`role` is in, inout, out or table; an out has a `size` that comes to the number of its values, which are zeros.

    With several axes `shape` has their extents, and an out has that shape instead of a size.
    """

    type: str
    role: str
    values: list[Value]
    size: Expr | None = None
    shape: tuple[int, ...] = ()


@dataclass(slots=True)
class Program:
    """One kernel with the arguments of one call."""

    index: str
    block: tuple[int, int, int] = (1, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    scalars: dict[str, tuple[str, Value]] = field(default_factory=dict)
    shared: dict[str, tuple[str, int]] = field(default_factory=dict)
    own: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)  # arrays of each thread: type and extents
    body: Body = field(default_factory=list)
    name: str = "drawn"
    work: Expr | None = None  # where the grid, which is what it comes to, is not given

    @property
    def threads_per_block(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def results(self) -> list[str]:
        """The buffers that a call returns, in its order."""
        return [name for name, buffer in self.buffers.items() if buffer.role in ("inout", "out")]

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of an array with several axes, else ()."""
        shape = self.own[name][1] if name in self.own else () if name in self.shared else self.buffers[name].shape
        return shape if len(shape) > 1 else ()

    @property
    def is_shaped(self) -> bool:
        """Whether an array has several axes, of which a failure names one."""
        return any(map(self.shape, [*self.buffers, *self.own]))

    def type_of(self, name: str) -> str:
        """The type of the elements of an array."""
        return (self.own.get(name) or self.shared.get(name) or (self.buffers[name].type,))[0]

    def with_body(self, body: Body) -> Program:
        return replace(self, body=body)


def const(type_: str, value: Value) -> Expr:
    return Expr("const", type_, value)


def local(type_: str, name: str) -> Expr:
    return Expr("local", type_, name)


def op(type_: str, name: str, *operands: Expr) -> Expr:
    return Expr("op", type_, name, operands)


def cast(type_: str, operand: Expr) -> Expr:
    return operand if operand.type == type_ else Expr("cast", type_, "", (operand,))


def where(condition: Expr, chosen: Expr, other: Expr) -> Expr:
    return Expr("where", chosen.type, "", (condition, chosen, other))


def statements(body: Body) -> Iterator[Stmt]:
    """All of a body and of what is nested in it, in the order of the text."""
    for statement in body:
        yield statement
        for inner in statement.bodies:
            yield from statements(inner)


def expressions(expr: Expr) -> Iterator[Expr]:
    """The expression and all its operands."""
    yield expr
    for operand in expr.operands:
        yield from expressions(operand)
