"""Which steps of a recording become one: from the first on, each with as many of those behind it as `merge` takes.

The decision depends on its arguments alone. A step that shares no array with those before it, and has a loop, stays
apart: the device can run both at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from vyre_cuda.ir.core.nodes import For, While
from vyre_cuda.ir.core.walk import buffers_written, statements
from vyre_cuda.passes.merge import merge
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.records import dataclass

_TRIED = 16  # steps at first, then four times as many as fit


@dataclass(frozen=True, slots=True)
class Apart:
    """A step that is not merged, and why; `memories` are those that it touches."""

    name: str
    why: str
    memories: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Group:
    """The steps from `first` to before `end`. `step` is what they became, None for one that stays as it is.

    `gone` are temporaries that exist no longer. `why` says why the step behind does not belong to them, `kind` in a
    word; both are empty where nothing was tried.
    """

    first: int
    end: int
    step: Step | None
    gone: frozenset[int] = frozenset()
    why: str = ""
    kind: Kind | None = None


def decide(
    items: Sequence[Step | Apart], seams: Collection[int] = (), temporaries: Collection[int] = ()
) -> list[Group]:
    """Groups that have every item once, in order.

    `seams` are places that a group may end before but not reach across. `temporaries` are memories whose contents are
    unspecified before the first item and after the last one.
    """
    return _Decision(items, frozenset(seams), frozenset(temporaries)).groups()


class _Decision:
    def __init__(self, items: Sequence[Step | Apart], seams: frozenset[int], temporaries: frozenset[int]) -> None:
        self._items = items
        self._seams = seams
        self._users: dict[int, list[int]] = {memory: [] for memory in temporaries}
        for place, item in enumerate(items):
            touched = item.memories if isinstance(item, Apart) else {span.memory for span in item.spans.values()}
            for memory in touched & self._users.keys():
                self._users[memory].append(place)

    def groups(self) -> list[Group]:
        found: list[Group] = []
        place = 0
        while place < len(self._items):
            found.append(self._group(place))
            place = found[-1].end
        return found

    def _group(self, first: int) -> Group:
        if isinstance(self._items[first], Apart):
            return Group(first, first + 1, None)
        run = self._run(first)
        stop, why = self._related(run)
        low, high = first + 1, first + stop + 1
        made: Step | None = None
        kind: Kind | None = None
        is_refused = False
        while high - low > 1:
            probe = (low + high) // 2 if is_refused else min(first + max(_TRIED, 4 * (low - first)), high - 1)
            try:
                made = merge(run[: probe - first])
                low = probe
            except Refused as refused:
                why, kind, is_refused, high = str(refused), refused.kind, True, probe
                if kind is Kind.SIZE and 2 * (low - first) >= probe - first:
                    break  # more than half of what fits
        if made is None:
            return Group(first, first + 1, None, frozenset(), why, kind)
        made, gone = self._without_temporaries(first, low, made)
        return Group(first, low, made, gone, why, kind)

    def _run(self, first: int) -> list[Step]:
        """The steps from here to what is no launch, or to a seam."""
        run: list[Step] = []
        for place in range(first, len(self._items)):
            item = self._items[place]
            if isinstance(item, Apart) or (place > first and place in self._seams):
                break
            run.append(item)
        return run

    def _related(self, run: Sequence[Step]) -> tuple[int, str]:
        """How many belong together, and why the one behind them does not."""
        written: set[_Range] = set()
        touched: set[_Range] = set()
        loops = False
        for place, step in enumerate(run):
            writes, all_of = _ranges(step)
            loops = loops or any(isinstance(s, (For, While)) for s in statements(step.program.body))
            if place and loops and not (_meet(writes, touched) or _meet(all_of, written)):
                why = "has no array of theirs that is written; as there is a loop, the device may run it beside them"
                return place, f"{step.program.name} {why}"
            written |= writes
            touched |= all_of
        return len(run), ""

    def _without_temporaries(self, first: int, end: int, made: Step) -> tuple[Step, frozenset[int]]:
        """The same without the arrays that nothing else touches, as far as their contents can be known."""
        steps = [item for item in self._items[first:end] if isinstance(item, Step)]
        inside = [m for m, users in self._users.items() if users and first <= users[0] and users[-1] < end]
        inside.sort(key=lambda memory: self._users[memory])
        gone: frozenset[int] = frozenset()
        for tried in _all_then_each(inside):
            if gone == frozenset(inside):
                break
            more = gone | tried
            try:
                made = merge(steps, [span for step in steps for span in step.spans.values() if span.memory in more])
                gone = more
            except Refused:
                continue
        return made, gone


def _all_then_each(memories: Sequence[int]) -> Iterator[frozenset[int]]:
    if memories:
        yield frozenset(memories)
    if len(memories) > 1:
        yield from (frozenset((memory,)) for memory in memories)


# Memory, first byte, the byte behind the last, extents.
_Range: TypeAlias = tuple[int, int, int, tuple[int, ...]]


def _ranges(step: Step) -> tuple[set[_Range], set[_Range]]:
    """What the step writes, and what it touches."""
    written = buffers_written(step.program.body)
    writes: set[_Range] = set()
    all_of: set[_Range] = set()
    for p in step.program.parameters:
        if p.is_buffer and step.spans[p.name].count:
            span = step.spans[p.name]
            found = (span.memory, span.first, span.first + span.count * p.type.itemsize, span.shape)
            all_of.add(found)
            if p.kind == "out" or p.name in written:
                writes.add(found)
    return writes, all_of


def _meet(some: Collection[_Range], others: Collection[_Range]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


# ---- later values ----------------------------------------------------------------------------------------------------


def shares_alike(before: Sequence[Step], now: Sequence[Step]) -> bool:
    """Whether what was merged for the steps `before` holds for the same programs on other memory.

    It does where the launches and shapes are the same, the same arrays are the same, and others do not meet where one
    of them is written.
    """
    forth: dict[Span, Span] = {}
    back: dict[Span, Span] = {}
    written: set[_Range] = set()
    touched: set[_Range] = set()
    for old, new in zip(before, now, strict=True):
        if old.geometry != new.geometry:
            return False
        for name, span in old.spans.items():
            other = new.spans[name]
            if span.shape != other.shape or forth.setdefault(span, other) != other:
                return False
            if back.setdefault(other, span) != span:
                return False
        writes, all_of = _ranges(new)
        written |= writes
        touched |= all_of
    return not any(_meet((one,), touched - {one}) for one in written)
