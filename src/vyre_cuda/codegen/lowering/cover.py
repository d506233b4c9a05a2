"""Which outs a kernel is sure to fill: it follows the statements as they are lowered.

What is collected are indices: whatever a thread's value of one is, if it is inside the array then the thread has stored
there. A condition around a store does no harm if it holds wherever the index is inside; where two sides of a branch
store to the same index, it does not matter which one is taken. An index that goes back from the end of an axis, as in
`extent - 1 - x`, is kept as `x` and said to be mirrored: these are all elements if those are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda.codegen.core.lowered import Cover
from vyre_cuda.codegen.lowering.filled import Indices, UntilEnd, filled
from vyre_cuda.codegen.lowering.isel_memory import Index, Memory
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.affine import Affine, affine, number, single
from vyre_cuda.ir.core.program import Program
from vyre_cuda.records import Record

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering.loops import CountedLoop

# A kernel that stores in more ways is not looked at further.
_MOST_STORED = 256
# Trips of a loop that are looked at one by one as well, to compare them with statements one after the other.
_MOST_WRITTEN_OUT = 8
# Parts of the conditions around a store that are looked at.
_MOST_PARTS = 64
# A kernel in which threads leave at more places is not looked at further.
_MOST_LEFT = 16

# An out, an index, and which of its axes are mirrored.
Stored: TypeAlias = tuple[str, Indices, tuple[bool, ...]]
# A predicate, and what it is.
Condition: TypeAlias = tuple[int, bool]


class Before(Record):
    """What was known where a branch or loop began."""

    here: tuple[Condition, ...] | None
    stored: frozenset[Stored]
    leaves: int
    ends: int
    broken: bool


class Coverage:
    """The conditions under which the current statement runs, for every thread's stores.

    `here`: a thread that began the trip, or the kernel, is still here if all of these hold; None if that cannot be
    said. What is `stored` counts only under the conditions of the branches around, which `end_if` looks at.
    """

    __slots__ = (
        "_block",
        "_broken",
        "_builder",
        "_depth",
        "_ends",
        "_leaves",
        "_memory",
        "_outs",
        "_trips",
        "here",
        "linear",
        "stored",
        "thread",
    )

    def __init__(self, builder: Builder, memory: Memory, program: Program, thread: int) -> None:
        self._builder = builder
        self._memory = memory
        self._block = program.block
        self._outs = {p.name: max(len(p.shape), 1) for p in program.parameters if p.kind == "out"}
        self._depth = 0  # conditions and loops around
        self._leaves = 0  # how often threads left the kernel, a loop or a trip
        self._ends = 0  # how often they left the kernel
        self._broken = False  # they may leave the innermost loop before its end
        self._trips: dict[int, int | UntilEnd] = {}
        self.thread = thread  # global_id.x
        self.linear = memory.linear
        self.here: tuple[Condition, ...] | None = ()
        self.stored: frozenset[Stored] = frozenset()

    @property
    def everyone(self) -> bool:
        """Every thread of the block runs this statement, once."""
        return self._depth == 0 and self.here == ()

    # ---- statements ----

    def store(self, name: str, index: Index) -> None:
        """A store to name[index] has been lowered."""
        axes = self._outs.get(name)
        if axes is None or self.here is None or len(self.stored) >= _MOST_STORED:
            return
        if self._memory.places[name].is_read:  # it may have read the zeros that a clear leaves
            return
        indices = index if isinstance(index, tuple) else (index,)
        types = self._builder.function.types
        if len(indices) != axes or any(types[i] != self._memory.index for i in indices):
            return
        sums = [self._from_begin(self.linear.of(i), self._extent(name, axis)) for axis, i in enumerate(indices)]
        stored = (name, tuple([s for s, _ in sums]), tuple([mirrored for _, mirrored in sums]))
        if stored not in self.stored and self._holds(self.here, stored):
            self.stored |= {stored}

    def _from_begin(self, whole: Affine, extent: int) -> tuple[Affine, bool]:
        """A sum that goes back from the end of its axis as one that goes forward, and whether it was such a one."""
        half = 1 << (whole.bits - 1)
        if all(coefficient < half for _, coefficient in whole.terms):
            return whole, False
        mirrored = self.linear.of(extent) - number(whole.bits, 1) - whole
        forward = all(coefficient < half for _, coefficient in mirrored.terms)
        return (mirrored, True) if forward else (whole, False)

    def leave(self) -> None:
        """Some thread may have ended here."""
        self._ends += 1
        self._leaves += 1
        self.here = None

    def leave_trip(self, *, loop: bool) -> None:
        """Some thread may have gone on to the next trip, or out of the loop."""
        self._broken |= loop
        self._leaves += 1
        self.here = None

    # ---- branches ----

    def begin(self) -> Before:
        """At a branch; also before its second side, with what this returned as the first began."""
        self._depth += 1
        return Before(self.here, self.stored, self._leaves, self._ends, self._broken)

    def other_side(self, before: Before) -> frozenset[Stored]:
        """At the end of a side: what it stored, which is forgotten."""
        stored = self.stored
        self.here, self.stored = before.here, before.stored
        return stored

    def end_if(self, before: Before, condition: int, then: frozenset[Stored], orelse: frozenset[Stored]) -> None:
        self._depth -= 1
        self.here = before.here if self._leaves == before.leaves else None
        found = then & orelse
        if then != orelse:
            found |= {s for s in then - before.stored if self._holds(((condition, True),), s)}
            found |= {s for s in orelse - before.stored if self._holds(((condition, False),), s)}
        self.stored = before.stored | found

    def stay(self, before: tuple[Condition, ...] | None, condition: int) -> None:
        """Who goes on does so because the condition is false, and those who went on before."""
        self.here = None if before is None or len(before) >= _MOST_LEFT else (*before, (condition, False))

    # ---- loops ----

    def begin_loop(self) -> Before:
        before = self.begin()
        self._broken = False
        if self.here is not None:
            self.here = ()
        return before

    def end_loop(self, before: Before, counted: CountedLoop | None) -> None:
        """After a loop; None for one whose trips nothing says."""
        self._depth -= 1
        added = self.stored - before.stored
        self.stored = before.stored
        ended = self._ends != before.ends
        if added and before.here is not None and counted is not None and not ended and not self._broken:
            found = [f for s in added for f in self._of_all_trips(s, counted)]
            self.stored |= {s for s in found if self._holds(before.here, s)}
        if not ended:
            self._leaves = before.leaves
        self.here = None if ended else before.here
        self._broken = before.broken

    def note_counter(self, counted: CountedLoop) -> None:
        """The counter of a loop that has been entered."""
        self.linear.note_counter(counted.counter, counted.start, counted.step_value)
        ends = counted.ends
        if ends is not None:
            self.linear.intervals[counted.counter] = (min(ends), max(ends))

    def _of_all_trips(self, stored: Stored, counted: CountedLoop) -> list[Stored]:
        """The index for all trips, with a term for them in place of the counter, and those for each of a few."""
        name, sums, mirrored = stored
        occurs = [axis for axis, s in enumerate(sums) if s.coefficient(counted.counter)]
        if counted.ends is not None:
            return self._of_each_trip(stored, counted, counted.ends) if occurs else [stored]
        if len(occurs) != 1:
            return []
        axis = occurs[0]
        whole = self._to_the_end(name, axis, sums, counted)
        return [] if whole is None else [(name, (*sums[:axis], whole, *sums[axis + 1 :]), mirrored)]

    def _of_each_trip(self, stored: Stored, counted: CountedLoop, ends: tuple[int, int]) -> list[Stored]:
        (name, sums, mirrored), counter = stored, counted.counter
        low, step, trips = min(ends), abs(counted.step or 0), counted.trips or 0
        term = self._trip(counter, trips)
        found = [(name, tuple([s.replaced(counter, affine(s.bits, ((term, step),), low)) for s in sums]), mirrored)]
        if trips <= _MOST_WRITTEN_OUT and len(self.stored) < _MOST_STORED // trips:
            for trip in range(trips):
                each = tuple([s.replaced(counter, number(s.bits, low + trip * step)) for s in sums])
                found.append((name, each, mirrored))
        return found

    def _to_the_end(self, name: str, axis: int, sums: Indices, counted: CountedLoop) -> Affine | None:
        """The sum of one axis for a loop that goes on to the end of the array.

        An element e is reached in the trip where counter + rest is e. That trip takes place if the counter, as an
        exact number, begins with the number that `start` is without wrapping, which is then at most e, and e is below
        `stop`. So start and rest must be sums of numbers that are 0 or more, also when taken together.
        """
        start, step = self.linear.of(counted.start), self.linear.of(counted.step_value)
        whole = sums[axis]
        rest = whole - single(whole.bits, counted.counter)
        if (
            start.bits != whole.bits
            or rest.coefficient(counted.counter) != 0
            or not self._ends_behind(counted, name, axis)
        ):
            return None
        if counted.step is not None and counted.step <= 0:
            return None
        if not self._of_launch(start) or not all(self._of_launch(s) for s in (*sums[:axis], rest, *sums[axis + 1 :])):
            return None
        limit = 1 << whole.bits
        together = [start.constant + rest.constant]
        together += [c + rest.coefficient(term) for term, c in start.terms]
        if any(total >= limit for total in together):
            return None
        return start + rest + single(whole.bits, self._trip(counted.counter, UntilEnd(step)))

    def _ends_behind(self, counted: CountedLoop, name: str, axis: int) -> bool:
        return self._at_least(counted.stop, self._extent(name, axis))

    def _trip(self, counter: int, trips: int | UntilEnd) -> int:
        """The term for the trips of a loop, by its counter."""
        term = -1 - counter
        self._trips[term] = trips
        return term

    # ---- conditions ----

    def _holds(self, conditions: tuple[Condition, ...], stored: Stored) -> bool:
        """Whether all of these hold wherever the index is inside the array."""
        function = self._builder.function
        work = list(conditions)
        for _ in range(_MOST_PARTS):
            if not work:
                return True
            condition, truth = work.pop()
            op, args = function.ops[condition], function.args[condition]
            if op == "logical_not":
                work.append((args[0], not truth))
            elif op == ("logical_and" if truth else "logical_or"):
                work += [(arg, truth) for arg in args]
            elif not self._is_bound(condition, truth, stored):
                return False
        return not work

    def _is_bound(self, condition: int, truth: bool, stored: Stored) -> bool:
        """Whether the condition says that an index, or a part of one, is below the extent or something larger."""
        function = self._builder.function
        op, args = function.ops[condition], function.args[condition]
        if op == "less" and truth:
            below, limit = args
        elif op == "less_equal" and not truth:
            limit, below = args
        else:
            return False
        if function.types[below] != self._memory.index:
            return False
        name, sums, _ = stored
        part = self.linear.of(below)
        return any(
            self._is_part(part, whole) and self._at_least(limit, self._extent(name, axis))
            for axis, whole in enumerate(sums)
        )

    def _is_part(self, part: Affine, whole: Affine) -> bool:
        """Whether `part` is at most `whole` where the latter, as an exact sum, is the number of an element."""
        if part == whole:
            return True
        if part.bits != whole.bits or not self._of_launch(part) or not self._of_launch(whole):
            return False
        return part.constant <= whole.constant and all(c <= whole.coefficient(term) for term, c in part.terms)

    def _of_launch(self, form: Affine) -> bool:
        """Only ids and trips, which are 0 or more and for which nothing else is put in later."""
        return all(term < 0 or self.linear.coordinate(term) is not None for term, _ in form.terms)

    def _extent(self, name: str, axis: int) -> int:
        return self._memory.size(name) if self._outs[name] == 1 else self._memory.extent(name, axis)

    def _at_least(self, limit: int, extent: int) -> bool:
        if limit == extent:
            return True
        b = self._builder
        most, count = b.constant_of(limit), b.constant_of(extent)
        return most is not None and count is not None and most >= count

    # ---- the answer ----

    def covers(self) -> dict[str, Cover]:
        """The outs that launches fill, and which."""
        found: dict[str, Cover] = {}
        in_order = sorted(self.stored, key=repr)
        for name, axes in self._outs.items():
            alike: dict[tuple[bool, ...], list[Indices]] = {}  # by the axes that are mirrored
            for other, sums, mirrored in in_order:
                if other == name:
                    alike.setdefault(mirrored, []).append(sums)
            own = (self.linear.of(self.thread),)
            if self._memory.places[name].is_read:  # a thread may only read what it surely stored before
                alike = {(False,): [sums for sums in alike.get((False,), ()) if sums == own]}
            extents = [self._builder.constant_of(self._extent(name, axis)) for axis in range(axes)]
            for stored in alike.values():
                cover = filled(stored, extents, self.linear, self._block, self._trips)
                if cover is not None:
                    found[name] = cover
                    break
        return found
