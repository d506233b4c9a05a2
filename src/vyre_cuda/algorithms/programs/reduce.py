"""The program of a reduction: one block for each tile of a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.combining import Combining, Values
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.handles import Buffer, Variable
from vyre_cuda.ir.builder.ids import block_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_

THREADS = 256
WARPS = THREADS // 32
# Rows of a tile, each with neighboring elements for every thread, and how many of them are loaded before one is added.
ROWS = 16
GROUP = 4


def tile_of(how: Combining) -> int:
    """The number of elements that a block combines; part of the stated order."""
    return THREADS * ROWS * how.width


@lru_cache(maxsize=512)
def program(how: Combining, index: Type, *, first: bool, last: bool, whole: bool, few: bool = False) -> Program:
    """Each tile of each row combined to one value.

    Parameters of the program: the elements (`first`), or what an earlier launch left of them, one buffer for each
    component; the result (`last`), or a buffer for each component; the elements of a row, the tiles of a row and, for a
    mean, the number that sums are divided by. `whole` says that there is one row, `few` that its elements are no more
    than one row of a tile.
    """
    b = Builder(f"{how.name}_{how.source.name}_{'tiles' if first else 'sums'}", block=THREADS, index=index)
    sources = [b.input("x", how.source)] if first else [b.input(f"x{k}", kind) for k, kind in enumerate(how.kinds)]
    results = _results(b, how, last)
    n, tiles = b.scalar("n", index), b.scalar("tiles", index)
    count = b.scalar("count", how.kind) if last and how.name == "mean" else None
    row = b.let("row", index(0) if whole else block_id.x // tiles)
    start = b.let("start", (block_id.x - row * tiles) * tile_of(how))
    base = index(0) if whole else b.let("base", row * n)
    if few:
        totals = halves(how, _guarded(b, how, sources, base, b.let("own", thread_id.x * how.width), n, first))
    else:
        totals = _of_thread(b, how, sources, base, start, n, first)

    def store(values: Values) -> None:
        for buffer, value in zip(results, [how.finished(values, count)] if last else values, strict=True):
            buffer[block_id.x] = value

    _of_block(b, how, totals, store)
    b.work(n)
    return b.build()


@lru_cache(maxsize=128)
def short_rows(how: Combining, index: Type) -> Program:
    """Rows of at most a warp's neighbors, one for each warp, in the order of a tile.

    Parameters of the program: the elements, the result, the elements of a row, the number of rows and, for a mean, the
    number that sums are divided by.
    """
    b = Builder(f"{how.name}_{how.source.name}_rows", block=THREADS, index=index)
    x = b.input("x", how.source)
    (out,) = _results(b, how, True)
    n, rows = b.scalar("n", index), b.scalar("rows", index)
    count = b.scalar("count", how.kind) if how.name == "mean" else None
    row = b.let("row", block_id.x * WARPS + thread_id.x // 32)
    base, place = b.let("base", row * n), b.let("place", thread_id.x % 32 * how.width)
    found = [[b.var("element", value) for value in how.neutral()] for _ in range(how.width)]
    for k, element in enumerate(found):
        with b.if_((place + k < n) & (row < rows)):
            _set(element, how.loaded(x[base + place + k], place + k))
    total = halves(how, [tuple(each.read() for each in element) for element in found])
    values = how.of_warp(b, tuple(b.let("total", value) for value in total))
    with b.if_((thread_id.x % 32 == 0) & (row < rows)):
        out[row] = how.finished(values, count)
    b.work(n)
    return b.build()


def _results(b: Builder, how: Combining, last: bool) -> list[Buffer]:
    if not last:
        return [b.output(f"total{k}", kind, zeroed=False) for k, kind in enumerate(how.kinds)]
    # A bool cannot be left as it is where nothing is written, but an inout may.
    return [b.inout("out", bool_) if how.result is bool_ else b.output("out", how.result, zeroed=False)]


def _of_thread(
    b: Builder, how: Combining, sources: list[Buffer], base: Value, start: Value, n: Value, first: bool
) -> Values:
    """What this thread's elements give."""
    width, stride = how.width, THREADS * how.width
    totals = [[b.var("total", value) for value in how.neutral()] for _ in range(width)]
    own = b.let("own", start + thread_id.x * width)
    with b.if_(start + tile_of(how) <= n), b.for_(0, ROWS * stride, GROUP * stride) as offset:
        _add_group(how, totals, _full_rows(b, how, sources, base, own + offset, first))
    with b.else_(), b.for_(0, ROWS * stride, GROUP * stride) as offset:
        with b.if_(start + offset >= n):
            b.break_()
        at = b.let("at", own + offset)
        _add_group(how, totals, [_guarded(b, how, sources, base, at + k * stride, n, first) for k in range(GROUP)])
    return halves(how, [tuple(each.read() for each in total) for total in totals])


