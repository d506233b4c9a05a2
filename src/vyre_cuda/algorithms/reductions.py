"""Reductions: sum, prod, min, max, mean, any, all, argmin, argmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from vyre_cuda.algorithms import orders
from vyre_cuda.algorithms.combining import Combining, combining
from vyre_cuda.algorithms.moving import moved_last
from vyre_cuda.algorithms.programs import reduce
from vyre_cuda.algorithms.work import Shape, Work, delivered, index_type, normal_axes, require_array, tiles, type_of
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.runtime.memory.array import DeviceArray

Array: TypeAlias = "np.ndarray[Any, Any]"
Either = TypeVar("Either", DeviceArray, np.ndarray[Any, Any])
Axis: TypeAlias = "int | Sequence[int] | None"

_OF_EMPTY = {"sum": 0, "mean": float("nan"), "prod": 1, "any": False, "all": True}


def reduction(name: str, x: Any, axis: Axis, dtype: Any, out: Any, keepdims: bool) -> Any:
    """One of the functions, on either kind of array."""
    require_array(name, x)
    if name in ("argmin", "argmax") and isinstance(axis, (tuple, list)):
        raise TypeError(f"{name} takes one axis or None")
    axes = normal_axes(axis, x.ndim)
    kept = tuple(1 if k in axes else extent for k, extent in enumerate(x.shape))
    shape = kept if keepdims else tuple(extent for k, extent in enumerate(x.shape) if k not in axes)
    n = math.prod(x.shape[k] for k in axes)
    if n == 0 and name not in _OF_EMPTY:
        raise ValueError(_no_identity(name))
    how = combining(name, x.type if isinstance(x, DeviceArray) else type_of(x), dtype, place=index_type(n))
    if isinstance(x, np.ndarray):
        return _on_host(how, x, axes, shape, n, out)
    work = Work(x)
    result = work.result(shape, how.result, out, x)
    if n == 0:
        if result.size:
            work.fill(result, _OF_EMPTY[name])
    elif result.size:
        _launches(work, how, moved_last(work, x, axes), n, result)
    return result


def _no_identity(name: str) -> str:
    if name in ("argmin", "argmax"):
        return f"attempt to get {name} of an empty sequence"
    return f"zero-size array to reduction operation {name}imum which has no identity"


def _launches(work: Work, how: Combining, x: DeviceArray, n: int, result: DeviceArray) -> None:
    """A launch that combines the tiles of each row, and others until each row is one value."""
    rows = result.size
    sources: list[DeviceArray] = [x]
    count, first = n, True
    extra = (float(n),) if how.name == "mean" else ()
    if rows > 1 and n <= 32 * how.width:
        program = reduce.short_rows(how, index_type(x.size))
        work.launch(program, x, result, n, rows, *extra, blocks=tiles(rows, reduce.WARPS))
        return
    while True:
        m = tiles(count, reduce.tile_of(how))
        last = m == 1
        index = index_type(rows * count, rows * m * reduce.tile_of(how) if rows == 1 else 0)
        few = count <= reduce.THREADS * how.width
        program = reduce.program(how, index, first=first, last=last, whole=rows == 1, few=few)
        totals = [result] if last else [work.scratch(rows * m, kind) for kind in how.kinds]
        work.launch(program, *sources, *totals, count, m, *(extra if last else ()), blocks=rows * m)
        if last:
            return
        sources, count, first = totals, m, False


# ---- NumPy ----------------------------------------------------------------------------------------------------------


def _on_host(how: Combining, x: Array, axes: tuple[int, ...], shape: Shape, n: int, out: Any) -> Array:
    others = tuple(k for k in range(x.ndim) if k not in axes)
    rows = np.ascontiguousarray(np.transpose(x, (*others, *axes))).reshape(math.prod(shape), n)
    if not (n and len(rows)):
        found = np.full(len(rows), _OF_EMPTY.get(how.name, 0), how.result.dtype)
    elif how.kind.is_float and not how.is_argument:
        found = _floats(how, rows, n)
    else:
        found = _exact(how, rows)
    return delivered(found.astype(how.result.dtype, copy=False).reshape(shape), out, x)


def _floats(how: Combining, rows: Array, n: int) -> Array:
    with np.errstate(all="ignore"):
        found = orders.reduced(how, rows)
        return found / found.dtype.type(n) if how.name == "mean" else found


def _exact(how: Combining, rows: Array) -> Array:
    """Where the order does not matter, NumPy's own function."""
    if how.is_argument and how.kind.is_float:
        rows = rows.astype(np.float32) if rows.dtype.itemsize == 2 else rows
    function = getattr(np, how.name)
    with np.errstate(all="ignore"):
        if how.name in ("sum", "prod"):
            return np.asarray(function(rows, axis=1, dtype=how.kind.dtype))
        return np.asarray(function(rows != 0 if how.result is bool_ and how.source is not bool_ else rows, axis=1))
