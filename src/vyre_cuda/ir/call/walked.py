"""Arrays that the threads of a launch walk through, each thread at its own number, though nothing says how many
threads there are.

Where a program names no work, a launch has a thread for each element of its first result. That is what is meant if
threads store to this result at their own number. It is not if the result is a histogram or a few sums, and `x[i]` of a
longer array `x` is what the threads are for: then the rest of `x` would be left out in silence. So a launch is refused
if it has fewer threads than such an `x` has elements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
    Atomic,
    Const,
    Expr,
    For,
    Id,
    Let,
    Load,
    Local,
    Parameter,
    Position,
    Size,
    Stmt,
    Store,
    Var,
)
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.types import Type, u64
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.records import dataclass

# What an index has of the number of its thread on an axis: the number, or parts that make it up together.
_NUMBER, _BLOCK, _THREAD, _QUOTIENT, _REST = 1, 2, 4, 8, 16
_WHOLE = (_NUMBER, _BLOCK | _THREAD, _QUOTIENT | _REST)
_KINDS = {"global_id": _NUMBER, "block_id": _BLOCK, "thread_id": _THREAD}
# Ops that leave different numbers different, as a rule.
_SUMS = ("add", "subtract", "multiply", "negative", "invert", "add_saturate", "subtract_saturate", "left_shift")
_KEEPING = frozenset((*_SUMS, "cast", "minimum", "maximum", "where", "bitwise_xor", "bitwise_or", "reverse_bits"))
_DIVIDING = ("floor_divide", "trunc_divide", "right_shift")
_FOLDING = ("remainder", "fmod", "bitwise_and")


@dataclass(frozen=True, slots=True)
class Walk:
    """A buffer, or one of its axes, with `extent` elements: every access is at the number of the thread on `axis` of
    the launch plus a constant, of which the greatest is `beyond`."""

    extent: Size
    axis: int
    beyond: int


def walks(program: Program) -> tuple[Walk, ...]:
    """What the threads of a launch without `grid=` must reach to the end; () if the program names its work."""
    primary = primary_buffer(program)
    if program.work is not None or primary is None:
        return ()
    if not program._walks:
        program._walks.append(walks_of(program.parameters, program.body, program.block, program.index, primary, 1))
    return program._walks[0]


def walks_of(
    parameters: tuple[Parameter, ...],
    body: tuple[Stmt, ...],
    block: tuple[int, int, int],
    index: Type,
    primary: Parameter,
    axes: int,
) -> tuple[Walk, ...]:
    """The walks along the axes of the launch on which `primary` is not used at the threads' own numbers, if the work
    has one axis, or `axes` of them, with its elements."""
    if _is_plain(body, primary.name, axes):
        return ()
    used: dict[str, list[Expr]] = defaultdict(list)
    for buffer, at in _accesses(body):
        used[buffer].append(at)
    numbers = _Numbers(body, block)
    unsure = {0, 1, 2} - {axis for axis in numbers.own(used[primary.name]) if axis < axes}
    found: list[Walk] = []
    for parameter in parameters:
        if parameter.is_buffer and parameter is not primary and used[parameter.name]:
            along = _along(parameter, used[parameter.name], numbers, index)
            found += [walk for walk in along if walk.axis in unsure]
    return tuple(found)


def work_of(program: Program, primary: Parameter) -> Expr:
    """The work of a program that names none, as an expression that has no exact value where a walk is not covered."""
    size: Expr = Size(program.index, primary.name)
    found = walks(program)
    if not found:
        return size
    size = _wide(size)
    work = size
    for walk in found:
        block = Const(u64, program.block[walk.axis])
        blocks: Expr = Const(u64, 1)
        if walk.axis == 0:
            above = Apply(u64, "add", (size, Const(u64, block.bits - 1)))
            blocks = Apply(u64, "floor_divide", (above, block))
        reached: Expr = Apply(u64, "multiply", (blocks, block))
        reached = Apply(u64, "add", (reached, Const(u64, walk.beyond)))
        spare = Apply(u64, "subtract", (reached, _wide(walk.extent)))
        work = Apply(u64, "add", (work, Apply(u64, "minimum", (spare, Const(u64, 0)))))
    return work


def _wide(expr: Expr) -> Expr:
    return expr if expr.type is u64 else Apply(u64, "cast", (expr,))


def _is_plain(body: tuple[Stmt, ...], buffer: str, axes: int) -> bool:
    """Whether a store shows at a glance that it is at the number of the thread on all axes that have a name.

    It is so in most programs, and a start does not look at their expressions.
    """
    lets: dict[str, Id] = {}
    stored: set[int] = set()
    for statement in statements(body):
        if isinstance(statement, Let):
            if isinstance(statement.value, Id):
                lets[statement.name] = statement.value
        elif isinstance(statement, Store) and statement.buffer == buffer:
            index = statement.index
            parts = index.indices if isinstance(index, Position) else (index,)
            ids = [lets.get(part.name) if isinstance(part, Local) else part for part in parts]
            stored |= {each.axis for each in ids if isinstance(each, Id) and each.kind == "global_id"}
    named = {each.axis for each in lets.values() if each.kind in ("global_id", "block_id")}
    return named <= stored == set(range(axes))


def _accesses(body: tuple[Stmt, ...]) -> Iterator[tuple[str, Expr]]:
    for statement in statements(body):
        if isinstance(statement, (Store, Atomic)):
            yield statement.buffer, statement.index
        for expr in expressions(operands(statement)):
            if isinstance(expr, Load):
                yield expr.buffer, expr.index


def _along(parameter: Parameter, indices: list[Expr], numbers: _Numbers, index: Type) -> Iterator[Walk]:
    """The axes of a buffer on which every access is at the thread's number plus a constant."""
    for axis in range(parameter.ndim):
        parts = [each.indices[axis] if isinstance(each, Position) else each for each in indices]
        places = [numbers.place(part) for part in parts]
        kinds = {place and (place.kind, place.axis) for place in places}
        if len(kinds) == 1 and places[0] is not None and places[0].kind == "global_id":
            beyond = max(place.above for place in places if place is not None)
            extent = Size(index, parameter.name, None, axis if parameter.shape else None)
            yield Walk(extent, places[0].axis, max(beyond, 0))


