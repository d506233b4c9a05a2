"""Sums that the host computes, and places that are such a sum and a multiple of the number of a thread."""

from __future__ import annotations

from typing import TypeAlias

from vyre_cuda.ir.core.nodes import Expr
from vyre_cuda.records import FrozenRecord, replace

_MOST = 1 << 40  # so that a sum of products with sizes is an i64
MOST_OFFSETS = 64  # of a loop, whose counter stands for so many constants


class Sum(FrozenRecord):
    """`more`, and coefficients times expressions that the host computes."""

    terms: frozenset[tuple[Expr, int]] = frozenset()
    more: int = 0

    def plus(self, other: Sum, times: int = 1) -> Sum:
        if not other.terms:
            return Sum(self.terms, self.more + times * other.more)
        found = dict(self.terms)
        for expr, coefficient in other.terms:
            found[expr] = found.get(expr, 0) + times * coefficient
        return Sum(frozenset([each for each in found.items() if each[1]]), self.more + times * other.more)

    def times(self, factor: int) -> Sum:
        terms = [(expr, coefficient * factor) for expr, coefficient in self.terms if factor]
        return Sum(frozenset(terms), self.more * factor)


class Enough(FrozenRecord):
    """So many threads along an axis are enough: those for which threads * scale * factor >= need."""

    scale: int
    need: Sum
    factor: Expr | None = None


# The axis of the launch, and how many threads along it have all to do.
Bounds: TypeAlias = "frozenset[tuple[int, Enough]]"
NOTHING = frozenset([0])
ZERO = Sum()


class Place(FrozenRecord):
    """`base` and one of `offsets` more than `scale * factor` times an id, all of it divided by `over`.

    Other kinds than those of ids: `first`, where it is the first number of the block, in which a thread has `scale`
    elements; `tiles`: that and the number of the thread in the block; `constant`: 0; `span`: anything from 0 to
    `factor`. `inner` is the axis of an id that is added, or taken from `factor - 1` if it is `mirrored`; what `wraps`
    is the rest of a division by this. A thread accesses nothing new where one of `bounds` does not hold.
    """

    kind: str
    axis: int
    offsets: frozenset[int]
    scale: int = 1
    base: Sum = ZERO
    factor: Expr | None = None
    over: int = 1
    inner: int | None = None
    mirrored: bool = False
    wraps: Expr | None = None
    bounds: Bounds = frozenset()

    @property
    def is_plain(self) -> bool:
        """Whether it is an id, or with another kind what this says, plus constants."""
        rest = (self.scale, self.over, self.base, self.factor, self.wraps, self.inner)
        return rest == (1, 1, ZERO, None, None, None)

    @property
    def is_whole(self) -> bool:
        """Whether it is a sum, not what is left of it by a division."""
        return self.over == 1 and self.wraps is None

    @property
    def way(self) -> tuple[object, ...]:
        """How it moves with the number of the thread."""
        return (self.kind, self.scale, self.factor, self.over, self.inner, self.mirrored)

    @property
    def constant(self) -> Sum | None:
        """The value, if it is the same for all threads."""
        if self.kind != "constant" or len(self.offsets) != 1 or not self.is_whole:
            return None
        return Sum(self.base.terms, max(self.offsets))


def negated(place: Place) -> Place | None:
    if not place.is_whole or place.factor is not None or place.kind == "span":
        return None
    offsets = frozenset([-offset for offset in place.offsets])
    scale = place.scale if place.kind == "constant" else -place.scale
    return replace(place, offsets=offsets, scale=scale, base=place.base.times(-1))


