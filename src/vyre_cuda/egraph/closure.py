"""The least congruence on a device: rounds of one recorded graph, until one merges nothing."""

from __future__ import annotations

import threading
import weakref

import numpy as np

import vyre_cuda as vc
from vyre_cuda.egraph import kernels
from vyre_cuda.egraph.result import Closure, rounds_limit
from vyre_cuda.egraph.table import Table, require_table
from vyre_cuda.errors import type_name

# Slots of the hash table for each row: half of them stay free.
SLOTS = 2
_lock = threading.Lock()


def close(table: Table, device: vc.Device, max_rounds: int | None = None) -> Closure[vc.DeviceArray]:
    """Find which rows are equal, once their children are, on a device.

    The result has the numbers of `close_numpy`. The first closure of a table on a device copies it there, where it
    stays as long as the table, with the memory that rounds need: for each row 37 bytes, for each child 8, for
    each class 8. Rounds follow each other on the device alone, and the call does not wait for them.

    Parameters
    ----------
    table
        A `Table`.
    device
        A `Device`.
    max_rounds
        After so many rounds it ends, converged or not; None for no limit.

    Returns
    -------
    Closure
        Its `classes` are a device array.

    Raises
    ------
    TypeError
        Not a `Table` or a `Device`, or `max_rounds` is not an int.
    ValueError
        `max_rounds` is negative.
    ResourceError
        The device has too little memory.
    UnsupportedError
        The driver has no loops on the device (before CUDA 12.4).
    """
    require_table("close", table)
    if not isinstance(device, vc.Device):
        raise TypeError(
            f"close takes a Device, not {type_name(device)}: write vc.Device('auto'), or call close_numpy(table)"
        )
    limit = rounds_limit(max_rounds)
    if not len(table):
        return Closure(table, device.empty(0, vc.u32), np.array([limit > 0, limit > 0], np.uint32))
    with _lock:
        if table.residents is None:
            table.residents = weakref.WeakKeyDictionary()
        resident: _Resident | None = table.residents.get(device)
        if resident is None:
            resident = table.residents[device] = _Resident(table, device)
    return resident.close(limit)


class _Resident:
    """A table on a device."""

    def __init__(self, table: Table, device: vc.Device) -> None:
        self._device = device
        self._table = weakref.ref(table)
        # Closures write the same memory, so one is enqueued after the other.
        self._lock = threading.Lock()
        rows, children, classes = len(table), table.child_index.size, table.ids.size
        columns = [device.array(each) for each in (table.ops, table.offsets, table.lengths, table.row_index)]
        given, self._ids = device.array(table.child_index), device.array(table.ids)
        long = np.flatnonzero(table.lengths > kernels.FEW).astype(np.uint32)
        self._long = device.array(long)
        current, live = device.empty(children, vc.u32), device.empty(rows, vc.u8)
        slots, parent = device.empty(SLOTS * rows, vc.u64), device.empty(classes, vc.u32)
        state = device.empty(kernels.STATE, vc.u32)
        self._row_class, self._parent, self._state = columns[-1], parent, state
        with device.record() as self._start:
            kernels.start.on(device).launch(parent, live, state)
            current.copy_from(given)
        with device.record() as self._rounds:
            self._start.replay()
            with self._rounds.repeat(until=state[kernels.STOP :]):
                kernels.descend.on(device).launch(parent, current, state)
                slots.fill(kernels.FREE)
                kernels.meet.on(device).launch(*columns, current, live, slots, parent, state)
                if long.size:
                    kernels.meet_long.on(device).launch(self._long, *columns, current, live, slots, parent, state)
                kernels.flatten.on(device).launch(parent, vc.symbol("limit"), state)
        self._name = kernels.name.on(device)

    def close(self, limit: int) -> Closure[vc.DeviceArray]:
        table = self._table()
        assert table is not None
        classes = self._device.empty(len(table), vc.u32)
        report = self._device.empty(kernels.STATE, vc.u32)
        with self._lock:
            if limit:
                self._rounds.replay(limit=limit)
            else:
                self._start.replay()
            self._name.launch(self._ids, self._parent, self._row_class, self._state, classes, report)
        return Closure(table, classes, report)
