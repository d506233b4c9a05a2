"""power of f32: 2^(y log2 x), the logarithm and the product in two parts each.

For the largest results the exponent needs 8 bits before the point, so the logarithm is kept to 2^-33 of itself: it is
2 s + 2/3 s^3 + ... of s = (m - 1) / (m + 1), x = 2^k m with m from sqrt(1/2) to sqrt(2), the first two terms in two
parts.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import EXP2, LN2, LOG2_E, POWER, TWO_THIRDS
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
    # Held where 2^product is an infinity or 0 anyway: an infinite product has no rest.
    held = m.fmax(m.fmin(product, 200.0), -200.0)
    rest = m.fma(low, y, m.fma(high, y, -product))
    rest = m.where(held == product, rest, 0.0)
    magnitude = _exp2(m, held, rest)
    whole = m.trunc(y) == y
    half = y * 0.5
    is_odd = whole & (m.trunc(half) != half)
    negative = m.bits(x, "s32") < 0
    edge = (x == 0.0) | (a == _INFINITY)
    grows = (y > 0.0) ^ (a < 1.0)
    limit = m.where(grows, m.constant("f32", _INFINITY), 0.0)
    far = (m.absolute(y) == _INFINITY) | edge
    magnitude = m.where(far, limit, magnitude)
    magnitude = m.where(far & (a == 1.0), 1.0, magnitude)
    magnitude = m.where(negative & ~whole & (a < _INFINITY) & (x != 0.0), float("nan"), magnitude)
    magnitude = m.where((x != x) | (y != y), float("nan"), magnitude)
    result = m.where(negative & is_odd, -magnitude, magnitude)
    return m.where((x == 1.0) | (y == 0.0), 1.0, result)


# ---- parts ----------------------------------------------------------------------------------------------------------


def _log2(m: Steps, a: V) -> tuple[V, V]:
    """log2 of a positive finite number."""
    small = a < 2.0**-126
    bits = m.bits(m.where(small, a * 2.0**23, a), "s32")
    steps = (bits - _SQRT_HALF) & -0x800000
    k = m.cast(steps >> 23, "f32") + m.where(small, m.constant("f32", -23.0), 0.0)
    fraction = m.bits(bits - steps, "f32")
    s, s_low = _ratio(m, fraction)
    square, square_low = _product(m, s, s)
    square_low = m.fma(s + s, s_low, square_low)
    tail = square * horner(m, POWER, square)
    factor = TWO_THIRDS[0] + tail
    factor_low = ((TWO_THIRDS[0] - factor) + tail) + TWO_THIRDS[1]
    cube, cube_low = _product(m, square, s)
    cube_low = m.fma(square, s_low, m.fma(square_low, s, cube_low))
    term, term_low = _product(m, cube, factor)
    term_low = m.fma(cube, factor_low, m.fma(cube_low, factor, term_low))
    twice = s + s
    log = twice + term
    log_low = ((twice - log) + term) + (m.fma(s_low, 2.0, term_low))
    high, low = _product(m, log, LOG2_E[0])
    low = m.fma(log, LOG2_E[1], m.fma(log_low, LOG2_E[0], low))
    total = k + high
    # Of k and a smaller number, or of 0 and that number.
    return total, ((k - total) + high) + low


def _ratio(m: Steps, fraction: V) -> tuple[V, V]:
    """(fraction - 1) / (fraction + 1) in two parts."""
    dividend = fraction - 1.0  # exact
    divisor = fraction + 1.0
    lost = fraction - (divisor - 1.0)
    inverse = 1.0 / divisor
    s = dividend * inverse
    rest = m.fma(-s, lost, m.fma(-s, divisor, dividend))
    return s, rest * inverse


def _product(m: Steps, x: V, y: V) -> tuple[V, V]:
    product = x * y
    return product, m.fma(x, y, -product)


def _exp2(m: Steps, x: V, rest: V) -> V:
    """2^(x + rest), x from -200 to 200."""
    shifted = x + ROUNDER
    whole = shifted - ROUNDER
    result = horner(m, EXP2, x - whole)
    result = m.fma(result, rest * LN2[0], result)
    return scaled(m, result, m.bits(shifted, "s32") - ROUNDER_BITS)
