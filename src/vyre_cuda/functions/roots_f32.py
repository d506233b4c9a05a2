"""rsqrt, cbrt and hypot of f32."""

from __future__ import annotations

from vyre_cuda.functions.steps import Steps, V


def rsqrt(m: Steps, x: V) -> V:
    """1 / sqrt(x), two roundings. An infinity of its sign for a zero."""
    return 1.0 / m.sqrt(x)


def cbrt(m: Steps, x: V) -> V:
    """x r^2 where r = x^(-1/3), found from a third of the exponent by two steps of third order, and one of Newton."""
    a = m.absolute(x)
    small = a < 2.0**-126
    a = m.where(small, a * 2.0**24, a)
    r = m.bits(0x54A21D2A - m.multiply_high(m.bits(a, "u32"), 0x55555556), "f32")
    for _ in range(2):
        square = r * r
        rest = m.fma(-(square * r), a, 1.0)  # 1 - a r^3
        r = m.fma(r * rest, m.fma(rest, 2.0 / 9.0, 1.0 / 3.0), r)
    root = a * r * r
    rest = m.fma(-(root * root), root, a)
    root = m.fma(rest * r, r * (1.0 / 3.0), root)
    result = m.copysign(m.where(small, root * 2.0**-8, root), x)
    return m.where((x == 0.0) | ~(a < float("inf")), x, result)


def hypot(m: Steps, x: V, y: V) -> V:
    """sqrt(x^2 + y^2) of both divided by the power of two below the greater one; inf where one is infinite."""
    a, b = m.absolute(x), m.absolute(y)
    high, low = m.fmax(a, b), m.fmin(a, b)
    exponent = m.bits(high, "s32") & 0x7F800000
    exponent = m.where(exponent < 0x01000000, 0x01000000, exponent)
    exponent = m.where(exponent > 0x7E000000, 0x7E000000, exponent)
    down, up = m.bits(0x7F000000 - exponent, "f32"), m.bits(exponent, "f32")
    high, low = high * down, low * down
    result = m.sqrt(m.fma(high, high, low * low)) * up
    result = m.where((x != x) | (y != y), float("nan"), result)
    return m.where((a == float("inf")) | (b == float("inf")), float("inf"), result)
