"""sinh, cosh and tanh of f32, using e^|x| where that is accurate and a polynomial in x near zero."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import EXP, SINH, TANH
from vyre_cuda.functions.exponential_f32 import nearest_power, power_of_two, scaled, without
from vyre_cuda.functions.polynomials import horner, odd
from vyre_cuda.functions.steps import Steps, V


def sinh(m: Steps, x: V) -> V:
    a = m.absolute(x)
    half = _half_exp(m, a)
    return m.copysign(m.where(a < 1.0, odd(m, SINH, a), half - 0.25 / half), x)


def cosh(m: Steps, x: V) -> V:
    half = _half_exp(m, m.absolute(x))
    return half + 0.25 / half


def tanh(m: Steps, x: V) -> V:
    """1 - 2 / (e^2|x| + 1), which is 1 from 9.1 on."""
    a = m.absolute(x)
    twice = m.where(a > 10.0, 20.0, a + a)
    whole, k = nearest_power(m, twice)
    power = horner(m, EXP, without(m, twice, whole)) * power_of_two(m, k)
    far = m.fma(1.0 / (power + 1.0), -2.0, 1.0)
    return m.copysign(m.where(a < 0.6, odd(m, TANH, a), far), x)


def _half_exp(m: Steps, a: V) -> V:
    """e^a / 2 of a >= 0: it overflows where sinh and cosh do, above 89.4."""
    whole, k = nearest_power(m, m.fmin(a, 90.0))
    return scaled(m, horner(m, EXP, without(m, a, whole)), k - 1)
