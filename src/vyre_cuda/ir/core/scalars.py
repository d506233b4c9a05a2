"""Converts Python and NumPy numbers to the bit patterns of a type and back: the one rule for constants and call
scalars.

An int must be in range of an integer type (OverflowError). Ints and floats go to a float type by round to nearest
even, refused only if a finite value becomes infinite (OverflowError). A Python float for an integer type is a
TypeError. A NumPy integer or float of another dtype is accepted where the type can represent it exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.types import Type, f32


def bits_of(type_: Type, value: Any) -> int:
    """The bit pattern of `value` as `type_`, as an unsigned int of the type's width."""
    if isinstance(value, np.generic):
        if value.dtype != type_.dtype:
            return _exact_bits(type_, value)
        return int(np.asarray(value).view(type_.unsigned))
    if type_.kind == "bool":
        if not isinstance(value, bool):
            raise TypeError(f"{_shown(value)}; a bool is needed")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        one = isinstance(value, np.ndarray) and value.size == 1
        way = " (write .item() behind it)" if one else ""
        raise TypeError(f"{_shown(value)}; a number of type {type_} is needed{way}")
    if type_.is_float:
        return _float_bits(type_, value)
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a float, and {type_} an integer type")
    if not type_.minimum <= value <= type_.maximum:
        raise OverflowError(f"{value} is out of range of {type_} ({type_.minimum} to {type_.maximum})")
    return value & ((1 << type_.bits) - 1)


def _shown(value: object) -> str:
    """A wrong value in a message; of an array with several elements only the shape."""
    if isinstance(value, np.ndarray) and value.size != 1:
        return f"the value is an array of shape {value.shape}"
    return "the value is None" if value is None else f"{value!r} is {type_name(value)}"


def _exact_bits(type_: Type, value: np.generic) -> int:
    """The bit pattern of a NumPy scalar of another dtype, whose value the type can represent."""
    is_bits = type_.name == "bf16" and value.dtype == type_.unsigned  # how a bf16 is stored without ml_dtypes
    number = value.item() if value.dtype.kind in "iuf" and not is_bits else None
    refused = f"a NumPy scalar of {value.dtype} where {type_} is needed"
    if not isinstance(number, (int, float)) or type_.kind == "bool" or (isinstance(number, float) and type_.is_integer):
        way = "float" if type_.name == "bf16" else f"np.{type_.dtype}"
        raise TypeError(f"{refused} (write {way}(...))")
    try:
        bits = bits_of(type_, number)
    except OverflowError as error:
        raise OverflowError(f"{refused}: {error}") from None
    if value_of(type_, bits) != number and number == number:
        raise TypeError(f"{refused}, which cannot represent {number!r} exactly (write float(...) to round it)")
    return bits


def value_of(type_: Type, bits: int) -> bool | int | float:
    """The Python number that the bit pattern stands for."""
    if type_.kind == "bool":
        return bool(bits)
    if type_.name == "bf16":
        return value_of(f32, bits << 16)
    if type_.is_float:
        return float(np.asarray(bits, type_.unsigned).view(type_.storage))
    if type_.kind == "signed" and bits >> (type_.bits - 1):
        return bits - (1 << type_.bits)
    return bits


# Significand bits with the hidden one, and the exponent of the smallest subnormal, by type.
_SIGNIFICAND = {"f16": (11, -24), "bf16": (8, -133), "f32": (24, -149), "f64": (53, -1074)}


def _float_bits(type_: Type, value: int | float) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        special = np.asarray(value, np.float32).view(np.uint32)
        return int(special) >> 16 if type_.name == "bf16" else _native_bits(type_, value)
    rounded = _round(type_, value)
    if math.isinf(rounded):
        raise OverflowError(f"{value} is beyond the largest finite {type_}")
    if type_.name == "bf16":
        return int(np.asarray(rounded, np.float32).view(np.uint32)) >> 16
    return _native_bits(type_, rounded)


def _native_bits(type_: Type, value: float) -> int:
    return int(np.asarray(value, type_.storage).view(type_.unsigned))


def _round(type_: Type, value: int | float) -> float:
    """The nearest value of the type, ties to even, from exact integers: one rounding, whatever the type."""
    if value == 0:
        return float(value)
    significand, lowest = _SIGNIFICAND[type_.name]
    numerator, denominator = value.as_integer_ratio()
    magnitude = abs(numerator)
    scale = denominator.bit_length() - 1  # a float's denominator is a power of two
    shift = max(magnitude.bit_length() - significand, lowest + scale)
    if shift > 0:
        kept, low = magnitude >> shift, magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        kept += low > half or (low == half and kept & 1)
    else:
        kept, shift = magnitude, 0
    try:
        result = math.ldexp(kept, shift - scale)
    except OverflowError:
        result = math.inf
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}.get(type_.name, math.inf)
    if result > largest:
        result = math.inf
    return -result if value < 0 else result
