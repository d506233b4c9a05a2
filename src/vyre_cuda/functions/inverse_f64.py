"""arcsin, arccos, arctan and arctan2 of f64.

arcsin x is a polynomial up to 1/2 and pi/2 - 2 arcsin(sqrt((1 - x) / 2)) beyond. An angle of two sides is
a multiple of pi/4 and the arctangent of a quotient below sqrt(2) - 1, which is a pair.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import ARCSIN, ARCTAN, HALF_PI
from vyre_cuda.functions.pairs import ordered_sum, quotient, shortened, two_sum
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

# Up to four times the larger part is exact.
_QUARTER_PI = shortened((HALF_PI[0] / 2, HALF_PI[1] / 2), 50)
_TAN_EIGHTH = 0.41421356237309503
_INFINITY = float("inf")


def arcsin(m: Steps, x: V) -> V:
    size = m.absolute(x)
    large = size > 0.5
    z = m.where(large, m.fma(size, -0.5, 0.5), x * x)
    base = m.where(large, m.sqrt(z), size)
    term = base * (z * horner(m, ARCSIN[1:], z))
    high, lost = ordered_sum(m.constant("f64", HALF_PI[0]), base * -2.0)
    beyond = high + (lost + m.fma(term, -2.0, HALF_PI[1]))
    return m.copysign(m.where(large, beyond, base + term), x)


def arccos(m: Steps, x: V) -> V:
    """pi/2 - arcsin x up to 1/2; beyond, 2 arcsin(sqrt((1 - x) / 2)), or pi less that."""
    size = m.absolute(x)
    large = size > 0.5
    z = m.where(large, m.fma(size, -0.5, 0.5), x * x)
    base = m.where(large, m.sqrt(z), x)
    term = base * (z * horner(m, ARCSIN[1:], z))
    near = HALF_PI[0] - (base - (HALF_PI[1] - term))
    twice = m.fma(base, 2.0, term + term)
    turned = 2 * HALF_PI[0] - m.fma(base, 2.0, m.fma(term, 2.0, -2 * HALF_PI[1]))
    return m.where(large, m.where(x < 0.0, turned, twice), near)


def arctan(m: Steps, x: V) -> V:
    """From 2^60 on it is pi/2."""
    size = m.absolute(x)
    found = _angle(m, m.where(size > 2.0**60, 2.0**60, size), m.constant("f64", 1.0), None)
    return m.where(size < 2.0**-28, x, m.copysign(found, x))


def arctan2(m: Steps, y: V, x: V) -> V:
    """The angle of the point (x, y), zeros and infinities as in NumPy and C."""
    across, along = m.absolute(y), m.absolute(x)
    turned = m.bits(x, "s64") < 0
    longer = m.fmax(across, along)
    endless, nowhere = longer == _INFINITY, longer == 0.0
    above = m.where(endless, m.where(across == _INFINITY, 1.0, m.constant("f64", 0.0)), across)
    beside = m.where(endless, m.where(along == _INFINITY, 1.0, m.constant("f64", 0.0)), m.where(nowhere, 1.0, along))
    # A power of two brings the longer side near 1. What the other one loses by that matters only in a quotient.
    exponent = m.bits(m.fmax(above, beside), "s64") >> 52
    factor = m.bits((2046 - m.where(exponent > 2045, 2045, exponent)) << 52, "f64")
    above, beside = above * factor, beside * factor
    angle = _angle(m, above, beside, turned)
    is_quotient = (above < beside * 2.0**-40) & ~turned
    (angle,) = m.rare(is_quotient, (angle,), _quotient, across, along)
    return m.where((x != x) | (y != y), x + y, m.copysign(angle, y))


def _quotient(m: Steps, across: V, along: V) -> tuple[V]:
    return (m.where(across == 0.0, 0.0, across / along),)


def _angle(m: Steps, across: V, along: V, turned: V | None) -> V:
    """The angle of two nonnegative sides; pi minus that where it is turned."""
    steep = across > along
    shorter, longer = m.where(steep, along, across), m.where(steep, across, along)
    middle = shorter > longer * _TAN_EIGHTH
    less, less_low = two_sum(shorter, -longer)
    more, more_low = ordered_sum(longer, shorter)
    above, above_low = m.where(middle, less, shorter), m.where(middle, less_low, 0.0)
    below, below_low = m.where(middle, more, longer), m.where(middle, more_low, 0.0)
    q, q_low = quotient(m, (above, above_low), (below, below_low))
    z = q * q
    low = m.fma(q, z * horner(m, ARCTAN[1:], z), m.fma(q_low, -z, q_low))
    eighths = m.where(middle, 1.0, m.constant("f64", 0.0))
    eighths = m.where(steep, 2.0 - eighths, eighths)
    backward = steep
    if turned is not None:
        eighths = m.where(turned, 4.0 - eighths, eighths)
        backward = steep ^ turned
    total, lost = ordered_sum(eighths * _QUARTER_PI[0], m.where(backward, -q, q))
    return total + (lost + m.fma(eighths, _QUARTER_PI[1], m.where(backward, -low, low)))
