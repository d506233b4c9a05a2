"""The polynomials that the functions of f32 need, each with the error that matters to its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import mp, mpf
from remez import Bits, Constant, Problem

Real = Any  # mpf


def constants() -> Sequence[Constant | Bits]:
    return [
        Constant("LN2", mp.ln2),
        Constant("LOG2_E", 1 / mp.ln2),
        Constant("LOG10_2", mp.log10(2)),
        Constant("LOG10_E", 1 / mp.ln(10)),
        Constant("PI", mp.pi),
        Constant("PI_2", mp.pi / 2, 3),
        Constant("PI_4", mp.pi / 4),
        Constant("TWO_OVER_PI", 2 / mp.pi),
        Constant("TWO_PI", 2 * mp.pi),
        # log2((1 + s) / (1 - s)) = 2 s / ln 2 + 2/3 s^3 / ln 2 + ...
        Constant("POWER_1", 2 / mp.ln2),
        Constant("POWER_3", 2 / (3 * mp.ln2)),
        Bits("INVERSE_TWO_PI_BITS", 1 / (2 * mp.pi), 7),
    ]


def behind(f: Callable[[Real], Real], terms: Sequence[Real], limit: Real, power: int) -> Callable[[Real], Real]:
    """(f(x) - terms of x^0, x^1, ...) / x^power, which is `limit` at 0."""

    def rest(x: Real) -> Real:
        return limit if x == 0 else (f(x) - mp.fsum(c * x**p for p, c in enumerate(terms))) / x**power

    return rest


def odd(f: Callable[[Real], Real], limit: Real, slope: Real = 1) -> Callable[[Real], Real]:
    """P of z where f(x) = slope x + x z P(z), z = x^2."""

    def rest(z: Real) -> Real:
        if z == 0:
            return limit
        x = mp.sqrt(z)
        return (f(x) - slope * x) / (x * z)

    return rest


def odd_weight(f: Callable[[Real], Real], least: float = 0.02) -> Callable[[Real], Real]:
    """What an error of P is worth beside f; at least so much, because P is used where it hardly matters, too."""

    def weight(z: Real) -> Real:
        x = mp.sqrt(z)
        return least if z == 0 else max(least, abs(x * z / f(x)))

    return weight


def _exponentials() -> list[Problem]:
    half = mpf("0.5001")
    ln = half * mp.ln2
    return [
        Problem("EXP2", lambda r: mpf(2) ** r, lambda r: mpf(2) ** -r, -half, half, range(7), {0: mpf(1)}),
        Problem("EXP", mp.exp, lambda r: mp.exp(-r), -ln, ln, range(7), {0: mpf(1), 1: mpf(1)}),
        Problem("EXP_WIDE", mp.exp, lambda r: mp.exp(-r), -2 * ln, 2 * ln, range(8), {0: mpf(1), 1: mpf(1)}),
        # expm1(r) = r + r^2 P(r)
        Problem("EXPM1", behind(mp.exp, (1, 1), mpf(1) / 2, 2), lambda r: max(abs(r), mpf("0.02")), -ln, ln, range(6)),
        Problem("TANH", odd(mp.tanh, -mpf(1) / 3), odd_weight(mp.tanh), 0, mpf("0.36"), range(5)),
        Problem("SINH", odd(mp.sinh, mpf(1) / 6), odd_weight(mp.sinh), 0, mpf("1.0"), range(4)),
    ]


def _logarithms() -> list[Problem]:
    def log(base: Real) -> tuple[Callable[[Real], Real], Real]:
        return (lambda f: mp.log1p(f) / mp.log(base)), 1 / mp.log(base)

    def weight(f: Real) -> Real:
        return max(abs(f), mpf("0.02"))

    problems = []
    third = mpf("0.33334")
    for name, base, terms in (("LOG", mp.e, 10), ("LOG_SHORT", mp.e, 8), ("LOG2", mpf(2), 10), ("LOG10", mpf(10), 10)):
        function, slope = log(base)
        # log(1 + f) = slope f + f^2 P(f)
        problems.append(Problem(name, behind(function, (0, slope), -slope / 2, 2), weight, -third, third, range(terms)))
    return problems


def _trigonometric() -> list[Problem]:
    end = (mp.pi / 4 * mpf("1.0002")) ** 2

    def cos(z: Real) -> Real:
        return mpf(-1) / 2 if z == 0 else (mp.cos(mp.sqrt(z)) - 1) / z

    return [
        Problem("SIN", odd(mp.sin, -mpf(1) / 6), odd_weight(mp.sin), 0, end, range(4)),
        # cos(x) = 1 + z P(z)
        Problem("COS", cos, lambda z: max(z, mpf("0.02")), 0, end, range(4)),
        Problem("SIN_SHORT", odd(mp.sin, -mpf(1) / 6), odd_weight(mp.sin), 0, end, range(3)),
        Problem("COS_SHORT", cos, lambda z: max(z, mpf("0.02")), 0, end, range(3)),
        Problem("TAN", odd(mp.tan, mpf(1) / 3), odd_weight(mp.tan), 0, end, range(7)),
        Problem("ARCSIN", odd(mp.asin, mpf(1) / 6), odd_weight(mp.asin), 0, mpf("0.3165"), range(6)),
        Problem("ARCTAN", odd(mp.atan, -mpf(1) / 3), odd_weight(mp.atan), 0, mpf(1), range(9)),
        Problem("ARCTANH", odd(mp.atanh, mpf(1) / 3), odd_weight(mp.atanh), 0, mpf("0.25"), range(7)),
        Problem("ARCSINH", odd(mp.asinh, -mpf(1) / 6), odd_weight(mp.asinh), 0, mpf(1), range(8)),
    ]


def _others() -> list[Problem]:
    slope = 2 / mp.sqrt(mp.pi)

    def erf(z: Real) -> Real:
        return slope - 1 if z == 0 else mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1

    def log2(z: Real) -> Real:
        """(log2((1 + s) / (1 - s)) - 2 s / ln 2 - 2/3 s^3 / ln 2) / s^5, z = s^2."""
        s = mp.sqrt(z)
        rest = mpf(2) / 5 if z == 0 else (2 * mp.atanh(s) - 2 * s - mpf(2) / 3 * s**3) / s**5
        return rest / mp.ln2

    end = (3 - 2 * mp.sqrt(2)) ** 2 * mpf("1.001")
    return [
        # erf(x) = x + x P(z)
        Problem("ERF", erf, lambda _: mpf(1), 0, mpf("0.85"), range(7)),
        # erf(x) = 1 - exp(-x P(x))
        Problem(
            "ERFC",
            lambda x: -mp.log(mp.erfc(x)) / x,
            lambda x: x * mp.erfc(x) / mp.erf(x) + mpf(2) ** -16,
            mpf("0.9"),
            mpf("4.0"),
            range(8),
        ),
        Problem("POWER", log2, lambda z: mpf(1), 0, end, range(3)),
    ]


def problems() -> Sequence[Problem]:
    return [*_exponentials(), *_logarithms(), *_trigonometric(), *_others()]
