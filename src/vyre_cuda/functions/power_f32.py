"""power of f32: 2^(y log2 x), the logarithm and the product in two parts each.

For the largest results the exponent needs 8 bits before the point, so the logarithm is kept to 2^-33 of itself: with
s = (m - 1) / (m + 1), x = 2^k m, m from sqrt(1/2) to sqrt(2), it is k + c1 s + c3 s^3 + ..., the first two terms in two
parts. Special values are a branch.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import EXP2, LN2, POWER, POWER_1, POWER_3
from vyre_cuda.functions.exponential_f32 import ROUNDER, ROUNDER_BITS, scaled
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_SQRT_HALF = 0x3F3504F3
_INFINITY = float("inf")


def power(m: Steps, x: V, y: V) -> V:
    """x^y, of a negative x for whole y; where that is not the exponential, as C's pow has it."""
    a = m.absolute(x)
    high, low = _log2(m, a)
    product = high * y
    # Clamped where 2^product is an infinity or 0 anyway: an infinite product has no rest.
    held = m.fmax(m.fmin(product, 200.0), -200.0)
    rest = m.fma(low, y, m.fma(high, y, -product))
    magnitude = _exp2(m, held, m.where(held == product, rest, 0.0))
    plain = (x > 0.0) & (x < _INFINITY) & (m.absolute(y) < _INFINITY)
    (result,) = m.rare(~plain, (magnitude,), _special, x, y, magnitude)
    return result


def _special(m: Steps, x: V, y: V, magnitude: V) -> tuple[V]:
    """x^y of a zero, negative, infinite or NaN x, and of an infinite or NaN y; |x|^y where that is the magnitude."""
    a = m.absolute(x)
    whole = m.trunc(y) == y
    half = y * 0.5
    is_odd = whole & (m.trunc(half) != half)
    far = (m.absolute(y) == _INFINITY) | (x == 0.0) | (a == _INFINITY)
    grows = (y > 0.0) ^ (a < 1.0)
    limit = m.where(a == 1.0, 1.0, m.where(grows, m.constant("f32", _INFINITY), 0.0))
    magnitude = m.where(far, limit, magnitude)
    negative = m.bits(x, "s32") < 0
    undefined = negative & ~whole & (a < _INFINITY) & (x != 0.0)
    magnitude = m.where(undefined | (x != x) | (y != y), float("nan"), magnitude)
    result = m.where(negative & is_odd, -magnitude, magnitude)
    return (m.where((x == 1.0) | (y == 0.0), 1.0, result),)


# ---- parts ----------------------------------------------------------------------------------------------------------


def _log2(m: Steps, a: V) -> tuple[V, V]:
    """log2 of a positive finite number."""
    small = a < 2.0**-126
    bits = m.bits(m.where(small, a * 2.0**23, a), "s32")
    steps = (bits - _SQRT_HALF) & -0x800000
    k = m.cast(steps >> 23, "f32") + m.where(small, m.constant("f32", -23.0), 0.0)
    s, s_low = _ratio(m, m.bits(bits - steps, "f32"))
    # s^2 (c3 + s^2 P), at most 1/30.
    square = s * s
    square_low = m.fma(s + s, s_low, m.fma(s, s, -square))
    tail = square * horner(m, POWER, square)
    factor = POWER_3[0] + tail
    factor_low = ((POWER_3[0] - factor) + tail) + POWER_3[1]
    beyond = square * factor
    beyond_low = m.fma(square, factor_low, m.fma(square_low, factor, m.fma(square, factor, -beyond)))
    # Times s, and the terms in the order of their size.
    term = s * beyond
    term_low = m.fma(s, beyond_low, m.fma(s_low, beyond, m.fma(s, beyond, -term)))
    first = s * POWER_1[0]
    first_low = m.fma(s_low, POWER_1[0], m.fma(s, POWER_1[1], m.fma(s, POWER_1[0], -first)))
    most = k + first
    total = most + term
    low = ((k - most) + first) + ((most - total) + term)
    return total, low + (first_low + term_low)


def _ratio(m: Steps, fraction: V) -> tuple[V, V]:
    """(fraction - 1) / (fraction + 1) in two parts."""
    dividend = fraction - 1.0  # exact
    divisor = fraction + 1.0
    lost = fraction - (divisor - 1.0)
    inverse = 1.0 / divisor
    s = dividend * inverse
    rest = m.fma(-s, lost, m.fma(-s, divisor, dividend))
    return s, rest * inverse


def _exp2(m: Steps, x: V, rest: V) -> V:
    """2^(x + rest), x from -200 to 200."""
    shifted = x + ROUNDER
    whole = shifted - ROUNDER
    result = horner(m, EXP2, x - whole)
    result = m.fma(result, rest * LN2[0], result)
    return scaled(m, result, m.bits(shifted, "s32") - ROUNDER_BITS)
