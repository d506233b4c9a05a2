"""The program of a scan: one pass over memory, in which tiles find what is before them in what earlier ones published.

A tile is 32 segments of a warp's width. A block publishes the total of its tile, and finds what is before it in what
others published (`lookback.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.algorithms.programs.lookback import FAN, Earlier, ticket_of, warp_scan
from vyre_cuda.algorithms.programs.reduce import neighbors
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.ids import block_id, lane_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, u64
from vyre_cuda.records import FrozenRecord


def width_of(how: Combining) -> int:
    """Neighboring elements of a thread, of 16 bytes as what is combined; part of the stated order."""
    return 16 // how.kind.itemsize


def tile_of(how: Combining) -> int:
    return FAN * 32 * width_of(how)


class Shape(FrozenRecord):
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


def _named(how: Combining, exclusive: bool) -> str:
    return f"{how.name}_{how.source.name}{'_exclusive' if exclusive else ''}"


def _output(b: Builder, how: Combining) -> Buffer:
    return b.inout("out", bool_) if how.result is bool_ else b.output("out", how.result, zeroed=False)


@lru_cache(maxsize=256)
def one_tile(how: Combining, index: Type, shape: Shape, *, whole: bool, exclusive: bool) -> Program:
    """The scan of rows of one tile, each by a block of its own, whose threads have one row of segments.

    Parameters of the program: the elements, the result, and the elements of a row. `whole` says that there is one row.
    """
    warps = shape.threads // 32
    b = Builder(_named(how, exclusive), shape.threads, index)
    x, out, n = b.input("x", how.source), _output(b, how), b.scalar("n", index)
    base = index(0) if whole else b.let("base", block_id.x * n)
    own = b.let("own", thread_id.x * width_of(how))
    is_full = b.let("is_full", own + width_of(how) <= n)
    warp = b.let("warp", thread_id.x // 32)
    (elements,) = _elements(b, how, x, base, [own], is_full, n)
    segments = b.shared("segments", how.kind, warps)
    (before,) = _within_segments(b, how, [elements], segments, warp, warps)
    b.barrier()
    with b.if_(warp == 0):
        earlier, _ = warp_scan(b, how, _segment(b, how, segments, warps))
        with b.if_(lane_id < warps):
            segments[lane_id] = earlier
    b.barrier()
    start = segments[warp]
    values = [b.let("value", how.combine((start,), (each.read(),))[0]) for each in elements]
    if exclusive:
        first = b.let("first", how.combine((start,), (before,))[0])
        values = [_first(how, own, first), *values[:-1]]
    _store(b, how, out, base, own, values, is_full, n)
    b.work(n)
    return b.build()


@lru_cache(maxsize=256)
def program(how: Combining, index: Type, shape: Shape, *, levels: int, whole: bool, exclusive: bool) -> Program:
    """The scan of rows of several tiles.

    Parameters of the program: the elements, the result, the published words, all zero; the elements and the tiles of a
    row, and the number of rows' tiles before each level. `whole` says that there is one row.
    """
    threads, rows, warps = shape.threads, shape.rows, shape.threads // 32
    width = width_of(how)
    b = Builder(_named(how, exclusive), threads, index, min_blocks=shape.blocks)
    x, out, words = b.input("x", how.source), _output(b, how), b.inout("words", u64)
    n, tiles = b.scalar("n", index), b.scalar("tiles", index)
    starts = [b.scalar(f"level{k}", u64) for k in range(levels)]
    ticket = ticket_of(b, words, index)
    row = b.let("row", index(0) if whole else ticket // tiles)
    tile = b.let("tile", ticket - row * tiles)
    base = index(0) if whole else b.let("base", row * n)
    own = b.let("own", tile * tile_of(how) + thread_id.x * width)
    is_full = b.let("is_full", tile * tile_of(how) + tile_of(how) <= n)
    steps = [own + k * threads * width for k in range(rows)]
    warp = b.let("warp", thread_id.x // 32)
    segments = b.shared("segments", how.kind, rows * warps)
    # The elements wait here for what is before the tile, each thread's together, so that more tiles fit at once.
    held = b.shared("held", how.kind, tile_of(how))
    prefixes = b.shared("prefixes", how.kind, threads * rows) if exclusive else held
    held_at = [b.let("held_at", thread_id.x * width) + k * threads * width for k in range(rows)]

    within = _elements(b, how, x, base, steps, is_full, n)
    lanes = _within_segments(b, how, within, segments, warp, warps)
    b.barrier()
    earlier = Earlier(b, how, words, starts, row, tile, tiles)
    (neutral,) = how.neutral()
    total, begin = b.var("total", neutral), b.var("begin", neutral)
    with b.if_(warp == 0):
        before, inclusive = warp_scan(b, how, segments[lane_id])
        begin.set(before)
        total.set(b.shuffle(inclusive, FAN - 1))
        earlier.publish(total.read())
    for k, elements in enumerate(within):
        held.vector(held_at[k], width).set(*[element.read() for element in elements])
        if exclusive:
            prefixes[thread_id.x + k * threads] = lanes[k]
    with b.if_(warp == 0):
        prefix = earlier.combined(total.read())
        segments[lane_id] = how.combine((prefix,), (begin.read(),))[0]
    b.barrier()
    for k, step in enumerate(steps):
        start = segments[k * warps + warp]
        values = [b.let("value", how.combine((start,), (each,))[0]) for each in held.vector(held_at[k], width)]
        if exclusive:
            first = b.let("first", how.combine((start,), (prefixes[thread_id.x + k * threads],))[0])
            values = [_first(how, step, first), *values[:-1]]
        _store(b, how, out, base, step, values, is_full, n)
    b.work(n)
    return b.build()


def _within_segments(
    b: Builder, how: Combining, within: list[list[Variable]], segments: Buffer, warp: Value, warps: int
) -> list[Value]:
    """Scan each row's segment of a warp, with its total to `segments`; what is before each lane."""
    for elements in within:
        for k in range(1, len(elements)):
            elements[k].set(_one(how, elements[k - 1], elements[k]))
    lanes = []
    for k, elements in enumerate(within):
        before, inclusive = warp_scan(b, how, elements[-1].read())
        lanes.append(before)
        for element in elements:
            element.set(how.combine((before,), (element.read(),))[0])
        with b.if_(lane_id == 31):
            segments[k * warps + warp] = inclusive
    return lanes


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
