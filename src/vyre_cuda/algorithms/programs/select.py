"""The program that keeps some elements in their order, in one pass, and what makes coordinates of places."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.algorithms.programs.keys import key_of
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.reduce import neighbors
from vyre_cuda.algorithms.programs.scan import Earlier, ticket_of
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
BLOCKS = 6
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


def counting(index: Type) -> Combining:
    """How the numbers of kept elements are added up."""
    kind = u64 if index is u64 else u32
    return Combining("sum", kind, (kind,), kind)


@lru_cache(maxsize=256)
def program(how: Selection, index: Type, *, levels: int) -> Program:
    """Kept elements, or their places.

    Parameters of the program: the condition and the elements, where there are these; the result, the number of kept
    elements; with levels, the published words, all zero; the number of elements and, with levels, of tiles, and the
    number of tiles before each level.
    """
    b = Builder("select", THREADS, index, min_blocks=BLOCKS)
    condition = None if how.condition is None else b.input("condition", how.condition)
    x = None if how.elements is None else b.input("x", how.elements)
    out, count = output(b, "out", how.result), b.output("count", u64, zeroed=False)
    words = b.inout("words", u64) if levels else None
    n = b.scalar("n", index)
    tiles = b.scalar("tiles", index) if levels else None
    starts = [b.scalar(f"level{k}", u64) for k in range(levels)]
    tile = block_id.x if words is None else ticket_of(b, words, index)
    start = b.let("start", tile * TILE)
    first = b.let("first", thread_id.x * WIDTH)
    flags, elements = _loaded(b, condition, x, start, first, n)
    segments = b.shared("segments", u32, ROWS * WARPS)
    warp = b.let("warp", thread_id.x // 32)
    packed = [u32(flag.read()) << (_BITS * k) for k, row in enumerate(flags) for flag in row]
    counts = b.let("counts", sum(packed, u32(0)))
    inclusive = b.warp_scan(counts, "add")
    with b.if_(lane_id == 31):
        for k in range(ROWS):
            segments[k * WARPS + warp] = _count(inclusive, k)
    b.barrier()
    own = b.let("own", segments[lane_id])
    ends = b.warp_scan(own, "add")
    total = b.let("total", b.broadcast(ends, 31))
    kind = counting(index).kind
    earlier = None
    if words is not None and tiles is not None:
        earlier = Earlier(b, counting(index), words, starts, index(0), tile, tiles)
        with b.if_(warp == 0):
            earlier.publish(kind(total))
            earlier.ask()
    staged = b.shared("staged", how.elements or u32, TILE)
    for k, row in enumerate(flags):
        begin = b.shuffle(ends - own, k * WARPS + warp)
        place = b.let("place", begin + _count(inclusive - counts, k))
        for j, flag in enumerate(row):
            with b.if_(flag.read()):
                staged[place] = elements[k][j].read() if elements else u32(first + (k * ROW + j))
            if j + 1 < WIDTH:
                place = b.let("place", place + u32(flag.read()))
    before = b.shared("before", kind, 1)
    if earlier is not None:
        with b.if_(warp == 0):
            prefix = earlier.combined(kind(total))
            with b.if_(lane_id == 0):
                before[0] = prefix
    b.barrier()
    prefix = kind(0) if earlier is None else b.let("prefix", before[0])
    with b.if_((thread_id.x == 0) & (start + TILE >= n)):
        count[0] = u64(prefix + kind(total))
    for k in range(ROWS * WIDTH):
        place = b.let("place", thread_id.x + k * THREADS)
        with b.if_(place < total):
            kept = staged[place]
            out[prefix + kind(place)] = kept if elements else i64(start + index(kept))
    b.work(n)
    return b.build()


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
