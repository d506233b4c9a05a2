"""power of f64: e^(y log x), the logarithm and the product as pairs good to about 2^-69 of themselves.

y log x is below 2^10, so its error is below 2^-59 of the result. Zeros, infinities, NaN and negative x are as
in NumPy and C: x^0 and 1^y are 1 even for a NaN.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import LN2, LOG2_E, LOG_BEYOND_CUBE, TWO_THIRDS
from vyre_cuda.functions.exponential_f64 import exp_pair, scaled, whole
from vyre_cuda.functions.logarithm_f64 import LN2_SHORT, parted
from vyre_cuda.functions.pairs import Pair, ordered_sum, quotient, two_product, two_sum
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_INFINITY = float("inf")
# e^(more than this) overflows or rounds to 0.
_FAR = 746.0


def power(m: Steps, x: V, y: V) -> V:
    """x^y; NaN for a negative x and a y that is not a whole number."""
    size = m.absolute(x)
    halves = y * 0.5
    is_whole = m.trunc(y) == y
    odd = is_whole & (m.trunc(halves) != halves) & (m.absolute(y) < _INFINITY)
    # A larger y overflows or rounds to 0, too, and its product with the logarithm is a number.
    bounded = m.where(m.absolute(y) > 2.0**1000, m.copysign(2.0**1000, y), y)
    found = exp_of_pair(m, *product(m, bounded, log_of_positive(m, size)))
    extreme = (size == 0.0) | (size == _INFINITY)
    to_zero = (size == 0.0) ^ (y < 0.0)
    found = m.where(extreme, m.where(to_zero, 0.0, m.constant("f64", _INFINITY)), found)
    found = m.where((x < 0.0) & (size < _INFINITY) & ~is_whole, m.constant("f64", float("nan")), found)
    found = m.where(odd, m.copysign(found, x), found)
    found = m.where((x != x) | (y != y), x + y, found)
    return m.where((x == 1.0) | (y == 0.0), 1.0, found)


def log_of_positive(m: Steps, x: V) -> Pair:
    """log(x) of a positive finite x: 2 s + s^3 (2/3 + ...) with s = (m - 1) / (m + 1), and k ln 2."""
    k, mantissa = parted(m, x)
    f = mantissa - 1.0
    s, s_low = quotient(m, (f, m.constant("f64", 0.0)), two_sum(f, m.constant("f64", 2.0)))
    z, z_low = two_product(m, s, s)
    z_low = m.fma(s + s, s_low, z_low)
    # 2/3 + z (2/5 + ...): what follows 2/5 is small enough for one float.
    first, *others = LOG_BEYOND_CUBE
    more, more_low = two_product(m, z, first)
    more_low = m.fma(z_low, first, more_low) + m.fma(z * z, horner(m, others, z), TWO_THIRDS[1])
    factor, factor_low = ordered_sum(m.constant("f64", TWO_THIRDS[0]), more)
    factor_low = factor_low + more_low
    cube, cube_low = two_product(m, s, z)
    cube_low = m.fma(s_low, z, m.fma(s, z_low, cube_low))
    term, term_low = two_product(m, cube, factor)
    term_low = m.fma(cube_low, factor, m.fma(cube, factor_low, term_low))
    near, near_low = ordered_sum(s + s, term)
    near_low = near_low + m.fma(s_low, 2.0, term_low)
    total, lost = ordered_sum(k * LN2_SHORT[0], near)
    return ordered_sum(total, lost + m.fma(k, LN2_SHORT[1], near_low))


def product(m: Steps, y: V, pair: Pair) -> Pair:
    """y times a pair; far outside the range of e^x, any number that is far outside."""
    high, low = two_product(m, y, pair[0])
    low = m.fma(y, pair[1], low)
    far = m.absolute(high) > _FAR
    return m.where(far, m.copysign(_FAR, high), high), m.where(far, 0.0, low)


def exp_of_pair(m: Steps, high: V, low: V) -> V:
    """e^(high + low) for |high| up to 746."""
    steps, k = whole(m, high, LOG2_E[0])
    left = m.fma(steps, -LN2[0], high)
    r, r_low = two_sum(left, m.fma(steps, -LN2[1], low))
    near, near_low = exp_pair(m, r, r_low)
    return scaled(m, near + near_low, k)
