"""Warp operations on the lanes of a chunk: 32 threads of consecutive linear ids within their block make a warp.

A warp is a row of a table with 32 columns, one per place. The last warp of a block may have fewer threads than places;
those places, and threads that a failed assertion ended, are missing: they contribute the neutral element to a reduction
or scan, and a shuffle that reads from one gives the thread's own value, or 0 for a shuffle by index.

Reductions add in the order of the xor-butterfly, with steps of 16, 8, 4, 2 and 1; scans are those of Hillis and Steele,
with steps of 1, 2, 4, 8 and 16. So floats come out with the bits that a device gives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.ir.core.nodes import WARP_SIZE
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.semantics.elementwise import Array, apply, constant
from vyre_cuda.records import FrozenRecord

_COLUMNS = np.arange(WARP_SIZE)
_SHUFFLES = ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor", "broadcast")


class Warps(FrozenRecord):
    """The shape of a chunk's table: rows of blocks' warps."""

    blocks: int
    threads_per_block: int

    @classmethod
    def of(cls, lanes: Lanes) -> Warps:
        return cls(lanes.blocks, lanes.geometry.threads_per_block)

    @property
    def per_block(self) -> int:
        return -(-self.threads_per_block // WARP_SIZE)

    def table(self, values: Array) -> Array:
        """One value per lane, or one for all, as rows of warps; 0 in the places past the end of a block."""
        rows = np.broadcast_to(values, (self.blocks * self.threads_per_block,)).reshape(self.blocks, -1)
        missing = self.per_block * WARP_SIZE - self.threads_per_block
        return np.pad(rows, ((0, 0), (0, missing))).reshape(-1, WARP_SIZE)

    def lanes(self, table: Array) -> Array:
        """The inverse of `table`."""
        return table.reshape(self.blocks, -1)[:, : self.threads_per_block].reshape(-1)

    def counts(self, mask: Mask) -> Array:
        """How many lanes of the mask each warp has."""
        counts: Array = np.count_nonzero(self.table(mask.bits), axis=1)
        return counts

    def split(self, values: Array, mask: Mask) -> int | None:
        """The first warp in which lanes of the mask have different values, None if there is none."""
        if values.size == 1:
            return None
        table, here = self.table(values), self.table(mask.bits)
        first = np.take_along_axis(table, here.argmax(axis=1, keepdims=True), axis=1)
        rows = np.flatnonzero((here & (table != first)).any(axis=1))
        return int(rows[0]) if rows.size else None


def operate(op: str, combine: str, type_: Type, operands: Sequence[Array], lanes: Lanes, mask: Mask) -> Array:
    """The result of a row of `ops.WARP_OPS` for each lane; `type_` is the type of the first operand.

    `combine` is the op of a reduction or scan. Of every warp, either all existing lanes are in the mask, or none is.
    """
    warps = Warps.of(lanes)
    here = warps.table(mask.bits)
    value = warps.table(operands[0])
    if op in _SHUFFLES:
        return warps.lanes(_shuffle(op, value, warps.table(operands[1]), here))
    if op in ("any", "all", "ballot", "match"):
        return warps.lanes(_vote(op, type_, value, here))
    neutral = neutral_element(combine, type_)
    value = np.where(here, value, neutral)
    if op == "reduce":
        return warps.lanes(_reduce(combine, type_, value))
    scanned = _inclusive_scan(combine, type_, value)
    if op == "exclusive_scan":
        scanned = np.concatenate((np.broadcast_to(neutral, (scanned.shape[0], 1)), scanned[:, :-1]), axis=1)
    return warps.lanes(scanned)


def neutral_element(combine: str, type_: Type) -> Array:
    """The neutral element as an array of one element; -0.0 for a float add."""
    ones = (1 << type_.bits) - 1
    match combine:
        case "add":
            return constant(type_, bits_of(type_, -0.0) if type_.is_float else 0)
        case "minimum" | "maximum":
            sign = 1 if combine == "minimum" else -1
            if type_.is_float:
                return constant(type_, bits_of(type_, sign * float("inf")))
            return constant(type_, (type_.maximum if sign > 0 else type_.minimum) & ones)
        case "bitwise_and":
            return constant(type_, ones)
        case _:
            return constant(type_, 0)


def _shuffle(op: str, value: Array, lane: Array, here: Array) -> Array:
    """`lane` is u32: an index, a distance or a mask. Places from 32 on and below 0 do not exist."""
    lane = lane.astype(np.int64)
    match op:
        case "shuffle_up":
            source = _COLUMNS - lane
        case "shuffle_down":
            source = _COLUMNS + lane
        case "shuffle_xor":
            source = _COLUMNS ^ lane
        case _:
            source = lane
    within = (source >= 0) & (source < WARP_SIZE)
    source = np.where(within, source, 0)
    there = within & np.take_along_axis(here, source, axis=1)
    otherwise = value.dtype.type(0) if op in ("shuffle", "broadcast") else value
    return np.where(there, np.take_along_axis(value, source, axis=1), otherwise)


def _vote(op: str, type_: Type, value: Array, here: Array) -> Array:
    """any and all give bools; ballot and match masks of lanes, lane 0 in the lowest bit."""
    if op == "any":
        return np.broadcast_to((value & here).any(axis=1, keepdims=True), value.shape)
    if op == "all":
        return np.broadcast_to((value | ~here).all(axis=1, keepdims=True), value.shape)
    found = np.zeros(value.shape, dtype=np.uint32)
    bits = value.view(type_.unsigned)
    for column in range(WARP_SIZE):
        one = slice(column, column + 1)
        agrees = here[:, one] & (value[:, one] if op == "ballot" else bits == bits[:, one])
        found |= agrees.astype(np.uint32) << np.uint32(column)
    return found


def _reduce(combine: str, type_: Type, value: Array) -> Array:
    """The butterfly: every place ends with the same value, because both sides of a step combine alike."""
    step = WARP_SIZE // 2
    while step:
        value = apply(combine, type_, type_, [value, value[:, _COLUMNS ^ step]])
        step //= 2
    return value


def _inclusive_scan(combine: str, type_: Type, value: Array) -> Array:
    step = 1
    while step < WARP_SIZE:
        combined = apply(combine, type_, type_, [value[:, step:], value[:, :-step]])
        value = np.concatenate((value[:, :step], combined), axis=1)
        step *= 2
    return value
