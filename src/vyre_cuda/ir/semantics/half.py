"""Ops on bf16 patterns, and those of f16 that NumPy does not round or order as the language does.

A bf16 value is an f32 whose low half is zero, so an op that returns one of its operands, or an integer near one, is
exact in f32. Arithmetic is done in f64: no result exceeds its exponents, and its 53 >= 2 * 8 + 2 bits make the second
rounding, to bf16, the only one that counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vyre_cuda.ir.semantics import floats
from vyre_cuda.ir.semantics.bits import Array, bf16_from_f32, bf16_from_f64, bf16_to_f32

_SIGN = np.uint16(0x8000)


def _exact(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of f32 whose result is a bf16 value when its operands are."""

    def on_patterns(*operands: Array) -> Array:
        return bf16_from_f32(function(*(bf16_to_f32(operand) for operand in operands)))

    return on_patterns


def _rounded(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of f64, its result rounded to bf16."""

    def on_patterns(*operands: Array) -> Array:
        return bf16_from_f64(function(*(bf16_to_f32(operand).astype(np.float64) for operand in operands)))

    return on_patterns


def _test(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of f32 that returns bools."""

    def on_patterns(*operands: Array) -> Array:
        return function(*(bf16_to_f32(operand) for operand in operands))

    return on_patterns


def _negative(x: Array) -> Array:
    flipped: Array = x ^ _SIGN
    return flipped


def _absolute(x: Array) -> Array:
    magnitude: Array = x & ~_SIGN
    return magnitude


def _copysign(x: Array, y: Array) -> Array:
    signed: Array = _absolute(x) | (y & _SIGN)
    return signed


def _fma(x: Array, y: Array, z: Array) -> Array:
    return bf16_from_f64(floats.fma_to_odd(bf16_to_f32(x), bf16_to_f32(y), bf16_to_f32(z)))


def nextafter_f16(x: Array, y: Array) -> Array:
    """Like the C library's for f32: for equal operands the second, where NumPy's f16 returns the first."""
    return _next_pattern(x.view(np.uint16), y.view(np.uint16), x, y).view(np.float16)


def _nextafter(x: Array, y: Array) -> Array:
    return _next_pattern(x, y, bf16_to_f32(x), bf16_to_f32(y))


def _next_pattern(x_bits: Array, y_bits: Array, x: Array, y: Array) -> Array:
    """The neighbor of x toward y: patterns of one sign are ordered like the magnitudes, from 0 to infinity."""
    outward = (x < y) == (x > 0)
    stepped = np.where(outward, x_bits + np.uint16(1), x_bits - np.uint16(1))
    smallest = (y_bits & _SIGN) | np.uint16(1)
    moved = np.where(x == y, y_bits, np.where(x == 0, smallest, stepped))
    return np.where(np.isnan(x), x_bits, np.where(np.isnan(y), y_bits, moved))


BF16: dict[str, Callable[..., Array]] = {
    "add": _rounded(np.add),
    "subtract": _rounded(np.subtract),
    "multiply": _rounded(np.multiply),
    "negative": _negative,
    "absolute": _absolute,
    "fma": _fma,
    "fmod": _exact(np.fmod),
    "floor_divide": _exact(floats.floor_divide),
    "remainder": _exact(floats.remainder),
    "divide": _rounded(np.divide),
    "reciprocal": _rounded(floats.reciprocal),
    "sqrt": _rounded(np.sqrt),
    "equal": _test(np.equal),
    "not_equal": _test(np.not_equal),
    "less": _test(np.less),
    "less_equal": _test(np.less_equal),
    "greater": _test(np.greater),
    "greater_equal": _test(np.greater_equal),
    "minimum": _exact(floats.lesser(np.minimum)),
    "maximum": _exact(floats.greater(np.maximum)),
    "fmin": _exact(floats.lesser(np.fmin)),
    "fmax": _exact(floats.greater(np.fmax)),
    "floor": _exact(np.floor),
    "ceil": _exact(np.ceil),
    "trunc": _exact(np.trunc),
    "rint": _exact(np.rint),
    "isnan": _test(np.isnan),
    "isinf": _test(np.isinf),
    "isfinite": _test(np.isfinite),
    "where": np.where,
    "copysign": _copysign,
    "sign": _exact(np.sign),
    "signbit": _test(np.signbit),
    "nextafter": _nextafter,
}
