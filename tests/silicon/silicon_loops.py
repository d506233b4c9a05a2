"""Counted loops that a compiler unrolls or counts the trips of, near the limits of their types.

Trips and last counter are known by exact arithmetic. Each kind of loop is a unit, so that a run shows which are right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

from silicon_questions import LANES, Question, Snippet, literal

TYPES = ("u32", "s32", "u64", "s64")
COMPARISONS = ("lt", "le", "gt", "ge", "ne")
_MOST_TRIPS = 40
_MOST_LOOPS = 1200
# plain: step, compare, branch. head: compare first. memory: the start is read. trips: the count of trips is compared.
# distance: the unsigned rest is compared with the step before stepping.
KINDS = ("plain", "rolled", "head", "memory", "memory stop", "trips", "rolled trips", "distance", "rolled distance")
_BODIES = ("shl.b64", "shr.u64", "shr.s64", "shl.b32", "shr.u32", "shr.s32")


def units() -> list[str]:
    """Kind and type of loop; bodies by instruction."""
    return [*(f"{kind} {type_}" for kind in KINDS for type_ in TYPES), *(f"body {name}" for name in _BODIES)]


def plan(unit: str) -> list[Callable[[], Question]]:
    """What makes the loops of a unit."""
    kind, _, type_ = unit.rpartition(" ")
    made = _bodies(type_) if kind == "body" else (_loop(kind, type_, *each) for each in _grid(type_))
    return [functools.partial(_same, question) for question in made if question is not None]


def _same(question: Question) -> Question:
    return question


def _range(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


def _wrapped(type_: str, value: int) -> int:
    low, high = _range(type_)
    return (value - low) % (high - low + 1) + low


def _ends(type_: str) -> list[int]:
    low, high = _range(type_)
    size = high - low + 1
    near = [low, low + 1, low + 2, high, high - 1, high - 2, 0, 1, 2, 10, -1, -2, -10]
    parts = [size // 2 - 1, size // 2, size // 2 + 1, size // 3, size // 3 * 2, size // 4, size // 4 * 3, -(size // 3)]
    return sorted({each for each in near + parts if low <= each <= high})


def _steps(type_: str) -> list[int]:
    low, high = _range(type_)
    size = high - low + 1
    sizes = [1, 2, 3, 7, size // 2 - 1, size // 2 - 2, size // 3, size // 3 + 1, size // 4, size // 8 - 1, size // 16]
    return sorted({each for one in sizes for each in (one, -one)})


def trips_of(type_: str, comparison: str, start: int, stop: int, step: int) -> tuple[int, int] | None:
    """Trips and last counter of a loop that compares at its end, with wrap; None for one that is long."""
    holds = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "ne": int.__ne__}[comparison]
    counter = start
    for trip in range(1, _MOST_TRIPS + 1):
        counter = _wrapped(type_, counter + step)
        if not holds(counter, stop):
            return trip, counter
    return None


@functools.cache
def _grid(type_: str) -> list[tuple[str, int, int, int]]:
    """Loops of few trips; where there are many, every so many."""
    found = [
        (comparison, start, stop, step)
        for comparison in COMPARISONS
        for start in _ends(type_)
        for stop in _ends(type_)
        for step in _steps(type_)
        if _useful(type_, comparison, start, stop, step)
    ]
    stride = max(1, len(found) // _MOST_LOOPS)
    return found[::stride]


def _useful(type_: str, comparison: str, start: int, stop: int, step: int) -> bool:
    """Few trips, and more than one unless the counter wraps on it."""
    trips = trips_of(type_, comparison, start, stop, step)
    return trips is not None and (trips[0] > 1 or abs(stop - start) > _range(type_)[1] // 2)


def _wraps(type_: str, start: int, step: int, trips: int) -> bool:
    low, high = _range(type_)
    return not low <= start + step * trips <= high


def _loop(kind: str, type_: str, comparison: str, start: int, stop: int, step: int) -> Question | None:
    known = trips_of(type_, comparison, start, stop, step)
    if known is None:
        return None
    trips, last = known
    s = Snippet()
    bits = int(type_[1:])
    counter, count, again = s.register(type_), s.register("u32"), s.register("p")
    begin, end = s.label(), s.label()
    shown = {name: literal(type_, value % (1 << bits)) for name, value in (("a", start), ("b", stop), ("c", step))}
    if kind.startswith("memory"):
        held = "b" if kind.endswith("stop") else "a"
        shown[held] = s.read(type_, [(stop if held == "b" else start) % (1 << bits)] * LANES)
    s.put(f"mov.{type_} {counter}, {shown['a']};", f"mov.u32 {count}, 0;")
    if kind == "head":
        s.put(f"setp.{comparison}.{type_} {again}, {counter}, {shown['b']};", f"@!{again} bra {end};")
        holds = {"lt": start < stop, "le": start <= stop, "gt": start > stop, "ge": start >= stop, "ne": start != stop}
        if not holds[comparison]:
            trips, last = 0, start
    if kind.startswith("rolled"):
        s.put('.pragma "nounroll";')
    s.put(f"{begin}:", f"add.u32 {count}, {count}, 1;")
    if kind.endswith("distance"):
        if (
            comparison not in ("lt", "gt")
            or _wraps(type_, start, step, trips - 1)
            or (step > 0) != (comparison == "lt")
        ):
            return None
        if (start < stop) != (comparison == "lt"):
            return None
        distance = range(start, stop, step)
        trips, last = len(distance), start + step * len(distance)
        _by_distance(s, type_, counter, again, shown, step)
    else:
        s.put(f"add.{type_} {counter}, {counter}, {shown['c']};")
        if kind.endswith("trips"):
            s.put(f"setp.lt.u32 {again}, {count}, {trips};")
        else:
            s.put(f"setp.{comparison}.{type_} {again}, {counter}, {shown['b']};")
    s.put(f"@{again} bra {begin};", f"{end}:")
    s.result(count, "b32")
    s.result(counter, f"b{bits}")
    pattern = f"{'wraps, ' if _wraps(type_, start, step, trips) else ''}{_span(type_, start, stop)}"
    made = s.question("loops", f"{kind} {type_} {comparison}", kind, pattern)
    word = _wrapped(type_, last) % (1 << bits)
    return replace(made, known=((trips,) * LANES, (word,) * LANES))


def _by_distance(s: Snippet, type_: str, counter: str, again: str, shown: dict[str, str], step: int) -> None:
    """As the lowering steps where the next value could wrap."""
    unsigned = f"u{type_[1:]}"
    rest = s.register(unsigned)
    ends = (shown["b"], counter) if step > 0 else (counter, shown["b"])
    s.put(f"sub.{unsigned} {rest}, {', '.join(ends)};")
    s.put(f"setp.lt.{unsigned} {again}, {abs(step)}, {rest};", f"add.{type_} {counter}, {counter}, {shown['c']};")


def _span(type_: str, start: int, stop: int) -> str:
    low, high = _range(type_)
    part = abs(stop - start) / (high - low + 1)
    return "span over half" if part > 0.5 else "span over a quarter" if part > 0.25 else "short span"


# ---- bodies ---------------------------------------------------------------------------------------------------------


def _bodies(name: str) -> Iterator[Question]:
    """A value shifted by the counter in a loop that is unrolled, its results combined."""
    bits = int(name[-2:])
    for low, high in ((bits - 2, bits + 3), (0, 3), (30, 35), (62, 67), (126, 131), (254, 259)):
        for operand in ("memory", "product", "choice", "constant", "sum", "shift"):
            for factor in (3, 10, (1 << bits - 1) + 1):
                for pragma in (False, True):
                    yield _body(name, bits, low, high, operand, factor, pragma)


def _body(name: str, bits: int, low: int, high: int, operand: str, factor: int, pragma: bool) -> Question:
    s = Snippet()
    kind = f"b{bits}"
    value, mixed, shifted = s.register(kind), s.register(kind), s.register(kind)
    counter, again, begin = s.register("u32"), s.register("p"), s.label()
    if operand in ("constant", "choice"):
        other = 7 if operand == "choice" else factor
        s.put(
            f"selp.b{bits} {value}, {factor}, {other}, %p;" if operand == "choice" else f"mov.{kind} {value}, {factor};"
        )
    else:
        top = 1 << bits
        given = s.read(kind, [(lane * 0x9E3779B97F4A7C15 + 1) % top for lane in range(LANES)])
        made = {"memory": f"mov.{kind}", "product": f"mul.lo.u{bits}", "sum": f"add.u{bits}", "shift": f"shl.b{bits}"}
        second = {"memory": "", "shift": f", {factor % 70}"}.get(operand, f", {factor}")
        s.put(f"{made[operand]} {value}, {given}{second};")
    s.put(f"mov.{kind} {mixed}, 1;", f"mov.u32 {counter}, {low};")
    if pragma:
        s.put('.pragma "nounroll";')
    s.put(f"{begin}:", f"{name} {shifted}, {value}, {counter};", f"mad.lo.u{bits} {mixed}, {mixed}, 31, {shifted};")
    s.put(f"add.u32 {counter}, {counter}, 1;", f"setp.lt.u32 {again}, {counter}, {high};", f"@{again} bra {begin};")
    s.result(mixed, kind)
    return s.question("loops", f"{name} by counter", operand + (" rolled" if pragma else ""), f"{low} to {high}")
