"""What the values of a program have of the numbers of its threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from vyre_cuda.ir.call import places
from vyre_cuda.ir.call.places import MOST_OFFSETS, NOTHING, Bounds, Place, Sum
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
    Parameter,
    Position,
    Scalar,
    Size,
    Stmt,
    Var,
)
from vyre_cuda.ir.core.ops import HOST_OPS
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import expressions, statements

# What an index has of the number of its thread on an axis: the number, or parts that make it up together.
_NUMBER, _BLOCK, _THREAD, _QUOTIENT, _REST = 1, 2, 4, 8, 16
_WHOLE = (_NUMBER, _BLOCK | _THREAD, _QUOTIENT | _REST)
_KINDS = {"global_id": _NUMBER, "block_id": _BLOCK, "thread_id": _THREAD}
# Ops that leave different numbers different, as a rule.
_SUMS = ("add", "subtract", "multiply", "negative", "invert", "add_saturate", "subtract_saturate", "left_shift")
_KEEPING = frozenset((*_SUMS, "cast", "minimum", "maximum", "where", "bitwise_xor", "bitwise_or", "reverse_bits"))
_DIVIDING = ("floor_divide", "trunc_divide", "right_shift")
_FOLDING = ("remainder", "fmod", "bitwise_and")
_QUOTIENTS_AND_RESTS = {("floor_divide", "remainder"), ("trunc_divide", "fmod")}
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
_COUNTS_FAR = 16  # bits of a type that a number is not expected to leave
_MOST_STEPS = 32  # of an expression that the host computes


class Numbers:
    """What the values of a program have of the numbers of their threads."""

    def __init__(self, body: tuple[Stmt, ...], block: tuple[int, int, int]) -> None:
        self.block = block
        self._places: dict[str, Place | None] = {}
        self.lets: dict[str, Expr] = {}
        self._hosted: dict[str, Expr | None] = {}
        self._parts: dict[str, dict[int, int]] = defaultdict(dict)  # of locals, by axis
        self._replaced: dict[str, tuple[bool, Expr, Expr]] = {}
        conditions: dict[str, Expr] = {}
        assigned: list[tuple[str, Expr]] = []
        for statement in statements(body):
            if isinstance(statement, Let):
                self.lets[statement.name] = statement.value
                self._hosted[statement.name] = self._known(statement.value)
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
        """The place of a counter that runs through known numbers, or from 0 to what the host computes."""
        numbers = [_signed(each) for each in (loop.start, loop.stop, loop.step) if isinstance(each, Const)]
        if len(numbers) == 3 and numbers[2] and 0 < len(range(*numbers)) <= MOST_OFFSETS:
            return Place("constant", 0, frozenset(range(*numbers)))
        stop = self._known(loop.stop)
        ends = [each.bits for each in (loop.start, loop.step) if isinstance(each, Const)]
        return Place("span", 0, NOTHING, factor=stop) if stop is not None and ends == [0, 1] else None

    def own(self, indices: Iterable[Expr]) -> set[int]:
        """The axes of the launch on which one of these has the whole number of the thread."""
        parts = [part for index in indices for part in self._parts_of(index).items()]
        return {axis for axis, has in parts if any(has & whole == whole for whole in _WHOLE)}

    def flat(self, at: Expr, of: Parameter, index: Type) -> tuple[Place, Expr] | None:
        """What a row and a column of an array with two axes are the quotient and the remainder of, and how many such
        numbers there are."""
        if not isinstance(at, Position) or len(at.indices) != 2:
            return None
        row, column = [self._value(each) for each in at.indices]
        if not isinstance(row, Apply) or not isinstance(column, Apply) or row.operands[0] != column.operands[0]:
            return None
        width, place = self._known(column.operands[-1]), self.place(row.operands[0])
        if row.op not in _DIVIDING[:2] or column.op not in _FOLDING[:2] or self._known(row.operands[-1]) != width:
            return None
        if width is None or place is None:
            return None
        if width in (Size(index, of.name, None, 1), of.shape[1]):
            return place, Size(index, of.name)
        return place, Apply(width.type, "multiply", (Size(index, of.name, None, 0), width))

    def _rejoined(self, quotient: Expr, rest: Expr) -> Place | None:
        """The place of i in `i // n * n + i % n`, of which these are the parts."""
        product, rest = self._value(quotient), self._value(rest)
        if not isinstance(product, Apply) or product.op != "multiply" or not isinstance(rest, Apply):
            return None
        for divided, by in (product.operands, product.operands[::-1]):
            whole, width = self._value(divided), self._known(by)
            if width is None or not isinstance(whole, Apply) or (whole.op, rest.op) not in _QUOTIENTS_AND_RESTS:
                continue
            if whole.operands[0] == rest.operands[0] and width == self._known(whole.operands[1]):
                return self.place(rest.operands[0]) if width == self._known(rest.operands[1]) else None
        return None

    def inside(self, at: Expr, extents: list[Size]) -> Bounds:
        """Where a position is within the array on all axes, if its axes move with the same number."""
        if not isinstance(at, Position):
            return frozenset()
        found = [self.place(part) for part in at.indices]
        axes = [place.axis for place in found if place is not None and place.kind == "global_id"]
        if len(set(axes)) == len(axes):
            return frozenset()
        limits = [Sum(frozenset([(extent, 1)])) for extent in extents]
        reached = [
            (each, places.enough(each, limit, self.block)) for each, limit in zip(found, limits, strict=True) if each
        ]
        return frozenset([(place.axis, enough) for place, enough in reached if enough is not None])

    def _value(self, expr: Expr) -> Expr:
        return self.lets.get(expr.name, expr) if isinstance(expr, Local) else expr

    def behind(self, indices: list[Expr]) -> tuple[int, int] | None:
        """The axis of the launch, and how far every index is behind the number of the thread there, if it is."""
        found = [self.place(index) for index in indices]
        kinds = {place and (place.kind, place.axis, place.is_plain) for place in found}
        if len(kinds) != 1 or found[0] is None or found[0].kind != "global_id" or not found[0].is_plain:
            return None
        nearest = max(max(place.offsets) for place in found if place is not None)
        return (found[0].axis, -nearest) if nearest < 0 else None

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
        place, limit = self.place(left), self._limit(right)
        if op not in _EXCHANGED or limit is None or place is None:
            return frozenset()
        if op in ("less", "less_equal", "equal"):
            reached = places.enough(place, limit.plus(Sum(more=op != "less")), self.block)
        elif left.type.kind == "signed" and (mirrored := places.negated(place)) is not None:
            reached = places.enough(mirrored, limit.times(-1).plus(Sum(more=op != "greater")), self.block)
        else:
            return frozenset()
        return frozenset() if reached is None else frozenset([(place.axis, reached)])

    def _limit(self, expr: Expr) -> Sum | None:
        """What an id is compared with, as a sum that does not wrap around in the usual case."""
        place = self.place(expr)
        limit = None if place is None else place.constant
        if limit is None or expr.type.kind == "signed":
            return limit
        known = self._known(expr)
        if known is None or min([limit.more, *[times for _, times in limit.terms]]) >= 0:
            return None if known is None else limit
        return Sum(frozenset([(known, 1)]))

    def _known(self, expr: Expr, most: int = _MOST_STEPS) -> Expr | None:
        """The expression without lets, if the host can compute it, and it does not wrap around in the usual case."""
        match expr:
            case Local():
                return self._hosted.get(expr.name)
            case Const() | Scalar() | Size() if expr.type.is_integer:
                return expr
            case Apply() if expr.op in HOST_OPS and expr.type.is_integer and most:
                known = [self._known(operand, most - 1) for operand in expr.operands]
                may_wrap = expr.type.kind != "signed" and expr.operands[0].type.kind == "signed"
                if may_wrap or None in known or expr.type.bits < expr.operands[0].type.bits:
                    return None
                found = Apply(expr.type, expr.op, tuple([each for each in known if each is not None]))
                return found if sum(1 for _ in expressions([found])) <= _MOST_STEPS else None
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
        """Where an index is; None where that is not a multiple of an id, or of the first number of the block, plus what
        the host computes."""
        match expr:
            case Id():
                return Place(expr.kind, expr.axis, NOTHING)
            case Const() if expr.type.is_integer:
                return Place("constant", 0, frozenset([_signed(expr)]))
            case Scalar() | Size() if expr.type.is_integer:
                return Place("constant", 0, NOTHING, base=Sum(frozenset([(expr, 1)])))
            case Local():
                return self._places.get(expr.name)
            case Apply() if expr.type.is_integer and all(each.type.is_integer for each in expr.operands[-2:]):
                if expr.op == "add":
                    left, right = expr.operands
                    rejoined = self._rejoined(left, right) or self._rejoined(right, left)
                    if rejoined is not None:
                        return rejoined
                found = [self.place(operand) for operand in expr.operands[-2:]]
                return self._place_of(expr, [place for place in found if place]) if None not in found else None
            case _:
                return None

    def _place_of(self, expr: Apply, of: list[Place]) -> Place | None:
        if expr.op in ("add", "subtract", "negative", "invert", "multiply", "left_shift", "cast"):
            found = self._combined(expr, of)
        else:
            found = self._limited(expr, of)
        if found is None and all(place.kind == "constant" for place in of):
            known = self._known(expr)
            return None if known is None else Place("constant", 0, NOTHING, base=Sum(frozenset([(known, 1)])))
        return found

    def _combined(self, expr: Apply, of: list[Place]) -> Place | None:
        match expr.op:
            case "cast":
                keeps = expr.type.bits >= min(expr.operands[0].type.bits, _COUNTS_FAR)
                return of[0] if keeps else None
            case "add":
                return places.added(of[0], of[1], self.block)
            case "subtract":
                by = places.negated(of[1])
                return None if by is None else places.added(of[0], by, self.block)
            case "negative" | "invert":
                by = places.negated(of[0])
                one = Place("constant", 0, frozenset([-1 if expr.op == "invert" else 0]))
                return None if by is None else places.added(by, one, self.block)
            case "left_shift":
                count = of[1].constant
                if count is None or count.terms or not 0 <= count.more < 32:
                    return None
                return places.multiplied(of[0], Sum(more=1 << count.more), None, self.block)
        left, right, by_right = of[0], of[1], expr.operands[1]
        if left.constant is not None or right.kind == "block_id":
            left, right, by_right = right, left, expr.operands[0]
        if right.kind == "block_dim" and right.offsets == NOTHING and right.axis == left.axis:
            return places.first_of_block(left)
        factor = right.constant
        return None if factor is None else places.multiplied(left, factor, self._known(by_right), self.block)

    def _limited(self, expr: Apply, of: list[Place]) -> Place | None:
        """What a division, a minimum or a choice leaves of a place."""
        if len(of) < 2:
            return None
        place, limit = (of[1], of[0]) if of[0].kind == "constant" else (of[0], of[1])
        value = limit.constant
        match expr.op:
            case "minimum" if value is not None:
                return places.bounded(place, value, self.block)
            case "maximum" if value is not None and not value.terms:
                return place
            case "where":
                holds, fails = (self.bounds(expr.operands[0], each) for each in (True, False))
                return places.either(places.within(of[0], holds), places.within(of[1], fails))
            case "bitwise_or" | "bitwise_xor" if value is not None and not value.terms and value.more >= 0:
                return places.added(place, limit, self.block)
        by = of[1].constant
        if by is None or of[0].kind == "constant":
            return None
        if expr.op in _DIVIDING and not by.terms:
            shifted = expr.op == "right_shift"
            return places.divided(of[0], 1 << by.more if shifted and 0 <= by.more < 32 else by.more * (not shifted))
        known = self._known(expr.operands[1])
        return places.wrapped(of[0], known) if expr.op in _FOLDING and known is not None else None


def _signed(constant: Const) -> int:
    """The constant as a signed number: what is added to an unsigned one may stand for one less."""
    half = 1 << (constant.type.bits - 1)
    return (constant.bits + half) % (2 * half) - half


def _unite(parts: dict[int, int], more: dict[int, int]) -> None:
    for axis, part in more.items():
        parts[axis] = parts.get(axis, 0) | part
