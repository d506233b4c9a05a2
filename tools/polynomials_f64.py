"""The polynomials that the functions of f64 need.

Those of an odd or even function are in z = x^2. Intervals reach a little beyond what reduction gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import mp, mpf
from remez import Bits, Constant, Problem

Real = Any  # mpf


def ratio(f: Callable[[Real], Real], at_zero: Real = 1) -> Callable[[Real], Real]:
    """f(x) / x by z = x^2."""
    return lambda z: f(mp.sqrt(z)) / mp.sqrt(z) if z else mpf(at_zero)


def beyond_cube(z: Real) -> Real:
    """(2 atanh(s) - 2 s - 2/3 s^3) / s^5 by z = s^2."""
    return (2 * ratio(mp.atanh)(z) - 2 - 2 * z / 3) / z**2 if z else mpf(2) / 5


def relative_to_linear(r: Real) -> Real:
    """What makes an error of e^r one of e^r - 1."""
    return 1 / abs(mp.expm1(r))


def one(_: Real) -> Real:
    return mpf(1)


def constants() -> Sequence[Constant | Bits]:
    with mp.workprec(1400):
        two_over_pi = 2 / mp.pi
    return (
        Constant("LN2", mp.log(2)),
        Constant("LOG2_E", 1 / mp.log(2)),
        Constant("LOG10_2", mp.log10(2)),
        Constant("LOG10_E", 1 / mp.log(10)),
        Constant("TWO_THIRDS", mpf(2) / 3),
        Constant("HALF_PI", mp.pi / 2, 3),
        Constant("TWO_OVER_PI", 2 / mp.pi),
        Bits("TWO_OVER_PI_BITS", two_over_pi, 39),
    )


def problems() -> Sequence[Problem]:
    half_step = mp.log(2) / 2 + mpf("1e-6")  # of a reduction by multiples of ln 2
    exp_start = {0: mpf(1), 1: mpf(1), 2: mpf("0.5")}
    root = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) + mpf("1e-6")  # s = (m - 1) / (m + 1) for m = sqrt(2)
    eighth = mp.pi / 4 + mpf("1e-6")
    return (
        Problem("EXP", mp.exp, relative_to_linear, -half_step, half_step, range(13), exp_start),
        Problem("LOG", lambda z: 2 * ratio(mp.atanh)(z), one, 0, root**2, range(8), {0: mpf(2)}),
        Problem("LOG_BEYOND_CUBE", beyond_cube, lambda z: z**2, mpf("1e-5"), root**2, range(8)),
        Problem("SIN", ratio(mp.sin), one, 0, eighth**2, range(7), {0: mpf(1)}),
        Problem("COS", lambda z: mp.cos(mp.sqrt(z)), one, 0, eighth**2, range(8), {0: mpf(1), 1: mpf(-1) / 2}),
        Problem("ARCSIN", ratio(mp.asin), one, 0, mpf("0.25"), range(14), {0: mpf(1)}),
        Problem("ARCTAN", ratio(mp.atan), one, 0, (mp.sqrt(2) - 1 + mpf("1e-6")) ** 2, range(12), {0: mpf(1)}),
        Problem("ARCTANH", ratio(mp.atanh), one, 0, mpf("0.21") ** 2, range(9), {0: mpf(1)}),
        Problem("SINH", ratio(mp.sinh), one, 0, half_step**2, range(6), {0: mpf(1)}),
        Problem("COSH", lambda z: mp.cosh(mp.sqrt(z)), one, 0, half_step**2, range(6), {0: mpf(1), 1: mpf(1) / 2}),
        Problem("CBRT_RECIPROCAL", lambda a: 1 / mp.cbrt(a), mp.cbrt, mp.sqrt(0.5), mp.sqrt(2), range(4)),
        Problem("ERF", lambda z: ratio(mp.erf, 2 / mp.sqrt(mp.pi))(z) - 1, one, 0, mpf("0.7658"), range(11)),
        Problem("LOG_ERFC", lambda a: mp.log(mp.erfc(a)), mp.erfc, mpf("0.875"), mpf("5.95"), range(19)),
    )
