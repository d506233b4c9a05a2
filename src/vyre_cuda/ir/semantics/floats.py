"""Ops on f16, f32 and f64 that NumPy leaves partly open: zeros of both signs, one rounding of x * y + z.

Operands and results are arrays of one float dtype. NumPy's own f16 arithmetic computes in f32 and rounds to f16, which
is one rounding's worth for + - * / and sqrt, because 24 >= 2 * 11 + 2 bits (Figueroa, "When is double rounding
innocuous?").
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vyre_cuda.ir.semantics.bits import Array, unsigned

_SPLIT = float(2**27 + 1)  # splits an f64 into two halves of 26 bits
# Where the exponents of a product in [1/4, 1) and an addend are further apart than this, the lesser only decides the
# direction.
_FAR = 200
# The bits of an f64 that an f32 lacks, and their value halfway between two f32.
_HALFWAY_MASK, _HALFWAY = (1 << 29) - 1, 1 << 28
_SMALLEST_NORMAL_F32 = 2.0**-126


def reciprocal(x: Array) -> Array:
    inverse: Array = np.divide(x.dtype.type(1), x)
    return inverse


def _quiet(a: Array) -> Array:
    """Every NaN made quiet: np.fmin and np.fmax return NaN where the other operand is a signaling one."""
    return np.where(a != a, np.array(np.nan).astype(a.dtype), a)


def lesser(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`choose` (np.minimum or np.fmin) with -0 below +0: of equal floats the sign bits are or-ed."""

    def chosen_lesser(a: Array, b: Array) -> Array:
        chosen = choose(_quiet(a), _quiet(b))
        return np.where(a == b, (unsigned(a) | unsigned(b)).view(chosen.dtype), chosen)

    return chosen_lesser


def greater(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`choose` (np.maximum or np.fmax) with +0 above -0: of equal floats the sign bits are and-ed."""

    def chosen_greater(a: Array, b: Array) -> Array:
        chosen = choose(_quiet(a), _quiet(b))
        return np.where(a == b, (unsigned(a) & unsigned(b)).view(chosen.dtype), chosen)

    return chosen_greater


# ---- floor division ----------------------------------------------------------------------------------------------


def floor_divide(a: Array, b: Array) -> Array:
    """The quotient rounded down, as NumPy has it: from the exact remainder, and then snapped to the nearest integer."""
    rest = np.fmod(a, b)
    one, half = a.dtype.type(1), a.dtype.type(0.5)
    quotient = (a - rest) / b
    quotient = np.where(_points_away(rest, b), quotient - one, quotient)
    floor = np.floor(quotient)
    snapped = np.where(quotient - floor > half, floor + one, floor)
    zero = np.copysign(np.zeros_like(quotient), a / b)
    return np.where(b == 0, a / b, np.where(quotient == 0, zero, snapped))


def remainder(a: Array, b: Array) -> Array:
    """The remainder with the divisor's sign, as NumPy has it."""
    rest = np.fmod(a, b)
    signed = np.where(_points_away(rest, b), rest + b, rest)
    return np.where(rest == 0, np.copysign(np.zeros_like(rest), b), signed)


def _points_away(rest: Array, divisor: Array) -> Array:
    """Whether a remainder is not 0 and has the other sign than the divisor."""
    away: Array = (rest != 0) & ((divisor < 0) != (rest < 0))
    return away


def through_f32(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A function of f32 for f16, rounded once more."""
    return lambda a, b: function(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)


# ---- fma ---------------------------------------------------------------------------------------------------------


def fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z with one rounding."""
    if x.dtype == np.float64:
        return fma_f64(x, y, z)
    return fma_f32(x, y, z) if x.dtype == np.float32 else fma_to_odd(x, y, z).astype(x.dtype)


def fma_f32(x: Array, y: Array, z: Array) -> Array:
    """The f32 nearest to x * y + z.

    Two roundings, to f64 and then to f32, equal one unless the first gives a value halfway between two f32 or a
    subnormal one; those are computed again.
    """
    once = np.multiply(x, y, dtype=np.float64) + z
    result: Array = once.astype(np.float32)
    again = (once.view(np.int64) & _HALFWAY_MASK) == _HALFWAY
    again |= (np.abs(once) < _SMALLEST_NORMAL_F32) & (once != 0)
    if again.any():
        x, y, z = (each[again] for each in np.broadcast_arrays(x, y, z))
        result[again] = fma_to_odd(x, y, z).astype(np.float32)
    return result


def fma_to_odd(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of f16 or f32 values as f64, rounded to odd: safe for one more rounding to 51 bits or fewer.

    The product is exact in f64, and so is the error of rounding the sum.
    """
    return _odd_sum(np.multiply(x, y, dtype=np.float64), z.astype(np.float64))


def fma_f64(x: Array, y: Array, z: Array) -> Array:
    """The f64 nearest to x * y + z, ties to even, subnormal results too.

    The operands are scaled so that the product lies in [1/4, 1), where it splits into two f64 exactly. The sum with z
    is then high + rest, rest rounded to odd, for which one rounding is correct (Boldo and Melquiond, "Emulation of FMA
    and correctly rounded sums").
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    (x_scaled, x_exponent), (y_scaled, y_exponent) = np.frexp(x), np.frexp(y)
    exponent = x_exponent + y_exponent
    z_scaled, z_exponent = np.frexp(z)
    gap = z_exponent - exponent
    addend = np.ldexp(z_scaled, np.clip(gap, -_FAR, _FAR))
    product, low = _two_product(x_scaled, y_scaled)
    carry, carry_rest = _two_sum(addend, low)
    high, high_rest = _two_sum(product, carry)
    rest = _odd_sum(carry_rest, high_rest)
    total = np.ldexp(_round_at(high, rest, -1074 - exponent), exponent)
    finite = np.isfinite(x) & np.isfinite(y)
    special = np.where(finite & ~np.isfinite(z), z, x * y + z)  # an infinite z outweighs a product that overflows
    plain = (x == 0) | (y == 0) | ~(finite & np.isfinite(z))
    beyond = (gap > _FAR) & (z != 0)
    return np.where(plain, special, np.where(beyond, z, total))


def _round_at(high: Array, rest: Array, quantum_exponent: Array) -> Array:
    """high + rest to nearest even: to 53 bits, or to a multiple of 2^quantum_exponent where that is coarser.

    Multiples of the quantum are what floats from 2^52 to 2^53 quanta are, so adding 2^52 quanta rounds there.
    """
    quantum = np.ldexp(1.0, np.clip(quantum_exponent, -1000, 900))
    fine = high + rest
    shift = np.copysign(np.ldexp(quantum, 52), fine)
    top, top_rest = _two_sum(shift, high)
    coarse = np.copysign((top + _odd_sum(top_rest, rest)) - shift, fine)
    return np.where(np.abs(fine) < np.abs(shift), coarse, fine)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and the exact rounding error (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and the exact rounding error (Dekker), for factors far from overflow and underflow."""
    product = a * b
    a_high, b_high = (_SPLIT * a - (_SPLIT * a - a)), (_SPLIT * b - (_SPLIT * b - b))
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _odd_sum(a: Array, b: Array) -> Array:
    """a + b rounded to odd: of the two neighbors of an inexact sum, the one whose last bit is set."""
    total, lost = _two_sum(a, b)
    bits = total.view(np.int64)
    adjust = (lost != 0) & np.isfinite(total) & (bits & 1 == 0)
    outward = (lost > 0) == (total > 0)
    odd: Array = (bits + np.where(adjust, np.where(outward, 1, -1), 0)).view(np.float64)
    return odd
