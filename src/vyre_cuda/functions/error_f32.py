"""erf of f32."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import ERF, ERFC, EXP
from vyre_cuda.functions.exponential_f32 import nearest_power, power_of_two, without
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V


def erf(m: Steps, x: V) -> V:
    """x + x P(x^2) near zero, beyond 1 - e^(-x P(x)), which is 1 from 4 on."""
    a = m.absolute(x)
    near = m.fma(horner(m, ERF, a * a), a, a)
    held = m.where(a > 4.0, 4.0, a)
    exponent = -(held * horner(m, ERFC, held))
    whole, k = nearest_power(m, exponent)
    rest = horner(m, EXP, without(m, exponent, whole)) * power_of_two(m, k)
    return m.copysign(m.where(a < 0.92, near, 1.0 - rest), x)
