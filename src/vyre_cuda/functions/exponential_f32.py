"""exp, exp2 and expm1 of f32: 2^k times a polynomial on a half step around zero.

k is rounded by adding a number so large that its last bit is worth 1, which leaves k in the low bits.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import EXP2
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

ROUNDER = 12582912.0  # 1.5 * 2^23


def exp2(m: Steps, x: V) -> V:
    """2^x. From 129 on the result overflows, below -152 it is 0."""
    low = m.where(x < -152.0, -152.0, x)  # a NaN stays
    shifted = m.fmin(low, 129.0) + ROUNDER
    whole = shifted - ROUNDER
    return scaled(m, horner(m, EXP2, low - whole), m.bits(shifted, "s32") - ROUNDER_BITS)


ROUNDER_BITS = 0x4B400000


def scaled(m: Steps, x: V, k: V) -> V:
    """x * 2^k for k from -252 to 254, rounded once: by two factors, of which the first product is exact."""
    first = k >> 1
    return x * power_of_two(m, first) * power_of_two(m, k - first)


def power_of_two(m: Steps, k: V) -> V:
    """2^k for k from -126 to 127, an s32."""
    return m.bits((k << 23) + 0x3F800000, "f32")
