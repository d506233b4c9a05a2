"""Sums and products of floats by exact rational arithmetic, rounded once, to nearest even. Floats are bit patterns."""

from __future__ import annotations

import math
from fractions import Fraction

from vyre_cuda.ir.core.scalars import bits_of, value_of
from vyre_cuda.ir.core.types import Type, bf16, f16, f32, f64

# Bits of a number, and the exponent of the least subnormal.
_DIGITS = {f16: (11, -24), bf16: (8, -133), f32: (24, -149), f64: (53, -1074)}


def is_nan(type_: Type, bits: int) -> bool:
    return bits & ((1 << type_.bits - 1) - 1) > bits_of(type_, math.inf)


def flushed(type_: Type, bits: int) -> int:
    """A subnormal as the zero of its sign."""
    sign = bits & 1 << type_.bits - 1
    return sign if bits ^ sign < 1 << _DIGITS[type_][0] - 1 else bits


def rounded(type_: Type, exact: Fraction) -> int:
    """The bits of the float next to a number other than 0."""
    digits, least = _DIGITS[type_]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    place = max(exponent - digits + 1, least)
    # Bits count the floats from 0: those below the least normal one, then as many for each exponent.
    count = (place - least << digits - 1) + round(size / Fraction(2) ** place)
    return min(count, bits_of(type_, math.inf)) | (1 << type_.bits - 1 if exact < 0 else 0)


def fma(type_: Type, x_bits: int, y_bits: int, z_bits: int) -> int:
    """x * y + z."""
    x, y, z = (float(value_of(type_, bits)) for bits in (x_bits, y_bits, z_bits))
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        product = math.copysign(1, x) * math.copysign(1, y) if x and y else 0.0
        special = x * y if not (math.isfinite(x) and math.isfinite(y)) else product
        return bits_of(type_, special + z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return rounded(type_, exact)
    if x and y:  # z cancels the product
        return bits_of(type_, 0.0)
    return bits_of(type_, math.copysign(0.0, x) * math.copysign(1, y) + z)


def add(type_: Type, x: int, y: int) -> int:
    return fma(type_, x, bits_of(type_, 1.0), y)


def subtract(type_: Type, x: int, y: int) -> int:
    return add(type_, x, y ^ 1 << type_.bits - 1)


def multiply(type_: Type, x: int, y: int) -> int:
    """-0.0 is what changes no product."""
    return fma(type_, x, y, _negative_zero_for(type_, x, y))


def _negative_zero_for(type_: Type, x: int, y: int) -> int:
    sign = 1 << type_.bits - 1
    return (x ^ y) & sign


def divide(type_: Type, x_bits: int, y_bits: int) -> int:
    x, y = (float(value_of(type_, bits)) for bits in (x_bits, y_bits))
    sign = math.copysign(1, x) * math.copysign(1, y)
    if math.isnan(x) or math.isnan(y) or (not x and not y) or (math.isinf(x) and math.isinf(y)):
        return bits_of(type_, math.nan)
    if math.isinf(x) or not y:
        return bits_of(type_, math.copysign(math.inf, sign))
    if math.isinf(y) or not x:
        return bits_of(type_, math.copysign(0.0, sign))
    return rounded(type_, Fraction(x) / Fraction(y))
