"""The program that keeps some elements in their order, in one pass, and what makes coordinates of places."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from vyre_cuda.algorithms.programs.keys import key_of
from vyre_cuda.algorithms.programs.lookback import Counted, next_ticket
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.reduce import neighbors
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import block_id, lane_id, thread_id, where
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, i64, u32, u64
from vyre_cuda.records import dataclass

THREADS = 256
WARPS = THREADS // 32
# Neighboring elements of a thread, and rows of a tile; a warp has a segment of each row, 32 in all.
WIDTH = 4
ROWS = 32 // WARPS
ROW = THREADS * WIDTH
TILE = ROWS * ROW
# Tiles that a multiprocessor has at once.
BLOCKS = 4
# The count of a segment takes so many bits: up to 32 * WIDTH.
_BITS = 8


@dataclass(frozen=True, slots=True)
class Selection:
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
def program(how: Selection, index: Type, *, levels: int) -> Program:
    """Kept elements, or their places.

    Parameters of the program: the condition and the elements, where there are these; the result, the number of kept
    elements, the number of elements; with levels, then the published words, all zero, the number of tiles, the tiles
    that a block takes, and the number of tiles before each level.
    """
    b = Builder("select", THREADS, index, min_blocks=BLOCKS)
    block = _Block(b, how, index)
    if not levels:
        block.take(block_id.x, block.n)
        block.stage()
        b.barrier()
        block.write(block_id.x, block.total, index(0))
        block.finish(block_id.x == 0, block.total)
        b.work(block.n)
        return b.build()
    words = b.inout("words", u64)
    tiles, turns = b.scalar("tiles", index), b.scalar("turns", index)
    starts = [b.scalar(f"level{k}", u64) for k in range(levels)]
    before = b.shared("before", index, 1)
    # The tile that was published last.
    published, total = b.var("published", tiles), b.var("total", u32(0))
    with b.for_(index(0), turns + 1) as turn:
        ticket = next_ticket(b, words, index, turn < turns, tiles)
        block.take(ticket, b.let("n", where(ticket < tiles, block.n, index(0))))
        last = b.let("last", published.read())
        kept = b.let("kept", total.read())
        with b.if_(block.warp == 0):
            with b.if_(ticket < tiles):
                Counted(b, words, starts, ticket).publish(block.total)
            with b.if_(last < tiles):
                prefix = Counted(b, words, starts, last).combined()
                with b.if_(lane_id == 0):
                    before[0] = index(prefix)
        b.barrier()
        begin = b.let("begin", before[0])
        block.write(last, kept, begin)
        block.finish(last + 1 == tiles, begin + index(kept))
        # What is staged next was read by all threads before.
        b.barrier()
        block.stage()
        published.set(ticket)
        total.set(block.total)
    b.work(block.n)
    return b.build()


class _Block:
    """A block at work on one tile after the other."""

    def __init__(self, b: Builder, how: Selection, index: Type) -> None:
        self.b = b
        self.index = index
        self.condition = None if how.condition is None else b.input("condition", how.condition)
        self.x = None if how.elements is None else b.input("x", how.elements)
        self.out, self.count = output(b, "out", how.result), b.output("count", u64, zeroed=False)
        self.n = b.scalar("n", index)
        self.segments = b.shared("segments", u32, ROWS * WARPS)
        self.staged = b.shared("staged", how.elements or u32, TILE)
        self.warp = b.let("warp", thread_id.x // 32)
        self.first = b.let("first", thread_id.x * WIDTH)

    def take(self, tile: Value, n: Value) -> None:
        """Read a tile, and find out where its kept elements go within it."""
        b = self.b
        start = b.let("start", tile * TILE)
        self.flags, self.elements = _loaded(b, self.condition, self.x, start, self.first, n)
        packed = [u32(flag.read()) << (_BITS * k) for k, row in enumerate(self.flags) for flag in row]
        counts = b.let("counts", sum(packed, u32(0)))
        inclusive = b.warp_scan(counts, "add")
        with b.if_(lane_id == 31):
            for k in range(ROWS):
                self.segments[k * WARPS + self.warp] = _count(inclusive, k)
        b.barrier()
        own = b.let("own", self.segments[lane_id])
        ends = b.warp_scan(own, "add")
        self.total = b.let("total", b.broadcast(ends, 31))
        self.places = []
        for k in range(ROWS):
            begin = b.shuffle(ends - own, k * WARPS + self.warp)
            self.places.append(b.let("place", begin + _count(inclusive - counts, k)))

    def stage(self) -> None:
        """Bring the kept elements together in shared memory."""
        b = self.b
        for k, (row, place) in enumerate(zip(self.flags, self.places, strict=True)):
            for j, flag in enumerate(row):
                with b.if_(flag.read()):
                    element = self.elements[k][j].read() if self.elements else u32(self.first + (k * ROW + j))
                    self.staged[place] = element
                if j + 1 < WIDTH:
                    place = b.let("place", place + u32(flag.read()))

    def write(self, tile: Value, total: Value, begin: Value) -> None:
        """Write what is staged of a tile, from the element `begin` on."""
        b = self.b
        # In 64 bits an address is that of the first element and a number that the instruction has.
        first = b.let("first", u64(begin) + u64(thread_id.x))
        for k in range(ROWS * WIDTH):
            place = b.let("place", thread_id.x + k * THREADS)
            with b.if_(place < total):
                kept = self.staged[place]
                element = kept if self.elements else i64(tile * TILE + self.index(kept))
                self.out[first + k * THREADS] = element

    def finish(self, is_last: Value, total: Value) -> None:
        """Write the number of kept elements, where the tile is the last."""
        with self.b.if_((thread_id.x == 0) & is_last):
            self.count[0] = u64(total)


def _count(packed: Value, row: int) -> Value:
    """The number of a row, of those of all rows in one word."""
    found: Value = packed >> (_BITS * row) & ((1 << _BITS) - 1)
    return found


def _loaded(
    b: Builder, condition: Buffer | None, x: Buffer | None, start: Value, first: Value, n: Value
) -> tuple[list[list[Variable]], list[list[Variable]]]:
    """Which of the thread's elements are kept, and all of them, for each row: what is loaded late would be waited for
    again."""
    places = [start + first + k * ROW for k in range(ROWS)]
    flags = [[b.var("flag", bool_(False)) for _ in range(WIDTH)] for _ in places]
    elements: list[list[Variable]] = []
    if x is not None:
        zero = bool_(False) if x.type is bool_ else x.type(0)
        elements = [[b.var("element", zero) for _ in range(WIDTH)] for _ in places]
    with b.if_(start + TILE <= n):
        given = [None if condition is None else neighbors(condition, place, WIDTH) for place in places]
        values = [None if x is None else neighbors(x, place, WIDTH) for place in places]
        for k, place in enumerate(places):
            kept = _are_kept(x, place, given[k], values[k])
            variables = [*flags[k], *(elements[k] if elements else ())]
            for variable, value in zip(variables, [*kept, *(values[k] or ())], strict=True):
                variable.set(value)
    with b.else_():
        for k, place in enumerate(places):
            for j in range(WIDTH):
                with b.if_(place + j < n):
                    value = None if x is None else [x[place + j]]
                    at = None if condition is None else [condition[place + j]]
                    flags[k][j].set(_are_kept(x, place + j, at, value)[0])
                    if value is not None:
                        elements[k][j].set(value[0])
    return flags, elements


def _are_kept(x: Buffer | None, place: Any, given: list[Value] | None, values: list[Value] | None) -> list[Value]:
    """Whether neighbors from a place on are kept: by their conditions, or where they differ from the one before."""
    if given is not None:
        return [bool_(value) for value in given]
    assert x is not None  # a selection without a condition compares elements
    assert values is not None
    is_first = place == 0
    keys = [key_of(value) for value in (x[where(is_first, place, place - 1)], *values)]
    found = [key != before for before, key in pairwise(keys)]
    return [is_first | found[0], *found[1:]]


@lru_cache(maxsize=64)
def coordinate(index: Type) -> Program:
    """One coordinate of places: (place // stride) % extent."""
    b = Builder("coordinate", block=THREADS, index=index)
    places, out = b.input("places", i64), b.output("out", i64, zeroed=False)
    n, stride, extent = b.scalar("n", index), b.scalar("stride", u64), b.scalar("extent", u64)
    i = b.let("i", block_id.x * THREADS + thread_id.x)
    with b.if_(i < n):
        out[i] = i64(u64(places[i]) // stride % extent)
    b.work(n)
    return b.build()
