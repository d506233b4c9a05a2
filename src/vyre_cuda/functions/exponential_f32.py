"""exp, exp2, expm1 and sigmoid of f32: 2^k times a polynomial on half a step around zero.

k is rounded by adding a number so large that its last bit is worth 1, which leaves k in the low bits. Arguments whose
result is 0 or overflows are clamped to where it still is; a NaN passes through the polynomial.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import EXP, EXP2, EXPM1, LN2, LOG2_E
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

ROUNDER = 12582912.0  # 1.5 * 2^23
ROUNDER_BITS = 0x4B400000


def exp2(m: Steps, x: V) -> V:
    """2^x. From 128 on the result overflows, below -150 it is 0."""
    low = m.where(x < -152.0, -152.0, x)
    shifted = m.fmin(low, 129.0) + ROUNDER
    whole = shifted - ROUNDER
    return scaled(m, horner(m, EXP2, low - whole), m.bits(shifted, "s32") - ROUNDER_BITS)


def exp(m: Steps, x: V) -> V:
    """e^x. From 89 on the result overflows, below -104 it is 0."""
    low = m.where(x < -105.0, -105.0, x)
    whole, k = nearest_power(m, m.fmin(low, 89.0))
    return scaled(m, horner(m, EXP, without(m, low, whole)), k)


def expm1(m: Steps, x: V) -> V:
    """e^x - 1: (e^r - 1) 2^k + (2^k - 1), of which half is computed because 2^128 is not an f32."""
    low = m.where(x < -20.0, -20.0, x)
    whole, k = nearest_power(m, m.fmin(low, 89.0))
    r = without(m, low, whole)
    power = power_of_two(m, k - 1)
    result = m.fma(less_one(m, r), power, power - 0.5)
    return m.where(m.absolute(x) < 2.0**-26, x, result + result)


def sigmoid(m: Steps, x: V) -> V:
    """1 / (1 + e^-x), which for negative x is e^x / (1 + e^x): no exponential overflows.

    The quotient is corrected for the rounding errors in it and in the divisor.
    """
    power = exp(m, -m.absolute(x))
    divisor = 1.0 + power
    lost = (1.0 - divisor) + power
    inverse = 1.0 / divisor
    dividend = m.where(x < 0.0, power, 1.0)
    quotient = dividend * inverse
    rest = m.fma(-quotient, lost, m.fma(-quotient, divisor, dividend))
    return m.fma(rest, inverse, quotient)


# ---- parts ----------------------------------------------------------------------------------------------------------


def nearest_power(m: Steps, x: V) -> tuple[V, V]:
    """The k for which 2^k is nearest to e^x, as an f32 and as an s32, of |x| below 2^20."""
    shifted = m.fma(x, LOG2_E[0], ROUNDER)
    return shifted - ROUNDER, m.bits(shifted, "s32") - ROUNDER_BITS


def without(m: Steps, x: V, whole: V) -> V:
    """x - whole ln 2."""
    return m.fma(whole, -LN2[1], m.fma(whole, -LN2[0], x))


def less_one(m: Steps, r: V) -> V:
    """e^r - 1 for r of half a step."""
    return m.fma(r * r, horner(m, EXPM1, r), r)


def scaled(m: Steps, x: V, k: V) -> V:
    """x * 2^k for k from -252 to 254, rounded once: by two factors, of which the first product is exact."""
    first = k >> 1
    return x * power_of_two(m, first) * power_of_two(m, k - first)


def power_of_two(m: Steps, k: V) -> V:
    """2^k for k from -126 to 127, an s32."""
    return m.bits((k << 23) + 0x3F800000, "f32")
