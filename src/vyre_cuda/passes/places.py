"""Where the threads of a launch touch arrays, and under which conditions, for programs put one after the other.

An index is a sum (`ir/affine.py`) whose terms are the thread's numbers on the three axes, 0 to 2, and scalars, from 3
on. A condition that compares the number of an axis with a constant is an interval of it; any other is a key that is
equal to itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias

from vyre_cuda.ir.affine import Affine, Interval, affine, number, single
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Id, Load, Local, Position, Scalar
from vyre_cuda.ir.core.walk import children, in_any_order
from vyre_cuda.passes.rebuild import with_children
from vyre_cuda.records import FrozenRecord

AXES = 3
# An index of 64 bits where it cannot wrap, else with its own bits and sign.
Key: TypeAlias = "tuple[tuple[Affine, bool], ...]"

_CONTRARY = {"less": "greater_equal", "greater_equal": "less", "greater": "less_equal", "less_equal": "greater"}
_SWAPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


class Conditions(FrozenRecord):
    """What holds for the threads that are here: intervals of their numbers, and conditions that are not looked into."""

    axes: tuple[Interval, ...]
    others: frozenset[Hashable] = frozenset()

    def within(self, wider: Conditions) -> bool:
        """Whether these hold only where `wider` holds."""
        inside = all(b[0] <= a[0] and a[1] <= b[1] for a, b in zip(self.axes, wider.axes, strict=True))
        return inside and wider.others <= self.others

    def narrowed(self, axis: int, low: int | None, high: int | None) -> Conditions:
        """With the number on this axis from `low` to `high`."""
        least, most = self.axes[axis]
        interval = (least if low is None else max(least, low), most if high is None else min(most, high))
        return Conditions((*self.axes[:axis], interval, *self.axes[axis + 1 :]), self.others)

    def also(self, other: Hashable) -> Conditions:
        return Conditions(self.axes, self.others | {other})


class Places:
    """The indices and conditions of a program. `lets` has what immutable locals are, without loads and variables."""

    def __init__(self, threads: Iterable[int]) -> None:
        self.launched = Conditions(tuple((0, count - 1) for count in threads))
        self.lets: dict[str, Expr] = {}
        self.scalars: dict[str, int] = {}
        self._immutable: set[str] = set()
        self._saying: dict[int, tuple[Expr, Conditions | None]] = {}  # by identity, so the conditions are kept

    # ---- expressions ----

    def note(self, name: str, value: Expr) -> None:
        """A let, whose name nothing else in the program has."""
        whole = self.written_out(value)
        is_known = not any(type(part) is Load or type(part) is Local for part in in_any_order((whole,)))
        self.note_known(name, whole if is_known else None)

    def note_known(self, name: str, whole: Expr | None) -> None:
        """The same of a let that is this without lets, loads and variables; None: it is not."""
        self._immutable.add(name)
        if whole is not None:
            self.lets[name] = whole

    def note_counter(self, name: str) -> None:
        """The counter of a loop; it stays the same within a trip."""
        self._immutable.add(name)

    def written_out(self, expr: Expr) -> Expr:
        """With their values in place of lets."""
        if isinstance(expr, Local):
            return self.lets.get(expr.name, expr)
        parts = children(expr)
        return with_children(expr, tuple([self.written_out(part) for part in parts])) if parts else expr

    def is_stable(self, expr: Expr) -> bool:
        """Whether it has one value from here to the end of the block."""
        for part in in_any_order((expr,)):
            if type(part) is Load or (type(part) is Local and part.name not in self._immutable):
                return False
        return True

    def sum_of(self, expr: Expr, of: Conditions) -> Affine | None:
        """The sum that an integer is, None if it depends on other things."""
        return self._sum(self.written_out(expr), self._intervals(of))

    def _sum(self, expr: Expr, of: Callable[[int], Interval]) -> Affine | None:
        bits = expr.type.bits
        match expr:
            case Const():
                return number(bits, expr.bits)
            case Id(kind="global_id"):
                return single(bits, expr.axis)
            case Scalar() if expr.type.is_integer and bits >= 32:
                return single(bits, self.scalars.setdefault(expr.name, AXES + len(self.scalars)))
            case Apply(op="add" | "subtract" | "multiply"):
                parts = [self._sum(part, of) for part in expr.operands]
                left, right = parts
                if left is None or right is None:
                    return None
                if expr.op == "multiply":
                    if right.terms:
                        left, right = right, left
                    return None if right.terms else left * right.constant
                return left + right if expr.op == "add" else left - right
            case Apply(op="cast") if expr.operands[0].type.is_integer and bits >= 32:
                source = expr.operands[0].type
                inner = self._sum(expr.operands[0], of) if source.bits >= 32 else None
                if inner is None or source.bits == bits:
                    return inner
                if source.bits > bits:
                    return affine(bits, inner.terms, inner.constant)
                return inner.extended(bits, of, signed=source.kind == "signed")
        return None

    def _intervals(self, of: Conditions) -> Callable[[int], Interval]:
        # Nothing is said about scalars: a sum with one may wrap.
        return lambda term: of.axes[term] if term < AXES else (-(1 << 63), (1 << 64) - 1)

    # ---- indices ----

    def key(self, index: Expr, of: Conditions) -> Key | None:
        """What is equal for equal indices, None for an index that depends on more than thread and scalars."""
        found = []
        for part in index.indices if isinstance(index, Position) else (index,):
            whole = self.sum_of(part, of)
            if whole is None:
                return None
            signed = part.type.kind == "signed"
            wide = whole.extended(64, self._intervals(of), signed=signed)
            found.append((whole, signed) if wide is None else (wide, True))
        return tuple(found)

    def is_inside(self, key: Key, shape: tuple[int, ...], of: Conditions) -> bool:
        """Whether the element exists for all threads that meet these conditions."""
        for (whole, signed), extent in zip(key, shape, strict=True):
            low, high = whole.interval(self._intervals(of), signed=signed)
            if low < 0 or high >= extent:
                return False
        return True

    def is_own(self, key: Key, of: Conditions) -> bool:
        """Whether no two threads that meet these conditions have the same element."""
        seen: set[int] = set()
        for whole, _ in key:
            mine = [(term, factor) for term, factor in whole.terms if term < AXES]
            if seen & {term for term, _ in mine} or not _is_injective(mine, whole.bits, of.axes):
                return False
            seen |= {term for term, _ in mine}
        return all(high <= low or axis in seen for axis, (low, high) in enumerate(of.axes))

    # ---- conditions ----

    def assumed(self, here: Conditions, condition: Expr, truth: bool = True) -> Conditions:
        """What holds where the condition is so."""
        expr = self.written_out(condition)
        if isinstance(expr, Apply):
            if expr.op == "logical_not":
                return self.assumed(here, expr.operands[0], not truth)
            if expr.op == ("logical_and" if truth else "logical_or"):
                for part in expr.operands:
                    here = self.assumed(here, part, truth)
                return here
            bound = self._bound(expr, truth, here)
            if bound is not None:
                return here.narrowed(*bound)
        # A condition that may change is equal to no other, not even to itself elsewhere.
        return here.also((expr, truth) if self.is_stable(expr) else object())

    def _bound(self, expr: Apply, truth: bool, here: Conditions) -> tuple[int, int | None, int | None] | None:
        """The axis and the interval that a comparison of a thread's number with a constant says."""
        if expr.op not in _CONTRARY or not expr.operands[0].type.is_integer:
            return None
        op = expr.op if truth else _CONTRARY[expr.op]
        sums = [self.sum_of(part, here) for part in expr.operands]
        left, right = sums
        if left is None or right is None:
            return None
        if not left.terms:
            left, right, op = right, left, _SWAPPED[op]
        axis = left.terms[0][0] if left.terms else AXES
        if right.terms or axis >= AXES or left != single(left.bits, axis):
            return None
        signed = expr.operands[0].type.kind == "signed"
        limit = right.interval(self._intervals(here), signed=signed)[0]
        match op:
            case "less":
                return axis, None, limit - 1
            case "less_equal":
                return axis, None, limit
            case "greater":
                return axis, limit + 1, None
            case _:
                return axis, limit, None

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether both conditions have one value, the same for every thread, as long as both can be read."""
        one, other = self.said(a), self.said(b)
        return one is not None and one == other

    def note_said(self, condition: Expr, said: Conditions) -> None:
        """What `said` would find."""
        self._saying[id(condition)] = condition, said

    def said(self, condition: Expr) -> Conditions | None:
        """What holds of all threads where it is so, once for each condition; None: it may change."""
        if id(condition) not in self._saying:
            is_stable = self.is_stable(self.written_out(condition))
            self._saying[id(condition)] = condition, self.assumed(self.launched, condition) if is_stable else None
        return self._saying[id(condition)][1]


def hull(all_of: Iterable[Conditions]) -> Conditions:
    """What holds for all threads that meet one of these."""
    columns = zip(*[each.axes for each in all_of], strict=True)
    return Conditions(tuple((min(low for low, _ in column), max(high for _, high in column)) for column in columns))


def _is_injective(terms: list[tuple[int, int]], bits: int, axes: tuple[Interval, ...]) -> bool:
    """Whether different numbers of threads give different sums modulo 2^bits: each term reaches over those below."""
    half = 1 << (bits - 1)
    below = 0
    factors = sorted((min(factor, 2 * half - factor), term) for term, factor in terms)
    for factor, term in factors:
        low, high = axes[term]
        if high <= low:
            continue
        if factor <= below:
            return False
        below += factor * (high - low)
    return below < 1 << bits
