"""arcsinh, arccosh and arctanh of f32: logarithms of arguments that are known in two parts."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import ARCSINH, ARCTANH
from vyre_cuda.functions.logarithm_f32 import of_one_and_sum, of_sum
from vyre_cuda.functions.polynomials import odd
from vyre_cuda.functions.steps import Steps, V

# From here on a + sqrt(a^2 +- 1) is 2 a: the error is 2^-26 of it.
_FAR = 4096.0


def arcsinh(m: Steps, x: V) -> V:
    """log(a + sqrt(a^2 + 1)), a = |x|, which from 1 on tolerates the rounding errors of the root."""
    a = m.absolute(x)
    root = m.sqrt(m.fma(a, a, 1.0))
    total = a + root
    (result,) = m.rare(a > _FAR, (of_sum(m, total, (root - total) + a),), _far, a)
    result = m.where(a < 1.0, odd(m, ARCSINH, a), result)
    return m.copysign(m.where(a < float("inf"), result, a), x)


def _far(m: Steps, a: V) -> tuple[V]:
    """log(2 a)."""
    return (of_one_and_sum(m, a - 1.0, m.constant("f32", 0.0), 1.0),)


def arccosh(m: Steps, x: V) -> V:
    """log(1 + t + sqrt(t^2 + 2 t)), t = x - 1; NaN below 1."""
    t = x - 1.0
    twice = t + t
    square = m.fma(t, t, twice)
    root = m.sqrt(square)
    # A tenth of the root's error may remain: half its inverse is estimated from its bits.
    half_inverse = m.bits(0x7E7127EA - m.bits(root, "s32"), "f32")
    lost = (m.fma(-root, root, square) + m.fma(t, t, twice - square)) * half_inverse
    total = t + root
    lost = ((root - total) + t) + lost
    far = x > _FAR
    k = m.where(far, m.constant("f32", 1.0), 0.0)
    result = of_one_and_sum(m, m.where(far, t, total), m.where(far, 0.0, lost), k)
    outside = m.where(x == 1.0, 0.0, m.where(x < 1.0, float("nan"), x))
    return m.where((x > 1.0) & (x < float("inf")), result, outside)


def arctanh(m: Steps, x: V) -> V:
    """log((1 + a) / (1 - a)) / 2, a = |x|; infinite for 1, NaN beyond."""
    a = m.absolute(x)
    divisor = 1.0 - a  # exact from 1/2 on
    dividend = 1.0 + a
    lost = a - (dividend - 1.0)
    inverse = 1.0 / divisor
    quotient = dividend * inverse
    lost = (m.fma(-quotient, divisor, dividend) + lost) * inverse
    result = 0.5 * of_sum(m, quotient, lost)
    result = m.where(a < 0.5, odd(m, ARCTANH, a), result)
    outside = m.where(a == 1.0, m.constant("f32", float("inf")), float("nan"))
    return m.copysign(m.where(a < 1.0, result, outside), x)
