"""exp, exp2, expm1 and sigmoid of f64.

x = k ln 2 + r with |r| <= ln 2 / 2; e^r is 1 + r and a polynomial whose error counts little beside them, and the sum
is rounded once. k is rounded by adding a number so large that its last bit is worth 1, which leaves k in the low bits.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import EXP, LN2, LOG2_E
from vyre_cuda.functions.pairs import Pair, ordered_sum, quotient, two_product, two_sum
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

ROUNDER = 6755399441055744.0  # 1.5 * 2^52
ROUNDER_BITS = 0x4338000000000000
_ONE_BITS = 0x3FF0000000000000
# Beyond these, e^x is a zero or overflows, whatever the rounding.
_LOWEST, _HIGHEST = -746.0, 710.0


def whole(m: Steps, x: V, scale: float) -> Pair:
    """x * scale rounded to a whole number below 2^51: as a float, and as an s64."""
    shifted = m.fma(x, scale, ROUNDER)
    return shifted - ROUNDER, m.bits(shifted, "s64") - ROUNDER_BITS


def power_of_two(m: Steps, k: V) -> V:
    """2^k for k from -1022 to 1023, an s64."""
    return m.bits((k << 52) + _ONE_BITS, "f64")


def scaled(m: Steps, x: V, k: V) -> V:
    """x * 2^k for k from -2044 to 2046, rounded once: by two factors, of which the first product is exact."""
    first = k >> 1
    return x * power_of_two(m, first) * power_of_two(m, k - first)


def clamped(m: Steps, x: V, low: float, high: float) -> V:
    """x within the limits; a NaN stays."""
    above = m.where(x < low, low, x)
    return m.where(above > high, high, above)


def reduced(m: Steps, x: V) -> tuple[V, V, V]:
    """k, an s64, and the pair of x - k ln 2, for |x| below 2^10.

    What is left of x by the larger part of ln 2 is exact: it has no bit below 2^-54, and none above 2^-2.
    """
    steps, k = whole(m, x, LOG2_E[0])
    left = m.fma(steps, -LN2[0], x)
    less = steps * LN2[1]
    high = left - less
    return k, high, (left - high) - less


def beyond_linear(m: Steps, r: V) -> V:
    """e^r - 1 - r for |r| <= ln 2 / 2."""
    return r * r * horner(m, EXP[2:], r)


def exp_pair(m: Steps, r: V, low: V) -> Pair:
    """e^(r + low) for |r| <= ln 2 / 2, to about 2^-58."""
    high, lost = ordered_sum(m.constant("f64", 1.0), r)
    return ordered_sum(high, lost + m.fma(r, low, low + beyond_linear(m, r)))


def exp(m: Steps, x: V) -> V:
    k, r, low = reduced(m, clamped(m, x, _LOWEST, _HIGHEST))
    high, lost = ordered_sum(m.constant("f64", 1.0), r)
    return scaled(m, high + (lost + (low + beyond_linear(m, r))), k)


def exp2(m: Steps, x: V) -> V:
    """2^x: the fraction of x is exact, so its product with ln 2 is a pair."""
    inside = clamped(m, x, -1080.0, 1030.0)
    steps, k = whole(m, inside, 1.0)
    fraction = inside - steps
    r, low = two_product(m, fraction, LN2[0])
    high, lost = ordered_sum(m.constant("f64", 1.0), r)
    return scaled(m, high + (lost + (m.fma(fraction, LN2[1], low) + beyond_linear(m, r))), k)


def expm1_pair(m: Steps, x: V) -> tuple[V, V, V]:
    """s = 2^(k - 1) and the pair of s (e^r - 1) + s - 1/2, half of e^x - 1, for x from -40 to 710."""
    k, r, low = reduced(m, x)
    half = power_of_two(m, k - 1)
    less = half - 0.5
    high, lost = ordered_sum(less, half * r)
    return half, high, lost + m.fma(half, low + beyond_linear(m, r), (half - less) - 0.5)


def expm1(m: Steps, x: V) -> V:
    """e^x - 1; halves are summed and doubled, because 2^1024 is not an f64."""
    _, high, low = expm1_pair(m, clamped(m, x, -40.0, _HIGHEST))
    total = (high + low) * 2.0
    return m.where(m.absolute(x) < 2.0**-54, x, total)


def sigmoid(m: Steps, x: V) -> V:
    """1 / (1 + e^-x), by t = e^-|x|: 1 / (1 + t) or t / (1 + t)."""
    size = m.absolute(clamped(m, x, _LOWEST, _HIGHEST))
    k, r, low = reduced(m, -size)
    high, lost = exp_pair(m, r, low)
    # 2^k rounds to 0 or so where 1 + t is 1 anyway.
    factor = power_of_two(m, m.where(k < -200, -200, k))
    below, below_low = two_sum(high * factor, m.constant("f64", 1.0))
    negative = x < 0.0
    above, above_low = m.where(negative, high, 1.0), m.where(negative, lost, 0.0)
    found, rest = quotient(m, (above, above_low), (below, below_low + lost * factor))
    return scaled(m, found + rest, m.where(negative, k, 0))
