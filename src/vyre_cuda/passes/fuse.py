"""Which steps of a recording become one: from the first on, each with as many of those behind it as `merge` takes, and
then, of those that have one block, as many as depend on each other in a row.

The decision depends on its arguments alone. A step that shares no array with those before it, and has a loop, stays
apart: the device can run both at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from vyre_cuda.ir.core.nodes import Barrier, For, While
from vyre_cuda.ir.core.walk import buffers_written, statements
from vyre_cuda.passes.blocks import merge_blocks
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

    `gone` are temporaries that exist no longer, and `barriers` separate what is in one block. `why` says why the step
    behind does not belong to them, `kind` in a word; both are empty where nothing was tried.
    """

    first: int
    end: int
    step: Step | None
    gone: frozenset[int] = frozenset()
    why: str = ""
    kind: Kind | None = None
    barriers: int = 0


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
        return self._in_blocks(found)

    def _group(self, first: int) -> Group:
        if isinstance(self._items[first], Apart):
            return Group(first, first + 1, None)
        run = self._run(first)
        stop, why = _related(run, always=False)
        count, made, refused = _most(run[:stop], merge)
        if refused is not None:
            why = str(refused)
        kind = None if refused is None else refused.kind
        if made is None:
            return Group(first, first + 1, None, frozenset(), why, kind)
        made, gone = self._without_temporaries(first, first + count, made)
        return Group(first, first + count, made, gone, why, kind)

    def _in_blocks(self, groups: Sequence[Group]) -> list[Group]:
        """The same, with those together that depend on each other and have one block."""
        found: list[Group] = []
        at = 0
        while at < len(groups):
            run = self._run_of_blocks(groups[at:])
            count, made, _ = _most(run[: _related(run, always=True)[0]], merge_blocks) if run else (1, None, None)
            some = groups[at : at + count]
            if made is not None:
                gone = frozenset[int]().union(*[group.gone for group in some])
                last = some[-1]
                barriers = sum(isinstance(s, Barrier) for s in statements(made.program.body))
                found.append(Group(some[0].first, last.end, made, gone, last.why, last.kind, barriers))
            else:
                found += some
            at += count
        return found

    def _run_of_blocks(self, groups: Sequence[Group]) -> list[Step]:
        """Steps from here on that have one block each, to a seam."""
        run: list[Step] = []
        for group in groups:
            item = self._items[group.first] if group.step is None else group.step
            if isinstance(item, Apart) or item.geometry.blocks != 1 or (run and group.first in self._seams):
                break
            run.append(item)
        return run

    def _run(self, first: int) -> list[Step]:
        """The steps from here to what is no launch, or to a seam."""
        run: list[Step] = []
        for place in range(first, len(self._items)):
            item = self._items[place]
            if isinstance(item, Apart) or (place > first and place in self._seams):
                break
            run.append(item)
        return run

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


def _most(run: Sequence[Step], merged: Callable[[Sequence[Step]], Step]) -> tuple[int, Step | None, Refused | None]:
    """How many from the first on become one, that one if they are several, and why not more."""
    low, high = 1, len(run) + 1
    made: Step | None = None
    refused: Refused | None = None
    while high - low > 1:
        probe = (low + high) // 2 if refused is not None else min(max(_TRIED, 4 * low), high - 1)
        try:
            made = merged(run[:probe])
            low = probe
        except Refused as why:
            refused, high = why, probe
            if why.kind is Kind.SIZE and 2 * low >= probe:
                break  # more than half of what fits
    return low, made, refused


def _related(run: Sequence[Step], *, always: bool) -> tuple[int, str]:
    """How many belong together, and why the one behind them does not; `always` also where they have no loops."""
    written: set[_Range] = set()
    touched: set[_Range] = set()
    for place, step in enumerate(run):
        writes, all_of = ranges(step)
        always = always or any(isinstance(s, (For, While)) for s in statements(step.program.body))
        if place and always and not (_meet(writes, touched) or _meet(all_of, written)):
            why = "has no array of theirs that is written; as there is a loop, the device may run it beside them"
            return place, f"{step.program.name} {why}"
        written |= writes
        touched |= all_of
    return len(run), ""


def _all_then_each(memories: Sequence[int]) -> Iterator[frozenset[int]]:
    if memories:
        yield frozenset(memories)
    if len(memories) > 1:
        yield from (frozenset((memory,)) for memory in memories)


# Memory, first byte, the byte behind the last, extents.
_Range: TypeAlias = tuple[int, int, int, tuple[int, ...]]


def ranges(step: Step) -> tuple[set[_Range], set[_Range]]:
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
        writes, all_of = ranges(new)
        written |= writes
        touched |= all_of
    return not any(_meet((one,), touched - {one}) for one in written)
