"""Counting: bincount, histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.algorithms.programs import count
from vyre_cuda.algorithms.reductions import reduction
from vyre_cuda.algorithms.work import Work, delivered, index_type, require_array, require_device_array, tiles, type_of
from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.types import i64
from vyre_cuda.runtime.memory.array import DeviceArray


def bin_counts(x: Any, minlength: Any, out: Any) -> Any:
    """`bincount` on either kind of array."""
    require_array("bincount", x)
    if isinstance(minlength, bool) or not isinstance(minlength, (int, np.integer)):
        raise TypeError(f"minlength is {type_name(minlength)}; it must be an int")
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if x.ndim != 1:
        raise ValueError("object too deep for desired array")
    type_ = x.type if isinstance(x, DeviceArray) else type_of(x)
    if not type_.is_integer:
        raise TypeError(f"bincount takes integers, not {type_}")
    if isinstance(x, np.ndarray):
        return _on_host(x, int(minlength), out)
    work = Work(x)
    checked = type_.kind == "signed" or minlength <= type_.maximum
    if out is None and checked:
        work.refuse_in_recording("bincount", "give out=, with a count for each number that may occur")
        minlength = max(int(minlength), _most(x) + 1)
        checked = False
    elif out is not None:
        require_device_array("out", out)
        minlength = out.size if out.ndim == 1 else minlength
        checked = type_.kind == "signed" or minlength <= type_.maximum
    result = work.result((int(minlength),), i64, out, x)
    if result.size:
        result.fill(0)
    if x.size:
        bins = result.size if result.size <= count.MOST_SHARED else None
        program = count.bincount(type_, bins, checked, index_type(2 * x.size))
        work.launch(program, x, result, x.size, result.size, blocks=_blocks(x.size))
    return result


def _most(x: DeviceArray) -> int:
    """The greatest number, after a check that none is negative."""
    if not x.size:
        return -1
    if x.type.kind == "signed" and int(reduction("min", x, None, None, None, False).numpy()) < 0:
        raise ValueError("'list' argument must have no negative elements")
    return int(reduction("max", x, None, None, None, False).numpy())


def _on_host(x: Any, minlength: int, out: Any) -> Any:
    if x.size and int(x.min()) < 0:
        raise ValueError("'list' argument must have no negative elements")
    if x.size and int(x.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"bincount: a count for each number up to {x.max()} does not fit into memory")
    found = np.bincount(x.astype(np.int64), minlength=minlength if out is None else out.size).astype(np.int64)
    return delivered(found, out, x)


def _blocks(n: int) -> int:
    return min(tiles(n, count.LEAST_OF_BLOCK), count.MOST_BLOCKS)


def histogram_of(x: Any, bins: Any, range_: Any, out: Any) -> Any:
    """`histogram` on either kind of array: counts and edges."""
    require_array("histogram", x)
    type_ = x.type if isinstance(x, DeviceArray) else type_of(x)
    dtype = count.edge_type(type_).dtype
    if isinstance(x, np.ndarray):
        edges = _edges(x, bins, range_)
        values, limits = x.astype(dtype), edges.astype(dtype)
        found, _ = np.histogram(values[(values >= limits[0]) & (values <= limits[-1])], bins=limits)
        return delivered(found.astype(np.int64), out, x), edges
    work = Work(x)
    if range_ is None and np.ndim(bins) == 0:
        work.refuse_in_recording("histogram without range", "give range=, or the edges as bins=")
    edges = _edges(x, bins, range_)
    size = edges.size - 1
    result = work.result((size,), i64, out, x)
    result.fill(0)
    limits = work.scratch(edges.size, count.edge_type(type_))
    if work.is_recorded:
        kept = work.device.pinned_empty(edges.size, count.edge_type(type_))
        kept[...] = edges
        limits.copy_from(kept)
    else:
        limits.copy_from(edges.astype(dtype))
    if x.size:
        own = size if size <= count.MOST_SHARED else None
        program = count.histogram(type_, count.edge_type(type_), own, index_type(2 * x.size))
        work.launch(program, x, limits, result, x.size, size, blocks=_blocks(x.size))
    return result, edges


def _range_of(x: Any, range_: Any) -> tuple[Any, Any]:
    """The outer edges: those given, or the least and the greatest element, with their type, as NumPy does."""
    if range_ is not None:
        try:
            first, last = range_
        except (TypeError, ValueError):
            raise TypeError(f"range={range_!r}; it must be a pair of numbers") from None
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
        if not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError(f"supplied range of [{first}, {last}] is not finite")
        return first, last
    if not x.size:
        return 0.0, 1.0
    found = [reduction(name, x, None, None, None, False) for name in ("min", "max")]
    first, last = ((each.numpy() if isinstance(each, DeviceArray) else each)[()] for each in found)
    first, last = (_edge_dtype(x).type(each) for each in (first, last))
    if not (np.isfinite(first) and np.isfinite(last)):
        raise ValueError(f"autodetected range of [{first}, {last}] is not finite")
    return first, last


def _edge_dtype(x: Any) -> np.dtype[Any]:
    """The dtype from which NumPy finds that of the edges; bools are u8 to it, and `bf16` is not known to it."""
    if x.dtype.kind in "fiu":
        found: np.dtype[Any] = x.dtype
        return found
    return np.dtype(np.uint8 if x.dtype.kind == "b" else np.float32)


def _edges(x: Any, bins: Any, range_: Any) -> Any:
    """The edges that `bins` names or that it has in the range, with NumPy's type."""
    if isinstance(bins, str):
        raise TypeError(f"bins={bins!r}: NumPy's rules for bins are not supported; write a number, or the edges")
    if np.ndim(bins) == 0:
        return np.histogram_bin_edges(np.empty(0, _edge_dtype(x)), bins=bins, range=_range_of(x, range_))
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or edges.size < 2 or (edges[:-1] > edges[1:]).any():
        raise ValueError("`bins` must increase monotonically, when an array, and have two edges at least")
    return edges
