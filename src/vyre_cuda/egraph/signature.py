"""Hashes of rows."""

from __future__ import annotations

import numpy as np

from vyre_cuda.egraph.table import Column, Table, require_table

_START, _GOLDEN, _FACTOR = 0xA24BAED4, 0x9E3779B9, 0x85EBCA6B


def signatures(table: Table) -> Column:
    """A hash of each row's operation, number of children, and children, in this order.

    Equal rows have equal signatures. The lowest bits depend little on the last child: sort by it, but do not use it
    modulo a power of two. Its values are those of vyre-driver-cuda's `row_signatures`.

    Parameters
    ----------
    table
        A `Table`.

    Returns
    -------
    numpy.ndarray of u32, shape (rows,)

    Raises
    ------
    TypeError
        Not a `Table`.
    """
    require_table("signatures", table)
    found = _mix(_mix(np.full(len(table), _START, np.uint32), table.ops), table.lengths)
    rows = np.flatnonzero(table.lengths)
    position = 0
    while rows.size:
        found[rows] = _mix(found[rows], table.children[table.offsets[rows] + np.uint32(position)])
        position += 1
        rows = rows[table.lengths[rows] > position]
    return found


def _mix(h: Column, value: Column) -> Column:
    mixed = h ^ (value + np.uint32(_GOLDEN) + (h << np.uint32(6)) + (h >> np.uint32(2)))
    rotated: Column = (mixed << np.uint32(13)) | (mixed >> np.uint32(19))
    rotated *= np.uint32(_FACTOR)
    return rotated
