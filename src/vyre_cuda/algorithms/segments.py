"""Reductions of segments, which an array of offsets names: segmented_sum, segmented_min."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from vyre_cuda.algorithms import orders
from vyre_cuda.algorithms.combining import Combining, combining
from vyre_cuda.algorithms.programs import segment
from vyre_cuda.algorithms.reductions import Array
from vyre_cuda.algorithms.work import Work, delivered, index_type, require_array, require_device_array, type_of
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.runtime.memory.array import DeviceArray


def segmented(name: str, x: Any, offsets: Any, out: Any) -> Any:
    """One of the functions, on either kind of array."""
    require_array(f"segmented_{name}", x)
    if isinstance(x, DeviceArray):
        require_device_array("offsets", offsets)
    elif isinstance(offsets, DeviceArray):
        raise TypeError("offsets is a DeviceArray, and x is not: upload x with device.array(x)")
    else:
        offsets = np.asarray(offsets)
    if x.ndim != 1 or offsets.ndim != 1 or not offsets.size:
        raise ValueError("a segmented reduction takes an array with one axis and at least one offset")
    type_ = x.type if isinstance(x, DeviceArray) else type_of(x)
    if type_ is bool_ and name == "min":
        raise TypeError("segmented_min takes numbers, not bools: convert them, as to vc.u8")
    how = combining(name, type_)
    if isinstance(x, np.ndarray):
        if offsets.dtype.kind not in "iu":
            raise TypeError(f"offsets are of {offsets.dtype}; they must be integers")
        return _on_host(how, x, offsets, out)
    if not offsets.type.is_integer:
        raise TypeError(f"offsets are of {offsets.type}; they must be integers")
    work = Work(x, offsets)
    result = work.result((offsets.size - 1,), how.result, out, x, offsets)
    program = segment.program(how, offsets.type, index_type(x.size))
    work.launch(program, x, offsets, result, x.size, blocks=result.size)
    return result


def _on_host(how: Combining, x: Array, offsets: Array, out: Any) -> Array:
    places = offsets.astype(np.int64)
    if places[0] < 0 or places[-1] > x.size or (places[1:] < places[:-1]).any():
        raise ValueError("offsets must ascend, from 0 on at the least, and end within the array")
    with np.errstate(all="ignore"):
        found = [_segment(how, x[first:end]) for first, end in pairwise(places)]
        return delivered(np.array(found, how.kind.dtype).astype(how.result.dtype), out, x, offsets)


def _segment(how: Combining, elements: Array) -> Any:
    values = elements.astype(how.kind.dtype)
    if not values.size:
        # A sum of nothing begins with what changes nothing, and ends as 0.
        return 0 if how.name == "sum" else how.neutral_numbers()[0]
    if how.kind.is_float:
        return orders.row(how, values)
    return values.sum(dtype=how.kind.dtype) if how.name == "sum" else values.min()
