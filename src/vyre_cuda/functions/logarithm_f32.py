"""log, log2, log10 and log1p of f32: x = 2^k (1 + f) with f from -1/3 to 1/3, and a polynomial in f.

Where k is 0 the result is that of the polynomial alone, so nothing cancels near 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.functions.coefficients_f32 import LN2, LOG, LOG2, LOG2_E, LOG10, LOG10_2, LOG10_E
from vyre_cuda.functions.polynomials import horner
from vyre_cuda.functions.steps import Steps, V

_TWO_THIRDS = 0x3F2AAAAB
_ONE = 0x3F800000
_FOUR = 0x40800000  # over 2^k it is a normal number for k = 128, too
_SMALLEST_NORMAL = 2.0**-126
_EXPONENT = -0x800000  # mask of sign and exponent of an s32


def log(m: Steps, x: V) -> V:
    k, f = split(m, x)
    return _defined(m, x, m.fma(k, LN2[0], of_fraction(m, f)))


def log2(m: Steps, x: V) -> V:
    k, f = split(m, x)
    return _defined(m, x, k + _times_slope(m, LOG2, LOG2_E, f))


def log10(m: Steps, x: V) -> V:
    k, f = split(m, x)
    tail = m.fma(k, LOG10_2[1], _times_slope(m, LOG10, LOG10_E, f))
    return _defined(m, x, m.fma(k, LOG10_2[0], tail))


def log1p(m: Steps, x: V) -> V:
    """log(1 + x): f is formed of x 2^-k and 2^-k - 1, so that no bit of a small x is lost."""
    steps = (m.bits(x + 1.0, "s32") - _TWO_THIRDS) & _EXPONENT
    fraction = m.bits(m.bits(x, "s32") - steps, "f32")
    power = m.bits(_FOUR - steps, "f32")
    f = fraction + m.fma(power, 0.25, -1.0)
    result = m.fma(m.cast(steps >> 23, "f32"), LN2[0], of_fraction(m, f))
    result = m.where(m.absolute(x) < 2.0**-26, x, result)
    outside = m.where(x == -1.0, -float("inf"), m.where(x < -1.0, float("nan"), x))
    return m.where((x > -1.0) & (x < float("inf")), result, outside)


# ---- parts ----------------------------------------------------------------------------------------------------------


def split(m: Steps, x: V) -> tuple[V, V]:
    """k, as an f32, and f of a positive finite x."""
    small = x < _SMALLEST_NORMAL
    bits = m.bits(m.where(small, x * 2.0**23, x), "s32")
    steps = (bits - _TWO_THIRDS) & _EXPONENT
    k = m.cast(steps >> 23, "f32") + m.where(small, m.constant("f32", -23.0), 0.0)
    return k, m.bits(bits - steps, "f32") - 1.0


def of_fraction(m: Steps, f: V) -> V:
    """log(1 + f)."""
    return m.fma(f * f, horner(m, LOG, f), f)


def of_sum(m: Steps, high: V, low: V) -> V:
    """log(high + low) of a `high` from 1 to 2^126 and a `low` about as small as its last bit."""
    steps = (m.bits(high, "s32") - _TWO_THIRDS) & _EXPONENT
    rest = low * m.bits(_ONE - steps, "f32")
    return _of_parts(m, m.bits(m.bits(high, "s32") - steps, "f32") - 1.0, rest, m.cast(steps >> 23, "f32"))


def of_one_and_sum(m: Steps, high: V, low: V, k: V) -> V:
    """log(1 + high + low) + k log 2 of a positive `high` and a `low` about as small as its last bit."""
    steps = (m.bits(high + 1.0, "s32") - _TWO_THIRDS) & _EXPONENT
    power = m.bits(_FOUR - steps, "f32")
    f = m.bits(m.bits(high, "s32") - steps, "f32") + m.fma(power, 0.25, -1.0)
    return _of_parts(m, f, low * 0.25 * power, m.cast(steps >> 23, "f32") + k)


def _of_parts(m: Steps, f: V, low: V, k: V) -> V:
    """log(1 + f + low) + k log 2."""
    whole = f + low
    rest = m.fma(whole * whole, horner(m, LOG, whole), (f - whole) + low)
    return m.fma(k, LN2[0], whole + rest)


def _times_slope(m: Steps, polynomial: Sequence[float], slope: Sequence[float], f: V) -> V:
    """slope f + f^2 P(f)."""
    return m.fma(f, slope[0], m.fma(f, slope[1], f * f * horner(m, polynomial, f)))


def _defined(m: Steps, x: V, result: V) -> V:
    """The result for a positive finite x; -inf of a zero, NaN of a negative x, x where it is inf or NaN."""
    outside = m.where(x == 0.0, -float("inf"), m.where(x < 0.0, float("nan"), x))
    return m.where((x > 0.0) & (x < float("inf")), result, outside)
