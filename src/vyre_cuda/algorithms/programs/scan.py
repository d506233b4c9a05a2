"""The program of a scan: one pass over memory, in which tiles find what is before them in what earlier ones published.

A tile is 32 segments of a warp's width; tiles form aligned groups of 32, these groups of 32 groups, and so on. A block
takes a ticket, publishes the total of its tile, and waits for the totals of earlier tiles of its group, of earlier
groups of its group of groups and so on; the last tile of a group publishes the group's total. So every wait is for
lower tickets, and no tile waits for a chain of others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.algorithms.programs.reduce import neighbors
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitcast, block_id, lane_id, thread_id, where
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, u32, u64
from vyre_cuda.records import dataclass

# Segments of a tile; tiles of a group, groups of a group of groups and so on: lanes of a warp, 2^5.
FAN = 32


def width_of(how: Combining) -> int:
    """Neighboring elements of a thread, of 16 bytes as what is combined; part of the stated order."""
    return 16 // how.kind.itemsize


def tile_of(how: Combining) -> int:
    return FAN * 32 * width_of(how)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a block has a tile: its threads, the rows of segments that they have, and the blocks of a multiprocessor."""

    threads: int
    rows: int
    blocks: int


def shape_of(how: Combining, n: int) -> Shape:
    """The shape for rows of `n` elements: with one tile, as many threads as it takes."""
    if n > tile_of(how):
        return Shape(64, 16, 9)
    segments = -(-n // (32 * width_of(how)))
    return Shape(32 << (segments - 1).bit_length(), 1, 0)


def levels_of(tiles: int) -> int:
    """How many levels of groups so many tiles have: 0 where there is one tile."""
    levels = 0
    while tiles > 1:
        tiles = -(-tiles // FAN)
        levels += 1
    return levels


def published_words(how: Combining, rows: int, tiles: int) -> int:
    """The 64-bit words of the ticket and of all that tiles publish."""
    words = 1 if how.kind.itemsize <= 4 else 2
    counts = [-(-tiles // (1 << (5 * level))) for level in range(levels_of(tiles))]
    return 2 + words * rows * sum(counts)


def level_starts(tiles: int, rows: int, levels: int) -> list[int]:
    """How many published values of all rows are before those of each level."""
    starts = [0]
    for level in range(levels - 1):
        starts.append(starts[-1] + rows * -(-tiles // FAN**level))
    return starts


@lru_cache(maxsize=256)
def program(how: Combining, index: Type, shape: Shape, *, levels: int, whole: bool, exclusive: bool) -> Program:
    """The scan of each row.

    Parameters of the program: the elements, the result, the elements and the tiles of a row; with levels, before these
    two, the published words, all zero, and at the end the number of rows' tiles at each level.
    """
    name = f"{how.name}_{how.source.name}{'_exclusive' if exclusive else ''}"
    threads, rows, warps = shape.threads, shape.rows, shape.threads // 32
    b = Builder(name, threads, index, min_blocks=shape.blocks)
    x = b.input("x", how.source)
    out = b.inout("out", bool_) if how.result is bool_ else b.output("out", how.result, zeroed=False)
    words = b.inout("words", u64) if levels else None
    n, tiles = b.scalar("n", index), b.scalar("tiles", index)
    starts = [b.scalar(f"level{k}", u64) for k in range(levels)]
    ticket = block_id.x if words is None else ticket_of(b, words, index)
    row = b.let("row", index(0) if whole else ticket // tiles)
    tile = b.let("tile", ticket - row * tiles)
    base = index(0) if whole else b.let("base", row * n)
    own = b.let("own", tile * tile_of(how) + thread_id.x * width_of(how))
    # A thread with one row looks whether that is there, others whether the tile is.
    end = own + width_of(how) if rows == 1 else tile * tile_of(how) + tile_of(how)
    is_full = b.let("is_full", end <= n)
    steps = [own + k * threads * width_of(how) for k in range(rows)]

    warp = b.let("warp", thread_id.x // 32)
    earlier = None
    if words is not None:
        earlier = Earlier(b, how, words, starts, row, tile, tiles)
        with b.if_(warp == 0):
            earlier.ask()
    within = _elements(b, how, x, base, steps, is_full, n)
    for elements in within:
        for k in range(1, len(elements)):
            elements[k].set(_one(how, elements[k - 1], elements[k]))
    segments = b.shared("segments", how.kind, rows * warps)
    lanes = []
    for k, elements in enumerate(within):
        before, inclusive = _warp_scan(b, how, elements[-1].read())
        lanes.append(before)
        for element in elements:
            element.set(how.combine((before,), (element.read(),))[0])
        with b.if_(lane_id == 31):
            segments[k * warps + warp] = inclusive
    b.barrier()
    with b.if_(warp == 0):
        before, inclusive = _warp_scan(b, how, _segment(b, how, segments, rows * warps))
        if earlier is not None:
            total = b.let("total", b.shuffle(inclusive, 31))
            earlier.publish(total)
            prefix = earlier.combined(total)
            before = b.let("before", how.combine((prefix,), (before,))[0])
        with b.if_(lane_id < rows * warps):
            segments[lane_id] = before
    b.barrier()
    for k, (before, elements) in enumerate(zip(lanes, within, strict=True)):
        start = segments[k * warps + warp]
        values = [b.let("value", how.combine((start,), (each.read(),))[0]) for each in elements]
        if exclusive:
            first = b.let("first", how.combine((start,), (before,))[0])
            values = [_first(how, steps[k], first), *values[:-1]]
        _store(b, how, out, base, steps[k], values, is_full, n)
    b.work(n)
    return b.build()


def ticket_of(b: Builder, words: Buffer, index: Type) -> Value:
    """The block's ticket: how many blocks came before it."""
    shared = b.shared("ticket", index, 1)
    with b.if_(thread_id.x == 0):
        shared[0] = index(b.atomic_add(words, 0, words.type(1)))
    b.barrier()
    return b.let("ticket", b.broadcast(shared[0], 0))


def _segment(b: Builder, how: Combining, segments: Buffer, count: int) -> Value:
    """The total of the lane's segment, the neutral one where the tile has none."""
    if count == FAN:
        return b.let("segment", segments[lane_id])
    (neutral,) = how.neutral()
    found = b.var("segment", neutral)
    with b.if_(lane_id < count):
        found.set(segments[lane_id])
    return found.read()


def _one(how: Combining, left: Variable, right: Variable) -> Value:
    found: Value = how.combine((left.read(),), (right.read(),))[0]
    return found


def _elements(
    b: Builder, how: Combining, x: Buffer, base: Value, steps: list[Any], is_full: Value, n: Value
) -> list[list[Variable]]:
    """The thread's elements of each row of the tile, as they are combined; the neutral one beyond the end."""
    width = width_of(how)
    (neutral,) = how.neutral()
    found = [[b.var("element", neutral) for _ in range(width)] for _ in steps]
    with b.if_(is_full):
        loaded = [neighbors(x, base + step, width) for step in steps]
        for row, values in zip(found, loaded, strict=True):
            for element, value in zip(row, values, strict=True):
                element.set(how.loaded(value, None)[0])
    with b.else_():
        for row, step in zip(found, steps, strict=True):
            for k, element in enumerate(row):
                with b.if_(step + k < n):
                    element.set(how.loaded(x[base + step + k], None)[0])
    return found


def _warp_scan(b: Builder, how: Combining, value: Any) -> tuple[Value, Value]:
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
    """What earlier tiles of a row published, for the lanes of one warp: `asked` early, read when it is needed."""

    def __init__(
        self, b: Builder, how: Combining, words: Buffer, starts: list[Value], row: Value, tile: Value, tiles: Value
    ) -> None:
        self.b = b
        self.how = how
        self.words = words
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

    def ask(self) -> None:
        """Read once what may be there already, all levels at the same time."""
        for level, asked in enumerate(self.asked):
            with self.b.if_(lane_id < self.lanes[level]):
                asked.set(self._mark(level))

    def publish(self, total: Value) -> None:
        """Tell later tiles what this one gives."""
        with self.b.if_(lane_id == 0):
            _publish(self.b, self.how, self.words, self.firsts[0], total)

    def combined(self, total: Value) -> Value:
        """What all earlier tiles give, combined level by level; publishes the groups that this tile completes."""
        b, how = self.b, self.how
        (neutral,) = how.neutral()
        is_last: Any = None
        own = total
        found = []
        for level, (first, lane) in enumerate(zip(self.firsts, self.lanes, strict=True)):
            if is_last is not None:
                with b.if_(is_last & (lane_id == 0)):
                    _publish(b, how, self.words, first, own)
            earlier = self._await(level)
            at_own = lane_id == lane if is_last is None else (lane_id == lane) & is_last
            value = where(lane_id < lane, earlier, where(at_own, own, neutral))
            before, inclusive = _warp_scan(b, how, value)
            found.append(b.shuffle(before, lane))
            own = b.shuffle(inclusive, FAN - 1)
            completes = lane == FAN - 1
            is_last = b.let("is_last", completes if is_last is None else is_last & completes)
        prefix: Value = found[-1]
        for value in reversed(found[:-1]):
            prefix = how.combine((prefix,), (value,))[0]
        return b.let("prefix", prefix)

    def _place(self, level: int) -> Value:
        place: Value = self.firsts[level] - u64(self.lanes[level]) + u64(lane_id)
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
        wanted = lane_id < self.lanes[level]
        with b.while_(lambda: b.any(wanted & (asked == 0))):
            # What is read of higher levels meanwhile is not waited for afterwards.
            for above in range(level, len(self.asked)):
                with b.if_(lane_id < self.lanes[above]):
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


def _first(how: Combining, place: Any, before: Value) -> Any:
    """What is before a thread's first element; nothing is 0 and not -0."""
    if how.name == "sum" and how.kind.is_float:
        return where(place == 0, how.kind(0.0), before)
    return before


def _store(
    b: Builder, how: Combining, out: Buffer, base: Value, step: Any, values: list[Any], is_full: Value, n: Value
) -> None:
    if how.result is bool_:
        results = [value != 0 for value in values]
    else:
        results = [value if value.type is how.result else how.result(value) for value in values]
    with b.if_(is_full):
        most = min(len(results), 16 // out.type.itemsize)
        for k in range(0, len(results), most):
            out.vector(base + step + k, most).set(*results[k : k + most])
    with b.else_():
        for k, value in enumerate(results):
            with b.if_(step + k < n):
                out[base + step + k] = value
