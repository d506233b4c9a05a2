"""The kernel of an all-reduce in one shot: each rank writes its elements into an inbox of every rank, and combines
what has come into its own, in the order of ranks.

A word of an inbox has 32 bits of elements and, above them, a mark: the lower half of the number of the call (the epoch)
and a digest of type, operation and size. One write brings both, so nothing else has to be waited for, and ranks that
were given other calls wait for each other, up to the time limit, rather than take what is not meant for them.

A thread has the same two words in every call, whatever the type: it writes and awaits these alone, and threads beyond
the elements do the same with zeros, so each word that a call awaits was written by the call two epochs before. That is
why 16 bits of the number are enough, and why it may begin again after 2^32. It stands in device memory, one for each
block, so a recorded graph counts on.

Two halves, by the last bit of the epoch, because ranks are not equally fast. A rank that has all words of call n may
begin call n + 1 while another one still reads those of n, and would write over them. It cannot come as far as n + 2
before that: to end n + 1 it needs the words that the other rank writes in n + 1, which that begins after n has ended.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitcast, maximum, minimum
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import block_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, u8, u16, u32, u64

THREADS = 256
BYTES_OF_THREAD = 8  # of elements: two words
BYTES_OF_BLOCK = THREADS * BYTES_OF_THREAD
_EPOCH_BITS, _DIGEST_BITS = 0x0000FFFF, 0xFFFF0000  # of a mark
_SPREAD = 0x9E3779B1  # odd: sizes that differ by less than a block have other upper bits
_CUT = 2  # in the word by which the host ends a call, as in csrc/collective/one_shot.h
_LOOKS = 1024  # at the inbox between two at the word by which the host ends a call

_COMBINE: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "min": minimum,
    "max": maximum,
}


_UNSIGNED = {1: u8, 2: u16, 4: u32, 8: u64}


def words_of(ranks: int, most_bytes: int) -> int:
    """The words of an inbox for calls of up to so many bytes, a multiple of BYTES_OF_BLOCK."""
    return 2 * ranks * (most_bytes // 4)


def mark_of(epoch: int, type_: Type, op: str, count: int) -> int:
    """What stands above the elements in the words of a call."""
    return (epoch & _EPOCH_BITS) | (((count * _SPREAD) ^ _kind(type_, op)) & _DIGEST_BITS)


def _kind(type_: Type, op: str) -> int:
    return (type_.code * len(_COMBINE) + sorted(_COMBINE).index(op)) << 16


def one_shot_program(type_: Type, op: str, ranks: int, most_bytes: int) -> Program:
    """For one type and operation, and groups of so many ranks whose inboxes are for so many bytes.

    `x` and `out` may be the same memory. `own` is the inbox of this rank, which is among the others too. A word that
    is not 0 in `ended` ends the wait for ranks that do not come; it is 2 where one has not come, and `out` and all
    later calls are unspecified then.
    """
    b = Builder(f"one_shot_{op}_{type_.name}", block=THREADS)
    x, out = b.inout("x", type_), b.inout("out", type_)
    inboxes = [b.inout(f"inbox_{number}", u64) for number in range(ranks)]
    own, epochs, ended = b.inout("own", u64), b.inout("epochs", u32), b.inout("ended", u32)
    rank = b.scalar("rank", u32)

    words = most_bytes // 4  # of a rank in a half
    epoch = b.let("epoch", epochs[block_id.x] + 1)
    half = (epoch & 1) * (ranks * words)
    first = b.let("first", half + block_id.x * (2 * THREADS) + thread_id.x)
    mark = b.let("mark", (epoch & _EPOCH_BITS) | ((u32(x.size) * _SPREAD ^ _kind(type_, op)) & _DIGEST_BITS))
    for number, bits in enumerate(_packed(b, x)):
        place = b.let("place", first + rank * words + number * THREADS)
        for inbox in inboxes:
            b.atomic_store(inbox, place, u64(mark) << 32 | u64(bits), scope="system")

    received = [[b.var("received", u64(0)) for _ in range(2)] for _ in range(ranks)]
    looks = b.var("looks", u32(0))
    stops = b.var("stops", u32(0))

    def is_missing() -> Value:
        return _any_of([u32(word >> 32) != mark for pair in received for word in pair])

    def is_awaited() -> Value:
        for sender, pair in enumerate(received):
            for number, word in enumerate(pair):
                word.set(b.atomic_load(own, first + (sender * words + number * THREADS), scope="system"))
        return is_missing() & (stops == 0)

    with b.while_(is_awaited):
        looks += 1
        with b.if_((looks & (_LOOKS - 1)) == 0):
            # What came before the host wrote this is read once more.
            stops.set(b.atomic_load(ended, 0, order="acquire", scope="system"))

    with b.if_(~is_missing()):
        _store(out, op, [[b.let("word", u32(word.read())) for word in pair] for pair in received])
    with b.else_():
        b.atomic_store(ended, 0, _CUT, scope="system")
    b.barrier()
    with b.if_(thread_id.x == 0):
        epochs[block_id.x] = epoch
    return b.build()


def _first_element(type_: Type) -> Value:
    """Of this thread."""
    return (block_id.x * THREADS + thread_id.x) * (BYTES_OF_THREAD // type_.itemsize)


def _packed(b: Builder, x: Buffer) -> list[Value]:
    """This thread's elements as two words; 0 beyond the last element."""
    kind, count = x.type, BYTES_OF_THREAD // x.type.itemsize
    first = b.let("element", _first_element(kind))
    if count == 1:
        bits = b.let("bits", _bits(x[first]))
        return [u32(bits), u32(bits >> 32)]
    each = [u32(_bits(x[first + number])) for number in range(count)]
    half = count // 2
    return [_joined(each[:half]), _joined(each[half:])]


def _joined(parts: list[Value]) -> Value:
    return _any_of([part << (number * (32 // len(parts))) for number, part in enumerate(parts)])


def _any_of(values: list[Value]) -> Value:
    """Their bits together."""
    return reduce(or_, values)


def _store(out: Buffer, op: str, received: list[list[Value]]) -> None:
    """Combine the ranks' words in the order of ranks; what is beyond the last element is not stored."""
    kind, count = out.type, BYTES_OF_THREAD // out.type.itemsize
    first = _first_element(kind)
    for number in range(count):
        out[first + number] = reduce(_COMBINE[op], [_element(words, number, kind) for words in received])


def _element(words: list[Value], number: int, kind: Type) -> Value:
    if kind.itemsize == 8:
        bits = u64(words[0]) | (u64(words[1]) << 32)
        return bits if kind is u64 else bitcast(bits, kind)
    per_word = 4 // kind.itemsize
    word = words[number // per_word]
    unsigned = _UNSIGNED[kind.itemsize]
    bits = word >> (number % per_word * kind.itemsize * 8) if per_word > 1 else word
    bits = bits if unsigned is u32 else unsigned(bits)
    return bits if kind is unsigned else bitcast(bits, kind)


def _bits(value: Value) -> Value:
    unsigned = _UNSIGNED[value.type.itemsize]
    return value if value.type is unsigned else bitcast(value, unsigned)
