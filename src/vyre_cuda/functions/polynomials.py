"""Evaluating polynomials by steps."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.functions.steps import Steps, V


def horner(m: Steps, coefficients: Sequence[float], x: V) -> V:
    """c0 + c1 x + c2 x^2 + ..., one fma for each power."""
    *rest, second, highest = coefficients
    value = m.fma(x, highest, second)
    for coefficient in reversed(rest):
        value = m.fma(value, x, coefficient)
    return value


def odd(m: Steps, coefficients: Sequence[float], x: V) -> V:
    """x + x^3 (c0 + c1 x^2 + ...). For -0 it is a zero of either sign."""
    square = x * x
    return m.fma(horner(m, coefficients, square), square * x, x)
