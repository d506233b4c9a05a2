"""The lanes of one chunk: the threads of some consecutive blocks that the interpreter advances together.

A lane's number is its thread's linear id in the launch minus that of the chunk's first thread (x varies fastest, then
y, z, then the blocks in the same way). A `Mask` says for which lanes a statement is executed. Per-lane values are
arrays with one element per lane, or with one element if all lanes have the same value.
"""

from __future__ import annotations

import numpy as np

from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import WARP_SIZE, IdKind
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.semantics.elementwise import Array
from vyre_cuda.records import FrozenRecord, field


class Mask(FrozenRecord, eq=False):
    """The set of active lanes: `bits` has one bool per lane, `count` of them are true."""

    bits: Array
    count: int

    @classmethod
    def full(cls, lanes: int) -> Mask:
        return cls(np.ones(lanes, dtype=np.bool_), lanes)

    @classmethod
    def empty(cls, lanes: int) -> Mask:
        return cls(np.zeros(lanes, dtype=np.bool_), 0)

    @property
    def is_full(self) -> bool:
        return self.count == self.bits.size

    @property
    def is_empty(self) -> bool:
        return self.count == 0

    def split(self, condition: Array) -> tuple[Mask, Mask]:
        """The active lanes where the condition is true, and those where it is false."""
        lanes = self.bits.size
        if condition.size == 1:
            empty = Mask.empty(lanes)
            return (self, empty) if condition[0] else (empty, self)
        true = condition if self.is_full else self.bits & condition
        count = int(np.count_nonzero(true))
        if count == self.count:
            return self, Mask.empty(lanes)
        if count == 0:
            return Mask.empty(lanes), self
        return Mask(true, count), Mask(self.bits ^ true, self.count - count)

    def union(self, other: Mask) -> Mask:
        """The lanes of two masks that have none in common."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return Mask(self.bits | other.bits, self.count + other.count)

    def merge(self, new: Array, old: Array) -> Array:
        """`new` in the active lanes, `old` in the others."""
        return new if self.is_full else np.where(self.bits, new, old)


class Lanes(FrozenRecord, eq=False):
    """The launch coordinates of `blocks` consecutive blocks from linear block id `first_block` on."""

    geometry: Geometry
    first_block: int
    blocks: int
    _ids: dict[tuple[str, int], Array] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.blocks * self.geometry.threads_per_block

    @property
    def first_thread(self) -> int:
        """The linear id in the launch of lane 0."""
        return self.first_block * self.geometry.threads_per_block

    def id(self, kind: IdKind, axis: int, type_: Type) -> Array:
        """A launch coordinate of every lane as `type_`, the same one for a kind."""
        key = (kind, axis)
        if key not in self._ids:
            self._ids[key] = self._compute(kind, axis, type_)
        return self._ids[key]

    def block_rows(self) -> Array:
        """The number in this chunk of every lane's block; one element if there is one block."""
        key = ("block_row", 0)
        if key not in self._ids:
            rows = np.arange(self.blocks, dtype=np.int64)
            self._ids[key] = rows if self.blocks == 1 else rows.repeat(self.geometry.threads_per_block)
        return self._ids[key]

    def _compute(self, kind: IdKind, axis: int, type_: Type) -> Array:
        match kind:
            case "block_dim":
                return np.array([self.geometry.block[axis]], dtype=type_.dtype)
            case "grid_dim":
                return np.array([self.geometry.grid[axis]], dtype=type_.dtype)
            case "thread_id":
                linear = np.arange(self.geometry.threads_per_block)
                ids = self._on_axis(linear, self.geometry.block, axis).astype(type_.dtype)
                return ids if ids.size == 1 else np.tile(ids, self.blocks)
            case "lane_id":
                ids = (np.arange(self.geometry.threads_per_block) % WARP_SIZE).astype(type_.dtype)
                return ids if ids.size == 1 else np.tile(ids, self.blocks)
            case "block_id":
                linear = np.arange(self.first_block, self.first_block + self.blocks)
                ids = self._on_axis(linear, self.geometry.grid, axis).astype(type_.dtype)
                return ids if ids.size == 1 else ids.repeat(self.geometry.threads_per_block)
            case "global_id":
                block = self.id("block_id", axis, type_) * self.id("block_dim", axis, type_)
                return block + self.id("thread_id", axis, type_)

    @staticmethod
    def _on_axis(linear: Array, extents: tuple[int, int, int], axis: int) -> Array:
        """The coordinate on one axis of linear numbers; one element if the axis has one place."""
        if extents[axis] == 1:
            return np.zeros(1, dtype=linear.dtype)
        before = 1
        for extent in extents[:axis]:
            before *= extent
        return linear // before % extents[axis]
