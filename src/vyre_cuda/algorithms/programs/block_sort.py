"""The program that sorts rows of few keys, each by a block of its own, digit by digit in shared memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.keys import zero_of
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.ranking import DIGITS, Ranked, Sorted, exclusive_of_block
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.ids import block_id, lane_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, u32

# Threads of a block and the keys of each, for rows of up to their product.
SHAPES = ((256, 1), (256, 4), (512, 4), (512, 8))


def shape_of(how: Sorted, n: int, shared_bytes: int) -> tuple[int, int] | None:
    """The threads of a block for rows of `n` keys, and the keys of each; None where a block does not sort so many."""
    for threads, items in SHAPES:
        moved = 0 if how.moved is None else how.moved.itemsize
        taken = threads * items * (how.keys.itemsize + moved) + 4 * DIGITS * (threads // 32) + 256
        if n <= threads * items and taken <= shared_bytes:
            return threads, items
    return None


@lru_cache(maxsize=128)
def program(how: Sorted, threads: int, items: int, index: Type) -> Program:
    """Each row of at most threads * items keys, sorted by a block of its own.

    Parameters of the program: keys, values (but where they are the keys' places), the same sorted, the keys of a row.
    """
    b = Builder(f"sort_block_{how.keys.name}", block=threads, index=index)
    moved = how.moved
    x = b.input("x", how.keys)
    values = b.input("values", moved) if how.source is not None and moved is not None else None
    out = output(b, "keys_out", how.keys)
    values_out = output(b, "values_out", how.result) if how.result is not None else None
    n = b.scalar("n", index)
    base = b.let("base", block_id.x * n)
    ranked = Ranked(b, how, threads, items)
    first = b.let("first", thread_id.x // 32 * (32 * items) + lane_id)
    places = [first + 32 * k for k in range(items)]
    ranked.load(lambda k: x[base + places[k]], lambda k: places[k] < n, n == threads * items)
    sorted_keys = b.shared("sorted_keys", how.keys, threads * items)
    carried: list[Any] = []
    if moved is not None:
        sorted_values = b.shared("sorted_values", moved, threads * items)
        for k, place in enumerate(places):
            if values is None:
                carried.append(b.var("value", u32(place)))
            else:
                carried.append(b.var("value", zero_of(moved)))
                with b.if_(places[k] < n):
                    carried[k].set(values[base + place])

    def put(k: int, place: Value) -> None:
        sorted_keys[place] = ranked.keys[k]
        if moved is not None:
            sorted_values[place] = carried[k]

    with b.for_(u32(0), u32(8 * how.digits), step=u32(8)) as shift:
        with b.if_(shift != 0):
            ranked.clear()
        ranked.begin(exclusive_of_block(b, ranked.count(shift), u32, DIGITS // 32))
        ranked.places(shift, put)
        b.barrier()
        for k, place in enumerate(places):
            ranked.keys[k].set(sorted_keys[place])
            if moved is not None:
                carried[k].set(sorted_values[place])
    for k, place in enumerate(places):
        with b.if_(places[k] < n):
            out[base + place] = ranked.keys[k]
            if values_out is not None:
                value = carried[k].read()
                values_out[base + place] = value if value.type is values_out.type else values_out.type(value)
    b.work(n)
    return b.build()
