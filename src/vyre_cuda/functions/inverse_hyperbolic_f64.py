"""arcsinh, arccosh and arctanh of f64: logarithms of sums and quotients that are pairs."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import ARCTANH
from vyre_cuda.functions.exponential_f64 import power_of_two
from vyre_cuda.functions.logarithm_f64 import LN2_SHORT, float_of, log_of_sum
from vyre_cuda.functions.pairs import Pair, ordered_sum, quotient, two_product, two_sum
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_INFINITY = float("inf")
_LARGE = 2.0**28  # from here on x^2 + 1 is x^2


def arcsinh(m: Steps, x: V) -> V:
    """log(1 + (|x| + sqrt(x^2 + 1) - 1))."""
    size = m.absolute(x)
    root, root_low = _root_of_square(m, size, 1.0)
    less, less_low = ordered_sum(root, m.constant("f64", -1.0))
    total, lost = two_sum(size, less)
    found = _log_of_sum_or_twice(m, size, total, lost + (less_low + root_low))
    return m.where(size < 2.0**-28, x, m.copysign(found, x))


def arccosh(m: Steps, x: V) -> V:
    """log(1 + (x - 1 + sqrt(x^2 - 1)))."""
    root, root_low = _root_of_square(m, x, -1.0)
    less, less_low = two_sum(x, m.constant("f64", -1.0))
    total, lost = two_sum(less, root)
    found = _log_of_sum_or_twice(m, x, total, lost + (less_low + root_low))
    return m.where(x >= 1.0, m.where(x == 1.0, 0.0, found), m.constant("f64", float("nan")))


def _root_of_square(m: Steps, x: V, more: float) -> Pair:
    """sqrt(x^2 + more); the results for large x are not used."""
    square, square_low = two_product(m, x, x)
    high, low = two_sum(square, m.constant("f64", more))
    high, low = ordered_sum(high, low + square_low)
    root = m.sqrt(high)
    return root, (m.fma(-root, root, high) + low) * (0.5 / root)


def _log_of_sum_or_twice(m: Steps, x: V, high: V, low: V) -> V:
    """log(1 + high + low), or log(2 x) where x is so large that this is the same."""
    large = x > _LARGE
    high, low = m.where(large, x - 1.0, high), m.where(large, 0.0, low)
    return m.where(x == _INFINITY, x, log_of_sum(m, high, low, m.where(large, 1, m.constant("s64", 0))))


def arctanh(m: Steps, x: V) -> V:
    """Half of log((1 + x) / (1 - x)) = 2^k q: k ln 2 / 2 and the odd series in (q - 1) / (q + 1), of one division."""
    size = m.absolute(x)
    bounded = m.where(size < 1.0, size, 0.5)
    more, more_low = ordered_sum(m.constant("f64", 1.0), bounded)
    less, less_low = ordered_sum(m.constant("f64", 1.0), -bounded)
    # The difference of the bit patterns is near 2^52 times the logarithm to base 2; half of one rounds it.
    k = (m.bits(more, "s64") - m.bits(less, "s64") + (1 << 51)) >> 52
    small = bounded < 0.2
    k = m.where(small, 0, k)
    factor = power_of_two(m, k)
    below, below_low = less * factor, less_low * factor
    above_sum, above_lost = two_sum(more, -below)
    below_sum, below_lost = two_sum(more, below)
    above = m.where(small, bounded, above_sum), m.where(small, 0.0, above_lost + (more_low - below_low))
    beneath = m.where(small, 1.0, below_sum), m.where(small, 0.0, below_lost + (more_low + below_low))
    s, s_low = quotient(m, above, beneath)
    z = s * s
    steps = float_of(m, k) * 0.5
    total, lost = ordered_sum(steps * LN2_SHORT[0], s)
    rest = m.fma(s, z * horner(m, ARCTANH[1:], z), s_low)
    found = total + (lost + m.fma(steps, LN2_SHORT[1], rest))
    outside = m.where(size == 1.0, _INFINITY, m.constant("f64", float("nan")))
    found = m.where(size < 1.0, found, outside)
    return m.where(size < 2.0**-28, x, m.copysign(found, x))
