"""Python and NumPy numbers to the bit patterns of a type and back: the one rule for constants and call scalars.

An int must be in range of an integer type (OverflowError). Ints and floats go to a float type by round to nearest
even, refused only if a finite value becomes infinite (OverflowError). A Python float for an integer type, and a NumPy
scalar of another dtype, is a TypeError.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from vyre_cuda.ir.types import Type

_PACK = {32: ("<f", "<I")}


def bits_of(type_: Type, value: Any) -> int:
    """The bit pattern of `value` as `type_`, as an unsigned int of the type's width."""
    if isinstance(value, np.generic):
        if value.dtype != type_.dtype:
            raise TypeError(f"a {value.dtype} scalar where {type_} is needed (write np.{type_.dtype}(...))")
        value = value.item()
    if type_.kind == "bool":
        if not isinstance(value, bool):
            raise TypeError(f"{value!r} where a bool is needed")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} of type {type(value).__name__} where {type_} is needed")
    if type_.is_float:
        return _float_bits(type_, value)
    if isinstance(value, float):
        raise TypeError(f"the float {value!r} where the integer type {type_} is needed")
    if not type_.minimum <= value <= type_.maximum:
        raise OverflowError(f"{value} is out of range of {type_} ({type_.minimum} to {type_.maximum})")
    return value & ((1 << type_.bits) - 1)


def value_of(type_: Type, bits: int) -> bool | int | float:
    """The Python number that the bit pattern stands for."""
    if type_.kind == "bool":
        return bool(bits)
    if type_.is_float:
        as_float, as_int = _PACK[type_.bits]
        return float(struct.unpack(as_float, struct.pack(as_int, bits))[0])
    if type_.kind == "signed" and bits >> (type_.bits - 1):
        return bits - (1 << type_.bits)
    return bits


def _float_bits(type_: Type, value: int | float) -> int:
    exact_infinity = isinstance(value, float) and math.isinf(value)
    with np.errstate(over="ignore"):
        try:
            rounded = _round_int(type_, value) if isinstance(value, int) else type_.dtype.type(value)
        except OverflowError:
            rounded = type_.dtype.type(math.inf)
    if np.isinf(rounded) and not exact_infinity:
        raise OverflowError(f"{value} is beyond the largest finite {type_}")
    as_int = np.dtype(f"u{type_.itemsize}")
    return int(np.asarray(rounded, dtype=type_.dtype).view(as_int))


def _round_int(type_: Type, value: int) -> Any:
    """Round an int once to nearest even; through float64 it could be rounded twice."""
    significand = np.finfo(type_.dtype).nmant + 1
    magnitude = abs(value)
    shift = magnitude.bit_length() - significand
    if shift > 0:
        low = magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        kept = magnitude >> shift
        kept += low > half or (low == half and kept & 1)
        magnitude = kept << shift
    return type_.dtype.type(float(magnitude if value >= 0 else -magnitude))
