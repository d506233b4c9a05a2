"""erf of f64: a polynomial up to 7/8, and beyond 1 - e^p with a polynomial p that is the logarithm of 1 - erf."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import ERF, LOG_ERFC
from vyre_cuda.functions.exponential_f64 import exp_pair, power_of_two, reduced
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_NEAR, _IS_ONE = 0.875, 5.95


def erf(m: Steps, x: V) -> V:
    size = m.absolute(x)
    near = m.fma(x, horner(m, ERF, x * x), x)
    k, r, low = reduced(m, horner(m, LOG_ERFC, m.where(size > _IS_ONE, _IS_ONE, size)))
    high, lost = exp_pair(m, r, low)
    factor = power_of_two(m, k)
    beyond = m.fma(-lost, factor, m.fma(-high, factor, 1.0))
    return m.where(size < _NEAR, near, m.copysign(beyond, x))
