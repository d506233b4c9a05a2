"""The programs of sorting by digits of 8 bits, least first.

One launch counts all digits of all keys; one makes of each count where the digit's keys begin; then one launch for each
digit brings the keys into its order. In that, a block ranks its tile, publishes how many keys of each digit it has, and
adds up what the tiles before it published, back to one that knows its own sum: the waits are for lower tickets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.keys import greatest, key_of, key_type
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.scan import ticket_of
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitwise_count, block_id, count_trailing_zeros, lane_id, thread_id, where
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, u32, u64
from vyre_cuda.records import dataclass

THREADS = 256
WARPS = THREADS // 32
DIGITS = 256
# Keys of a thread: of a tile of a large array, and where one block sorts all.
ITEMS = 16
# Tiles that a block looks back at once.
LOOK = 4


@dataclass(frozen=True, slots=True)
class Sorted:
    """What is sorted: the keys' type, and the values that move with them.

    `source` and `result` are the types of the values before and after; source None: a value is the place of its key.
    With `votes`, lanes with equal digits find each other by a vote for each bit instead of `match`: that takes the
    emulator less time, but a GPU takes more steps the more values a warp has.
    """

    keys: Type
    source: Type | None = None
    result: Type | None = None
    votes: bool = True

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
    start = b.let("start", block_id.x * (THREADS * ITEMS))
    own = b.let("own", start + thread_id.x)

    def count(element: Value) -> None:
        key = b.let("key", key_of(element))
        for digit in range(digits):
            b.atomic_add(bins, u32(key >> (8 * digit)) % DIGITS + digit * DIGITS, 1, scope="block")

    with b.if_(start + THREADS * ITEMS <= n):
        for element in [b.let("element", x[own + k * THREADS]) for k in range(ITEMS)]:
            count(element)
    with b.else_(), b.for_(own, n, THREADS) as i:
        count(x[i])
    b.barrier()
    with b.for_(thread_id.x, DIGITS * digits, THREADS) as place:
        total = b.let("total", bins[place])
        with b.if_(total != 0):
            b.atomic_add(counts, place, u64(total))
    b.work(n)
    return b.build()


@lru_cache(maxsize=4)
def starts() -> Program:
    """Where the keys of each digit begin: one block for each digit."""
    b = Builder("digit_starts", block=DIGITS)
    counts = b.inout("counts", u64)
    place = b.let("place", block_id.x * DIGITS + thread_id.x)
    counts[place] = exclusive_of_block(b, counts[place], u64, DIGITS // 32)
    return b.build()


def exclusive_of_block(b: Builder, value: Value, type_: Type, warps: int) -> Value:
    """The sum of the values of the threads before this one; `warps` is how many the block has."""
    sums = b.shared("sums", type_, warps)
    inclusive = b.warp_scan(value, "add")
    with b.if_(lane_id == 31):
        sums[thread_id.x // 32] = inclusive
    b.barrier()
    before = b.var("before", inclusive - value)
    for warp in range(warps - 1):
        with b.if_(thread_id.x // 32 > warp):
            before += sums[warp]
    return before.read()


@lru_cache(maxsize=128)
def one_pass(how: Sorted, index: Type, word: Type, *, implicit: bool, final: bool) -> Program:
    """Keys, and values where there are some, in the order of one digit.

    Parameters of the program: keys, values (but where they are the keys' places: `implicit`), the same after this pass
    (`final`: as the type of the result), where each value of the digit begins, the published words of type `word`, all
    zero, the number of keys and the shift of the digit.
    """
    b = Builder(f"sort_pass_{how.keys.name}", block=THREADS, index=index)
    moved = how.moved
    x = b.input("x", how.keys)
    values = b.input("values", moved) if moved is not None and not implicit else None
    out = output(b, "keys_out", how.keys)
    values_out = None
    if moved is not None:
        values_out = output(b, "values_out", (how.result or moved) if final else moved)
    begins, words = b.input("begins", u64), b.inout("words", word)
    n, shift = b.scalar("n", index), b.scalar("shift", u32)
    tile = ticket_of(b, words, index)
    base = b.let("base", tile * (THREADS * ITEMS))
    ranked = _Ranked(b, how, ITEMS)
    first = b.let("first", base + thread_id.x // 32 * (32 * ITEMS) + lane_id)
    is_full = b.let("is_full", base + THREADS * ITEMS <= n)
    ranked.load(lambda k: x[first + 32 * k], lambda k: first + 32 * k < n, is_full)
    ranked.rank(shift)
    total = ranked.count()
    earlier = _Earlier(b, words, tile)
    with b.if_(thread_id.x < DIGITS):
        earlier.publish(total)
    local = exclusive_of_block(b, total, u32, WARPS)
    ranked.begin(local)
    b.barrier()
    places = ranked.places()
    sorted_keys = b.shared("sorted_keys", how.keys, THREADS * ITEMS)
    for k, place in enumerate(places):
        sorted_keys[place] = ranked.keys[k]
    targets = b.shared("targets", index, DIGITS)
    with b.if_(thread_id.x < DIGITS):
        targets[thread_id.x] = index(begins[thread_id.x]) + index(earlier.combined(total)) - index(local)
    b.barrier()
    found = []
    for k in range(ITEMS):
        place = thread_id.x + k * THREADS
        key = sorted_keys[place]
        found.append(b.let("target", targets[_digit(key, shift)] + place))
        with b.if_(place < n - base):
            out[found[k]] = key
    if values_out is not None and moved is not None:
        given = _values(b, values, [first + 32 * k for k in range(ITEMS)], is_full, n)
        sorted_values = b.shared("sorted_values", moved, THREADS * ITEMS)
        for place, value in zip(places, given, strict=True):
            sorted_values[place] = value
        b.barrier()
        in_order = [sorted_values[thread_id.x + k * THREADS] for k in range(ITEMS)]
        _store(b, values_out, found, in_order, is_full, n - base)
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
    ranked = _Ranked(b, how, items)
    first = b.let("first", thread_id.x // 32 * (32 * items) + lane_id)
    places = [first + 32 * k for k in range(items)]
    ranked.load(lambda k: x[base + places[k]], lambda k: places[k] < n, n == THREADS * items)
    sorted_keys = b.shared("sorted_keys", how.keys, THREADS * items)
    carried: list[Any] = []
    if moved is not None:
        sorted_values = b.shared("sorted_values", moved, THREADS * items)
        for k, place in enumerate(places):
            if values is None:
                carried.append(b.var("value", u32(place)))
            else:
                carried.append(b.var("value", moved(0)))
                with b.if_(places[k] < n):
                    carried[k].set(values[base + place])
    with b.for_(u32(0), u32(8 * how.digits), step=u32(8)) as shift:
        ranked.clear()
        ranked.rank(shift)
        ranked.begin(exclusive_of_block(b, ranked.count(), u32, WARPS))
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
        with b.if_(places[k] < n):
            out[base + place] = ranked.keys[k]
            if values_out is not None:
                value = carried[k].read()
                values_out[base + place] = value if value.type is values_out.type else values_out.type(value)
    b.work(n)
    return b.build()


def _peers(b: Builder, digit: Value, votes: bool) -> Value:
    """The lanes of the warp with this digit."""
    if not votes:
        return b.match(digit)
    digit = b.let("digit", digit)
    peers: Any = u32(0xFFFFFFFF)
    for bit in range(8):
        is_set = (digit >> bit) & 1 != 0
        agree = b.ballot(is_set)
        peers = peers & where(is_set, agree, ~agree)
    return b.let("peers", peers)


def _store(b: Builder, out: Buffer, targets: list[Value], values: list[Value], is_full: Value, count: Value) -> None:
    """A tile's elements, in their order, to their targets."""
    values = [value if value.type is out.type else out.type(value) for value in values]
    with b.if_(is_full):
        for target, value in zip(targets, values, strict=True):
            out[target] = value
    with b.else_():
        for k, (target, value) in enumerate(zip(targets, values, strict=True)):
            with b.if_(thread_id.x + k * THREADS < count):
                out[target] = value


def _values(b: Builder, values: Buffer | None, places: list[Value], is_full: Value, n: Value) -> list[Value]:
    """The values of the thread's keys."""
    if values is None:
        return [u32(place) for place in places]
    found = [b.var("given", values.type(0)) for _ in places]
    with b.if_(is_full):
        for variable, value in zip(found, [values[place] for place in places], strict=True):
            variable.set(value)
    with b.else_():
        for variable, place in zip(found, places, strict=True):
            with b.if_(place < n):
                variable.set(values[place])
    return [variable.read() for variable in found]


def _digit(key: Value, shift: Any) -> Value:
    ordered = key_of(key)
    wide = u64 if ordered.type is u64 else u32
    digit: Value = u32(wide(ordered) >> wide(shift)) % DIGITS
    return digit


def word_type(keys: int) -> Type:
    """The type of published words: a count, and above it two bits for what it is the count of."""
    return u32 if keys < 1 << 30 else u64


def published_words(tiles: int) -> int:
    return 1 + (tiles + LOOK - 1) * DIGITS


class _Earlier:
    """How many keys of the thread's digit the tiles before this one have."""

    def __init__(self, b: Builder, words: Buffer, tile: Value) -> None:
        self.b = b
        self.words = words
        self.tile = tile
        word = words.type
        # Marks of a count of one tile, and of one of all up to it.
        self.own, self.all = 1 << (word.bits - 2), 1 << (word.bits - 1)
        self.place = b.let("own", (u64(tile) + (LOOK - 1)) * DIGITS + u64(thread_id.x) + 1)

    def publish(self, total: Value) -> None:
        word = self.words.type
        mark = where(self.tile == 0, word(self.all), word(self.own))
        self.b.atomic_store(self.words, self.place, word(total) | mark)

    def combined(self, total: Value) -> Value:
        """The sum of earlier tiles, back to one that knows its own; this tile's is published then."""
        b, word = self.b, self.words.type
        before = b.var("before", word(0))
        place = b.var("place", self.place)
        searching = b.var("searching", self.tile != 0)
        with b.while_(lambda: searching.read()):
            start = place.read()
            found = [b.atomic_load(self.words, start - (k + 1) * DIGITS) for k in range(LOOK)]
            there = b.var("there", bool_(True))
            for each in found:
                there.set(there & (each >= self.own))
                with b.if_(searching & there):
                    before += each & (self.own - 1)
                    place -= DIGITS
                    searching.set(each < self.all)
        with b.if_(self.tile != 0):
            b.atomic_store(self.words, self.place, (before + word(total)) | self.all)
        return before.read()


class _Ranked:
    """A block's keys, in the order of warps, then items, then lanes, and their ranks by a digit."""

    def __init__(self, b: Builder, how: Sorted, items: int) -> None:
        self.b = b
        self.how = how
        self.items = items
        self.keys: list[Any] = [b.var("key", greatest(how.keys)) for _ in range(items)]
        self.before: list[Any] = []
        self.counts = b.shared("counts", u32, WARPS * DIGITS)
        self.warp = b.let("warp", thread_id.x // 32 * DIGITS)
        self.shift: Any = None
        self.ranks: list[Value] = []

    def load(self, key: Any, valid: Any, is_full: Value) -> None:
        """Read the thread's keys; those that are not there stay behind all others, as the greatest key."""
        b = self.b
        with b.if_(is_full):
            for k, found in enumerate([key(k) for k in range(self.items)]):
                self.keys[k].set(found)
        with b.else_():
            for k in range(self.items):
                with b.if_(valid(k)):
                    self.keys[k].set(key(k))

    def clear(self) -> None:
        """Set the counts to zero for another digit."""
        b = self.b
        b.barrier()
        with b.for_(thread_id.x, WARPS * DIGITS, THREADS) as place:
            self.counts[place] = 0
        b.barrier()

    def rank(self, shift: Any) -> None:
        """Count the digits of each warp; a key's rank is the number of equal digits before it in the warp."""
        b = self.b
        self.shift = shift
        self.ranks = []
        found = []
        for key in self.keys:
            digit = _digit(key.read(), shift)
            peers = _peers(b, digit, self.how.votes)
            old = b.var("old", u32(0))
            # What finds the peers of the next item waits for all lanes: atomics of this one come before its.
            with b.if_(lane_id == count_trailing_zeros(peers)):
                old.set(b.atomic_add(self.counts, self.warp + digit, bitwise_count(peers), scope="block"))
            found.append((old, peers))
        for old, peers in found:
            below = bitwise_count(peers & ((u32(1) << lane_id) - 1))
            self.ranks.append(b.let("rank", b.shuffle(old, count_trailing_zeros(peers)) + below))

    def count(self) -> Value:
        """How many keys of the block have the digit of the thread's number."""
        b = self.b
        b.barrier()
        total = b.var("total", u32(0))
        self.before = [b.var("before", u32(0)) for _ in range(WARPS)]
        with b.if_(thread_id.x < DIGITS):
            for warp in range(WARPS):
                self.before[warp].set(total)
                total += self.counts[thread_id.x + warp * DIGITS]
        return total.read()

    def begin(self, local: Value) -> None:
        """Make of each warp's counts where its keys of a digit go; `local` is where the digit begins in the tile."""
        with self.b.if_(thread_id.x < DIGITS):
            for warp in range(WARPS):
                self.counts[thread_id.x + warp * DIGITS] = local + self.before[warp]

    def places(self) -> list[Value]:
        """Where each key goes within the tile."""
        b = self.b
        return [
            b.let("place", self.counts[self.warp + _digit(key.read(), self.shift)] + rank)
            for key, rank in zip(self.keys, self.ranks, strict=True)
        ]
