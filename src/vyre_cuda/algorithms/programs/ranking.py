"""A block's keys and where they go by a digit of 8 bits: their ranks within the block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vyre_cuda.algorithms.programs.keys import greatest, key_of, key_type
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import bitwise_count, count_leading_zeros, where
from vyre_cuda.ir.builder.ids import lane_id, thread_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.types import Type, u32, u64
from vyre_cuda.records import FrozenRecord

DIGITS = 256
# Keys whose ranks are found side by side.
_TOGETHER = 4


class Sorted(FrozenRecord):
    """What is sorted: the keys' type, and the values that move with them.

    `source` and `result` are the types of the values before and after; source None: a value is the place of its key.
    With `votes`, lanes with equal digits find each other by a vote for each bit instead of `match`: that takes the
    emulator more time, but on a GPU `match` takes more steps the more values a warp has.
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


class Ranked:
    """The keys of a block of `threads`, in the order of warps, then items, then lanes."""

    def __init__(self, b: Builder, how: Sorted, threads: int, items: int) -> None:
        self.b = b
        self.how = how
        self.threads = threads
        self.items = items
        self.keys: list[Any] = [b.var("key", greatest(how.keys)) for _ in range(items)]
        self.counts = b.shared("counts", u32, threads // 32 * DIGITS)
        self.warp = b.let("warp", u32(thread_id.x // 32 * DIGITS))
        self.below = b.let("below", (u32(1) << u32(lane_id)) - 1)
        self.above = b.let("above", ~self.below << 1)
        self.before: list[Any] = []

    def load(self, key: Callable[[int], Value], valid: Callable[[int], Value], is_full: Value) -> None:
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
        """Set the counts to zero for another digit; all threads are behind their last use."""
        with self.b.for_(thread_id.x, self.threads // 32 * DIGITS, self.threads) as place:
            self.counts[place] = 0
        self.b.barrier()

    def count(self, shift: Any) -> Value:
        """How many keys of the block have the digit of the thread's number."""
        b = self.b
        for key in self.keys:
            b.atomic_add(self.counts, self.warp + digit_of(key.read(), shift), 1, scope="block")
        b.barrier()
        total = b.var("total", u32(0))
        self.before = [b.var("before", u32(0)) for _ in range(self.threads // 32)]
        with b.if_(thread_id.x < DIGITS):
            for warp, before in enumerate(self.before):
                before.set(total)
                total += self.counts[thread_id.x + warp * DIGITS]
        return total.read()

    def begin(self, local: Value) -> None:
        """Make of each warp's counts where its keys of a digit go; `local` is where the digit begins in the tile."""
        with self.b.if_(thread_id.x < DIGITS):
            for warp, before in enumerate(self.before):
                self.counts[thread_id.x + warp * DIGITS] = local + before
        self.b.barrier()

    def places(self, shift: Any, use: Callable[[int, Value], None]) -> None:
        """`use(k, place)` of each key's number and where it goes within the tile."""
        b = self.b
        for first in range(0, self.items, _TOGETHER):
            found = []
            for key in self.keys[first : first + _TOGETHER]:
                digit = digit_of(key.read(), shift)
                peers = _peers(b, digit, self.how.votes)
                rank = b.let("rank", bitwise_count(peers & self.below))
                begin = b.var("begin", u32(0))
                # What finds the peers of the next key waits for all lanes: atomics of this one come before its.
                with b.if_(peers & self.above == 0):
                    begin.set(b.atomic_add(self.counts, self.warp + digit, rank + 1, scope="block"))
                found.append((begin, peers, rank))
            for k, (begin, peers, rank) in enumerate(found):
                place = b.shuffle(begin.read(), 31 - count_leading_zeros(peers)) + rank
                use(first + k, b.let("place", place))


def _peers(b: Builder, digit: Value, votes: bool) -> Value:
    """The lanes of the warp with this digit."""
    if not votes:
        return b.match(digit)
    digit = b.let("digit", digit)
    peers: Any = u32(0xFFFFFFFF)
    for bit in range(8):
        is_set = digit & (1 << bit) != 0
        agree = b.ballot(is_set)
        peers = peers & where(is_set, agree, ~agree)
    return b.let("peers", peers)


def digit_of(key: Value, shift: Any) -> Value:
    """The digit of a key that begins at a bit."""
    ordered = key_of(key)
    wide = u64 if ordered.type is u64 else u32
    digit: Value = u32(wide(ordered) >> wide(shift)) % DIGITS
    return digit


def exclusive_of_block(b: Builder, value: Value, type_: Type, warps: int) -> Value:
    """The sum of the values of the threads before this one, for those of the first `warps` warps."""
    sums = b.shared("sums", type_, warps)
    inclusive = b.warp_scan(value, "add")
    with b.if_((lane_id == 31) & (thread_id.x < warps * 32)):
        sums[thread_id.x // 32] = inclusive
    b.barrier()
    before = b.var("before", inclusive - value)
    for warp in range(warps - 1):
        with b.if_(thread_id.x // 32 > warp):
            before += sums[warp]
    return before.read()
