"""The least congruence in NumPy: what a device must find."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vyre_cuda.egraph.result import Closure, rounds_limit
from vyre_cuda.egraph.table import Column, Table, require_table


def close_numpy(table: Table, max_rounds: int | None = None) -> Closure[Column]:
    """Find which rows are equal, once their children are.

    Each round merges the classes of all rows that have the same operation and the same classes as children; the last
    one finds nothing to merge.

    Parameters
    ----------
    table
        A `Table`.
    max_rounds
        After so many rounds it ends, converged or not; None for no limit.

    Returns
    -------
    Closure
        Its arrays are NumPy's.

    Raises
    ------
    TypeError
        Not a `Table`, or `max_rounds` is not an int.
    ValueError
        `max_rounds` is negative.
    """
    require_table("close_numpy", table)
    limit = rounds_limit(max_rounds)
    parent = np.arange(table.ids.size, dtype=np.uint32)
    rounds, converged = 0, False
    while rounds < limit and not converged:
        rounds += 1
        key = _contents(table, parent[table.child_index] if table.child_index.size else table.child_index)
        first = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)
        first[key[::-1]] = np.arange(len(table) - 1, -1, -1)
        after = united(parent, table.row_index, table.row_index[first[key]])
        converged = bool((after == parent).all())
        parent = after
    return Closure(table, table.ids[parent[table.row_index]], np.array([converged, rounds], np.uint32))


def united(parent: Column, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Column:
    """For each class the least one that it is equal to, after `left[i]` and `right[i]` were found equal.

    `parent` is the same before, so it has no chains.
    """
    parent = parent.copy()
    while True:
        a, b = parent[left], parent[right]
        apart = a != b
        if not apart.any():
            return parent
        left, right, a, b = left[apart], right[apart], a[apart], b[apart]
        np.minimum.at(parent, np.maximum(a, b), np.minimum(a, b))
        while True:
            above = parent[parent]
            if (above == parent).all():
                break
            parent = above


def _contents(table: Table, children: Column) -> npt.NDArray[np.int64]:
    """A number for each row, from 0 on, the same for rows with the same operation and children."""
    key = _ranks(table.ops, table.lengths)
    rows, position = np.flatnonzero(table.lengths), 0
    while rows.size:
        at = children[table.offsets[rows].astype(np.int64) + position]
        key[rows] = _ranks(key[rows], at)
        position += 1
        rows = rows[table.lengths[rows] > position]
    # Numbers of the last position that a row has: they distinguish the rows of its length.
    return _ranks(table.lengths, key)


def _ranks(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The places of pairs of numbers below 2^32 among the distinct pairs."""
    pairs = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)
