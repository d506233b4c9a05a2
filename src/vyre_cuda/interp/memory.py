"""Buffers and shared arrays as the lanes of a chunk see them: loads, stores and atomics with bounds rules.

Out of bounds, a load gives 0, a store does nothing, an atomic does nothing and gives 0. Where several lanes store to
one element, the highest lane wins (a race: programs must not rely on it). Atomics are executed in lane order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vyre_cuda.interp import atomics
from vyre_cuda.interp.lanes import Mask
from vyre_cuda.ir.core.types import Type, bool_, f32
from vyre_cuda.ir.semantics.elementwise import Array
from vyre_cuda.records import FrozenRecord


class Memory(FrozenRecord, eq=False):
    """`size` elements per row, with the rows one after the other in the 1-D array `data`.

    `data` has the type's storage dtype, but bytes for bools: any nonzero one reads as true, and keeps its bits until it
    is written. A buffer is one row that all lanes see (`rows` is None); a shared array has a row for each block of the
    chunk, and `rows` the row of each lane. `flushes` says that an f32 atomic add flushes subnormals (global memory
    does). `shape` has the extents where there are several axes.
    """

    type: Type
    data: Array
    size: int
    rows: Array | None = None
    flushes: bool = True
    shape: tuple[int, ...] = ()

    def flat(self, indices: Sequence[Array]) -> Array:
        """The number of the element with these indices, one for each axis; -1 if one of them is out of bounds."""
        number, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
        for index, extent in zip(indices, self.shape, strict=True):
            inside = inside & (index < extent) & (index >= 0)
            number = number * extent + index.astype(np.int64)
        return np.where(inside, number, -1)

    def load(self, index: Array) -> Array:
        inside = self._inside(index)
        every = bool(inside.all())
        if not every and not inside.any():
            return np.zeros(index.size, dtype=self.type.storage)
        address = self._address(index if every else np.where(inside, index, index.dtype.type(0)))
        value = self.data.take(address, mode="clip")
        if self.type is bool_:
            value = value != 0
        return value if every else np.where(inside, value, value.dtype.type(0))

    def store(self, index: Array, value: Array, mask: Mask) -> None:
        lanes, address = self.targets(index, mask)
        if lanes is not None and value.size != 1:
            value = value[lanes]
        self.data[address] = value[-1:] if address.size == 1 else value

    def atomic(self, op: str, index: Array, operands: Sequence[Array], mask: Mask, *, need_old: bool) -> Array | None:
        """One element of the old values per lane, 0 where the lane is not active or out of bounds."""
        count = mask.bits.size
        lanes, address = self.targets(np.broadcast_to(index, (count,)), mask)
        whole = [np.broadcast_to(operand, (count,)) for operand in operands]
        values = whole if lanes is None else [operand[lanes] for operand in whole]
        result = np.zeros(count, dtype=self.data.dtype) if need_old else None
        flush = self.flushes and self.type is f32
        old = atomics.combine(op, self.type, self.data, address, values, flush=flush, need_old=need_old)
        if result is not None and old is not None:
            result[slice(None) if lanes is None else lanes] = old
        return result

    def _inside(self, index: Array) -> Array:
        below = index < self.size
        return below & (index >= 0) if index.dtype.kind == "i" else below

    def _address(self, index: Array) -> Array:
        wide = index.astype(np.int64)
        return wide if self.rows is None else wide + self.rows * self.size

    def targets(self, index: Array, mask: Mask) -> tuple[Array | None, Array]:
        """The lanes that are active and in bounds (None for all of them), and the addresses that they touch.

        One address for all lanes remains an array of one element if all lanes are active.
        """
        inside = self._inside(index)
        if mask.is_full and inside.all():
            return None, self._address(index)
        lanes = np.flatnonzero(mask.bits & inside)
        index = np.broadcast_to(index, mask.bits.shape)
        rows = self.rows
        chosen = index[lanes].astype(np.int64)
        if rows is not None:
            chosen += (rows if rows.size == 1 else rows[lanes]) * self.size
        return lanes, chosen
