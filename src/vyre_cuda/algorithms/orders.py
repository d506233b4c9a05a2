"""The stated orders in NumPy: what the functions give for NumPy arrays, and the oracle of the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vyre_cuda.algorithms.combining import Combining
from vyre_cuda.algorithms.programs import lookback, scan
from vyre_cuda.algorithms.programs.reduce import GROUP, ROWS, THREADS, WARPS, tile_of

Array = np.ndarray[Any, Any]
Combine = Callable[[Array, Array], Array]

# Elements that are combined at a time, so that what NumPy makes on the way stays small.
_CHUNK = 1 << 22


def reduced(how: Combining, rows: Array) -> Array:
    """Each row of a matrix combined in the stated order, as what it is added up as; each has at least one element."""
    values = rows.astype(how.kind.dtype)
    while values.shape[1] > 1:
        values = _tiles(how, values)
    return values[:, 0]


def _tiles(how: Combining, rows: Array) -> Array:
    """Each tile of each row combined."""
    tile = tile_of(how)
    n = rows.shape[1]
    if n <= tile:
        return _tile(how, rows)[:, None]
    full = n // tile
    step = max(_CHUNK // tile, 1)
    found = [
        _tile(how, rows[:, first * tile : min(first + step, full) * tile].reshape(-1, tile)).reshape(len(rows), -1)
        for first in range(0, full, step)
    ]
    if n % tile:
        found.append(_tile(how, rows[:, full * tile :])[:, None])
    return np.concatenate(found, axis=1)


def _tile(how: Combining, rows: Array) -> Array:
    """Rows of at most one tile combined: rows of the tile, groups of them, neighbors, lanes, warps."""
    return _groups(how, rows, ROWS // GROUP)


def row(how: Combining, values: Array) -> Any:
    """One row combined as a tile with as many groups of rows as it needs."""
    return _groups(how, values[None, :], -(-values.size // (GROUP * THREADS * how.width)))[0]


def _groups(how: Combining, rows: Array, groups: int) -> Array:
    combine = how.combine_arrays
    most = groups * GROUP * THREADS * how.width
    if rows.shape[1] < most:
        padded = np.full((len(rows), most), how.neutral_numbers()[0], rows.dtype)
        padded[:, : rows.shape[1]] = rows
        rows = padded
    shaped = rows.reshape(len(rows), groups, GROUP, WARPS, THREADS // WARPS, how.width)
    shaped = halved(combine, shaped, 2)
    total = shaped[:, 0]
    for group in range(1, groups):
        total = combine(total, shaped[:, group])
    for axis in (3, 2, 1):
        total = halved(combine, total, axis)
    return total


def halved(combine: Combine, values: Array, axis: int) -> Array:
    """The elements along an axis combined half with half until one is left; the axis goes."""
    values = np.moveaxis(values, axis, 0)
    while len(values) > 1:
        half = len(values) // 2
        values = combine(values[:half], values[half:])
    found: Array = values[0]
    return found


def scanned(how: Combining, rows: Array, exclusive: bool) -> Array:
    """The scan of each row of a matrix in the stated order, as what is combined."""
    combine = how.combine_arrays
    tile, width = scan.tile_of(how), scan.width_of(how)
    count, n = rows.shape
    m = -(-n // tile)
    padded = np.full((count, m * tile), how.neutral_numbers()[0], how.kind.dtype)
    padded[:, :n] = rows
    within = padded.reshape(count, m, lookback.FAN, 32, width)
    for k in range(1, width):
        within[..., k] = combine(within[..., k], within[..., k - 1])
    lanes_before, lanes = _scan32(how, within[..., -1])
    within = combine(lanes_before[..., None], within)
    start, segments = _scan32(how, lanes[..., -1])
    if m > 1:
        start = combine(_before_tiles(how, segments[..., -1])[..., None], start)
    found = combine(start[..., None, None], within)
    if exclusive:
        found[..., 1:] = found[..., :-1].copy()
        found[..., 0] = combine(start[..., None], lanes_before)
    flat = found.reshape(count, -1)
    if exclusive and how.name == "sum":
        flat[:, 0] = 0
    return flat[:, :n]


def _before_tiles(how: Combining, totals: Array) -> Array:
    """What is before each tile of a row: groups of groups first, then groups, then tiles of the own group."""
    combine = how.combine_arrays
    count, m = totals.shape
    groups = -(-m // lookback.FAN)
    padded = np.full((count, groups * lookback.FAN), how.neutral_numbers()[0], totals.dtype)
    padded[:, :m] = totals
    before, inclusive = _scan32(how, padded.reshape(count, groups, lookback.FAN))
    if groups > 1:
        before = combine(_before_tiles(how, inclusive[..., -1])[..., None], before)
    return before.reshape(count, -1)[:, :m]


def _scan32(how: Combining, values: Array) -> tuple[Array, Array]:
    """The scan of 32 values along the last axis by Hillis and Steele: what is before each, and that with its own."""
    step = 1
    while step < 32:
        combined = how.combine_arrays(values[..., step:], values[..., :-step])
        values = np.concatenate((values[..., :step], combined), axis=-1)
        step *= 2
    before = np.full_like(values, how.neutral_numbers()[0])
    before[..., 1:] = values[..., :-1]
    return before, values
