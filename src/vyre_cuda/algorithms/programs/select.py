"""The programs that keep some elements in their order, and what makes coordinates of places.

One launch marks what is kept, a bit for each element, and counts it; a scan of the tiles' counts gives where what each
tile keeps begins; then a launch brings it there. The marks take little memory beside what they are made of, so reading
them costs less than waiting for other blocks would. A single tile is marked and kept by one block.

A row of a tile has `WIDTH` neighbors for each lane of a warp. A word of marks has those of one lane in eight rows.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from vyre_cuda.algorithms.programs.keys import key_of, zero_of
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.reduce import neighbors
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.ids import block_id, lane_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, i64, u32, u64
from vyre_cuda.records import FrozenRecord

WIDTH = 4
ROW = 32 * WIDTH
# Each lane of a warp counts one row of its tile.
ROWS = 32
TILE = ROWS * ROW
# Rows of a word of marks, and words of a tile.
TOGETHER = 32 // WIDTH
WORDS = TILE // 32
# Threads of a block that marks a tile, one for each word, and how many blocks a multiprocessor has at least.
MARK_THREADS, MARK_BLOCKS = WORDS, 12
# The same of a block that keeps what is marked, and of others.
THREADS, BLOCKS = 512, 4
OTHER_THREADS = 256


class Selection(FrozenRecord):
    """What is kept.

    `condition`: the type of what is not zero where an element is kept; None: what differs from the element before it.
    `elements`: the type of the elements; None: the places are kept.
    """

    condition: Type | None
    elements: Type | None

    @property
    def result(self) -> Type:
        return i64 if self.elements is None else self.elements


@lru_cache(maxsize=256)
def mark(how: Selection, index: Type, blocks: int = MARK_BLOCKS) -> Program:
    """What is kept of each tile, and how much it is.

    Parameters of the program: the condition, or without one the elements; marks, where what each row keeps begins in
    its tile, the number of elements that each tile keeps; the number of elements.
    """
    b = Builder("select_mark", MARK_THREADS, index, min_blocks=blocks)
    condition = None if how.condition is None else b.input("condition", how.condition)
    x = b.input("x", how.elements) if condition is None and how.elements is not None else None
    marks, begins = b.output("marks", u32, zeroed=False), b.output("begins", u32, zeroed=False)
    counts, n = b.output("counts", u32, zeroed=False), b.scalar("n", index)
    tile, warp = b.let("tile", block_id.x), b.let("warp", thread_id.x // 32)
    part = _Part(b, tile, warp * TOGETHER, TOGETHER, n)
    word = part.marks(condition, x)
    marks[tile * WORDS + thread_id.x] = word
    totals = [b.let("total", b.warp_reduce(each, "add")) for each in part.counts(word)]
    rows = b.shared("rows", u32, ROWS)
    with b.if_(lane_id == 0):
        for row in range(TOGETHER):
            rows[warp * TOGETHER + row] = part.count_of(totals, row)
    b.barrier()
    with b.if_(warp == 0):
        kept = b.let("kept", rows[lane_id])
        ends = b.warp_scan(kept, "add")
        begins[tile * ROWS + lane_id] = ends - kept
        with b.if_(lane_id == 31):
            counts[tile] = ends
    b.work(n)
    return b.build()


@lru_cache(maxsize=256)
def keep(how: Selection, index: Type, threads: int = THREADS, blocks: int = BLOCKS) -> Program:
    """What is marked of each tile, or its places.

    Parameters of the program: the elements, where there are some; marks, where what each row keeps begins in its tile,
    the number of elements that each tile keeps, and where these begin; the result, the number of kept elements, the
    number of elements.
    """
    b = Builder("select", threads, index, min_blocks=blocks)
    x = None if how.elements is None else b.input("x", how.elements)
    marks, begins = b.input("marks", u32), b.input("begins", u32)
    counts, starts = b.input("counts", u32), b.input("starts", index)
    out, count = output(b, "out", how.result), b.output("count", u64, zeroed=False)
    n = b.scalar("n", index)
    rows = ROWS * 32 // threads
    tile, first = b.let("tile", block_id.x), b.let("first", thread_id.x // 32 * rows)
    part = _Part(b, tile, first, rows, n)
    words = b.let("words", marks[tile * WORDS + first // TOGETHER * 32 + lane_id])
    total, start = b.let("total", counts[tile]), b.let("start", starts[tile])
    within = [b.let("begin", begins[tile * ROWS + first + k]) for k in range(rows)]
    word = b.let("word", words >> u32(first % TOGETHER) * WIDTH & ((1 << WIDTH * rows) - 1))
    elements = None if x is None else part.elements(x, word)
    own = part.counts(word)
    before = [b.let("before", b.warp_scan(each, "add") - each) for each in own]
    staged = part.stage(word, elements, [begin + part.count_of(before, k) for k, begin in enumerate(within)])
    part.write(staged, out, start, total, threads)
    with b.if_((thread_id.x == 0) & (tile * TILE + TILE >= n)):
        count[0] = u64(start) + u64(total)
    b.work(n)
    return b.build()


@lru_cache(maxsize=256)
def one_tile(how: Selection, index: Type) -> Program:
    """What is kept of a single tile, or its places.

    Parameters of the program: the condition and the elements, where there are these; the result, the number of kept
    elements, the number of elements.
    """
    b = Builder("select_tile", OTHER_THREADS, index)
    condition = None if how.condition is None else b.input("condition", how.condition)
    x = None if how.elements is None else b.input("x", how.elements)
    out, count = output(b, "out", how.result), b.output("count", u64, zeroed=False)
    n = b.scalar("n", index)
    per = ROWS * 32 // OTHER_THREADS
    first = b.let("first", thread_id.x // 32 * per)
    part = _Part(b, b.let("tile", index(0)), first, per, n)
    word = part.marks(condition, x)
    elements = None if x is None else part.elements(x, word)
    own = part.counts(word)
    ends = [b.let("ends", b.warp_scan(each, "add")) for each in own]
    before = [b.let("before", end - each) for end, each in zip(ends, own, strict=True)]
    rows = b.shared("rows", u32, ROWS)
    with b.if_(lane_id == 31):
        for row in range(per):
            rows[first + row] = part.count_of(ends, row)
    b.barrier()
    kept = b.let("kept", rows[lane_id])
    rows_end = b.let("rows_end", b.warp_scan(kept, "add"))
    total = b.let("total", b.broadcast(rows_end, 31))
    within = [b.shuffle(rows_end - kept, u32(first + row)) for row in range(per)]
    staged = part.stage(word, elements, [begin + part.count_of(before, k) for k, begin in enumerate(within)])
    part.write(staged, out, index(0), total, OTHER_THREADS)
    with b.if_(thread_id.x == 0):
        count[0] = u64(total)
    b.work(n)
    return b.build()


class _Part:
    """A thread's part of a tile: its neighbors in `count` rows from a row on."""

    def __init__(self, b: Builder, tile: Value, first: Value, count: int, n: Value) -> None:
        self.b = b
        self.n = n
        self.start = b.let("start", tile * TILE)
        self.is_full = b.let("is_full", self.start + TILE <= n)
        self.within = b.let("within", first * ROW + lane_id * WIDTH)
        self.rows = range(count)
        self.places = [self.start + self.within + k * ROW for k in self.rows]

    def marks(self, condition: Buffer | None, x: Buffer | None) -> Value:
        """A bit for each element that is kept: those of the first row first."""
        b = self.b
        type_ = bool_ if condition is None else condition.type
        kept = [[b.var("kept", zero_of(type_)) for _ in range(WIDTH)] for _ in self.rows]
        with b.if_(self.is_full):
            given = [None if condition is None else neighbors(condition, place, WIDTH) for place in self.places]
            values = [None if x is None or given[0] else neighbors(x, place, WIDTH) for place in self.places]
            for k, place in enumerate(self.places):
                for one, value in zip(kept[k], _kept(x, place, given[k], values[k]), strict=True):
                    one.set(value)
        with b.else_():
            for k, place in enumerate(self.places):
                for j in range(WIDTH):
                    with b.if_(place + j < self.n):
                        at = None if condition is None else [condition[place + j]]
                        itself = None if x is None or at else [x[place + j]]
                        kept[k][j].set(_kept(x, place + j, at, itself)[0])
        word: Any = u32(0)
        for k, one in enumerate(one for row in kept for one in row):
            word = b.let("word", where(bool_(one.read()), word | (1 << k), word))
        return b.let("marks", word)

    def counts(self, word: Value) -> list[Value]:
        """How many elements of each row have marks, in fields of 8 bits, so that they can be added all at once."""
        b = self.b
        pairs = b.let("pairs", word - (word >> 1 & 0x55555555))
        fours = b.let("fours", (pairs & 0x33333333) + (pairs >> 2 & 0x33333333))
        even, odd = fours & 0x0F0F0F0F, fours >> 4 & 0x0F0F0F0F
        if len(self.rows) <= TOGETHER // 2:
            return [b.let("counts", even | odd << 16)]
        return [b.let("counts", even), b.let("counts", odd)]

    def count_of(self, counts: list[Value], row: int) -> Value:
        """The count of a row."""
        word = counts[row % len(counts)]
        shift = row // 2 * 8 + (row % 2 * 16 if len(counts) == 1 else 0)
        found: Value = word >> shift & 0xFF
        return found

    def elements(self, x: Buffer, word: Value) -> list[list[Variable]]:
        """The elements of each row; those beyond the end have no mark, and are not read."""
        b = self.b
        found = [[b.var("element", zero_of(x.type)) for _ in range(WIDTH)] for _ in self.rows]
        with b.if_(self.is_full):
            for row, values in zip(found, [neighbors(x, place, WIDTH) for place in self.places], strict=True):
                for element, value in zip(row, values, strict=True):
                    element.set(value)
        with b.else_():
            for k, (row, place) in enumerate(zip(found, self.places, strict=True)):
                for j, element in enumerate(row):
                    with b.if_(word & (1 << k * WIDTH + j) != 0):
                        element.set(x[place + j])
        return found

    def stage(self, word: Value, elements: list[list[Variable]] | None, targets: list[Value]) -> Buffer:
        """Bring what is marked together in shared memory, each row's from its target on."""
        b = self.b
        staged = b.shared("staged", u32 if elements is None else elements[0][0].type, TILE)
        for k, target in enumerate(targets):
            target = b.let("target", target)
            for j in range(WIDTH):
                is_kept = b.let("is_kept", word & (1 << k * WIDTH + j) != 0)
                with b.if_(is_kept):
                    staged[target] = u32(self.within + (k * ROW + j)) if elements is None else elements[k][j]
                if j + 1 < WIDTH:
                    target = b.let("target", where(is_kept, target + 1, target))
        b.barrier()
        return staged

    def write(self, staged: Buffer, out: Buffer, start: Value, total: Value, threads: int) -> None:
        """Write what is staged, neighbors by neighbors."""
        b = self.b
        with b.for_(thread_id.x, self.start.type(total), threads) as at:
            kept = staged[at]
            is_place = staged.type is not out.type
            out[u64(start) + u64(at)] = i64(self.start + self.start.type(kept)) if is_place else kept


def _kept(x: Buffer | None, place: Any, given: list[Value] | None, values: list[Value] | None) -> list[Value]:
    """What is not zero or true where neighbors from a place on are kept: their conditions, or whether they differ from
    those before."""
    if given is not None:
        return given
    assert x is not None  # a selection without a condition compares elements
    assert values is not None
    is_first = place == 0
    keys = [key_of(value) for value in (x[where(is_first, place, place - 1)], *values)]
    found = [key != before for before, key in pairwise(keys)]
    return [is_first | found[0], *found[1:]]


@lru_cache(maxsize=64)
def coordinate(index: Type) -> Program:
    """One coordinate of places: (place // stride) % extent."""
    b = Builder("coordinate", block=OTHER_THREADS, index=index)
    places, out = b.input("places", i64), b.output("out", i64, zeroed=False)
    n, stride, extent = b.scalar("n", index), b.scalar("stride", u64), b.scalar("extent", u64)
    i = b.let("i", block_id.x * OTHER_THREADS + thread_id.x)
    with b.if_(i < n):
        out[i] = i64(u64(places[i]) // stride % extent)
    b.work(n)
    return b.build()
