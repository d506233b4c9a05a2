"""Programs that read and write elements at places that other arrays give."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.keys import key_of
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import maximum, minimum, where
from vyre_cuda.ir.builder.ids import block_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, i64, u64

THREADS = 256
# What an index out of bounds does.
MODES = ("raise", "wrap", "clip")


def placed(b: Builder, given: Any, extent: Value, mode: str) -> Value:
    """The place that an index means, with NumPy's rules; one of u64 has no sign, however large it is."""
    if given.type is u64:
        return _placed_unsigned(b, given, u64(extent), mode)
    place = b.let("given", i64(given))
    count = i64(extent)
    if mode == "clip":
        return b.let("place", maximum(minimum(place, count - 1), i64(0)))
    if mode == "wrap":
        return b.let("place", place % count)
    b.assert_((place >= -count) & (place < count), "an index is out of bounds")
    return b.let("place", where(place < 0, place + count, place))


def _placed_unsigned(b: Builder, given: Value, count: Value, mode: str) -> Value:
    place = b.let("given", given)
    if mode == "clip":
        return b.let("place", minimum(place, count - 1))
    if mode == "wrap":
        return b.let("place", place % count)
    b.assert_(place < count, "an index is out of bounds")
    return place


@lru_cache(maxsize=256)
def take(type_: Type, indices: Type, mode: str, index: Type) -> Program:
    """Elements of one axis.

    Parameters of the program: the elements, the indices, the result and its number of elements; the extent of the
    axis, the number of indices, and the elements of all axes behind it.
    """
    b = Builder(f"take_{type_.name}", block=THREADS, index=index)
    x, chosen, out = b.input("x", type_), b.input("indices", indices), output(b, "out", type_)
    n = b.scalar("n", index)
    extent, count, inner = (b.scalar(name, index) for name in ("extent", "count", "inner"))
    i = b.let("i", block_id.x * THREADS + thread_id.x)
    with b.if_(i < n):
        rest = b.let("rest", i // inner)
        outer = b.let("outer", rest // count)
        place = placed(b, chosen[rest - outer * count], extent, mode)
        out[i] = x[(outer * extent + index(place)) * inner + (i - rest * inner)]
    b.work(n)
    return b.build()


@lru_cache(maxsize=64)
def winners(indices: Type, mode: str, index: Type) -> Program:
    """Of the values for one place, the last: its number plus 1, in an array that was zero."""
    b = Builder("put_winners", block=THREADS, index=index)
    chosen, last = b.input("indices", indices), b.inout("last", u64)
    n, extent = b.scalar("n", index), b.scalar("extent", index)
    i = b.let("i", block_id.x * THREADS + thread_id.x)
    with b.if_(i < n):
        b.atomic_max(last, placed(b, chosen[i], extent, mode), u64(i) + 1)
    b.work(n)
    return b.build()


@lru_cache(maxsize=64)
def put(type_: Type, index: Type) -> Program:
    """The values that won, at their places."""
    b = Builder(f"put_{type_.name}", block=THREADS, index=index)
    x, values, last = b.inout("x", type_), b.input("values", type_), b.input("last", u64)
    n, count = b.scalar("n", index), b.scalar("count", index)
    i = b.let("i", block_id.x * THREADS + thread_id.x)
    with b.if_(i < n):
        number = b.let("number", last[i])
        with b.if_(number != 0):
            x[i] = values[index(number - 1) % count]
    b.work(n)
    return b.build()


@lru_cache(maxsize=64)
def search(type_: Type, right: bool, index: Type) -> Program:
    """Where elements would be inserted into sorted ones."""
    b = Builder(f"searchsorted_{type_.name}", block=THREADS, index=index)
    x, wanted, out = b.input("x", type_), b.input("wanted", type_), b.output("out", i64, zeroed=False)
    n, count = b.scalar("n", index), b.scalar("count", index)
    i = b.let("i", block_id.x * THREADS + thread_id.x)
    with b.if_(i < count):
        key = b.let("key", key_of(wanted[i]))
        low, high = b.var("low", index(0)), b.var("high", n)
        with b.while_(lambda: low < high):
            middle = b.let("middle", low + (high - low) // 2)
            other = b.let("other", key_of(x[middle]))
            goes = other <= key if right else other < key
            with b.if_(goes):
                low.set(middle + 1)
            with b.else_():
                high.set(middle)
        out[i] = i64(low.read())
    b.work(count)
    return b.build()
