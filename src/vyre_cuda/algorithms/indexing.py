"""Places given by arrays: take, put, searchsorted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vyre_cuda.algorithms.programs import place
from vyre_cuda.algorithms.programs.keys import keys_of
from vyre_cuda.algorithms.work import (
    Work,
    delivered,
    index_type,
    normal_axis,
    refuse_shared,
    require_array,
    require_device_array,
    tiles,
    type_of,
)
from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.types import i64, u64


def taken(x: Any, indices: Any, axis: Any, mode: str, out: Any) -> Any:
    """`take` on either kind of array."""
    require_array("take", x)
    _check_mode(mode)
    if axis is None:
        x, axis = x.reshape(x.size), 0
    axis = normal_axis(axis, x.ndim)
    if isinstance(x, np.ndarray):
        places = _host_places(indices, axis, x.shape[axis], mode)
        found = np.asarray(np.take(x, places, axis=axis, mode=mode))  # type: ignore[call-overload]
        return delivered(found, out, x, indices)
    require_device_array("x", x)
    require_device_array("indices", indices)
    _check_indices(indices)
    work = Work(x, indices)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    result = work.result(shape, x.type, out, x, indices)
    if result.size and not x.shape[axis]:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    program = place.take(x.type, indices.type, mode, index_type(x.size, result.size))
    sizes = (result.size, x.shape[axis], indices.size, math.prod(x.shape[axis + 1 :]))
    work.launch(program, x, indices, result, *sizes, blocks=tiles(result.size, place.THREADS))
    return result


def put_values(x: Any, indices: Any, values: Any, mode: str) -> None:
    """`put` on either kind of array."""
    require_array("put", x)
    _check_mode(mode)
    if isinstance(x, np.ndarray):
        if isinstance(values, np.ndarray) and values.dtype != x.dtype:
            raise TypeError(f"values are of {values.dtype}, the array of {x.dtype}: convert them first")
        np.put(x, _host_places(indices, 0, x.size, mode), values, mode=mode)  # type: ignore[arg-type]
        return
    require_device_array("x", x)
    require_device_array("indices", indices)
    require_device_array("values", values)
    _check_indices(indices)
    if values.type is not x.type:
        raise TypeError(f"values are of {values.type}, the array of {x.type}: convert them first")
    if not indices.size:
        return
    if not x.size:
        raise IndexError("cannot replace elements of an empty array")
    if not values.size:
        return
    refuse_shared("x", x, indices, values)
    work = Work(x, indices, values)
    last = work.scratch(x.size, u64)
    last.fill(0)
    index = index_type(x.size, indices.size)
    winners = place.winners(indices.type, mode, index)
    work.launch(winners, indices, last, indices.size, x.size, blocks=tiles(indices.size, place.THREADS))
    program = place.put(x.type, index)
    work.launch(program, x, values, last, x.size, values.size, blocks=tiles(x.size, place.THREADS))


def searched(x: Any, v: Any, side: str, out: Any) -> Any:
    """`searchsorted` on either kind of array."""
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right' (got {side!r})")
    require_array("searchsorted", x)
    if x.ndim != 1:
        raise ValueError("object too deep for desired array")
    if isinstance(x, np.ndarray):
        if not isinstance(v, np.ndarray):
            raise TypeError(f"v is {type_name(v)}; a NumPy array is needed beside NumPy arrays")
        if x.dtype != v.dtype:
            raise TypeError(f"elements of {v.dtype} are searched for in {x.dtype}: convert one of them")
        type_ = type_of(x)
        found = np.searchsorted(keys_of(x, type_), keys_of(v, type_), side=side)  # type: ignore[call-overload]
        return delivered(np.asarray(found), out, x, v)
    require_device_array("x", x)
    require_device_array("v", v)
    if x.type is not v.type:
        raise TypeError(f"elements of {v.type} are searched for in {x.type}: convert one of them")
    work = Work(x, v)
    result = work.result(v.shape, i64, out, x, v)
    program = place.search(x.type, side == "right", index_type(x.size, v.size))
    work.launch(program, x, v, result, x.size, v.size, blocks=tiles(v.size, place.THREADS))
    return result


def _check_mode(mode: str) -> None:
    if mode not in place.MODES:
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


def _host_places(indices: Any, axis: int, count: int, mode: str) -> Any:
    """Indices with which NumPy finds the places that a device finds.

    NumPy takes those of u64 from 2^63 on for negative ones, and brings an index into the axis by adding or subtracting
    its length again and again.
    """
    if not isinstance(indices, np.ndarray) or not count:
        return indices
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices are of {indices.dtype}; they must be integers")
    if mode == "wrap":
        wide = indices.astype(np.uint64 if indices.dtype.kind == "u" else np.int64)
        return np.remainder(wide, wide.dtype.type(count)).astype(np.int64)
    if indices.dtype != np.uint64:
        return indices
    outside = indices[indices >= count]
    if mode == "raise" and outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds for axis {axis} with size {count}")
    return np.minimum(indices, np.uint64(count)).astype(np.int64)


def _check_indices(indices: Any) -> None:
    if not indices.type.is_integer:
        raise TypeError(f"indices are of {indices.type}; they must be integers")