@dataclass(frozen=True, slots=True)
class _Place:
    """`above` more than an id, or, with the kind `first`, than the first number of the block; `constant`: than 0."""

    kind: str
    axis: int
    above: int


class _Numbers:
    """What the values of a program have of the numbers of their threads."""

    def __init__(self, body: tuple[Stmt, ...], block: tuple[int, int, int]) -> None:
        self._block = block
        self._places: dict[str, _Place | None] = {}
        self._parts: dict[str, dict[int, int]] = defaultdict(dict)  # of locals, by axis
        assigned: list[tuple[str, Expr]] = []
        for statement in statements(body):
            if isinstance(statement, Let):
                self._places[statement.name] = self.place(statement.value)
            if isinstance(statement, (Let, Var, Assign)):
                assigned.append((statement.name, statement.value))
            elif isinstance(statement, For):
                assigned.append((statement.name, statement.start))
        for _ in range(2):  # the second time sees what a loop has assigned
            for name, value in assigned:
                _unite(self._parts[name], self._parts_of(value))

    def own(self, indices: Iterable[Expr]) -> set[int]:
        """The axes of the launch on which one of these has the whole number of the thread."""
        parts = [part for index in indices for part in self._parts_of(index).items()]
        return {axis for axis, has in parts if any(has & whole == whole for whole in _WHOLE)}

    def _parts_of(self, expr: Expr) -> dict[int, int]:
        match expr:
            case Id() if expr.kind in _KINDS:
                return {expr.axis: _KINDS[expr.kind]}
            case Local():
                return self._parts[expr.name]
            case Position():
                return self._united(expr.indices)
            case Apply() if expr.op in _KEEPING:
                return self._united(expr.operands[expr.op == "where" :])
            case Apply() if expr.op in _DIVIDING or expr.op in _FOLDING:
                part = _QUOTIENT if expr.op in _DIVIDING else _REST
                parts = self._parts_of(expr.operands[0])
                return {axis: part for axis, has in parts.items() if has not in (_BLOCK, _THREAD)}
            case _:
                return {}

    def _united(self, exprs: tuple[Expr, ...]) -> dict[int, int]:
        united: dict[int, int] = {}
        for expr in exprs:
            _unite(united, self._parts_of(expr))
        return united

    def place(self, expr: Expr) -> _Place | None:
        """Where an index is; None where that is not an id, or the first number of the block, plus a constant."""
        match expr:
            case Id():
                return _Place(expr.kind, expr.axis, 0)
            case Const() if expr.type.is_integer:
                return _Place("constant", 0, _signed(expr))
            case Local():
                return self._places.get(expr.name)
            case Apply() if expr.op == "cast" and expr.type.is_integer:
                return self.place(expr.operands[0])
            case Apply() if expr.op in ("add", "subtract", "multiply"):
                left, right = [self.place(operand) for operand in expr.operands]
                return self._combined(expr.op, left, right) if left and right else None
            case _:
                return None

    def _combined(self, op: str, left: _Place, right: _Place) -> _Place | None:
        if op != "subtract" and (left.kind == "constant" or right.kind in ("block_id", "first")):
            left, right = right, left
        if op == "multiply":
            whole = right.kind == "block_dim" or (right.kind, right.above) == ("constant", self._block[left.axis])
            return _Place("first", left.axis, 0) if whole and left.kind == "block_id" and not left.above else None
        if right.kind == "constant":
            return _Place(left.kind, left.axis, left.above + (right.above if op == "add" else -right.above))
        if (op, left.kind, right.kind, left.axis) == ("add", "first", "thread_id", right.axis):
            return _Place("global_id", left.axis, left.above + right.above)
        return None


def _signed(constant: Const) -> int:
    """The constant as a signed number: what is added to an unsigned one may stand for one less."""
    half = 1 << (constant.type.bits - 1)
    return (constant.bits + half) % (2 * half) - half


def _unite(parts: dict[int, int], more: dict[int, int]) -> None:
    for axis, part in more.items():
        parts[axis] = parts.get(axis, 0) | part
