"""The programs of counting: blocks count in shared memory where the bins fit, and add their counts to the result."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.reduce import neighbors
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import block_id, grid_dim, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, f32, f64, i64, u32, u64

THREADS = 256
WARPS = THREADS // 32
# Bins that a block counts itself, and those of which each warp has its own.
MOST_SHARED = 4096
MOST_OF_WARP = 256
# Elements of a block, at least, so that adding its counts to the result is little beside them.
LEAST_OF_BLOCK = 1 << 14
MOST_BLOCKS = 2112


class _Bins:
    """The bins of a block, or those of the result where they are many."""

    def __init__(self, b: Builder, counts: Buffer, bins: int | None) -> None:
        self.b = b
        self.counts = counts
        self.bins = bins
        if bins is not None:
            copies = WARPS if bins <= MOST_OF_WARP else 1
            self.copies = copies
            self.own = b.shared("own", u32, copies * bins)
            self.first = u32(thread_id.x // 32 * bins) if copies > 1 else u32(0)

    def add(self, place: Value) -> None:
        if self.bins is None:
            self.b.atomic_add(self.counts, place, i64(1))
        else:
            self.b.atomic_add(self.own, self.first + u32(place), 1, scope="block")

    def finish(self) -> None:
        if self.bins is None:
            return
        b = self.b
        b.barrier()
        with b.for_(u32(thread_id.x), u32(self.bins), step=u32(THREADS)) as place:
            total: Any = u32(0)
            for copy in range(self.copies):
                total = total + self.own[place + copy * self.bins]
            found = b.let("found", total)
            with b.if_(found != 0):
                b.atomic_add(self.counts, place, i64(found))


def _each(b: Builder, x: Buffer, n: Value, index: Type, use: Any) -> None:
    """`use` of every element, each block with neighbors of 16 bytes for every thread, then a whole grid further."""
    width = max(16 // x.type.itemsize, 2)
    step = b.let("step", grid_dim.x * (THREADS * width))
    first = b.let("first", (block_id.x * THREADS + thread_id.x) * width)
    with b.for_(first, n, step) as i:
        with b.if_(i + width <= n):
            for element in neighbors(x, i, width):
                use(element)
        with b.else_(), b.for_(i, n) as j:
            use(x[j])


@lru_cache(maxsize=64)
def bincount(type_: Type, bins: int | None, checked: bool, index: Type) -> Program:
    """How often each number occurs, added to the counts.

    Parameters of the program: the numbers, the counts, the number of numbers and of counts. `bins` is the number of
    counts where the block has its own; `checked` says that a number may have no count, which is an assertion.
    """
    b = Builder(f"bincount_{type_.name}", block=THREADS, index=index)
    x, counts = b.input("x", type_), b.inout("counts", i64)
    n, size = b.scalar("n", index), b.scalar("size", index)
    found = _Bins(b, counts, bins)
    fits = b.var("fits", u32(1)) if checked else None

    def use(element: Value) -> None:
        if fits is None:
            found.add(u64(element))
            return
        number = b.let("number", u64(element))
        with b.if_(number < u64(size)):
            found.add(number)
        with b.else_():
            fits.set(0)

    _each(b, x, n, index, use)
    found.finish()
    if fits is not None:
        b.assert_(fits == 1, "a number is negative, or has no place in the counts")
    b.work(n)
    return b.build()


@lru_cache(maxsize=64)
def histogram(type_: Type, edges: Type, bins: int | None, index: Type) -> Program:
    """How many elements are between each two edges, added to the counts; the last bin has its upper edge too.

    Parameters of the program: the elements, the edges, the counts, the numbers of elements and of bins.
    """
    b = Builder(f"histogram_{type_.name}", block=THREADS, index=index)
    x, limits, counts = b.input("x", type_), b.input("edges", edges), b.inout("counts", i64)
    n, size = b.scalar("n", index), b.scalar("size", index)
    found = _Bins(b, counts, bins)
    lowest, highest = b.let("lowest", limits[0]), b.let("highest", limits[size])

    def use(element: Value) -> None:
        value = b.let("value", element if element.type is edges else edges(element))
        with b.if_((value >= lowest) & (value <= highest)):
            low, high = b.var("low", index(0)), b.var("high", size)
            with b.while_(lambda: high - low > 1):
                middle = b.let("middle", low + (high - low) // 2)
                goes = b.let("goes", value >= limits[middle])
                low.set(where(goes, middle, low))
                high.set(where(goes, high, middle))
            found.add(low.read())

    width = 2
    step = b.let("step", grid_dim.x * (THREADS * width))
    first = b.let("first", (block_id.x * THREADS + thread_id.x) * width)
    with b.for_(first, n, step) as i, b.for_(i, i + width) as j, b.if_(j < n):
        use(x[j])
    found.finish()
    b.work(n)
    return b.build()


def edge_type(type_: Type) -> Type:
    """The type that elements are compared with edges in."""
    return f32 if type_.is_float and type_ is not f64 else f64
