"""Where a driver's graph has its temporary arrays: those that are not needed at the same time share memory."""

from __future__ import annotations

import weakref
from bisect import insort
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vyre_cuda._native.graph.graph import Transfer
from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.ir.core.nodes import UNSPECIFIED_BYTE
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, Step
from vyre_cuda.runtime.graph.temporary import Root, Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import unwritten
else:
    unwritten = later("vyre_cuda.runtime.kernel.unwritten")

BYTE = np.dtype(np.uint8)
_ALIGNMENT = 256  # bytes, as that of the driver's own blocks
_CELL = 8  # bytes of the largest scalar


class Interval(FrozenRecord):
    """From the first to the last step that uses an array."""

    root: Root
    first: int
    last: int


def roots_of(steps: Sequence[Step | RepeatStep]) -> list[Root]:
    """The temporary arrays and cells of these steps by first use."""
    operands = (value for step in steps for value in step.operands)
    return list(dict.fromkeys(value.root for value in operands if isinstance(value, Temporary)))


def intervals(steps: Sequence[Step | RepeatStep]) -> list[Interval]:
    """The temporary arrays by first use, without cells. What a loop uses is needed in all of its passes."""
    found: dict[Root, tuple[int, int]] = {}
    begin, end = 0, 0  # of the outermost loop
    for place, step in enumerate(steps):
        if isinstance(step, RepeatStep) and place >= end:
            begin, end = place, step.end
        first, last = (begin, end - 1) if place < end else (place, place)
        for value in step.operands:
            if isinstance(value, Temporary) and not value.root.is_cell:
                low, high = found.get(value.root, (first, last))
                found[value.root] = min(low, first), max(high, last)
    return [Interval(root, *ends) for root, ends in found.items()]


def places(needed: Sequence[Interval]) -> tuple[dict[Root, int], int]:
    """The first byte of each array, and how many there are: each at the first place that is free while it is needed."""
    found: dict[Root, int] = {}
    taken: list[tuple[int, int, int]] = []  # first byte, end and last step of those needed now, in order
    size = 0
    expires = -1  # the first step behind which one of them is not needed
    for one in needed:  # by first use
        if expires < one.first:
            taken = [each for each in taken if each[2] >= one.first]
            expires = min([last for _, _, last in taken], default=one.last)
        offset = 0
        for begin, end, _ in taken:
            if offset + one.root.nbytes <= begin:
                break
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
        found[one.root] = offset
        insort(taken, (offset, offset + one.root.nbytes, one.last))
        expires = min(expires, one.last)
        size = max(size, offset + one.root.nbytes)
    return found, size


class Arena:
    """Memory for the temporary arrays of these steps, and apart from it for their cells."""

    def __init__(self, device: Device, steps: Sequence[Step | RepeatStep]) -> None:
        found, self.nbytes = places(intervals(steps))
        self._fills = device.properties.is_emulator
        self.given: dict[Root, DeviceArray] = {}
        self.buffers: list[Buffer] = []
        self._place_cells(device, steps)
        if not found:
            return
        if device._kernels.looks_for("initialized"):
            self.nbytes += _ALIGNMENT  # so that no other fill is of all of it
        # Filled, because the driver does not promise that memory is free of what others had in it.
        buffer = Buffer(device.context, self.nbytes)
        buffer.fill(0, UNSPECIFIED_BYTE, 1, self.nbytes)
        self.buffers.append(buffer)
        self._whole = DeviceArray(device, buffer, 0, self.nbytes, BYTE)
        if device._kernels.looks_for("initialized"):
            address = buffer.address
            unwritten.watch_temporary(address, self.nbytes)
            weakref.finalize(self, unwritten.watch_temporary, address, 0)
        for root, offset in found.items():
            self.given[root] = DeviceArray(device, buffer, offset, root.nbytes, BYTE)

    def _place_cells(self, device: Device, steps: Sequence[Step | RepeatStep]) -> None:
        places, size = {}, 0
        for root in roots_of(steps):
            if root.is_cell:
                places[root] = size
                size += -(-root.nbytes // _CELL) * _CELL
        if not size:
            return
        buffer = Buffer(device.context, size)
        self.buffers.append(buffer)
        for root, offset in places.items():
            self.given[root] = DeviceArray(device, buffer, offset, root.nbytes, BYTE)

    def fill(self) -> Transfer | None:
        """The emulator's graphs begin with this, so that nobody relies on what a replay before has left."""
        return Transfer.fill(self._whole, UNSPECIFIED_BYTE, 1) if self._fills and self.nbytes else None
