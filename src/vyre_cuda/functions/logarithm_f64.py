"""log, log2, log10 and log1p of f64.

x = 2^k m with m from sqrt(1/2) to sqrt(2); log(m) is an odd series in s = (m - 1) / (m + 1), put so that its largest
terms, m - 1 and half its square, are exact.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import LN2, LOG, LOG2_E, LOG10_2, LOG10_E
from vyre_cuda.functions.exponential_f64 import ROUNDER, ROUNDER_BITS
from vyre_cuda.functions.pairs import Pair, ordered_sum, shortened, two_product, two_sum
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # sqrt(1/2)
_ONE_BITS = 0x3FF0000000000000
# Times an exponent, the larger part is exact.
LN2_SHORT = shortened(LN2, 42)
_LOG10_2_SHORT = shortened(LOG10_2, 41)
_INFINITY = float("inf")
_SMALLEST_NORMAL = 2.0**-1022


def float_of(m: Steps, k: V) -> V:
    """An s64 below 2^51 in magnitude as a float."""
    return m.bits(k + ROUNDER_BITS, "f64") - ROUNDER


def exponent(m: Steps, x: V) -> V:
    """k, an s64, of a normal x = 2^k m."""
    return (m.bits(x, "s64") - _ROOT_HALF_BITS) >> 52


def parted(m: Steps, x: V) -> Pair:
    """k as a float, and m, for a positive finite x."""
    small = x < _SMALLEST_NORMAL
    normal = m.where(small, x * 2.0**54, x)
    k = exponent(m, normal)
    mantissa = m.bits(m.bits(normal, "s64") - (k << 52), "f64")
    return float_of(m, m.where(small, k - 54, k)), mantissa


def log_pair(m: Steps, f: V, low: V | None = None) -> Pair:
    """log(1 + f + low) for f from sqrt(1/2) - 1 to sqrt(2) - 1, to about 2^-57; low counts to its first bits."""
    s = f / (f + 2.0)
    z = s * s
    half = f * 0.5
    square, square_low = two_product(m, half, f)
    rest = m.fma(s, m.fma(z, horner(m, LOG[1:], z), square), -square_low)
    if low is not None:
        rest = m.fma(low, m.fma(f, f, 1.0 - f), rest)
    return ordered_sum(f, rest - square)


def unless_special(m: Steps, x: V, found: V) -> V:
    """`found`, or the logarithm of an x that is not a positive number."""
    special = m.where(x == 0.0, -_INFINITY, m.where(x == _INFINITY, _INFINITY, m.constant("f64", float("nan"))))
    return m.where((x > 0.0) & (x < _INFINITY), found, special)


def with_exponent(m: Steps, k: V, high: V, low: V) -> V:
    """k ln 2 + high + low, rounded about once; k times the larger part of ln 2 is exact."""
    total, lost = ordered_sum(k * LN2_SHORT[0], high)
    return total + (lost + m.fma(k, LN2_SHORT[1], low))


def log(m: Steps, x: V) -> V:
    k, mantissa = parted(m, x)
    return unless_special(m, x, with_exponent(m, k, *log_pair(m, mantissa - 1.0)))


def log2(m: Steps, x: V) -> V:
    k, mantissa = parted(m, x)
    high, low = log_pair(m, mantissa - 1.0)
    product, product_low = two_product(m, high, LOG2_E[0])
    product_low = m.fma(low, LOG2_E[0], m.fma(high, LOG2_E[1], product_low))
    total, lost = ordered_sum(k, product)
    return unless_special(m, x, total + (lost + product_low))


def log10(m: Steps, x: V) -> V:
    k, mantissa = parted(m, x)
    high, low = log_pair(m, mantissa - 1.0)
    product, product_low = two_product(m, high, LOG10_E[0])
    product_low = m.fma(low, LOG10_E[0], m.fma(high, LOG10_E[1], product_low))
    total, lost = ordered_sum(k * _LOG10_2_SHORT[0], product)
    return unless_special(m, x, total + (lost + m.fma(k, _LOG10_2_SHORT[1], product_low)))


def log_of_sum(m: Steps, high: V, low: V, doublings: V) -> V:
    """log((1 + high + low) 2^doublings) for a finite sum above 0; of zeros it is a positive one."""
    u, lost = two_sum(m.constant("f64", 1.0), high)
    k = exponent(m, u)
    near = k == 0
    f = m.where(near, high, m.bits(m.bits(u, "s64") - (k << 52), "f64") - 1.0)
    inverse = m.bits(_ONE_BITS - (m.where(k > 1000, 1000, k) << 52), "f64")  # the rest is negligible there
    rest = m.where(near, low, (lost + low) * inverse)
    return with_exponent(m, float_of(m, k + doublings), *log_pair(m, f, rest))


def log1p(m: Steps, x: V) -> V:
    found = log_of_sum(m, x, m.constant("f64", 0.0), 0)
    return m.where(m.absolute(x) < 2.0**-60, x, unless_special(m, x + 1.0, found))
