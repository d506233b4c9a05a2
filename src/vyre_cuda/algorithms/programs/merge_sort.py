"""The program that sorts rows of few keys, each by a block of its own, which merges runs in shared memory.

A run of one key is sorted. In each step two neighboring runs become one: a key's place in it is its place in its own
run and the number of keys of the other run that come before it, which is found by bisection. Equal keys of the first
run come first, so the order is stable.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.keys import key_of, key_type
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.ranking import Sorted
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import minimum, where
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import block_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, u32

# The most keys of a row: with more, ranks by digits take less time.
MOST = 128


@lru_cache(maxsize=128)
def program(how: Sorted, threads: int, index: Type) -> Program:
    """Each row of at most as many keys as threads, sorted by a block of its own.

    Parameters of the program: keys, values (but where they are the keys' places), the same sorted, the keys of a row.
    """
    b = Builder(f"merge_{how.keys.name}", block=threads, index=index)
    x = b.input("x", how.keys)
    values = b.input("values", how.source) if how.source is not None else None
    out = output(b, "keys_out", how.keys)
    values_out = output(b, "values_out", how.result) if how.result is not None else None
    n = b.scalar("n", index)
    count = b.let("count", u32(n))
    base = b.let("base", block_id.x * n)
    # What a step reads, and what it writes.
    keys = b.shared("keys", key_type(how.keys), (2, threads))
    places = b.shared("places", u32, (2, threads))
    place = b.let("place", u32(thread_id.x))
    is_key = b.let("is_key", place < count)
    with b.if_(is_key):
        keys[0, place] = key_of(x[base + index(place)])
        places[0, place] = place
    b.barrier()
    now, run = b.var("now", u32(0)), b.var("run", u32(1))
    with b.while_(lambda: run < count):
        with b.if_(is_key):
            _merge(b, keys, places, now.read(), run.read(), place, count)
        b.barrier()
        now.set(1 - now)
        run.set(run * 2)
    with b.if_(is_key):
        source = b.let("source", places[now.read(), place])
        out[base + index(place)] = x[base + index(source)]
        if values_out is not None:
            value: Any = source if values is None else values[base + index(source)]
            values_out[base + index(place)] = value if value.type is values_out.type else values_out.type(value)
    b.work(n)
    return b.build()


def _merge(b: Builder, keys: Buffer, places: Buffer, now: Value, run: Value, place: Value, count: Value) -> None:
    """Bring one key to where it belongs in its run and the neighboring one."""
    now, run = b.let("now", now), b.let("run", run)
    key = b.let("key", keys[now, place])
    is_second = b.let("is_second", place & run != 0)
    within = b.let("within", place & (run - 1))
    first = b.let("first", (place - within) & ~run)
    other = b.let("other", where(is_second, first, first + run))
    most = b.let("most", where(other < count, minimum(count - other, run), u32(0)))
    before, step = b.var("before", u32(0)), b.var("step", run)
    with b.while_(lambda: step != 0):
        tried = b.let("tried", before + step)
        with b.if_(tried <= most):
            found = b.let("found", keys[now, other + tried - 1])
            with b.if_((found < key) | (is_second & (found == key))):
                before.set(tried)
        step.set(step >> 1)
    target = b.let("target", first + within + before)
    keys[1 - now, target] = key
    places[1 - now, target] = places[now, place]
