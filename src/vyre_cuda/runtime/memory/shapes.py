"""Shapes of arrays, and what indices select in them."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from vyre_cuda.errors import ResourceError, counted, type_name

Shape: TypeAlias = tuple[int, ...]

# As NumPy had for long, and DLPack's consumers expect.
MAX_AXES = 32


def checked(shape: Any) -> Shape:
    """A shape that a caller gives: an int, or up to 32 of them."""
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
            raise TypeError(f"a size must be an int or a tuple of ints, not {type_name(extent)}")
        if extent < 0:
            raise ValueError(f"a size of {extent} elements; a size cannot be negative")
    if len(extents) > MAX_AXES:
        raise ValueError(f"a shape of {len(extents)} axes; arrays have at most {MAX_AXES}: join some of them")
    return tuple(map(int, extents))


def require_possible(shape: Shape, dtype: np.dtype[Any]) -> None:
    """Raise ResourceError for an array that no address space has room for."""
    nbytes = math.prod(shape) * dtype.itemsize
    if max((nbytes, *shape)) >= 1 << 63:
        raise ResourceError(f"an array of {dtype} of shape {shape} has {nbytes} bytes; no device has as much memory")


def reshaped(count: int, shape: tuple[Any, ...]) -> Shape:
    """The shape that `reshape` asks for, in which one extent may be -1. ValueError if it has another count."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    open_axes = [axis for axis, extent in enumerate(shape) if type(extent) is int and extent == -1]
    if len(open_axes) > 1:
        raise ValueError(f"the shape {shape} has more than one -1")
    extents = list(checked([1 if axis in open_axes else extent for axis, extent in enumerate(shape)]))
    known = math.prod(extents)
    if open_axes and known == count == 0:
        raise ValueError(f"the shape {shape} has no elements, whatever -1 stands for: write a number there")
    if open_axes and known:
        extents[open_axes[0]] = count // known
    if math.prod(extents) != count:
        raise ValueError(f"an array of {counted(count, 'element')} cannot have the shape {shape}")
    return tuple(extents)


def selected(shape: Shape, index: Any) -> tuple[int, Shape]:
    """The first element that an index selects, and the shape of what it selects: () for one element.

    An index is an int, a slice with step 1, or ints with one such slice behind them at most, so that what it selects
    lies in one piece. IndexError, TypeError or ValueError for others.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > len(shape):
        given, axes = counted(len(parts), "index", "indices"), counted(len(shape), "axis", "axes")
        raise IndexError(f"{given} for an array with {axes}")
    start, rest = 0, math.prod(shape)
    for axis, part in enumerate(parts):
        rest = rest // shape[axis] if shape[axis] else math.prod(shape[axis + 1 :])
        if isinstance(part, slice):
            if axis + 1 < len(parts):
                raise ValueError("a slice must be the last index, because what an index selects lies in one piece")
            first, count = _range(part, shape[axis])
            return start + first * rest, (count, *shape[axis + 1 :])
        start += _position(part, axis, shape) * rest
    return start, shape[len(parts) :]


def _range(part: slice, extent: int) -> tuple[int, int]:
    start, stop, step = part.indices(extent)
    if step != 1:
        raise ValueError(f"a slice with step {step}; device arrays are contiguous, so the step must be 1")
    return start, max(stop - start, 0)


def _position(part: Any, axis: int, shape: Shape) -> int:
    if isinstance(part, bool) or not isinstance(part, (int, np.integer)):
        raise TypeError(f"an index of type {type(part).__name__}; device arrays take ints and slices")
    extent = shape[axis]
    position = int(part) + extent if part < 0 else int(part)
    if not 0 <= position < extent:
        what = f"axis {axis} of an array of shape {shape}"
        if len(shape) == 1:
            what = f"an array of {counted(extent, 'element')}"
        raise IndexError(f"index {part} is out of range for {what}")
    return position
