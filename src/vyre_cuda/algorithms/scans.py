"""Scans: cumsum, cumprod, cummax."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.algorithms import orders
from vyre_cuda.algorithms.combining import Combining, scanning
from vyre_cuda.algorithms.moving import move_axes, moved_last
from vyre_cuda.algorithms.programs import lookback, scan
from vyre_cuda.algorithms.reductions import Array
from vyre_cuda.algorithms.work import Shape, Work, delivered, index_type, normal_axis, require_array, tiles, type_of
from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.types import u64
from vyre_cuda.runtime.memory.array import DeviceArray


def scanned(name: str, x: Any, axis: Any, dtype: Any, out: Any, exclusive: bool) -> Any:
    """One of the functions, on either kind of array."""
    require_array(f"cum{name}", x)
    if not isinstance(exclusive, bool):
        raise TypeError(f"exclusive is {type_name(exclusive)}; it must be True or False")
    how = scanning(name, x.type if isinstance(x, DeviceArray) else type_of(x), dtype)
    if axis is None:
        x = x.reshape(x.size)
        axis = 0
    axis = normal_axis(axis, x.ndim)
    if isinstance(x, np.ndarray):
        return _on_host(how, x, axis, out, exclusive)
    work = Work(x)
    result = work.result(x.shape, how.result, out, x)
    if x.size:
        source = moved_last(work, x, (axis,))
        if source is x:
            launches(work, how, x, result, x.shape[axis], exclusive)
        else:
            _along_other_axis(work, how, source, result, x.shape, axis, exclusive)
    return result


def _along_other_axis(
    work: Work, how: Combining, source: DeviceArray, result: DeviceArray, shape: Shape, axis: int, exclusive: bool
) -> None:
    """The scan of a copy whose last axis it is, and its axes back in their order."""
    moved = (*tuple(extent for k, extent in enumerate(shape) if k != axis), shape[axis])
    made = work.scratch(source.size, how.result)
    launches(work, how, source, made, shape[axis], exclusive)
    others = list(range(len(shape) - 1))
    move_axes(work, made.reshape(moved), [*others[:axis], len(shape) - 1, *others[axis:]], result)


def launches(work: Work, how: Combining, x: DeviceArray, result: DeviceArray, n: int, exclusive: bool) -> None:
    """The scan of rows of `n` elements."""
    rows = x.size // n
    tile = scan.tile_of(how)
    m = tiles(n, tile)
    shape = scan.shape_of(how, n)
    index = index_type(x.size, rows * m * tile if rows == 1 else 0)
    if m == 1:
        program = scan.one_tile(how, index, shape, whole=rows == 1, exclusive=exclusive)
        work.launch(program, x, result, n, blocks=rows)
        return
    levels = lookback.levels_of(m)
    words = work.scratch(lookback.published_words(lookback.words_of(how), rows, m), u64)
    words.fill(0)
    program = scan.program(how, index, shape, levels=levels, whole=rows == 1, exclusive=exclusive)
    starts = lookback.level_starts(m, rows, levels)
    work.launch(program, x, result, words, n, m, *starts, blocks=rows * m)


def _on_host(how: Combining, x: Array, axis: int, out: Any, exclusive: bool) -> Array:
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    shape = rows.shape
    flat = rows.reshape(-1, shape[-1]) if x.size else rows.reshape(0, 1)
    with np.errstate(all="ignore"):
        if how.kind.is_float:
            found = orders.scanned(how, flat, exclusive) if x.size else flat.astype(how.kind.dtype)
        else:
            found = _exact(how, flat, exclusive)
        found = found.astype(how.result.dtype, copy=False)
    return delivered(np.ascontiguousarray(np.moveaxis(found.reshape(shape), -1, axis)), out, x)


def _exact(how: Combining, rows: Array, exclusive: bool) -> Array:
    """Where the order does not matter, NumPy's own function."""
    function = {"sum": np.add, "prod": np.multiply, "max": np.maximum}[how.name]
    found = function.accumulate(rows.astype(how.kind.dtype), axis=1, dtype=how.kind.dtype)
    if not exclusive or not found.size:
        return found
    shifted = np.empty_like(found)
    shifted[:, 1:] = found[:, :-1]
    shifted[:, 0] = how.neutral_numbers()[0]
    return shifted
