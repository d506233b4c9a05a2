"""Selection: compress, nonzero, unique."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vyre_cuda.algorithms import scans
from vyre_cuda.algorithms.combining import scanning
from vyre_cuda.algorithms.indexing import taken
from vyre_cuda.algorithms.programs import select
from vyre_cuda.algorithms.programs.keys import keys_of
from vyre_cuda.algorithms.reductions import Array
from vyre_cuda.algorithms.sorting import sorted_arrays
from vyre_cuda.algorithms.work import (
    Work,
    delivered,
    index_type,
    normal_axis,
    refuse_shared,
    refuse_shared_on_host,
    require_array,
    require_device_array,
    tiles,
    type_of,
)
from vyre_cuda.errors import counted, type_name
from vyre_cuda.ir.core.types import i64, u32, u64
from vyre_cuda.runtime.memory.array import DeviceArray

_REMEDY = "give out=, which is large enough for the largest result, and count=, an array of one u64"


def compressed(condition: Any, x: Any, axis: Any, out: Any, count: Any) -> Any:
    """`compress` on either kind of array."""
    require_array("compress", x)
    if isinstance(x, np.ndarray):
        if not isinstance(condition, np.ndarray):
            condition = np.asarray(condition)
        _check_condition(condition, x.size if axis is None else x.shape[normal_axis(axis, x.ndim)])
        return _counted(np.compress(condition, x, axis=axis), x.size, out, count, condition, x)
    require_device_array("x", x)
    require_device_array("condition", condition)
    if axis is not None:
        axis = normal_axis(axis, x.ndim)
    if axis is not None and x.ndim > 1:
        _check_condition(condition, x.shape[axis])
        if out is not None or count is not None:
            raise ValueError("out= and count= are for arrays with one axis, or axis=None: reshape the array")
        remedy = "call nonzero(condition) before the recording, and record take(x, places, axis=axis)"
        Work(x, condition).refuse_in_recording("compress along an axis", remedy)
        return taken(x, nonzeros(condition, None, None)[0], axis, "clip", None)
    _check_condition(condition, x.size)
    work = Work(x, condition)
    how = select.Selection(condition.type, x.type)
    return _selected(work, "compress", how, (condition, x), condition.size, x.size, out, count)


def _check_condition(condition: Any, extent: int) -> None:
    if condition.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    if condition.size > extent:
        raise ValueError(f"condition has {counted(condition.size, 'element')}; it can have at most {extent}")


def nonzeros(x: Any, out: Any, count: Any) -> Any:
    """`nonzero` on either kind of array."""
    require_array("nonzero", x)
    if not x.ndim:
        raise ValueError("nonzero takes an array with at least one axis: reshape it to (1,)")
    if out is not None and x.ndim != 1:
        raise ValueError("out= and count= are for arrays with one axis: reshape the array")
    if isinstance(x, np.ndarray):
        found = np.nonzero(x)
        return found if out is None and count is None else (_counted(found[0], x.size, out, count, x),)
    require_device_array("x", x)
    work = Work(x)
    if x.ndim != 1:
        work.refuse_in_recording("nonzero", f"reshape the array to one axis, and {_REMEDY}")
    places = _selected(work, "nonzero", select.Selection(x.type, None), (x,), x.size, x.size, out, count)
    if x.ndim == 1:
        return (places,)
    coordinates = []
    index = index_type(x.size)
    for axis, extent in enumerate(x.shape):
        made = work.empty((places.size,), i64)
        stride = math.prod(x.shape[axis + 1 :])
        blocks = tiles(places.size, select.OTHER_THREADS)
        work.launch(select.coordinate(index), places, made, places.size, stride, extent, blocks=blocks)
        coordinates.append(made)
    return tuple(coordinates)


def uniques(x: Any, out: Any, count: Any) -> Any:
    """`unique` on either kind of array."""
    require_array("unique", x)
    if isinstance(x, np.ndarray):
        ordered = sorted_arrays(x, None, None, None)
        keys = keys_of(ordered, type_of(x))
        is_first = np.ones(keys.size, np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        return _counted(ordered[is_first], x.size, out, count, x)
    require_device_array("x", x)
    work = Work(x)
    if out is None:
        work.refuse_in_recording("unique", _REMEDY)
    ordered = work.scratch(x.size, x.type)
    sorted_arrays(x.reshape(x.size), None, 0, ordered)
    how = select.Selection(None, x.type)
    return _selected(work, "unique", how, (ordered,), x.size, x.size, out, count, given=(x,))


def _counted(found: Array, most: int, out: Any, count: Any, *inputs: Any) -> Array:
    """A result of NumPy arrays, at the beginning of `out` where that is given."""
    if (out is None) != (count is None):
        raise TypeError("out= and count= are given together: pass both or neither")
    if out is None:
        return found
    for name, array in (("out", out), ("count", count)):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} is {type_name(array)}; a NumPy array is needed beside NumPy arrays")
    if count.dtype != np.uint64:
        raise TypeError(f"count is an array of {count.dtype}; it must be one of uint64")
    if out.size < most or count.size != 1:
        raise ValueError(f"out has {counted(out.size, 'element')} and count {count.size}; {most} and 1 are needed")
    refuse_shared_on_host("out", out, count, *inputs)
    refuse_shared_on_host("count", count, *inputs)
    delivered(found, out[: found.size])
    count[0] = found.size
    return out  # type: ignore[no-any-return]


def _selected(
    work: Work,
    name: str,
    how: select.Selection,
    sources: tuple[DeviceArray, ...],
    n: int,
    most: int,
    out: Any,
    count: Any,
    given: tuple[DeviceArray, ...] | None = None,
) -> DeviceArray:
    """What is kept of `n` elements; with `out` and `count` without waiting. The caller gave `given`, or the sources."""
    if (out is None) != (count is None):
        raise TypeError("out= and count= are given together: pass both or neither")
    if out is None:
        work.refuse_in_recording(name, _REMEDY)
        made, number = work.empty((most,), how.result), work.empty((1,), u64)
        _launch(work, how, sources, n, made, number)
        kept = int(number.numpy()[0])
        view = made._flat(0, kept)
        return view if 2 * kept >= most else view.copy()
    require_device_array("out", out)
    require_device_array("count", count)
    if out.type is not how.result or count.type is not u64:
        raise TypeError(f"out must have elements of {how.result}, and count one of u64")
    if out.size < most or count.size != 1:
        raise ValueError(f"out has {counted(out.size, 'element')} and count {count.size}; {most} and 1 are needed")
    for each in (out, count):
        refuse_shared("out or count", each, *(given or sources))
    refuse_shared("out", out, count)
    _launch(work, how, sources, n, out, count)
    return out  # type: ignore[no-any-return]


def _launch(
    work: Work, how: select.Selection, sources: tuple[DeviceArray, ...], n: int, out: DeviceArray, count: DeviceArray
) -> None:
    if not n:
        count.fill(0)
        return
    m, index = tiles(n, select.TILE), index_type(n)
    if m == 1:
        work.launch(select.one_tile(how, index), *sources, out, count, n, blocks=1)
        return
    marks, begins = work.scratch(m * select.WORDS, u32), work.scratch(m * select.ROWS, u32)
    counts, starts = work.scratch(m, u32), work.scratch(m, index)
    elements = () if how.elements is None else sources[-1:]
    work.launch(select.mark(how, index), sources[0], marks, begins, counts, n, blocks=m)
    scans.launches(work, scanning("sum", u32, index), counts, starts, m, exclusive=True)
    work.launch(select.keep(how, index), *elements, marks, begins, counts, starts, out, count, n, blocks=m)
