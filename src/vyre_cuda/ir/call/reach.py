"""How many threads are enough for the arrays that they go through: from places, for a launch, and as an expression."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from vyre_cuda.ir.call.geometry import Sizes, host_value
from vyre_cuda.ir.call.places import NOTHING, ZERO, Bounds, Enough, Place, Sum, negated
from vyre_cuda.ir.call.walked import Walk, walks
from vyre_cuda.ir.core.nodes import AXES, Apply, Const, Expr, Id, Scalar, Size
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import Type, i64, u64
from vyre_cuda.ir.core.walk import expressions, operands, statements

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_GROUPS = 4  # of conditions; a reader of bundles in C has room for so many
_UNIT, _BACK = Place("global_id", 0, NOTHING).way, Place("global_id", 0, NOTHING, -1).way
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "floor_divide": "//"}


# ---- what is enough --------------------------------------------------------------------------------------------------


def of(extent: Expr, more: int) -> Enough:
    """As many threads as elements, and some more."""
    return Enough(1, Sum(frozenset([(extent, 1)]), more))


def walked(
    extent: Size, whole: Expr, axis: int, used: list[tuple[Place, Bounds]], block: tuple[int, int, int]
) -> Iterator[Walk]:
    """How threads go through `whole` places of an array by their number on an axis, if what they use shows it: each
    place with the bounds that hold there. What a remainder leaves counts beside the number itself alone: an array that
    is only read over and over again, as a table is, need not be read to the end."""
    plain = [place for place, _ in used if place.wraps is None]
    ways = {place.way for place in plain}
    if not plain or any(place.way not in ways for place, _ in used):
        return
    inner = {place.inner for place in plain}
    if inner != {None}:
        yield from _rows(extent, axis, used, plain)
        return
    needs = _needs(whole, plain, block)
    if needs:
        yield Walk(extent, axis, _groups(needs, axis, [bounds for _, bounds in used]))
        if len(ways) == 1:
            yield from _between(extent, whole, axis, used, block)


def _between(
    extent: Size, whole: Expr, axis: int, used: list[tuple[Place, Bounds]], block: tuple[int, int, int]
) -> Iterator[Walk]:
    """Places from several numbers on that the host knows: from each, threads reach the end or the next one, unless
    that is at the first place or before it."""
    for one, begin in _runs(used):
        first = one[0][0]
        if first.scale < 0 or first.over != 1 or first.factor is not None:
            return
        from_here = [place for place, _ in one]
        gap = begin.plus(Sum(first.base.terms, _beyond(from_here, block)), -1)
        needs = [_forward(whole, from_here, block), _in_threads(first, gap, block), Enough(0, begin)]
        yield Walk(extent, axis, _groups(needs, axis, [bounds for _, bounds in one]))


def _between_rows(extent: Size, axis: int, width: Enough, used: list[tuple[Place, Bounds]]) -> Iterator[Walk]:
    """The same for the rows of places `y * w + x`, which threads go on through."""
    for one, begin in _runs(used):
        reached = Sum(one[0][0].base.terms, max(max(place.offsets) for place, _ in one))
        needs = [Enough(1, end.plus(reached, -1)) for end in (of(extent, 0).need, begin)]
        yield Walk(extent, axis, _groups([*needs, width, Enough(0, begin)], axis, [bounds for _, bounds in one]))


def _runs(used: list[tuple[Place, Bounds]]) -> Iterator[tuple[list[tuple[Place, Bounds]], Sum]]:
    """Of places from several numbers on, those from each, and where the next ones begin unless that is the first
    place. Of two, each is the next one of the other."""
    runs: dict[Sum, list[tuple[Place, Bounds]]] = defaultdict(list)
    for place, bounds in used:
        if place.wraps is None:
            runs[place.base].append((place, bounds))
    pairs = itertools.permutations(runs.values()) if len(runs) == 2 else itertools.pairwise(_ascending(runs))
    for one, other in pairs:
        begin = Sum(other[0][0].base.terms, min(min(place.offsets) for place, _ in other))
        if begin != ZERO:
            yield one, begin


def _ascending(runs: dict[Sum, list[tuple[Place, Bounds]]]) -> list[list[tuple[Place, Bounds]]]:
    """Runs of one place each in the order in which they begin, () unless that is the same in every launch.

    It is the same if none of the differences can be negative; or all of them, where nothing is between one and the next
    that threads would have to reach.
    """
    if not all(len({offset for place, _ in run for offset in place.offsets}) == 1 for run in runs.values()):
        return []
    begins = {base.plus(Sum(more=max(run[0][0].offsets))): run for base, run in runs.items()}
    order = sorted(begins, key=lambda begin: (sum(times for _, times in begin.terms), begin.more))
    gaps = [after.plus(before, -1) for before, after in itertools.pairwise(order)]
    if any(gap.more < 0 or any(times < 0 for _, times in gap.terms) for gap in gaps):
        return []
    known = all(expr.type.kind == "unsigned" or isinstance(expr, Size) for gap in gaps for expr, _ in gap.terms)
    alike = len({expr for gap in gaps for expr, _ in gap.terms}) == 1 and not any(gap.more for gap in gaps)
    return [begins[begin] for begin in order] if known or alike else []


def _rows(extent: Size, axis: int, used: list[tuple[Place, Bounds]], plain: list[Place]) -> Iterator[Walk]:
    """Places `y * w + x` for threads (x, y)."""
    first = plain[0]
    assert first.inner is not None
    assert first.factor is not None
    if len({place.way for place in plain}) != 1:
        return
    width = Enough(1, Sum(frozenset([(first.factor, 1)])))
    all_bounds = [bounds for _, bounds in used]
    if first.mirrored:
        yield from _mirrored_rows(extent, axis, width, plain, all_bounds)
        return
    needs = []
    for each in _by_base(plain):
        beyond = Sum(each[0].base.terms, max(max(place.offsets) for place in each))
        needs.append(of(extent, 0).need.plus(beyond, -1))
    needs.sort(key=repr)
    in_a_row = [Enough(1, need) for need in needs]
    if all(any(on == first.inner for on, _ in bounds) for bounds in all_bounds):
        yield Walk(extent, first.inner, _groups([*in_a_row, width], first.inner, all_bounds))
        rows = [Enough(1, need, first.factor) for need in needs]
        yield Walk(extent, axis, _groups(rows, axis, all_bounds))
    else:  # threads of the first row go on through the others
        yield Walk(extent, first.inner, _groups(in_a_row, first.inner, all_bounds))
    yield from _between_rows(extent, first.inner, width, used)


def _mirrored_rows(
    extent: Size, axis: int, width: Enough, plain: list[Place], all_bounds: list[Bounds]
) -> Iterator[Walk]:
    """The same for places `y * w + w - 1 - x`: the first one needs all threads of a row."""
    first = plain[0]
    assert first.inner is not None
    if len({(place.base, place.offsets) for place in plain}) > 1 or (first.base, first.offsets) != (ZERO, NOTHING):
        return
    whole = of(extent, 0).need
    yield Walk(extent, first.inner, _groups([width, Enough(0, whole)], first.inner, all_bounds))
    rows = [Enough(1, whole, first.factor)]
    for on, idle in sorted(frozenset.intersection(*all_bounds), key=repr):
        if on == first.inner and idle.factor is None:  # of a last row that is not whole there may be nothing to reach
            before = whole.plus(width.need, -1).times(idle.scale)
            rows.append(Enough(idle.scale, before.plus(idle.need), first.factor))
    yield Walk(extent, axis, _groups(rows, axis, all_bounds))


def _needs(extent: Expr, plain: list[Place], block: tuple[int, int, int]) -> list[Enough]:
    """Alternatives, of which one must hold."""
    if len({place.way for place in plain}) > 1:
        both = _from_both_ends(extent, plain, block)
        if both is not None:
            return [both]
        plain = [place for place in plain if place.way == _UNIT]  # what other places reach has gaps, or is less
    forth = [place for place in plain if place.scale > 0]
    needs = [_forward(extent, each, block) if forth else _backward(each, block) for each in _by_base(plain)]
    return sorted(needs, key=repr)


def _by_base(places: list[Place]) -> list[list[Place]]:
    return [[place for place in places if place.base == base] for base in {place.base for place in places}]


def _from_both_ends(extent: Expr, plain: list[Place], block: tuple[int, int, int]) -> Enough | None:
    """The threads that meet, where they come from both ends."""
    whole = of(extent, 0).need
    ends = {(place.way, place.base) for place in plain}
    if ends != {(_UNIT, ZERO), (_BACK, whole)}:
        return None
    up = _forward(extent, [place for place in plain if place.scale > 0], block)
    down = _backward([place for place in plain if place.scale < 0], block)
    return Enough(up.scale + down.scale, up.need.plus(down.need).plus(whole, -1))


def _forward(extent: Expr, places: list[Place], block: tuple[int, int, int]) -> Enough:
    """Threads for which no place is left below the extent."""
    place = places[0]
    need = of(extent, 0).need.times(place.over).plus(Sum(place.base.terms, _beyond(places, block) + place.over - 1), -1)
    return _in_threads(place, need, block)


def _backward(places: list[Place], block: tuple[int, int, int]) -> Enough:
    """Threads for which no place is left above 0."""
    mirrored = [each for each in map(negated, places) if each is not None]
    need = Sum(places[0].base.terms, 1 - _beyond(mirrored, block))
    return _in_threads(mirrored[0], need, block)


def _in_threads(place: Place, need: Sum, block: tuple[int, int, int]) -> Enough:
    need = need.times(block[place.axis]) if place.kind == "block_id" else need
    return Enough(place.scale, need, place.factor)


def _beyond(places: list[Place], block: tuple[int, int, int]) -> int:
    """How far threads reach beyond their numbers times their elements without a gap."""
    offsets = sorted({offset for place in places for offset in place.offsets})
    if places[0].factor is not None:
        return offsets[-1]
    period = places[0].scale * (block[places[0].axis] if places[0].kind in ("first", "tiles") else 1)
    last = {offset % period: offset for offset in offsets}  # threads behind the last one go on from these
    return min(last.values())


def _groups(needs: list[Enough], axis: int, all_bounds: Iterable[Bounds]) -> tuple[tuple[Enough, ...], ...]:
    sets = {frozenset([each for on, each in bounds if on == axis]) for bounds in all_bounds}
    least = [each for each in sets if not any(other < each for other in sets)]
    groups = [(*needs, *sorted(each - set(needs), key=repr)) for each in least]
    return tuple(sorted(groups, key=repr)[:_MOST_GROUPS])


# ---- for one launch --------------------------------------------------------------------------------------------------


def check(program: Program, walk: Walk, threads: int, sizes: Sizes, scalars: Mapping[str, int]) -> None:
    """ValueError where threads without a stated number of work items would leave out elements of an array."""
    if all(any(_holds(each, threads, sizes, scalars) for each in group) for group in walk.enough):
        return
    primary = primary_buffer(program)
    assert primary is not None
    name, need = walk.extent.buffer, walk.enough[0][0].need
    enough = fewer = ""
    if name != primary.name and not walk.axis:
        enough, fewer = f"which is enough for {primary.name}, ", f"vc.work({primary.name}.size) if that is meant, "
    raise ValueError(
        f"{program.name}: {_words(need)} is {_value(need, sizes, scalars) - need.more}, but the launch has {threads} "
        f"thread{'s' * (threads != 1)} along {AXES[walk.axis]}, {enough}so the rest of {name} would be left out; "
        f"write vc.work({_work(program, walk)}) in the kernel (b.work of a Builder), {fewer}or pass grid="
    )


def _holds(enough: Enough, threads: int, sizes: Sizes, scalars: Mapping[str, int]) -> bool:
    factor = 1 if enough.factor is None else int(host_value(enough.factor, sizes, scalars)[0])
    return threads * enough.scale * factor >= _value(enough.need, sizes, scalars)


def _value(total: Sum, sizes: Sizes, scalars: Mapping[str, int]) -> int:
    return total.more + sum(times * int(host_value(expr, sizes, scalars)[0]) for expr, times in total.terms)


def _work(program: Program, walk: Walk) -> str:
    """The work that is enough, in the words of a kernel."""
    by_axis = {each.axis: _items(each) for each in reversed(walks(program))} | {walk.axis: _items(walk)}
    ids = {each.axis for s in statements(program.body) for each in expressions(operands(s)) if isinstance(each, Id)}
    factor = walk.enough[0][0].factor
    if walk.axis and factor is not None:
        by_axis.setdefault(0, _words_of(factor))
    return ", ".join([by_axis.get(axis, "..." if axis in ids else "1") for axis in range(walk.axis + 1)])


def _items(walk: Walk) -> str:
    first = walk.enough[0][0]
    return _words(first.need) + (f" // {_words_of(first.factor, inner=True)}" if first.factor is not None else "")


def _words(total: Sum) -> str:
    """The sum but for its constant: `x.size - n`."""
    text = ""
    for expr, times in sorted(total.terms, key=lambda term: (term[1] < 0, repr(term))):
        sign = (" - " if text else "-") if times < 0 else (" + " if text else "")
        text += sign + (f"{abs(times)} * " if abs(times) != 1 else "") + _words_of(expr, inner=abs(times) != 1)
    return text or str(total.more)


def _words_of(expr: Expr, inner: bool = False) -> str:
    match expr:
        case Size():
            return f"{expr.buffer}.size" if expr.axis is None else f"{expr.buffer}.shape[{expr.axis}]"
        case Scalar():
            return expr.name
        case Const():
            return str(value_of(expr.type, expr.bits))
        case Apply() if expr.op == "cast":
            return _words_of(expr.operands[0], inner)
        case Apply() if expr.op in _SIGNS:
            text = f" {_SIGNS[expr.op]} ".join([_words_of(operand, inner=True) for operand in expr.operands])
            return f"({text})" if inner else text
        case Apply():
            return f"vc.{expr.op}({', '.join([_words_of(operand) for operand in expr.operands])})"
        case _:
            return str(expr)


# ---- as an expression ------------------------------------------------------------------------------------------------


def work(size: Expr, found: tuple[Walk, ...], block: tuple[int, int, int]) -> Expr:
    """The work `size` along x, as an expression that has no exact value where a walk is not covered."""
    wide = size if size.type is u64 else Apply(u64, "cast", (size,))
    alike: dict[tuple[int, tuple[Enough, ...]], list[Enough]] = defaultdict(list)
    for walk in found:
        for group in walk.enough:
            alike[walk.axis, group[1:]].append(group[0])
    spare = []
    for (axis, others), owns in alike.items():
        threads = _launched(size, axis, block)
        either = [owns, *[[other] for other in others]]
        spare.append(_joined("maximum", [_spare(threads, all_of) for all_of in either]))
    checked = Apply(u64, "minimum", (Apply(u64, "cast", (_joined("minimum", spare),)), Const(u64, 0)))
    return Apply(u64, "add", (wide, checked))


def _launched(size: Expr, axis: int, block: tuple[int, int, int]) -> Expr:
    """The threads along an axis: all of the blocks that the work `size` takes along x, one block along the others."""
    threads: Expr = Const(i64, block[axis])
    if axis:
        return threads
    above = Apply(i64, "add", (_exact(size), Const(i64, block[0] - 1)))
    return Apply(i64, "multiply", (Apply(i64, "floor_divide", (above, threads)), threads))


def _spare(threads: Expr, all_of: list[Enough]) -> Expr:
    """By how many places at least the threads go beyond each of these; negative where one of them does not hold."""
    needs: dict[Enough, list[Sum]] = defaultdict(list)
    for each in dict.fromkeys(all_of):
        needs[Enough(each.scale, ZERO, each.factor)].append(each.need)
    found = []
    for of, sums in needs.items():
        places = _times(threads, of)
        if len(sums) == 1:
            found.append(_minus(places, sums[0]))
        else:
            most = _joined("maximum", [_total(each) for each in sums])
            found.append(Apply(i64, "subtract", (places, most)))
    return _joined("minimum", found)


def _joined(op: str, exprs: list[Expr]) -> Expr:
    total = exprs[0]
    for expr in exprs[1:]:
        total = Apply(i64, op, (total, expr))
    return total


def _times(threads: Expr, enough: Enough) -> Expr:
    if enough.scale != 1:
        threads = Apply(i64, "multiply", (threads, Const(i64, enough.scale)))
    return threads if enough.factor is None else Apply(i64, "multiply", (threads, _exact(enough.factor)))


def _minus(left: Expr, need: Sum) -> Expr:
    total = left
    for expr, times in sorted(need.terms, key=repr):
        total = Apply(i64, "subtract" if times > 0 else "add", (total, _multiple(expr, abs(times))))
    if need.more:
        total = Apply(i64, "subtract" if need.more > 0 else "add", (total, Const(i64, abs(need.more))))
    return total


def _total(need: Sum) -> Expr:
    """The sum, from a part of it that is not subtracted."""
    terms = sorted(need.terms, key=lambda term: (term[1] < 0, repr(term)))
    if not terms or terms[0][1] < 0:
        return _minus(Const(i64, 0), need.times(-1))
    first = _multiple(*terms[0])
    return _minus(first, Sum(frozenset(terms[1:]), need.more).times(-1))


def _multiple(expr: Expr, times: int) -> Expr:
    return _exact(expr) if times == 1 else Apply(i64, "multiply", (_exact(expr), Const(i64, times)))


def _exact(expr: Expr) -> Expr:
    """The value as an i64; a difference of unsigned numbers that wraps around is more than any extent."""
    if not isinstance(expr, Apply):
        return _wide(expr)
    if expr.op == "cast":
        return _exact(expr.operands[0])
    left, right = [_exact(operand) for operand in expr.operands]
    found = Apply(i64, expr.op, (left, right))
    if expr.op != "subtract" or expr.type.kind == "signed":
        return found
    zero = Const(i64, 0)
    below = Apply(i64, "maximum", (Apply(i64, "subtract", (right, left)), zero))
    around = Apply(i64, "multiply", (Apply(i64, "minimum", (below, Const(i64, 1))), Const(i64, _around(expr.type))))
    return Apply(i64, "add", (found, around))


def _around(type_: Type) -> int:
    return 1 << min(type_.bits, 56)


def _wide(expr: Expr) -> Expr:
    return expr if expr.type is i64 else Apply(i64, "cast", (expr,))
