"""What the values of a program have of the numbers of its threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
    Const,
    Expr,
    For,
    Id,
    If,
    Let,
    Local,
    Position,
    Scalar,
    Size,
    Stmt,
    Var,
)
from vyre_cuda.ir.core.ops import HOST_OPS
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import statements
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
# A comparison with its operands exchanged, and its contrary.
_EXCHANGED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
}
_CONTRARY = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"} | {
    "not_equal": "equal"
}
_MOST_PASSES = 64  # of a loop, whose counter stands for so many constants
# Number of the thread on an axis < value of the expression + constant.
Bound: TypeAlias = "tuple[int, Expr, int]"
Bounds: TypeAlias = "frozenset[Bound]"
_NOTHING = frozenset([0])


@dataclass(frozen=True, slots=True)
class Place:
    """One of `offsets` more than `scale` times an id, or, with the kind `first`, than `scale` times the first number
    of the block; `tiles`: than that and the number of the thread in the block; `constant`: than 0."""

    kind: str
    axis: int
    offsets: frozenset[int]
    scale: int = 1


class Numbers:
    """What the values of a program have of the numbers of their threads."""

    def __init__(self, body: tuple[Stmt, ...], block: tuple[int, int, int]) -> None:
        self._block = block
        self._places: dict[str, Place | None] = {}
        self.lets: dict[str, Expr] = {}
        self._parts: dict[str, dict[int, int]] = defaultdict(dict)  # of locals, by axis
        self._replaced: dict[str, tuple[bool, Expr, Expr]] = {}
        conditions: dict[str, Expr] = {}
        assigned: list[tuple[str, Expr]] = []
        for statement in statements(body):
            if isinstance(statement, Let):
                self.lets[statement.name] = statement.value
                self._places[statement.name] = self.place(statement.value)
            if isinstance(statement, (Let, Var, Assign)):
                assigned.append((statement.name, statement.value))
            elif isinstance(statement, For):
                assigned.append((statement.name, statement.start))
                self._places[statement.name] = self._counted(statement)
            elif isinstance(statement, If) and statement.then and isinstance(statement.then[-1], Assign):
                conditions[statement.then[-1].name] = statement.condition
        names = [name for name, _ in assigned]
        for name, condition in conditions.items():  # what `and` and `or` are built as: a bool that one If may replace
            if names.count(name) == 2:
                first, second = [value for each, value in assigned if each == name]
                if isinstance(first, Const) and first.type is bool_:
                    self._replaced[name] = (bool(first.bits), condition, second)
        for _ in range(2):  # the second time sees what a loop has assigned
            for name, value in assigned:
                _unite(self._parts[name], self._parts_of(value))

    def _counted(self, loop: For) -> Place | None:
        """The place of a counter that runs through known numbers."""
        numbers = [_signed(each) for each in (loop.start, loop.stop, loop.step) if isinstance(each, Const)]
        if len(numbers) < 3 or not numbers[2] or not 0 < len(range(*numbers)) <= _MOST_PASSES:
            return None
        return Place("constant", 0, frozenset(range(*numbers)))

    def own(self, indices: Iterable[Expr]) -> set[int]:
        """The axes of the launch on which one of these has the whole number of the thread."""
        parts = [part for index in indices for part in self._parts_of(index).items()]
        return {axis for axis, has in parts if any(has & whole == whole for whole in _WHOLE)}

    def behind(self, indices: list[Expr]) -> tuple[int, int] | None:
        """The axis of the launch, and how far every index is behind the number of the thread there, if it is."""
        places = [self.place(index) for index in indices]
        kinds = {place and (place.kind, place.axis, place.scale) for place in places}
        if len(kinds) != 1 or places[0] is None or (places[0].kind, places[0].scale) != ("global_id", 1):
            return None
        nearest = max(max(place.offsets) for place in places if place is not None)
        return (places[0].axis, -nearest) if nearest < 0 else None

    def bounds(self, condition: Expr, holds: bool) -> Bounds:
        """What the thread's number is below if the condition holds, or if it does not."""
        match condition:
            case Local() if condition.name in self.lets:
                return self.bounds(self.lets[condition.name], holds)
            case Local() if condition.name in self._replaced and self._replaced[condition.name][0] is not holds:
                _, replaced, by = self._replaced[condition.name]
                return self.bounds(replaced, True) | self.bounds(by, holds)
            case Apply() if condition.op == "logical_not":
                return self.bounds(condition.operands[0], not holds)
            case Apply() if condition.op in (("logical_and", "bitwise_and") if holds else ("logical_or", "bitwise_or")):
                left, right = condition.operands
                return self.bounds(left, holds) | self.bounds(right, holds)
            case Apply() if len(condition.operands) == 2:
                op = condition.op if holds else _CONTRARY.get(condition.op, "")
                left, right = condition.operands
                return self._below(op, left, right) | self._below(_EXCHANGED.get(op, ""), right, left)
            case _:
                return frozenset()

    def _below(self, op: str, left: Expr, right: Expr) -> Bounds:
        place, bound = self.place(left), self._known(right)
        if op not in ("less", "less_equal", "equal") or bound is None or place is None or len(place.offsets) != 1:
            return frozenset()
        if (place.kind, place.scale) != ("global_id", 1):
            return frozenset()
        return frozenset([(place.axis, bound, (op != "less") - max(place.offsets))])

    def _known(self, expr: Expr) -> Expr | None:
        """The expression without lets, if the host can compute it, and it does not wrap around in the usual case."""
        match expr:
            case Local() if expr.name in self.lets:
                return self._known(self.lets[expr.name])
            case Const() | Scalar() | Size() if expr.type.is_integer:
                return expr
            case Apply() if expr.op in HOST_OPS and expr.type.is_integer:
                known = [self._known(operand) for operand in expr.operands]
                signed = expr.type.kind == "signed"
                may_wrap = not signed and (expr.op == "subtract" or expr.operands[0].type.kind == "signed")
                if may_wrap or None in known or expr.type.bits < expr.operands[0].type.bits:
                    return None
                return Apply(expr.type, expr.op, tuple([each for each in known if each is not None]))
            case _:
                return None

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

    def place(self, expr: Expr) -> Place | None:
        """Where an index is; None where that is not a multiple of an id, or of the first number of the block, plus a
        constant."""
        match expr:
            case Id():
                return Place(expr.kind, expr.axis, _NOTHING)
            case Const() if expr.type.is_integer:
                return Place("constant", 0, frozenset([_signed(expr)]))
            case Local():
                return self._places.get(expr.name)
            case Apply() if expr.op == "cast" and expr.type.is_integer and expr.operands[0].type.is_integer:
                return self.place(expr.operands[0]) if expr.type.bits >= expr.operands[0].type.bits else None
            case Apply() if expr.op in ("add", "subtract", "multiply"):
                left, right = [self.place(operand) for operand in expr.operands]
                return self._combined(expr.op, left, right) if left and right else None
            case _:
                return None

    def _combined(self, op: str, left: Place, right: Place) -> Place | None:
        if op != "subtract" and (left.kind == "constant" or right.kind in ("block_id", "first")):
            left, right = right, left
        if op == "multiply":
            return self._multiplied(left, right)
        if len(left.offsets) * len(right.offsets) > _MOST_PASSES:
            return None
        sign = 1 if op == "add" else -1
        offsets = frozenset([a + sign * b for a in left.offsets for b in right.offsets])
        if right.kind == "constant":
            return Place(left.kind, left.axis, offsets, left.scale)
        if (op, left.kind, right.kind, left.axis) == ("add", "first", "thread_id", right.axis):
            return Place("global_id" if left.scale == 1 else "tiles", left.axis, offsets, left.scale)
        return None

    def _multiplied(self, left: Place, right: Place) -> Place | None:
        if right.kind == "block_dim" and right.offsets == _NOTHING and left.kind == "block_id":
            return Place("first", left.axis, _NOTHING) if left.offsets == _NOTHING else None
        if right.kind != "constant" or len(right.offsets) != 1 or max(right.offsets) < 1:
            return None
        (factor,) = right.offsets
        offsets = frozenset([offset * factor for offset in left.offsets])
        if left.kind in ("constant", "global_id", "first"):
            return Place(left.kind, left.axis, offsets, left.scale * factor)
        count, rest = divmod(factor, self._block[left.axis])
        whole = left.kind == "block_id" and not rest and left.offsets == _NOTHING
        return Place("first", left.axis, _NOTHING, count) if whole else None


def _signed(constant: Const) -> int:
    """The constant as a signed number: what is added to an unsigned one may stand for one less."""
    half = 1 << (constant.type.bits - 1)
    return (constant.bits + half) % (2 * half) - half


def _unite(parts: dict[int, int], more: dict[int, int]) -> None:
    for axis, part in more.items():
        parts[axis] = parts.get(axis, 0) | part
