"""Casts among the thirteen types: each rounds at most once.

Integer to integer keeps the low bits and extends by the source's sign. Float to integer truncates, saturates and takes
NaN to 0. Integer to float and float to float round to nearest even. To bool: whether it is not 0, which NaN is not.
"""

from __future__ import annotations

import numpy as np

from vyre_cuda.ir.core.types import Type, bf16, f16
from vyre_cuda.ir.semantics.bits import Array, bf16_from_f32, bf16_from_f64, bf16_to_f32


def cast(x: Array, source: Type, target: Type) -> Array:
    """`x` of type `source` as `target`."""
    if source is target:
        return x
    if source is bf16:
        return cast_native(bf16_to_f32(x), target)
    if source is f16 and (target.is_integer or target is bf16):
        return cast_native(x.astype(np.float32), target)  # f32 can hold the limits of every integer type
    return cast_native(x, target)


def cast_native(x: Array, target: Type) -> Array:
    """`x` as `target`; its dtype says its type, so it is not a bf16 pattern."""
    if target is bf16:
        return _to_bf16(x)
    if target.is_integer and x.dtype.kind == "f":
        return _saturate(x, target)
    return x.astype(target.storage)  # f16 too: an integer that f32 would round is beyond the largest f16


def bitcast(x: Array, _source: Type, target: Type) -> Array:
    """The same bits as another type of the same width."""
    return x.view(target.storage)


def _to_bf16(x: Array) -> Array:
    if x.dtype == np.float32:
        return bf16_from_f32(x)
    if x.dtype.itemsize == 8 and x.dtype.kind != "f":
        return bf16_from_f64(_whole_to_f64(x))
    return bf16_from_f64(x.astype(np.float64))


def _whole_to_f64(x: Array) -> Array:
    """64-bit integers as f64, those of more than 53 bits rounded to odd: the bits below 2^11 become one at 2^11."""
    magnitude = np.where(x < 0, np.uint64(0) - x.view(np.uint64), x.view(np.uint64))
    low = np.uint64((1 << 11) - 1)
    sticky = ((magnitude & low) != 0).astype(np.uint64) << np.uint64(11)
    shortened = np.where(magnitude >> np.uint64(53) != 0, (magnitude & ~low) | sticky, magnitude)
    whole = shortened.astype(np.float64)
    return np.where(x < 0, -whole, whole)


def _saturate(x: Array, target: Type) -> Array:
    """Float to integer: truncated, clamped to the limits of the type, NaN to 0."""
    whole = np.trunc(x)
    below = whole < float(target.minimum)
    above = whole >= float(target.maximum + 1)
    inside = np.where(below | above | np.isnan(x), x.dtype.type(0), whole).astype(target.storage)
    least, most = target.storage.type(target.minimum), target.storage.type(target.maximum)
    return np.where(above, most, np.where(below, least, inside))