def row_of_block(b: Builder, how: Combining, x: Buffer, base: Value, n: Value, out: Buffer) -> None:
    """A row of any length combined by one block, as a tile with as many groups of rows as it needs."""
    width, stride = how.width, THREADS * how.width
    totals = [[b.var("total", value) for value in how.neutral()] for _ in range(width)]
    own = b.let("own", thread_id.x * width)
    with b.for_(0, n, GROUP * stride) as offset:
        at = b.let("at", own + offset)
        with b.if_(n - offset >= GROUP * stride):
            _add_group(how, totals, _full_rows(b, how, [x], base, at, True))
        with b.else_():
            _add_group(how, totals, [_guarded(b, how, [x], base, at + k * stride, n, True) for k in range(GROUP)])

    def store(values: Values) -> None:
        result = how.finished(values, None)
        out[block_id.x] = where(n == 0, out.type(0), result) if how.name == "sum" else result

    _of_block(b, how, halves(how, [tuple(each.read() for each in total) for total in totals]), store)


def _add_group(how: Combining, totals: list[list[Variable]], rows: list[list[Values]]) -> None:
    """Combine rows half with half, and add what they give to the totals."""
    for k, total in enumerate(totals):
        combined = halves(how, [row[k] for row in rows])
        _set(total, how.combine(tuple(each.read() for each in total), combined))


def _full_rows(
    b: Builder, how: Combining, sources: list[Buffer], base: Value, at: Any, first: bool
) -> list[list[Values]]:
    """The thread's elements of a group of rows that are all there; all are loaded before one is used."""
    at = b.let("at", at)
    places = [at + k * THREADS * how.width for k in range(GROUP)]
    loaded = [_vectors(sources, base + place, how.width) for place in places]
    return [_loaded(how, each, place, first) for each, place in zip(loaded, places, strict=True)]


def _vectors(sources: list[Buffer], place: Any, width: int) -> list[list[Value]]:
    return [neighbors(source, place, width) for source in sources]


def neighbors(source: Buffer, place: Any, count: int) -> list[Value]:
    """Neighboring elements, read by as few accesses as they take."""
    most = min(count, 16 // source.type.itemsize)
    return [element for k in range(0, count, most) for element in source.vector(place + k, most)]


def _loaded(how: Combining, columns: list[list[Value]], place: Any, first: bool) -> list[Values]:
    """Elements as they are combined."""
    if not first:
        return list(zip(*columns, strict=True))
    return [how.loaded(element, place + k) for k, element in enumerate(columns[0])]


def _guarded(
    b: Builder, how: Combining, sources: list[Buffer], base: Value, place: Any, n: Value, first: bool
) -> list[Values]:
    """Elements as they are combined, the neutral one beyond the row."""
    width = how.width
    found = [[b.var("element", value) for value in how.neutral()] for _ in range(width)]
    with b.if_(place + width <= n):
        for total, values in zip(
            found, _loaded(how, _vectors(sources, base + place, width), place, first), strict=True
        ):
            _set(total, values)
    with b.else_():
        for k, total in enumerate(found):
            with b.if_(place + k < n):
                single = [[source[base + place + k]] for source in sources]
                _set(total, _loaded(how, single, place + k, first)[0])
    return [tuple(each.read() for each in total) for total in found]


def _set(variables: list[Variable], values: Values) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.set(value)


def halves(how: Combining, values: list[Values]) -> Values:
    """Values combined half with half, until one is left."""
    while len(values) > 1:
        half = len(values) // 2
        values = [how.combine(values[k], values[k + half]) for k in range(half)]
    return values[0]


def _of_block(b: Builder, how: Combining, totals: Values, store: Callable[[Values], None]) -> None:
    """What the block's threads have, combined and stored by the first of them."""
    shared = [b.shared(f"warps{k}", kind, WARPS) for k, kind in enumerate(how.kinds)]
    combined = how.of_warp(b, tuple(b.let("total", value) for value in totals))
    with b.if_(thread_id.x % 32 == 0):
        for buffer, value in zip(shared, combined, strict=True):
            buffer[thread_id.x // 32] = value
    b.barrier()
    with b.if_(thread_id.x == 0):
        store(halves(how, [tuple(buffer[k] for buffer in shared) for k in range(WARPS)]))
