"""The program of segments: one block for each, its tiles one after the other."""

from __future__ import annotations

from functools import lru_cache

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.algorithms.programs import reduce
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.ids import block_id
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, i64, u64


@lru_cache(maxsize=128)
def program(how: Combining, offsets: Type, index: Type) -> Program:
    """Each segment combined.

    Parameters of the program: the elements, the offsets, the results, the number of elements.
    """
    b = Builder(f"segmented_{how.name}_{how.source.name}", block=reduce.THREADS, index=index)
    x, begins, out = b.input("x", how.source), b.input("offsets", offsets), b.output("out", how.result, zeroed=False)
    size = b.scalar("size", index)
    first, end = b.let("first", i64(begins[block_id.x])), b.let("end", i64(begins[block_id.x + 1]))
    fits = b.let("fits", (first >= 0) & (first <= end) & (u64(end) <= u64(size)))
    base = b.let("base", where(fits, index(first), index(0)))
    n = b.let("n", where(fits, index(end - first), index(0)))
    reduce.row_of_block(b, how, x, base, n, out)
    b.assert_(fits, "an offset is below the one before it, negative, or behind the last element")
    b.work(size)
    return b.build()