def added(left: Place, right: Place, block: tuple[int, int, int]) -> Place | None:
    """The sum of two places, if it is one."""
    if left.kind == "constant" or (left.kind, right.kind) in (("thread_id", "first"), ("span", "global_id")):
        left, right = right, left
    if right.factor is not None and right.kind == "global_id":
        left, right = right, left
    if not right.is_whole or left.wraps is not None or len(left.offsets) * len(right.offsets) > MOST_OFFSETS:
        return None
    if left.over != 1 and right.base.terms:
        return None
    offsets = frozenset([a + left.over * b for a in left.offsets for b in right.offsets])
    bounds = left.bounds | right.bounds
    total = replace(left, offsets=offsets, base=left.base.plus(right.base), bounds=bounds)
    if right.kind == "constant":
        return total
    if (left.kind, right.kind, left.axis, abs(right.scale)) == ("first", "thread_id", right.axis, 1):
        if (left.scale > 0) != (right.scale > 0):  # from the last thread of the block to the first one
            turn = (block[left.axis] - 1) * right.scale
            total = replace(total, offsets=frozenset([offset + turn for offset in offsets]))
        return replace(total, kind="global_id" if abs(left.scale) == 1 else "tiles")
    if (left.kind, left.over, left.scale, left.inner) == ("global_id", 1, 1, None) and left.factor is not None:
        if right.kind == "span" and right.factor == left.factor:
            return total
        if (right.kind, right.factor) == ("global_id", None) and right.axis != left.axis:
            if right.scale == 1:
                return replace(total, inner=right.axis)
            if right.scale == -1:
                last = Sum(frozenset([(left.factor, 1)]), -1)
                base = total.base.plus(Sum(last.terms), -1)
                offsets = frozenset([offset - last.more for offset in offsets])
                return replace(total, inner=right.axis, mirrored=True, base=base, offsets=offsets)
    return None


def multiplied(place: Place, factor: Sum, as_expr: Expr | None, block: tuple[int, int, int]) -> Place | None:
    """The place times what the host computes, which is `as_expr`."""
    if not place.is_whole or factor == ZERO:
        return None
    if factor.terms:
        constant = place.constant
        if constant is not None and not constant.terms:
            total = factor.times(constant.more)
            return replace(place, offsets=frozenset([total.more]), base=Sum(total.terms))
        if place.kind != "global_id" or not place.is_plain or len(place.offsets) > 1 or as_expr is None:
            return None
        (offset,) = place.offsets
        return replace(place, factor=as_expr, offsets=NOTHING, base=factor.times(offset))
    by = factor.more
    offsets = frozenset([offset * by for offset in place.offsets])
    if max(abs(each * by) for each in (place.scale, *place.offsets, *[times for _, times in place.base.terms])) > _MOST:
        return None
    if place.kind in ("constant", "global_id", "first"):
        scale = place.scale if place.kind == "constant" else place.scale * by
        return replace(place, offsets=offsets, scale=scale, base=place.base.times(by)) if place.factor is None else None
    count, rest = divmod(by, block[place.axis])
    if place.kind == "block_id" and not rest and place.is_plain:
        return replace(place, kind="first", offsets=offsets, scale=count)
    return None


def first_of_block(place: Place) -> Place | None:
    """The number of a block times the threads of a block."""
    return (
        replace(place, kind="first")
        if (place.kind, place.offsets) == ("block_id", NOTHING) and place.is_plain
        else None
    )


def divided(place: Place, by: int) -> Place | None:
    if by < 1 or not place.is_whole or (place.kind, place.scale) != ("global_id", 1) or place.base.terms:
        return None
    return None if place.factor is not None or min(place.offsets) < 0 else replace(place, over=by)


def wrapped(place: Place, by: Expr) -> Place | None:
    """The rest of a division by what the host computes; multiples of that do not count."""
    if not place.is_whole or place.kind == "constant":
        return None
    base = Sum(frozenset([(expr, times) for expr, times in place.base.terms if expr != by]))
    return replace(place, base=base, wraps=by)


def bounded(place: Place, most: Sum, block: tuple[int, int, int]) -> Place:
    """The place where it is less than this, and this elsewhere."""
    reached = enough(place, most.plus(Sum(more=max(place.scale, 1))), block)
    return place if reached is None else within(place, frozenset([(place.axis, reached)]))


def within(place: Place, bounds: Bounds) -> Place:
    return replace(place, bounds=place.bounds | bounds)


def either(left: Place, right: Place) -> Place | None:
    """A place that is one of two, if these are alike but for constants."""
    if "constant" in (left.kind, right.kind) and left.kind != right.kind:
        return right if left.kind == "constant" else left
    if (left.way, left.axis, left.base, left.wraps) != (right.way, right.axis, right.base, right.wraps):
        return None
    return replace(left, offsets=left.offsets | right.offsets, bounds=left.bounds & right.bounds)


def enough(place: Place, stop: Sum, block: tuple[int, int, int]) -> Enough | None:
    """How many threads have numbers below `stop`, if the place grows with the number of the thread."""
    if place.scale < 1 or place.wraps is not None:
        return None
    need = stop.times(place.over).plus(Sum(place.base.terms, min(place.offsets)), -1)
    if place.kind == "block_id":
        return Enough(place.scale, need.times(block[place.axis]))
    return Enough(place.scale, need, place.factor) if place.kind in ("global_id", "first", "tiles") else None
