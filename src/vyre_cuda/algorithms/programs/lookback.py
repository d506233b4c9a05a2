"""What blocks publish of their tiles, and how later ones find what is before theirs in it.

Tiles form aligned groups of 32, these groups of 32 groups, and so on. A block takes a ticket for each tile, publishes
what the tile gives, and waits for what earlier tiles of its group gave, earlier groups of its group of groups and so
on. So every wait is for lower tickets, and no tile waits for a chain of others.

The last tile of a group publishes what the group gives.
"""

from __future__ import annotations

from typing import Any

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitcast, where
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import lane_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.types import Type, u32, u64

# Tiles of a group, groups of a group of groups and so on: lanes of a warp, 2^5.
FAN = 32


def levels_of(tiles: int) -> int:
    """How many levels of groups so many tiles have: 0 where there is one tile."""
    levels = 0
    while tiles > 1:
        tiles = -(-tiles // FAN)
        levels += 1
    return levels


def words_of(how: Combining) -> int:
    """The 64-bit words of one published value."""
    return 1 if how.kind.itemsize <= 4 else 2


def published_words(words: int, rows: int, tiles: int) -> int:
    """The 64-bit words of the ticket and of all that tiles publish, with so many for each value."""
    counts = [-(-tiles // (1 << (5 * level))) for level in range(levels_of(tiles))]
    return 2 + words * rows * sum(counts)


def level_starts(tiles: int, rows: int, levels: int) -> list[int]:
    """How many published values of all rows are before those of each level."""
    starts = [0]
    for level in range(levels - 1):
        starts.append(starts[-1] + rows * -(-tiles // FAN**level))
    return starts


def ticket_of(b: Builder, words: Buffer, index: Type) -> Value:
    """The block's ticket: how many blocks came before it."""
    shared = b.shared("ticket", index, 1)
    with b.if_(thread_id.x == 0):
        shared[0] = index(b.atomic_add(words, 0, words.type(1)))
    b.barrier()
    return b.let("ticket", b.broadcast(shared[0], 0))


def warp_scan(b: Builder, how: Combining, value: Any) -> tuple[Value, Value]:
    """What is before each lane, and that with the lane's own value."""
    (neutral,) = how.neutral()
    inclusive = b.let("inclusive", value)
    names = {"sum": "add", "max": "max"}
    if how.name in names:
        inclusive = b.warp_scan(inclusive, names[how.name])
    else:
        for step in (1, 2, 4, 8, 16):
            below = b.shuffle_up(inclusive, step)
            combined = how.combine((inclusive,), (below,))[0]
            inclusive = b.let("inclusive", where(lane_id >= step, combined, inclusive))
    below = b.shuffle_up(inclusive, 1)
    return b.let("before", where(lane_id == 0, neutral, below)), inclusive


class Earlier:
    """What earlier tiles of a row published, for the lanes of one warp."""

    def __init__(
        self, b: Builder, how: Combining, words: Buffer, starts: list[Value], row: Value, tile: Value, tiles: Value
    ) -> None:
        self.b = b
        self.how = how
        self.words = words
        self.lane = b.let("lane", u32(lane_id))
        self.lanes: list[Value] = []
        self.firsts: list[Value] = []
        here, count = u64(tile), u64(tiles)
        for start in starts:
            here = b.let("here", here)
            self.firsts.append(b.let("first", start + u64(row) * count + here))
            self.lanes.append(b.let("place", u32(here) & (FAN - 1)))
            here = here // FAN
            count = b.let("count", (count + (FAN - 1)) // FAN)
        self.asked = [b.var("asked", u64(0)) for _ in starts]

    def _ask(self) -> None:
        """Read once what may be there already, all levels at the same time."""
        for level, asked in enumerate(self.asked):
            with self.b.if_(self.lane < self.lanes[level]):
                asked.set(self._mark(level))

    def publish(self, total: Value) -> None:
        """Tell later tiles what this one gives."""
        with self.b.if_(self.lane == 0):
            _publish(self.b, self.how, self.words, self.firsts[0], total)

    def combined(self, total: Value) -> Value:
        """What all earlier tiles give, combined level by level; publishes the groups that this tile completes."""
        b, how = self.b, self.how
        (neutral,) = how.neutral()
        self._ask()
        is_last: Any = None
        own = total
        found = []
        for level, (first, lane) in enumerate(zip(self.firsts, self.lanes, strict=True)):
            if is_last is not None:
                with b.if_(is_last & (self.lane == 0)):
                    _publish(b, how, self.words, first, own)
            earlier = self._await(level)
            at_own = self.lane == lane if is_last is None else (self.lane == lane) & is_last
            value = where(self.lane < lane, earlier, where(at_own, own, neutral))
            before, inclusive = warp_scan(b, how, value)
            found.append(b.shuffle(before, lane))
            own = b.shuffle(inclusive, FAN - 1)
            completes = lane == FAN - 1
            is_last = b.let("is_last", completes if is_last is None else is_last & completes)
        prefix: Value = found[-1]
        for value in reversed(found[:-1]):
            prefix = how.combine((prefix,), (value,))[0]
        return b.let("prefix", prefix)

    def _place(self, level: int) -> Value:
        place: Value = self.firsts[level] - u64(self.lanes[level]) + u64(self.lane)
        return place

    def _mark(self, level: int) -> Value:
        """The word that says whether a value is there."""
        place = self._place(level)
        if self.how.kind.itemsize == 4:
            return self.b.atomic_load(self.words, place + 2)
        return self.b.atomic_load(self.words, place * 2 + 3, order="acquire")

    def _await(self, level: int) -> Value:
        """The values of earlier lanes, once they are there."""
        b, how, asked = self.b, self.how, self.asked[level]
        wanted = self.lane < self.lanes[level]
        with b.while_(lambda: b.any(wanted & (asked == 0))):
            # What is read of higher levels meanwhile is not waited for afterwards.
            for above in range(level, len(self.asked)):
                with b.if_(self.lane < self.lanes[above]):
                    self.asked[above].set(self._mark(above))
        if how.kind.itemsize == 4:
            bits = u32(asked.read())
            return bits if how.kind is u32 else bitcast(bits, how.kind)
        value = b.var("value", u64(0))
        with b.if_(wanted):
            value.set(b.atomic_load(self.words, self._place(level) * 2 + 2))
        return value.read() if how.kind is u64 else bitcast(value.read(), how.kind)


def _publish(b: Builder, how: Combining, words: Buffer, place: Value, value: Value) -> None:
    """A value that others may read, after a mark that says so."""
    if how.kind.itemsize == 4:
        bits = value if how.kind is u32 else bitcast(value, u32)
        b.atomic_store(words, place + 2, u64(bits) | u64(1 << 32))
        return
    bits = value if how.kind is u64 else bitcast(value, u64)
    b.atomic_store(words, place * 2 + 2, bits)
    b.atomic_store(words, place * 2 + 3, u64(1), order="release")
