"""Ops on integers of 8 to 64 bits: divisions, shifts, bit counting, wide products, saturation.

Operands and results are arrays of one integer dtype. Everything wraps modulo the width unless it says otherwise, and
nothing is undefined: division by zero and of the smallest number by -1 have defined results.
"""

from __future__ import annotations

import numpy as np

from vyre_cuda.ir.semantics.bits import Array, unsigned


def _width(x: Array) -> int:
    return 8 * x.dtype.itemsize


# ---- division ----------------------------------------------------------------------------------------------------


def trunc_divide(a: Array, b: Array) -> Array:
    """The quotient toward zero: one more than the floor where the signs differ and there is a remainder."""
    quotient = np.floor_divide(a, b)  # by zero: 0; MIN // -1: MIN
    rounded_down = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    truncated: Array = quotient + rounded_down.astype(a.dtype)
    return truncated


def fmod(a: Array, b: Array) -> Array:
    """The remainder with the dividend's sign; 0 by zero."""
    return np.where(b == 0, np.zeros_like(a), a - trunc_divide(a, b) * b)


def integer_power(a: Array, exponent: Array) -> Array:
    """By squaring. The bits of a negative exponent are as odd as it is, which is all that a base of -1 needs."""
    a, exponent = np.broadcast_arrays(a, exponent)
    rest, square, result = unsigned(exponent), a, np.ones_like(a)
    while rest.any():
        result = np.where(rest & rest.dtype.type(1), result * square, result)
        square = square * square
        rest = rest >> rest.dtype.type(1)
    if a.dtype.kind == "u":
        return result
    return np.where((exponent < 0) & (a != 1) & (a != -1), np.zeros_like(a), result)


# ---- shifts ------------------------------------------------------------------------------------------------------


def left_shift(a: Array, count: Array) -> Array:
    places = unsigned(count)
    shifted = unsigned(a) << np.minimum(places, _width(a) - 1)
    return np.where(places < _width(a), shifted, np.zeros_like(shifted)).view(a.dtype)


def right_shift(a: Array, count: Array) -> Array:
    """A signed operand shifted by its width or more leaves its sign, which one less than the width leaves too."""
    places = unsigned(count)
    shifted: Array = a >> np.minimum(places, _width(a) - 1).view(a.dtype)
    if a.dtype.kind == "i":
        return shifted
    return np.where(places < _width(a), shifted, np.zeros_like(shifted))


def rotate_left(a: Array, count: Array) -> Array:
    """The count modulo the width, a power of two, is its low bits."""
    bits = unsigned(a)
    left = unsigned(count) & bits.dtype.type(_width(a) - 1)
    right = (bits.dtype.type(0) - left) & bits.dtype.type(_width(a) - 1)
    rotated: Array = ((bits << left) | (bits >> right)).view(a.dtype)
    return rotated


def rotate_right(a: Array, count: Array) -> Array:
    """A rotation to the left by the negated count, because the width divides the range of counts."""
    places = unsigned(count)
    return rotate_left(a, (places.dtype.type(0) - places).view(a.dtype))


# ---- bits --------------------------------------------------------------------------------------------------------


def bitwise_count(a: Array) -> Array:
    """The number of ones in the pattern; np.bitwise_count alone would count those of the magnitude."""
    return np.bitwise_count(unsigned(a)).astype(a.dtype)


def count_leading_zeros(a: Array) -> Array:
    """The width minus the ones left after every bit below the highest one is set."""
    bits = unsigned(a)
    distance = 1
    while distance < _width(a):
        bits = bits | (bits >> bits.dtype.type(distance))
        distance *= 2
    return bitwise_count(~bits).astype(a.dtype)


def count_trailing_zeros(a: Array) -> Array:
    """The number of ones after all bits below the lowest one are set and the rest cleared; for 0 the whole width."""
    bits = unsigned(a)
    return bitwise_count(~bits & (bits - bits.dtype.type(1))).astype(a.dtype)


def reverse_bits(a: Array) -> Array:
    """Halves swapped, then the halves of those, down to single bits."""
    bits = unsigned(a)
    kind = bits.dtype.type
    ones = (1 << _width(a)) - 1
    distance = _width(a) // 2
    while distance:
        low = kind(ones // ((1 << distance) + 1))  # `distance` ones, `distance` zeros, and so on
        bits = ((bits >> kind(distance)) & low) | ((bits & low) << kind(distance))
        distance //= 2
    return bits.view(a.dtype)


# ---- wide products and saturation --------------------------------------------------------------------------------


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the double-width product."""
    if _width(a) < 64:
        wide = np.dtype(f"{a.dtype.kind}8")
        upper: Array = ((a.astype(wide) * b.astype(wide)) >> _width(a)).astype(a.dtype)
        return upper
    high = _multiply_high_u64(unsigned(a), unsigned(b))
    if a.dtype.kind == "i":  # a negative factor x stands for x + 2^64
        high = high - np.where(a < 0, unsigned(b), np.uint64(0)) - np.where(b < 0, unsigned(a), np.uint64(0))
    return high.view(a.dtype)


def _multiply_high_u64(a: Array, b: Array) -> Array:
    """Computed from four products of 32-bit halves; no sum of them overflows."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    high: Array = a_high * b_high + (middle >> half) + (other >> half)
    return high


def add_saturate(a: Array, b: Array) -> Array:
    total = a + b
    limits = np.iinfo(a.dtype)
    if a.dtype.kind == "u":
        return np.where(total < a, a.dtype.type(limits.max), total)
    overflowed = ((a ^ total) & (b ^ total)) < 0  # both operands have the sign that the sum does not have
    return np.where(overflowed, np.where(a < 0, a.dtype.type(limits.min), a.dtype.type(limits.max)), total)


def subtract_saturate(a: Array, b: Array) -> Array:
    difference = a - b
    limits = np.iinfo(a.dtype)
    if a.dtype.kind == "u":
        return np.where(a < b, a.dtype.type(0), difference)
    overflowed = ((a ^ b) & (a ^ difference)) < 0
    return np.where(overflowed, np.where(a < 0, a.dtype.type(limits.min), a.dtype.type(limits.max)), difference)
