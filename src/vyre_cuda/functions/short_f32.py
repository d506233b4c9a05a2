"""Shorter forms of f32 for callers that can accept a larger error: exact steps, too, so their bits are the same
everywhere, with fewer terms of the polynomials, fewer parts of the reductions and one path for special values.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import (
    COS_SHORT,
    EXP_WIDE,
    LN2,
    LOG2_E,
    LOG_SHORT,
    PI_2,
    SIN_SHORT,
    TWO_OVER_PI,
)
from vyre_cuda.functions.exponential_f32 import ROUNDER
from vyre_cuda.functions.logarithm_f32 import split
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.reduction_f32 import LIMIT, far
from vyre_cuda.functions.steps import Steps, V
from vyre_cuda.functions.trigonometric_f32 import wave


def exp(m: Steps, x: V) -> V:
    """e^x = 2^h e^r 2^h for an r of up to log 2: both factors are one number, and the first product is exact."""
    low = m.where(x < -105.0, -105.0, x)
    shifted = m.fma(m.fmin(low, 89.0), LOG2_E[0] / 2, ROUNDER)
    half = shifted - ROUNDER
    r = m.fma(half, -2 * LN2[1], m.fma(half, -2 * LN2[0], low))
    power = m.bits((m.bits(shifted, "s32") << 23) + 0x3F800000, "f32")
    return horner(m, EXP_WIDE, r) * power * power


def log(m: Steps, x: V) -> V:
    k, f = split(m, x)
    result = m.fma(k, LN2[0], m.fma(f * f, horner(m, LOG_SHORT, f), f))
    positive = m.where(x < float("inf"), result, x)
    return m.where(x == 0.0, -float("inf"), m.where(x > 0.0, positive, float("nan")))


def sin(m: Steps, x: V) -> V:
    r, number = _quadrant(m, x)
    return m.where(x == 0.0, x, wave(m, SIN_SHORT, COS_SHORT, r, number))


def cos(m: Steps, x: V) -> V:
    r, number = _quadrant(m, x)
    return wave(m, SIN_SHORT, COS_SHORT, r, number + 1)


def _quadrant(m: Steps, x: V) -> tuple[V, V]:
    """`reduction_f32.quadrant` with each part of pi/2 subtracted by one fma, two of which are rounded."""
    shifted = m.fma(x, TWO_OVER_PI[0], ROUNDER)
    multiple = shifted - ROUNDER
    r = m.fma(multiple, -PI_2[2], m.fma(multiple, -PI_2[1], m.fma(multiple, -PI_2[0], x)))
    r, number = m.rare(~(m.absolute(x) < LIMIT), (r, m.bits(shifted, "s32")), _far, x)
    return r, number


def _far(m: Steps, x: V) -> tuple[V, V]:
    r, _, number = far(m, x)
    return r, number
