"""Values of the thirteen types as NumPy arrays of bit patterns.

An array has the type's `storage` dtype, which is the NumPy dtype of the same name, or u16 for bf16. Arrays are 1-D; one
with one element stands for a value that is the same everywhere, and broadcasts. Rounding to bf16 happens only here:
once, to nearest even, from f32 or from f64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre_cuda.ir.core.types import Type, bf16

Array: TypeAlias = npt.NDArray[Any]

_BF16_NAN = 0x7FC0


@lru_cache(maxsize=4096)
def constant(type_: Type, bits: int) -> Array:
    """A bit pattern of the type as a read-only array of one element."""
    array = np.array([bits], dtype=type_.unsigned).view(type_.storage)
    array.flags.writeable = False
    return array


def unsigned(x: Array) -> Array:
    """The bit patterns of an array as unsigned integers of the same width; shares memory."""
    return x.view(f"u{x.dtype.itemsize}")


# ---- bf16 --------------------------------------------------------------------------------------------------------


def bf16_to_f32(bits: Array) -> Array:
    """The values of bf16 patterns; every one is an f32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bf16_from_f32(x: Array) -> Array:
    """The patterns of the nearest bf16 values, ties to even; a carry out of the fraction raises the exponent."""
    bits = x.view(np.uint32)
    rounded: Array = ((bits + (np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1)))) >> 16).astype(np.uint16)
    rounded[np.isnan(x)] = _BF16_NAN
    return rounded


def bf16_from_f64(x: Array) -> Array:
    """The patterns of the nearest bf16 values of f64 ones; rounding to odd f32 on the way keeps it to one rounding."""
    return bf16_from_f32(_f32_to_odd(x))


def _f32_to_odd(x: Array) -> Array:
    """f64 to f32 toward zero, with the last bit set where anything was lost; overflow gives infinity."""
    nearest = x.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32)
    inexact = (back != x) & np.isfinite(nearest)
    outward = inexact & (np.abs(back) > np.abs(x))
    odd: Array = ((bits - outward.astype(np.uint32)) | inexact.astype(np.uint32)).view(np.float32)
    return odd


# ---- order -------------------------------------------------------------------------------------------------------


def order_keys(type_: Type, x: Array) -> Array:
    """Signed integers of the type's width in the order of float values, -0 below +0; NaNs lie beyond the infinities."""
    bits = x.view(f"i{type_.itemsize}")
    below = bits ^ np.array(type_.unsigned.type(~np.uint64(0) >> np.uint64(65 - type_.bits))).view(bits.dtype)
    return np.where(bits < 0, below, bits)


def from_order_keys(type_: Type, keys: Array) -> Array:
    """The inverse of `order_keys`, which is its own inverse."""
    return order_keys(type_, keys.view(type_.storage)).view(type_.storage)


def is_nan(type_: Type, x: Array) -> Array:
    """Which elements of a float array are NaN."""
    nan: Array = np.isnan(bf16_to_f32(x) if type_ is bf16 else x)
    return nan
