"""arcsin, arccos, arctan and arctan2 of f32."""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import ARCSIN, ARCTAN, PI, PI_2
from vyre_cuda.functions.polynomials import horner, odd
from vyre_cuda.functions.steps import Steps, V

# Where half of arcsin is below 1/2, which makes its last bit worth half as much.
_OUTER = 0.5625


def arcsin(m: Steps, x: V) -> V:
    """From _OUTER on pi/2 - 2 arcsin(sqrt((1 - x) / 2)); NaN beyond 1, by the square root."""
    a = m.absolute(x)
    outer = a >= _OUTER
    half = m.fma(a, -0.5, 0.5)
    inner = m.where(outer, m.sqrt(half), a)
    angle = _arcsin_of(m, inner, m.where(outer, half, a * a))
    return m.copysign(m.where(outer, m.fma(angle, -2.0, PI_2[1]) + PI_2[0], angle), x)


def arccos(m: Steps, x: V) -> V:
    """2 arcsin(sqrt((1 - x) / 2)) from _OUTER on, pi less that of -x below -_OUTER, pi/2 - arcsin(x) between."""
    a = m.absolute(x)
    outer, negative = a >= _OUTER, x < 0.0
    half = m.fma(a, -0.5, 0.5)
    inner = m.where(outer, m.sqrt(half), a)
    angle = _arcsin_of(m, inner, m.where(outer, half, a * a))
    angle = m.where(outer, angle + angle, m.copysign(angle, x))
    near = PI_2[0] - (angle - PI_2[1])
    far = m.where(negative, PI[0] - (angle - PI[1]), angle)
    return m.where(outer, far, near)


def _arcsin_of(m: Steps, x: V, square: V) -> V:
    """arcsin(x), x from 0 to _OUTER; the square is given, because sqrt(y)^2 is better known as y."""
    return m.fma(horner(m, ARCSIN, square), square * x, x)


def arctan(m: Steps, x: V) -> V:
    """Beyond 1, pi/2 - arctan(1 / x)."""
    a = m.absolute(x)
    outer = a > 1.0
    angle = odd(m, ARCTAN, m.where(outer, 1.0 / a, a))
    return m.copysign(m.where(outer, (PI_2[1] - angle) + PI_2[0], angle), x)


def arctan2(m: Steps, y: V, x: V) -> V:
    """The angle of (x, y): that of the lesser over the greater magnitude, taken to its octant."""
    a, b = m.absolute(y), m.absolute(x)
    high, low = m.fmax(a, b), m.fmin(a, b)
    # Two infinities make an angle of pi/4, two zeros an angle of 0.
    ratio = m.where(low == high, m.where(high == 0.0, low, 1.0), low / high)
    angle = odd(m, ARCTAN, ratio)
    angle = m.where(a > b, (PI_2[1] - angle) + PI_2[0], angle)
    angle = m.where(m.bits(x, "s32") < 0, (PI[1] - angle) + PI[0], angle)
    return m.where((x != x) | (y != y), float("nan"), m.copysign(angle, y))
