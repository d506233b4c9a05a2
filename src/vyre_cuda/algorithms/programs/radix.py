"""The programs of sorting by digits of 8 bits, least first.

One launch counts all digits of all keys; one makes of each count where the digit's keys begin; then one launch for each
digit brings the keys into its order. In that, a block counts the digits of its tile and publishes the counts; it ranks
its keys, and adds up what the tiles before it published, back to one that knows its own sum: the waits are for lower
tickets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vyre_cuda.algorithms.programs.keys import key_of, key_type, zero_of
from vyre_cuda.algorithms.programs.lookback import ticket_of
from vyre_cuda.algorithms.programs.move import output
from vyre_cuda.algorithms.programs.ranking import DIGITS, Ranked, Sorted, digit_of, exclusive_of_block
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import where
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import block_id, grid_dim, lane_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, u32, u64
from vyre_cuda.records import FrozenRecord

# Tiles that a block looks back at once.
LOOK = 8
# Of the launch that counts: its threads, the keys of each at a time, and the most blocks; each adds its counts once.
COUNT_THREADS = 512
COUNT_ITEMS = 8
MOST_COUNT_BLOCKS = 264
# With so many tiles at most, what all passes publish is zeroed at once.
MOST_AT_ONCE = 4096


class Tile(FrozenRecord):
    """The threads of a block, the keys of each, and how many blocks a multiprocessor holds."""

    threads: int
    items: int
    blocks: int

    @property
    def keys(self) -> int:
        return self.threads * self.items


def tile_of(how: Sorted, shared_bytes: int) -> Tile:
    """The tile of a pass on a device that has so much shared memory for a block: what took the least time."""
    wide = how.keys.itemsize == 8
    tile = Tile(384, 16, 2) if wide else Tile(384, 22, 2) if how.moved is not None else Tile(256, 24, 3)
    moved = 0 if how.moved is None else how.moved.itemsize
    for items in range(tile.items, 0, -4):
        tile = Tile(tile.threads, items, tile.blocks)
        # Also the counts of each warp, the targets of digits, and a few words.
        taken = tile.keys * (how.keys.itemsize + moved) + 4 * DIGITS * (tile.threads // 32 + 2) + 256
        if taken <= shared_bytes:
            break
    return tile


@lru_cache(maxsize=64)
def histogram(keys: Type, index: Type, word: Type) -> Program:
    """How many keys have each value of each digit, added to `counts`, which has 256 for each digit."""
    digits = key_type(keys).itemsize
    b = Builder(f"digits_{keys.name}", block=COUNT_THREADS, index=index)
    x, counts = b.input("x", keys), b.inout("counts", word)
    n = b.scalar("n", index)
    bins = b.shared("bins", u32, DIGITS * digits)
    most = COUNT_THREADS * COUNT_ITEMS

    def count(element: Value) -> None:
        key = b.let("key", key_of(element))
        for digit in range(digits):
            b.atomic_add(bins, u32(key >> (8 * digit)) % DIGITS + digit * DIGITS, 1, scope="block")

    with b.for_(b.let("first", block_id.x * most), n, b.let("step", grid_dim.x * most)) as start:
        own = b.let("own", start + thread_id.x)
        with b.if_(n - start >= most):
            for element in [b.let("element", x[own + k * COUNT_THREADS]) for k in range(COUNT_ITEMS)]:
                count(element)
        with b.else_(), b.for_(own, n, COUNT_THREADS) as i:
            count(x[i])
    b.barrier()
    with b.for_(thread_id.x, DIGITS * digits, COUNT_THREADS) as place:
        total = b.let("total", bins[place])
        with b.if_(total != 0):
            b.atomic_add(counts, place, word(total))
    b.work(n)
    return b.build()


@lru_cache(maxsize=4)
def starts(word: Type) -> Program:
    """Where the keys of each digit begin: one block for each digit."""
    b = Builder("digit_starts", block=DIGITS)
    counts = b.inout("counts", word)
    place = b.let("place", block_id.x * DIGITS + thread_id.x)
    counts[place] = exclusive_of_block(b, counts[place], word, DIGITS // 32)
    return b.build()


@lru_cache(maxsize=128)
def one_pass(how: Sorted, size: Tile, index: Type, word: Type, *, implicit: bool, final: bool) -> Program:
    """Keys, and values where there are some, in the order of one digit.

    Parameters of the program: keys, values (but where they are the keys' places: `implicit`), the same after this pass
    (`final`: as the type of the result), where each value of the digit begins, the published words of type `word`, all
    zero, the number of keys and the shift of the digit.
    """
    threads, items = size.threads, size.items
    b = Builder(f"sort_pass_{how.keys.name}", block=threads, index=index, min_blocks=size.blocks)
    moved = how.moved
    x = b.input("x", how.keys)
    values = b.input("values", moved) if moved is not None and not implicit else None
    out = output(b, "keys_out", how.keys)
    values_out = None
    if moved is not None:
        values_out = output(b, "values_out", (how.result or moved) if final else moved)
    begins, words = b.input("begins", word), b.inout("words", word)
    n, shift = b.scalar("n", index), b.scalar("shift", u32)
    tile = ticket_of(b, words, index)
    base = b.let("base", tile * size.keys)
    ranked = Ranked(b, how, threads, items)
    first = b.let("first", base + thread_id.x // 32 * (32 * items) + lane_id)
    # In 64 bits an address is that of the first key and a number that the instruction has.
    sources = [u64(first) + 32 * k for k in range(items)]
    is_full = b.let("is_full", base + size.keys <= n)
    ranked.load(lambda k: x[sources[k]], lambda k: first + 32 * k < n, is_full)
    total = ranked.count(shift)
    earlier = _Earlier(b, words, tile)
    with b.if_(thread_id.x < DIGITS):
        earlier.publish(total)
    local = exclusive_of_block(b, total, u32, DIGITS // 32)
    ranked.begin(local)
    sorted_keys = b.shared("sorted_keys", how.keys, size.keys)
    places: list[Any] = [None] * items

    def put(k: int, place: Value) -> None:
        places[k] = place
        sorted_keys[place] = ranked.keys[k]

    ranked.places(shift, put)
    sorted_values = None
    if moved is not None:
        given = _values(b, values, sources, first, is_full, n)
        sorted_values = b.shared("sorted_values", moved, size.keys)
    targets = b.shared("targets", index, DIGITS)
    with b.if_(thread_id.x < DIGITS):
        targets[thread_id.x] = index(begins[thread_id.x]) + index(earlier.combined(total)) - index(local)
    if sorted_values is not None:
        for place, value in zip(places, given, strict=True):
            sorted_values[place] = value
    b.barrier()
    count = b.let("count", where(is_full, index(size.keys), n - base))
    for k in range(items):
        place = thread_id.x + k * threads
        key = sorted_keys[place]
        target = b.let("target", targets[digit_of(key, shift)] + place)
        with b.if_(place < count):
            out[target] = key
            if sorted_values is not None and values_out is not None:
                value = sorted_values[place]
                values_out[target] = value if value.type is values_out.type else values_out.type(value)
    b.work(n)
    return b.build()


def _values(
    b: Builder, values: Buffer | None, sources: list[Value], first: Value, is_full: Value, n: Value
) -> list[Value]:
    """The values of the thread's keys."""
    if values is None:
        return [u32(source) for source in sources]
    found = [b.var("given", zero_of(values.type)) for _ in sources]
    with b.if_(is_full):
        for variable, value in zip(found, [values[source] for source in sources], strict=True):
            variable.set(value)
    with b.else_():
        for k, (variable, source) in enumerate(zip(found, sources, strict=True)):
            with b.if_(first + 32 * k < n):
                variable.set(values[source])
    return [variable.read() for variable in found]


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
