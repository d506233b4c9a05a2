"""sinh, cosh and tanh of f64.

With |x| = k ln 2 + r, e^x and e^-x are 2^k (C + S) and 2^-k (C - S) for C = cosh r and S = sinh r, so sinh and cosh are
A C + B S with A and B of few bits.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import COSH, SINH
from vyre_cuda.functions.exponential_f64 import expm1_pair, power_of_two, reduced
from vyre_cuda.functions.pairs import Pair, ordered_sum, quotient, two_product, two_sum
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_OVERFLOWS = 710.6


def _difference_and_sum(m: Steps, k: V) -> tuple[Pair, Pair]:
    """Of 2^k / 4 and 2^-k / 4; the latter is negligible long before it stops being a normal number."""
    growing, shrinking = power_of_two(m, k - 2), power_of_two(m, m.where(k > 100, -102, -2 - k))
    return ordered_sum(growing, -shrinking), ordered_sum(growing, shrinking)


def sinh(m: Steps, x: V) -> V:
    size = m.absolute(x)
    k, r, low = reduced(m, m.where(size > _OVERFLOWS, _OVERFLOWS, size))
    found = _combined(m, *_difference_and_sum(m, k), r, low)
    return m.where(size < 2.0**-28, x, m.copysign(found, x))


def cosh(m: Steps, x: V) -> V:
    size = m.absolute(x)
    k, r, low = reduced(m, m.where(size > _OVERFLOWS, _OVERFLOWS, size))
    difference, total = _difference_and_sum(m, k)
    return _combined(m, total, difference, r, low)


def _combined(m: Steps, a: Pair, b: Pair, r: V, low: V) -> V:
    """2 (a cosh(r + low) + b sinh(r + low)), for a of 0 or at least 3/5 b."""
    z = r * r
    cosh_rest = m.fma(r, low, z * horner(m, COSH[1:], z))
    sinh_rest = m.fma(r * z, horner(m, SINH[1:], z), low)
    product, product_low = two_product(m, b[0], r)
    total, lost = ordered_sum(a[0], product)
    rest = m.fma(b[0], sinh_rest, m.fma(b[1], r, product_low))
    return (total + (lost + m.fma(a[0], cosh_rest, a[1] + rest))) * 2.0


def tanh(m: Steps, x: V) -> V:
    """E / (E + 2) with E = e^2|x| - 1; from 20 on it is 1."""
    size = m.absolute(x)
    _, high, low = expm1_pair(m, m.where(size > 20.0, 40.0, size + size))
    high, low = ordered_sum(high, low)
    below, below_low = two_sum(high, m.constant("f64", 1.0))
    found, rest = quotient(m, (high, low), (below, below_low + low))
    return m.where(size < 2.0**-28, x, m.copysign(found + rest, x))
