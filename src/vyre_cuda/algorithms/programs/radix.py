"""The programs of sorting by digits of 8 bits, least first.

One launch counts all digits of all keys; one makes of each count where the digit's keys begin; then one launch for each
digit brings the keys into its order. In that, a block ranks its tile, publishes how many keys of each digit it has, and
adds up what the tiles before it published, back to one that knows its own sum: the waits are for lower tickets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.keys import key_of, key_type
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.scan import ticket_of
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitwise_count, block_id, count_trailing_zeros, lane_id, thread_id, where
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, u32, u64
from vyre_cuda.records import dataclass

THREADS = 256
WARPS = THREADS // 32
DIGITS = 256
# Keys of a thread: of a tile of a large array, and where one block sorts all.
ITEMS = 16
_OWN = 1 << 62
_ALL = 1 << 63


@dataclass(frozen=True, slots=True)
class Sorted:
    """What is sorted: the keys' type, and the values that move with them.

    `source` and `result` are the types of the values before and after; source None: a value is the place of its key.
    """

    keys: Type
    source: Type | None = None
    result: Type | None = None

    @property
    def digits(self) -> int:
        return key_type(self.keys).itemsize

    @property
    def moved(self) -> Type | None:
        """The type of a value on its way."""
        return None if self.result is None else self.source or u32


@lru_cache(maxsize=64)
def histogram(keys: Type, index: Type) -> Program:
    """How many keys have each value of each digit, added to `counts`, which has 256 for each digit."""
    digits = key_type(keys).itemsize
    b = Builder(f"digits_{keys.name}", block=THREADS, index=index)
    x, counts = b.input("x", keys), b.inout("counts", u64)
    n = b.scalar("n", index)
    bins = b.shared("bins", u32, DIGITS * digits)
    start = b.let("start", block_id.x * (THREADS * ITEMS) + thread_id.x)
    with b.for_(0, THREADS * ITEMS, THREADS) as offset:
        i = b.let("i", start + offset)
        with b.if_(i < n):
            key = b.let("key", key_of(x[i]))
            for digit in range(digits):
                b.atomic_add(bins, u32(key >> (8 * digit)) % DIGITS + digit * DIGITS, 1, scope="block")
    b.barrier()
    for digit in range(digits):
        place = b.let("place", thread_id.x + digit * DIGITS)
        count = b.let("count", bins[place])
        with b.if_(count != 0):
            b.atomic_add(counts, place, u64(count))
    b.work(n)
    return b.build()


@lru_cache(maxsize=4)
def starts() -> Program:
    """Where the keys of each digit begin: one block for each digit."""
    b = Builder("digit_starts", block=THREADS)
    counts = b.inout("counts", u64)
    place = b.let("place", block_id.x * DIGITS + thread_id.x)
    counts[place] = exclusive_of_block(b, counts[place], u64)
    return b.build()


def exclusive_of_block(b: Builder, value: Value, type_: Type) -> Value:
    """The sum of the values of the threads before this one."""
    sums = b.shared("sums", type_, WARPS)
    inclusive = b.warp_scan(value, "add")
    with b.if_(lane_id == 31):
        sums[thread_id.x // 32] = inclusive
    b.barrier()
    before = b.var("before", inclusive - value)
    for warp in range(WARPS - 1):
        with b.if_(thread_id.x // 32 > warp):
            before += sums[warp]
    return before.read()


@lru_cache(maxsize=128)
def one_pass(how: Sorted, index: Type, *, implicit: bool, final: bool) -> Program:
    """Keys, and values where there are some, in the order of one digit.

    Parameters of the program: keys, values (but where they are the keys' places: `implicit`), the same after this pass
    (`final`: as the type of the result), where each value of the digit begins, the published words, all zero, the
    number of keys and the shift of the digit.
    """
    b = Builder(f"sort_pass_{how.keys.name}", block=THREADS, index=index)
    moved = how.moved
    x = b.input("x", how.keys)
    values = b.input("values", moved) if moved is not None and not implicit else None
    out = output(b, "keys_out", how.keys)
    values_out = None
    if moved is not None:
        values_out = output(b, "values_out", (how.result or moved) if final else moved)
    begins, words = b.input("begins", u64), b.inout("words", u64)
    n, shift = b.scalar("n", index), b.scalar("shift", u32)
    tile = ticket_of(b, words, index)
    base = b.let("base", tile * (THREADS * ITEMS))
    ranked = _Ranked(b, how.keys, ITEMS)
    first = b.let("first", base + thread_id.x // 32 * (32 * ITEMS) + lane_id)
    ranked.load(lambda k: x[first + 32 * k], lambda k: first + 32 * k < n)
    ranked.rank(shift)
    total = ranked.prefix_of_warps()
    local = exclusive_of_block(b, total, u32)
    before = _before(b, words, tile, total)
    ranked.begins[thread_id.x] = local
    targets = b.shared("targets", index, DIGITS)
    targets[thread_id.x] = index(begins[thread_id.x]) + index(before) - index(local)
    b.barrier()
    places = ranked.places()
    sorted_keys = b.shared("sorted_keys", how.keys, THREADS * ITEMS)
    for k, place in enumerate(places):
        sorted_keys[place] = ranked.keys[k]
    b.barrier()
    count = b.let("count", where(n - base < THREADS * ITEMS, n - base, index(THREADS * ITEMS)))
    found = []
    for k in range(ITEMS):
        i = b.let("i", thread_id.x + k * THREADS)
        key = b.let("key", sorted_keys[i])
        found.append(b.let("target", targets[_digit(key, shift)] + i))
        with b.if_(i < count):
            out[found[k]] = key
    if values_out is not None and moved is not None:
        given = [_value(values, first + 32 * k, n, b) for k in range(ITEMS)]
        sorted_values = b.shared("sorted_values", moved, THREADS * ITEMS)
        for place, value in zip(places, given, strict=True):
            sorted_values[place] = value
        b.barrier()
        for k, target in enumerate(found):
            i = thread_id.x + k * THREADS
            with b.if_(i < count):
                value = sorted_values[i]
                values_out[target] = value if value.type is values_out.type else values_out.type(value)
    b.work(n)
    return b.build()


@lru_cache(maxsize=128)
def one_block(how: Sorted, items: int, index: Type) -> Program:
    """Each row of at most THREADS * items keys, sorted by a block of its own.

    Parameters of the program: keys, values (but where they are the keys' places), the same sorted, the keys of a row.
    """
    b = Builder(f"sort_block_{how.keys.name}", block=THREADS, index=index)
    moved = how.moved
    x = b.input("x", how.keys)
    values = b.input("values", moved) if how.source is not None and moved is not None else None
    out = output(b, "keys_out", how.keys)
    values_out = output(b, "values_out", how.result) if how.result is not None else None
    n = b.scalar("n", index)
    base = b.let("base", block_id.x * n)
    ranked = _Ranked(b, how.keys, items)
    first = b.let("first", thread_id.x // 32 * (32 * items) + lane_id)
    places = [first + 32 * k for k in range(items)]
    ranked.load(lambda k: x[base + places[k]], lambda k: places[k] < n)
    sorted_keys = b.shared("sorted_keys", how.keys, THREADS * items)
    carried: list[Any] = []
    if moved is not None:
        sorted_values = b.shared("sorted_values", moved, THREADS * items)
        for k, place in enumerate(places):
            if values is None:
                carried.append(b.var("value", u32(place)))
            else:
                carried.append(b.var("value", moved(0)))
                with b.if_(ranked.valid[k]):
                    carried[k].set(values[base + place])
    with b.for_(u32(0), u32(8 * how.digits), step=u32(8)) as shift:
        ranked.clear()
        ranked.rank(shift)
        ranked.begins[thread_id.x] = exclusive_of_block(b, ranked.prefix_of_warps(), u32)
        b.barrier()
        for k, place in enumerate(ranked.places()):
            sorted_keys[place] = ranked.keys[k]
            if moved is not None:
                sorted_values[place] = carried[k]
        b.barrier()
        for k, place in enumerate(places):
            ranked.keys[k].set(sorted_keys[place])
            if moved is not None:
                carried[k].set(sorted_values[place])
    for k, place in enumerate(places):
        with b.if_(ranked.valid[k]):
            out[base + place] = ranked.keys[k]
            if values_out is not None:
                value = carried[k].read()
                values_out[base + place] = value if value.type is values_out.type else values_out.type(value)
    b.work(n)
    return b.build()


def _value(values: Buffer | None, place: Value, n: Value, b: Builder) -> Value:
    """The value of a key of the thread."""
    if values is None:
        return u32(place)
    found = b.var("given", values.type(0))
    with b.if_(place < n):
        found.set(values[place])
    return found.read()


def _digit(key: Value, shift: Any) -> Value:
    ordered = key_of(key)
    wide = u64 if ordered.type is u64 else u32
    return u32(wide(ordered) >> wide(shift)) % DIGITS


def _before(b: Builder, words: Buffer, tile: Value, total: Value) -> Value:
    """How many keys of the thread's digit the tiles before this one have."""
    own = b.let("own", u64(tile) * DIGITS + u64(thread_id.x) + 1)
    b.atomic_store(words, own, u64(total) | where(tile == 0, u64(_ALL), u64(_OWN)))
    before = b.var("sum", u64(0))
    place = b.var("place", own)
    searching = b.var("searching", tile != 0)
    with b.while_(lambda: searching.read()):
        word = b.atomic_load(words, place - DIGITS)
        with b.if_(word >= _OWN):
            before += word & (_OWN - 1)
            place -= DIGITS
            searching.set(word < _ALL)
    with b.if_(tile != 0):
        b.atomic_store(words, own, (before + u64(total)) | u64(_ALL))
    return before.read()


class _Ranked:
    """A block's keys, in the order of warps, then items, then lanes, and their ranks by a digit."""

    def __init__(self, b: Builder, keys: Type, items: int) -> None:
        self.b = b
        self.items = items
        self.keys: list[Any] = [b.var("key", keys(0)) for _ in range(items)]
        self.valid: list[Any] = []
        self.counts = b.shared("counts", u32, WARPS * DIGITS)
        self.begins = b.shared("digit_begins", u32, DIGITS)
        self.warp = b.let("warp", thread_id.x // 32 * DIGITS)
        self.digits: list[Value] = []
        self.ranks: list[Value] = []

    def load(self, key: Any, valid: Any) -> None:
        """Read the thread's keys."""
        b = self.b
        for k in range(self.items):
            is_valid = b.let("is_valid", valid(k))
            self.valid.append(is_valid)
            with b.if_(is_valid):
                self.keys[k].set(key(k))

    def clear(self) -> None:
        """Set the counts to zero for another digit."""
        b = self.b
        b.barrier()
        for warp in range(WARPS):
            self.counts[thread_id.x + warp * DIGITS] = 0
        b.barrier()

    def rank(self, shift: Any) -> None:
        """Count the digits of each warp; a key's rank is the number of equal digits before it in the warp."""
        b = self.b
        self.digits, self.ranks = [], []
        for key, valid in zip(self.keys, self.valid, strict=True):
            # What is not there counts as the last digit, behind all that is.
            digit = b.let("digit", where(valid, _digit(key.read(), shift), u32(DIGITS - 1)))
            peers = b.match(digit)
            leader = b.let("leader", count_trailing_zeros(peers))
            old = b.var("old", u32(0))
            with b.if_(lane_id == leader):
                old.set(b.atomic_add(self.counts, self.warp + digit, bitwise_count(peers), scope="block"))
            below = peers & ((u32(1) << lane_id) - 1)
            self.digits.append(digit)
            self.ranks.append(b.let("rank", b.shuffle(old, leader) + bitwise_count(below)))

    def prefix_of_warps(self) -> Value:
        """Make of each warp's counts what is before the warp; the sum, for the digit of the thread's number."""
        b = self.b
        b.barrier()
        total = b.var("total", u32(0))
        for warp in range(WARPS):
            count = self.counts[thread_id.x + warp * DIGITS]
            self.counts[thread_id.x + warp * DIGITS] = total
            total += count
        return total.read()

    def places(self) -> list[Value]:
        """Where each key goes within the tile, once `begins` has where each digit does."""
        b = self.b
        return [
            b.let("place", self.begins[digit] + self.counts[self.warp + digit] + rank)
            for digit, rank in zip(self.digits, self.ranks, strict=True)
        ]
