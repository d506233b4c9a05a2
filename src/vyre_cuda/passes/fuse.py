"""Which steps of a recording become one: from the first on, each with as many of those behind it as `merge` takes, and
then, of those of one block, as many as depend on each other in a row, or are in a loop; and a loop with the one step
that is in it.

The decision depends on its arguments alone. A step that shares no array with those before it, and has a loop, stays
apart: the device can run both at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count as count_up

from vyre_cuda.ir.core.limits import MAX_PARAMETERS
from vyre_cuda.passes.blocks import in_one_block, merge_blocks
from vyre_cuda.passes.facts import facts_of
from vyre_cuda.passes.merge import Merge, merge
from vyre_cuda.passes.mergeable import MOST_OPS
from vyre_cuda.passes.pairs import Pairs
from vyre_cuda.passes.part import Parts
from vyre_cuda.passes.ranges import Covered, Range, meet_written, ranges
from vyre_cuda.passes.repeats import Until, barriers_of, merge_again, merge_repeated, most_times
from vyre_cuda.passes.shared import in_shared
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.records import FrozenRecord, replace

_TRIED = 16  # steps at first, then four times as many as fit


class Repeat(FrozenRecord):
    """A loop around the steps up to before `end`; `until` ends it, after `times` passes at the latest unless that is
    0."""

    times: int
    end: int
    until: Until | None = None


class Apart(FrozenRecord):
    """A step that is not merged, and why; `memories` are those that it touches. A loop is one before its steps."""

    name: str
    why: str
    memories: frozenset[int] = frozenset()
    repeat: Repeat | None = None


class Group(FrozenRecord):
    """The steps from `first` to before `end`. `step` is what they became, None for one that stays as it is.

    `gone` are temporaries that exist no longer, and `shared` those of them that are shared arrays of the block, of
    which `unspecified` begin with any contents; `barriers` separate what is in one block. `times` is how often a loop
    repeats them, 0 without one or without a limit, and `until` what ends it. `why` says why the step behind does not
    belong to them, of a loop why it stays, `kind` in a word; both are empty where nothing was tried.
    """

    first: int
    end: int
    step: Step | None
    gone: frozenset[int] = frozenset()
    why: str = ""
    kind: Kind | None = None
    barriers: int = 0
    times: int = 0
    until: Until | None = None
    shared: frozenset[int] = frozenset()
    unspecified: tuple[str, ...] = ()


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
        self._parts = Parts()
        self._pairs = Pairs()
        self._repeated: set[int] = set()
        self._users: dict[int, list[int]] = {memory: [] for memory in temporaries}
        self._used: list[set[int]] = []  # temporaries, by place
        for place, item in enumerate(items):
            if isinstance(item, Apart) and item.repeat is not None:
                self._repeated.update(range(place + 1, item.repeat.end))
            touched = item.memories if isinstance(item, Apart) else {span.memory for span in item.spans.values()}
            self._used.append({*touched} & self._users.keys())
            for memory in self._used[-1]:
                self._users[memory].append(place)

    def groups(self) -> list[Group]:
        found: list[Group] = []
        place = 0
        while place < len(self._items):
            found.append(self._group(place))
            place = found[-1].end
        return [self._in_shared(group) for group in self._in_loops(self._in_blocks(found))]

    def _group(self, first: int) -> Group:
        if isinstance(self._items[first], Apart):
            return Group(first, first + 1, None)
        run = _Run(self._launches(first), always=False)
        if len(two := run.upto(2)) < 2:
            return Group(first, first + 1, None, frozenset(), run.why)
        one, other = two
        together = Merge(one.geometry, parts=self._parts)
        count, refused = 0, self._pairs.known(one, other)
        if refused is None:
            count, refused = _added(run, together)
            if refused is not None and count < 2:
                self._pairs.note(one, other, refused)
        if refused is not None and count < 2:
            return Group(first, first + 1, None, frozenset(), str(refused), refused.kind)
        made: Step | None
        try:
            made, gone = self._without_temporaries(first, first + count, together)
        except Refused:
            made = None
        if made is None:  # there are more operations than in the steps apart
            count, made, refused = _most(run, merge)
            gone = frozenset()
        why = run.why if refused is None else str(refused)
        kind = None if refused is None else refused.kind
        return Group(first, first + count, made, gone, why, kind)

    def _in_blocks(self, groups: Sequence[Group]) -> list[Group]:
        """The same, with those together that have one block, and depend on each other or are in a loop: a node in
        each pass takes longer than the threads of another block could save."""
        found: list[Group] = []
        at = 0
        while at < len(groups):
            run = _Run(self._of_one_block(groups, at), always=groups[at].first not in self._repeated)
            count, made, _ = _most(run, merge_blocks)
            some = groups[at : at + count]
            if made is not None:
                gone = frozenset[int]().union(*[group.gone for group in some])
                last = some[-1]
                found.append(Group(some[0].first, last.end, made, gone, last.why, last.kind, barriers_of(made)))
            else:
                found += some
            at += count
        return found

    def _of_one_block(self, groups: Sequence[Group], at: int) -> Iterator[Step]:
        """Steps from here on that have one block each, to a seam, and as many as one kernel may have operations and
        arrays."""
        ops = 0
        arrays: set[Span] = set()
        for number in range(at, len(groups)):
            group = groups[number]
            item = self._items[group.first] if group.step is None else group.step
            if isinstance(item, Apart) or group.times or (number > at and group.first in self._seams):
                return
            ops += facts_of(item.program).ops
            arrays.update(item.spans.values())
            if number > at and (ops > MOST_OPS or len(arrays) > MAX_PARAMETERS):
                return
            try:
                yield in_one_block(item)
            except Refused:
                return

    def _in_loops(self, groups: Sequence[Group]) -> list[Group]:
        """The same, with loops in the kernels that they repeat, the inner ones first."""
        found: list[Group] = []
        opened: list[int] = []  # where the loops are among those found
        for group in groups:
            found.append(group)
            item = self._items[group.first]
            if isinstance(item, Apart) and item.repeat is not None:
                opened.append(len(found) - 1)
            while opened and found[-1].end == self._repeat(found[opened[-1]].first).end:
                at = opened.pop()
                found[at:] = self._with_loop(found[at], found[at + 1 :])
        return found

    def _repeat(self, place: int) -> Repeat:
        item = self._items[place]
        assert isinstance(item, Apart)
        assert item.repeat is not None  # it is a loop
        return item.repeat

    def _with_loop(self, loop: Group, inside: Sequence[Group]) -> list[Group]:
        repeat = self._repeat(loop.first)
        if len(inside) != 1:
            return [replace(loop, why=self._of_several(inside)), *inside]
        (one,) = inside
        item = self._items[one.first] if one.step is None else one.step
        if isinstance(item, Apart):
            return [loop, *inside]
        is_counted = repeat.until is None and one.until is None and one.times > 0  # both loops
        times = repeat.times * one.times if is_counted else repeat.times
        try:
            if is_counted and 0 < times <= most_times(item):
                made = merge_again(item, repeat.times)
            else:
                made = merge_repeated(item, repeat.times, repeat.until)
        except Refused as refused:
            return [replace(loop, why=str(refused), kind=refused.kind), *inside]
        return [Group(loop.first, one.end, made, one.gone, "", None, barriers_of(made), times, repeat.until)]

    def _of_several(self, inside: Sequence[Group]) -> str:
        """Why a loop around them stays."""
        if all(group.step is not None or isinstance(self._items[group.first], Step) for group in inside):
            return f"its steps are {len(inside)} kernels"
        return "its steps do not become one kernel"

    def _in_shared(self, group: Group) -> Group:
        """The same with shared arrays of its block in place of the temporaries that nothing else touches."""
        if group.step is None or not group.barriers:
            return group
        alone = self._alone(group.first, group.end)
        made, shared, unspecified = in_shared(group.step, alone - group.gone)
        return replace(group, step=made, gone=group.gone | shared, shared=shared, unspecified=unspecified)

    def _alone(self, first: int, end: int) -> set[int]:
        """The temporaries that only items from here to there use."""
        used = set[int]().union(*self._used[first:end])
        return {m for m in used if first <= self._users[m][0] and self._users[m][-1] < end}

    def _launches(self, first: int) -> Iterator[Step]:
        """The steps from here to the first that is not a launch, or to a seam."""
        for place in range(first, len(self._items)):
            item = self._items[place]
            if isinstance(item, Apart) or (place > first and place in self._seams):
                return
            yield item

    def _without_temporaries(self, first: int, end: int, together: Merge) -> tuple[Step, frozenset[int]]:
        """What the steps become without the arrays that nothing else touches, as far as their contents can be known."""
        steps = [item for item in self._items[first:end] if isinstance(item, Step)]
        inside = sorted(self._alone(first, end), key=lambda memory: (self._users[memory], memory))

        def without(some: frozenset[int]) -> Step:
            spans = [span for step in steps for span in step.spans.values() if span.memory in some]
            return together.step(frozenset(spans))

        gone = frozenset(inside)
        try:
            return without(gone), gone
        except Refused:
            if not inside:
                raise
        gone = frozenset()
        made = without(gone)
        for memory in inside if len(inside) > 1 else ():
            try:
                made, gone = without(gone | {memory}), gone | {memory}
            except Refused:
                continue
        return made, gone


class _Run:
    """Steps that belong together, read as far as they are asked for.

    Without `always` steps belong together even where they share nothing, unless one of them has a loop. `why` says why
    the step behind them does not, once it was met.
    """

    def __init__(self, steps: Iterator[Step], *, always: bool) -> None:
        self._steps = steps
        self._always = always
        self._read: list[Step] = []
        self._written, self._touched = Covered(), Covered()
        self.why = ""

    def upto(self, count: int) -> list[Step]:
        """So many steps, fewer where there are no more."""
        self._read_upto(count)
        return self._read[:count]

    def _read_upto(self, count: int) -> None:
        while len(self._read) < count and not self.why:
            step = next(self._steps, None)
            if step is None:
                break
            self._add(step)

    def __iter__(self) -> Iterator[Step]:
        """From the first on."""
        for number in count_up():
            self._read_upto(number + 1)
            if number == len(self._read):
                return
            yield self._read[number]

    def _add(self, step: Step) -> None:
        writes, all_of = ranges(step)
        self._always = self._always or facts_of(step.program).has_loop
        meets = not self._always or self._touched.meets(writes) or self._written.meets(all_of)
        if self._read and not meets:
            self.why = (
                f"{step.program.name} shares no written array with the steps before it; as there is a loop, the device "
                "may run them side by side"
            )
            return
        self._read.append(step)
        self._written.add(writes)
        self._touched.add(all_of)


def _added(run: _Run, together: Merge) -> tuple[int, Refused | None]:
    """How many from the first on it takes, and why not more."""
    count = 0
    for step in run:
        try:
            together.add(step)
        except Refused as why:
            return count, why.with_traceback(None)  # it has this frame, and those of all callers
        count += 1
    return count, None


def _most(run: _Run, merged: Callable[[Sequence[Step]], Step]) -> tuple[int, Step | None, Refused | None]:
    """How many from the first on become one, that one if they are several, and why not more."""
    low, high, fit = 1, 0, 0
    made: Step | None = None
    refused: Refused | None = None
    while not high or high - low > 1:
        some = run.upto(fit if low < fit < high else (low + high) // 2 if high else max(_TRIED, 4 * low))
        if len(some) <= low:
            break
        try:
            made = merged(some)
            low = len(some)
        except Refused as why:
            refused = why.with_traceback(None)  # it has this frame, and those of all callers
            fit, high = why.fit, len(some)
            if low <= fit < high:
                high = fit + 1
            elif why.kind is Kind.SIZE and 2 * low >= high:
                break  # more than half of what fits
    return low, made, refused


# ---- later values ----------------------------------------------------------------------------------------------------


def shares_alike(before: Sequence[Step], now: Sequence[Step]) -> bool:
    """Whether what was merged for the steps `before` holds for the same programs on other memory.

    It does where the launches and shapes are the same, the same arrays are the same, and others do not meet where one
    of them is written.
    """
    forth: dict[Span, Span] = {}
    back: dict[Span, Span] = {}
    written: set[Range] = set()
    touched: set[Range] = set()
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
    return not meet_written(touched, written)
