"""cbrt, hypot and rsqrt of f64."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f64 import CBRT_RECIPROCAL
from vyre_cuda.functions.exponential_f64 import power_of_two, whole
from vyre_cuda.functions.logarithm_f64 import parted
from vyre_cuda.functions.pairs import two_product
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_INFINITY = float("inf")
_CBRT_2 = 1.2599210498948732
# (1 - e)^(-1/3)
_BINOMIAL = (1 / 3, 2 / 9, 14 / 81, 35 / 243)


def cbrt(m: Steps, x: V) -> V:
    """x = 8^n a with a from 2^-1.5 to 2^1.5. y is nearly a^(-1/3), and a y^2, which is nearly its root, corrected."""
    size = m.absolute(x)
    k, mantissa = parted(m, size)
    thirds, n = whole(m, k, 1 / 3)
    beyond = k - thirds * 3.0
    a = m.where(beyond < 0.0, mantissa * 0.5, m.where(beyond > 0.0, mantissa + mantissa, mantissa))
    y = horner(m, CBRT_RECIPROCAL, mantissa)
    y = m.where(beyond < 0.0, y * _CBRT_2, m.where(beyond > 0.0, y * (1 / _CBRT_2), y))
    e = m.fma(y * y * y, -a, 1.0)
    y = m.fma(y * e, horner(m, _BINOMIAL, e), y)
    root = a * y * y
    square, square_low = two_product(m, root, root)
    over = m.fma(square_low, root, m.fma(square, root, -a))
    found = m.fma(over, y * y * (-1 / 3), root) * power_of_two(m, n)
    return m.where((size > 0.0) & (size < _INFINITY), m.copysign(found, x), x)


def hypot(m: Steps, x: V, y: V) -> V:
    """The root of the sum of squares, of which a power of two keeps the larger from overflow and underflow."""
    across, along = m.absolute(x), m.absolute(y)
    longer, shorter = m.fmax(across, along), m.fmin(across, along)
    huge, tiny = longer > 2.0**500, longer < 2.0**-400
    factor = m.where(huge, 2.0**-600, m.where(tiny, 2.0**600, m.constant("f64", 1.0)))
    back = m.where(huge, 2.0**600, m.where(tiny, 2.0**-600, m.constant("f64", 1.0)))
    longer, shorter = longer * factor, shorter * factor
    found = m.sqrt(m.fma(longer, longer, shorter * shorter)) * back
    endless = (across == _INFINITY) | (along == _INFINITY)
    return m.where(endless, _INFINITY, m.where((x != x) | (y != y), x + y, found))


def rsqrt(m: Steps, x: V) -> V:
    """1 / sqrt(x), corrected for what both ops rounded."""
    y = 1.0 / m.sqrt(x)
    product, product_low = two_product(m, x, y)
    off = m.fma(-product_low, y, m.fma(-product, y, 1.0))
    return m.where((x > 0.0) & (x < _INFINITY), m.fma(y * 0.5, off, y), y)
