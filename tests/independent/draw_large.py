"""Arrays beyond 4 GiB: stores, loads and atomics at far indices, next to those that differ by a power of two.

For GPUs that have the memory. What the array holds is known where it was written; all else is one value.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from draw_values import draw_values
from number_formats import BITS, INTEGERS, WRAP, ZERO
from oracle import Oracle
from program_tree import Buffer, Expr, Program, Stmt, Value, cast, const, local, op

BYTES = 9 << 29  # 4.5 GiB


class Sparse:
    """A long list of one value, but for what was set."""

    def __init__(self, length: int, value: Value) -> None:
        self._length = length
        self.value = value
        self.changed: dict[int, Value] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: int) -> Value:
        return self.changed.get(at, self.value)

    def __setitem__(self, at: int, value: Value) -> None:
        self.changed[at] = value

    def copy(self) -> Sparse:
        other = Sparse(self._length, self.value)
        other.changed = dict(self.changed)
        return other


@dataclass(slots=True)
class LargeCase:
    """`far` is the array, of one value at first; `wanted` what it holds then where it is looked at, and `found`."""

    program: Program
    far: Sparse
    looked_at: list[int]
    wanted: dict[str, list[Value]]
    kind: str = "large"


def draw_large(rng: random.Random) -> LargeCase:
    type_ = rng.choice(("u8", "i8", "u16", "f16", "bool_", "u32", "f32", "u64"))
    length = BYTES * 8 // BITS[type_] - rng.randrange(5)
    value = draw_values(rng, type_, 1)[0]
    far = Sparse(length, value)
    program = Program(index="u64")
    program.buffers["far"] = Buffer(type_, "inout", far)  # as long as a list, for the oracle
    places = sorted({place for _ in range(8) for place in _neighbors(rng, length)})
    chosen = rng.sample(places, min(len(places), 16))
    program.buffers["at"] = Buffer("u64", "in", list(chosen))
    program.buffers["given"] = Buffer(type_, "in", draw_values(rng, type_, len(chosen)))
    size = const("u64", len(chosen))
    program.buffers["found"] = Buffer(type_, "out", [ZERO[type_]] * len(chosen), size)
    program.body = _body(rng, type_, chosen)
    outcome = Oracle(program).run()
    looked_at = sorted({place for at in chosen for place in _aliases(at, length)} | {0, length - 1})
    wanted = {"far": [outcome.buffers["far"][at] for at in looked_at], "found": outcome.buffers["found"]}
    return LargeCase(program, far, looked_at, wanted)


def _neighbors(rng: random.Random, length: int) -> list[int]:
    """About the ends of the array, multiples of 2^31 and anywhere; some are out of bounds."""
    base = rng.choice((0, length, 1 << 31, 1 << 32, 1 << 32, (1 << 32) + (1 << 28), rng.randrange(length)))
    return [at for at in (base - 1, base, base + 1, base + rng.randrange(100)) if at >= 0]


def _aliases(at: int, length: int) -> list[int]:
    """Where an index that lost bits would point."""
    candidates = (at, at & (1 << 32) - 1, at & (1 << 31) - 1, at - (1 << 32), at + (1 << 32), at + 1, at - 1)
    return [place for place in candidates if 0 <= place < length]


def _body(rng: random.Random, type_: str, chosen: list[int]) -> list[Stmt]:
    body: list[Stmt] = []
    count = const("u64", len(chosen))
    element = Expr("load", "u64", "at", (local("u64", "j"),))
    moved = rng.choice((element, op("u64", "add", op("u64", "subtract", element, const("u64", 7)), const("u64", 7))))
    signed = cast("i64", moved) if rng.random() < 0.3 else moved
    stored = Stmt("store", "far", (signed, Expr("load", type_, "given", (local("u64", "j"),))))
    loop = [Stmt("let", "k", (moved,)), stored]
    read = Stmt("store", "found", (local("u64", "j"), Expr("load", type_, "far", (local("u64", "k"),))))
    loop.insert(rng.randint(1, 2), read)
    bounds = (const("u64", 0), count, const("u64", rng.choice((1, 1, 2))))
    body.append(Stmt("for", "j", bounds, (loop,)))
    for at in rng.sample(chosen, min(4, len(chosen))):
        value = const(type_, draw_values(rng, type_, 1)[0])
        place = const("u64", at)
        if type_ in INTEGERS and BITS[type_] >= 32:
            detail = (rng.choice(("add", "maximum", "bitwise_xor", "exchange")), "far", "relaxed", "device")
            body.append(Stmt("atomic", "", (place, const(type_, WRAP[type_](rng.getrandbits(64)))), (), detail))
        else:
            body.append(Stmt("store", "far", (place, value)))
    return body
