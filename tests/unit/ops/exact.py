"""What ops give, from Python's integers and fractions, one value at a time: knows nothing of NumPy's arithmetic.

A value of a float type is a Python float, which holds those of all four types; rounding to a type happens once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from vyre_cuda.ir.core.types import Type, bf16

from .grid import FRACTION, Array

# ---- integers -------------------------------------------------------------------------------------------------------


def wrap(type_: Type, value: int) -> int:
    low = value & ((1 << type_.bits) - 1)
    return low - (1 << type_.bits) if type_.kind == "signed" and low >> (type_.bits - 1) else low


def pattern(type_: Type, value: int) -> int:
    return value & ((1 << type_.bits) - 1)


def text(type_: Type, value: int) -> str:
    return format(pattern(type_, value), f"0{type_.bits}b")


def toward_zero(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integer_power(type_: Type, base: int, exponent: int) -> int:
    if exponent < 0:
        return base ** (exponent % 2) if base in (1, -1) else 0
    return pow(base, exponent, 1 << type_.bits)


def clamp(type_: Type, value: int) -> int:
    return min(max(value, type_.minimum), type_.maximum)


def rotated(type_: Type, a: int, left: int) -> int:
    digits = text(type_, a)
    at = left % type_.bits
    return int(digits[at:] + digits[:at], 2)


INTEGER: dict[str, Callable[..., int]] = {
    "add": lambda t, a, b: a + b,
    "subtract": lambda t, a, b: a - b,
    "multiply": lambda t, a, b: a * b,
    "negative": lambda t, a: -a,
    "absolute": lambda t, a: abs(a),
    "floor_divide": lambda t, a, b: a // b if b else 0,
    "remainder": lambda t, a, b: a % b if b else 0,
    "trunc_divide": lambda t, a, b: toward_zero(a, b),
    "fmod": lambda t, a, b: a - toward_zero(a, b) * b if b else 0,
    "integer_power": lambda t, a, b: integer_power(t, a, b),
    "left_shift": lambda t, a, b: a << min(pattern(t, b), 64),
    "right_shift": lambda t, a, b: a >> min(pattern(t, b), 64),
    "bitwise_and": lambda t, a, b: a & b,
    "bitwise_or": lambda t, a, b: a | b,
    "bitwise_xor": lambda t, a, b: a ^ b,
    "invert": lambda t, a: ~a,
    "minimum": lambda t, a, b: min(a, b),
    "maximum": lambda t, a, b: max(a, b),
    "equal": lambda t, a, b: a == b,
    "not_equal": lambda t, a, b: a != b,
    "less": lambda t, a, b: a < b,
    "less_equal": lambda t, a, b: a <= b,
    "greater": lambda t, a, b: a > b,
    "greater_equal": lambda t, a, b: a >= b,
    "where": lambda t, c, a, b: a if c else b,
    "sign": lambda t, a: (a > 0) - (a < 0),
    "bitwise_count": lambda t, a: text(t, a).count("1"),
    "count_leading_zeros": lambda t, a: t.bits - len(text(t, a).lstrip("0")),
    "count_trailing_zeros": lambda t, a: t.bits - len(text(t, a).rstrip("0")),
    "reverse_bits": lambda t, a: int(text(t, a)[::-1], 2),
    "rotate_left": lambda t, a, b: rotated(t, a, pattern(t, b)),
    "rotate_right": lambda t, a, b: rotated(t, a, -pattern(t, b)),
    "multiply_high": lambda t, a, b: (a * b) >> t.bits,
    "add_saturate": lambda t, a, b: clamp(t, a + b),
    "subtract_saturate": lambda t, a, b: clamp(t, a - b),
}


# ---- floats ---------------------------------------------------------------------------------------------------------


def values(type_: Type, x: Array) -> list[Any]:
    """Python's numbers for the elements of an array of storage."""
    if type_ is bf16:
        x = (x.astype(np.uint32) << 16).view(np.float32)
    return list(x.tolist())


def array(type_: Type, numbers: list[Any]) -> Array:
    """The array of these numbers, all of which are values of the type."""
    if type_ is bf16:
        raw = np.frombuffer(struct.pack(f"<{len(numbers)}f", *numbers), np.uint32)
        assert not (raw & 0xFFFF)[raw & 0x7FFFFFFF <= 0x7F800000].any()
        return (raw >> 16).astype(np.uint16)
    if not type_.is_float:
        return np.array(numbers, dtype=type_.storage)
    letter = {"f16": "e", "f32": "f", "f64": "d"}[type_.name]
    return np.frombuffer(struct.pack(f"<{len(numbers)}{letter}", *numbers), type_.storage)


