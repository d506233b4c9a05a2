"""sin, cos and tan of f32, of arguments of any size, by polynomials between -pi/4 and pi/4."""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.functions.coefficients_f32 import COS, SIN, TAN
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.reduction_f32 import quadrant
from vyre_cuda.functions.steps import Steps, V


def sin(m: Steps, x: V) -> V:
    r, _, number = quadrant(m, x)
    return m.where(x == 0.0, x, wave(m, SIN, COS, r, number))


def cos(m: Steps, x: V) -> V:
    r, _, number = quadrant(m, x)
    return wave(m, SIN, COS, r, number + 1)


def tan(m: Steps, x: V) -> V:
    """tan r, or -1 / tan r in odd quadrants, from tan r in two parts.

    The error of r counts 1 + tan^2 r times.
    """
    r, rest, number = quadrant(m, x)
    square = r * r
    beyond = horner(m, TAN, square) * (square * r)  # tan r - r
    slope = m.fma(r + beyond, r + beyond, 1.0)
    beyond = m.fma(rest, slope, beyond)
    tangent = r + beyond
    lost = (r - tangent) + beyond
    inverse = 1.0 / tangent
    off = m.fma(-lost, inverse, m.fma(-tangent, inverse, 1.0))
    result = m.where((number & 1) != 0, -m.fma(off, inverse, inverse), tangent)
    return m.where(x == 0.0, x, result)


def wave(m: Steps, sine: Sequence[float], cosine: Sequence[float], r: V, number: V) -> V:
    """sin(r + number pi/2): 1 + r^2 P(r^2) in odd quadrants and r + r^3 P(r^2) in even ones, the sign by the half."""
    square = r * r
    odd = (number & 1) != 0
    coefficients = [m.where(odd, m.constant("f32", c), s) for c, s in zip(cosine, sine, strict=True)]
    value = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = m.fma(value, square, coefficient)
    base = m.where(odd, 1.0, r)
    result = m.fma(value, square * base, base)
    return m.bits(m.bits(result, "u32") ^ ((m.bits(number, "u32") & 2) << 30), "f32")
