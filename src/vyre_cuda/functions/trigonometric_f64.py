"""sin, cos and tan of f64.

The reduced argument is a pair; the polynomials of sin and cos have one length, so that one of them is evaluated with
the coefficients that the quarter turn needs.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import COS, SIN
from vyre_cuda.functions.pairs import Pair, ordered_sum, quotient, two_product
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.reduction_f64 import reduced
from vyre_cuda.functions.steps import Steps, V


def sin(m: Steps, x: V) -> V:
    n, r, low = reduced(m, x)
    found = _of_quarter(m, n, r, low)
    return m.where(m.absolute(x) < 2.0**-27, x, _unless_infinite(m, x, found))


def cos(m: Steps, x: V) -> V:
    n, r, low = reduced(m, x)
    return _unless_infinite(m, x, _of_quarter(m, n + 1, r, low))


def tan(m: Steps, x: V) -> V:
    """sin / cos, or -cos / sin, each a pair."""
    n, r, low = reduced(m, x)
    z, z_low = two_product(m, r, r)
    z_low = m.fma(r + r, low, z_low)
    sin_high, sin_low = _sin_pair(m, r, low, z, horner(m, SIN[1:], z))
    cos_high, cos_low = _cos_pair(m, z, z_low, horner(m, COS[2:], z))
    odd = (n & 1) != 0
    below, below_low = m.where(odd, sin_high, cos_high), m.where(odd, sin_low, cos_low)
    above, above_low = m.where(odd, -cos_high, sin_high), m.where(odd, -cos_low, sin_low)
    found, rest = quotient(m, (above, above_low), (below, below_low))
    return m.where(m.absolute(x) < 2.0**-28, x, _unless_infinite(m, x, found + rest))


def _of_quarter(m: Steps, n: V, r: V, low: V) -> V:
    """sin(n pi/2 + r + low)."""
    odd = (n & 1) != 0
    z, z_low = two_product(m, r, r)
    z_low = m.fma(r + r, low, z_low)
    polynomial = horner(m, [m.where(odd, c, m.constant("f64", s)) for s, c in zip(SIN[1:], COS[2:], strict=True)], z)
    sin_high, sin_low = _sin_pair(m, r, low, z, polynomial)
    cos_high, cos_low = _cos_pair(m, z, z_low, polynomial)
    found = m.where(odd, cos_high, sin_high) + m.where(odd, cos_low, sin_low)
    return m.where((n & 2) != 0, -found, found)


def _sin_pair(m: Steps, r: V, low: V, z: V, polynomial: V) -> Pair:
    """r + low + r^3 p(z), the derivative of which is about 1 - z / 2."""
    return ordered_sum(r, m.fma(r * z, polynomial, m.fma(low * z, -0.5, low)))


def _cos_pair(m: Steps, z: V, z_low: V, polynomial: V) -> Pair:
    """1 - (z + z_low) / 2 + z^2 p(z)."""
    high, low = ordered_sum(m.constant("f64", 1.0), z * -0.5)
    return ordered_sum(high, m.fma(z * z, polynomial, m.fma(z_low, -0.5, low)))


def _unless_infinite(m: Steps, x: V, found: V) -> V:
    return m.where(m.absolute(x) < float("inf"), found, m.constant("f64", float("nan")))