def rounded(type_: Type, x: Fraction | int) -> float:
    """The value of the type nearest to an exact one that is not 0, ties to even."""
    fraction = FRACTION[type_.name]
    largest_exponent = (1 << (type_.bits - 2 - fraction)) - 1
    x = Fraction(x)
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** max(exponent - fraction, 1 - largest_exponent - fraction)
    nearest = round(size / quantum) * quantum
    magnitude = math.inf if nearest >= Fraction(2) ** (largest_exponent + 1) else float(nearest)
    return magnitude if x > 0 else -magnitude


def _sum(t: Type, a: float, b: float) -> float:
    exact = Fraction(a) + Fraction(b) if math.isfinite(a) and math.isfinite(b) else 0
    return rounded(t, exact) if exact else a + b


def _product(t: Type, a: float, b: float) -> float:
    exact = Fraction(a) * Fraction(b) if math.isfinite(a) and math.isfinite(b) else 0
    return rounded(t, exact) if exact else a * b


def _quotient(t: Type, a: float, b: float) -> float:
    if b == 0:
        infinity = math.copysign(math.inf, math.copysign(1, a) * math.copysign(1, b))
        return math.nan if a == 0 or math.isnan(a) else infinity
    exact = Fraction(a) / Fraction(b) if math.isfinite(a) and math.isfinite(b) else 0
    return rounded(t, exact) if exact else a / b


def _root(t: Type, a: float) -> float:
    """An integer root of many digits, one more digit set when it is not exact."""
    if not (a > 0 and math.isfinite(a)):
        return a if a == 0 or a > 0 else math.nan
    scaled = Fraction(a) * 4**1200  # whole for every f64
    root = math.isqrt(scaled.numerator)
    return rounded(t, Fraction(2 * root + (root * root != scaled.numerator), 2 * 2**1200))


def _fused(t: Type, x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        product = math.nan if (math.isinf(x) and y == 0) or (x == 0 and math.isinf(y)) else math.copysign(1, x) * y
        product = product if math.isfinite(x) else x * y
        return product + z if not math.isfinite(x) or not math.isfinite(y) else z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return rounded(t, exact)
    return math.copysign(0.0, math.copysign(1, x) * math.copysign(1, y)) + z if x == 0 or y == 0 else 0.0


def _remainder(t: Type, a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b):
        return a
    exact = Fraction(a) - math.trunc(Fraction(a) / Fraction(b)) * Fraction(b)
    return rounded(t, exact) if exact else math.copysign(0.0, a)


def _total_order(x: float) -> tuple[float, float]:
    return (x, math.copysign(1.0, x))


def _propagating(choose: Callable[..., float]) -> Callable[[Type, float, float], float]:
    return lambda t, a, b: math.nan if math.isnan(a) or math.isnan(b) else choose(a, b, key=_total_order)


def _ignoring(choose: Callable[..., float]) -> Callable[[Type, float, float], float]:
    return lambda t, a, b: b if math.isnan(a) else a if math.isnan(b) else choose(a, b, key=_total_order)


FLOAT: dict[str, Callable[..., float]] = {
    "add": _sum,
    "subtract": lambda t, a, b: _sum(t, a, -b),
    "multiply": _product,
    "divide": _quotient,
    "reciprocal": lambda t, a: _quotient(t, 1.0, a),
    "sqrt": _root,
    "fma": _fused,
    "fmod": _remainder,
    "minimum": _propagating(min),
    "maximum": _propagating(max),
    "fmin": _ignoring(min),
    "fmax": _ignoring(max),
}


# ---- casts ----------------------------------------------------------------------------------------------------------


def converted(value: Any, source: Type, target: Type) -> Any:
    if target.kind == "bool":
        return value != 0
    if target.is_float:
        keeps = value == 0 or (source.is_float and not math.isfinite(value))
        return float(value) if keeps else rounded(target, Fraction(int(value) if not source.is_float else value))
    if not source.is_float:
        return wrap(target, int(value))
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return target.maximum if value > 0 else target.minimum
    return clamp(target, math.trunc(value))
