"""The program that keeps some elements in their order, in one pass, and what makes coordinates of places."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.algorithms.programs.keys import key_of
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.radix import exclusive_of_block
from vyre_cuda.algorithms.programs.scan import Earlier, ticket_of
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitwise_count, block_id, lane_id, thread_id, where
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, i64, u32, u64
from vyre_cuda.records import dataclass

THREADS = 256
WARPS = THREADS // 32
ROWS = 16
TILE = THREADS * ROWS


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
    b = Builder("select", block=THREADS, index=index)
    condition = None if how.condition is None else b.input("condition", how.condition)
    x = None if how.elements is None else b.input("x", how.elements)
    out, count = output(b, "out", how.result), b.output("count", u64, zeroed=False)
    words = b.inout("words", u64) if levels else None
    n = b.scalar("n", index)
    tiles = b.scalar("tiles", index) if levels else None
    starts = [b.scalar(f"level{k}", u64) for k in range(levels)]
    tile = block_id.x if words is None else ticket_of(b, words, index)
    start = b.let("start", tile * TILE)
    first = b.let("first", start + thread_id.x)
    places = [first + k * THREADS for k in range(ROWS)]
    flags, elements = _loaded(b, condition, x, places, start, n)
    ballots = [b.ballot(flag.read()) for flag in flags]
    segments = b.shared("segments", u32, ROWS * WARPS)
    warp = b.let("warp", thread_id.x // 32)
    with b.if_(lane_id == 0):
        for k, ballot in enumerate(ballots):
            segments[k * WARPS + warp] = bitwise_count(ballot)
    b.barrier()
    own = b.var("own", u32(0))
    with b.if_(thread_id.x < ROWS * WARPS):
        own.set(segments[thread_id.x])
    before = exclusive_of_block(b, own.read(), u32, WARPS)
    totals = b.shared("totals", counting(index).kind, 2)
    with b.if_(thread_id.x < ROWS * WARPS):
        segments[thread_id.x] = before
    with b.if_(thread_id.x == THREADS - 1):
        totals[0] = counting(index).kind(before + own.read())
    b.barrier()
    if words is not None and tiles is not None:
        with b.if_(warp == 0):
            earlier = Earlier(b, counting(index), words, starts, index(0), tile, tiles)
            earlier.ask()
            prefix = earlier.combined(b.let("total", totals[0]))
            with b.if_(lane_id == 0):
                totals[1] = prefix
        b.barrier()
    prefix = b.let("prefix", totals[1])
    with b.if_((thread_id.x == 0) & (start + TILE >= n)):
        count[0] = u64(prefix + totals[0])
    for k, (flag, ballot) in enumerate(zip(flags, ballots, strict=True)):
        with b.if_(flag.read()):
            below = bitwise_count(ballot & ((u32(1) << lane_id) - 1))
            target = prefix + prefix.type(segments[k * WARPS + warp] + below)
            out[target] = i64(places[k]) if x is None else elements[k]
    b.work(n)
    return b.build()


def _loaded(
    b: Builder, condition: Buffer | None, x: Buffer | None, places: list[Any], start: Value, n: Value
) -> tuple[list[Variable], list[Variable]]:
    """Which of the thread's elements are kept, and all of them: what is loaded late would be waited for again."""
    flags = [b.var("flag", bool_(False)) for _ in places]
    zero = None if x is None else bool_(False) if x.type is bool_ else x.type(0)
    elements = [b.var("element", zero) for _ in places if zero is not None]
    with b.if_(start + TILE <= n):
        kept = [_is_kept(condition, x, place) for place in places]
        values = [x[place] for place in places if x is not None]
        for variable, value in zip([*flags, *elements], [*kept, *values], strict=True):
            variable.set(value)
    with b.else_():
        for k, place in enumerate(places):
            with b.if_(place < n):
                flags[k].set(_is_kept(condition, x, place))
                if x is not None:
                    elements[k].set(x[place])
    return flags, elements


def _is_kept(condition: Buffer | None, x: Buffer | None, place: Any) -> Value:
    found: Value
    if condition is not None:
        found = bool_(condition[place])
        return found
    assert x is not None  # a selection without a condition compares elements
    is_first = place == 0
    before = x[where(is_first, place, place - 1)]
    found = is_first | (key_of(x[place]) != key_of(before))
    return found


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
