"""Exact results of the mathematical functions, and the error of a result in units in the last place.

For f32, f16 and bf16 the oracle is NumPy's longdouble, whose 64 bits leave 40 for the error; for f64 it is mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vyre_cuda.ir.core.types import Type, bf16, f16, f32, f64
from vyre_cuda.ir.semantics.bits import bf16_to_f32

Array = np.ndarray[Any, np.dtype[Any]]
Long = np.longdouble

# Bits of the significand, and the exponents of the smallest normal number and above the largest one.
SHAPES = {f16: (11, -14, 16), bf16: (8, -126, 128), f32: (24, -126, 128), f64: (53, -1022, 1024)}


def _erf(x: Array) -> Array:
    return np.array([math.erf(float(v)) for v in x], Long)


def _power(x: Array, y: Array) -> Array:
    """The C library's powl treats -inf to a large negative power as infinite; pow has the special values right."""
    special = ~np.isfinite(x) | (x == 0) | ~np.isfinite(y)
    return np.where(special, np.power(x.astype(np.float64), y.astype(np.float64)), np.power(x, y))


# By name, for functions that are not ufuncs of NumPy, or wrong ones.
SPECIAL: dict[str, Callable[..., Array]] = {
    "rsqrt": lambda x: 1 / np.sqrt(np.where(x == 0, np.abs(x), x)) * np.where(x == 0, np.copysign(Long(1), x), 1),
    "sigmoid": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
    "erf": _erf,
    "power": _power,
}


def wide(type_: Type, x: Array) -> Array:
    """Storage of a float type as longdouble."""
    with np.errstate(invalid="ignore"):  # signaling NaN
        return (bf16_to_f32(x) if type_ is bf16 else x).astype(Long)


def exact(name: str, type_: Type, columns: list[Array]) -> Array:
    """The function of these operands, almost exactly; infinities, NaN and zeros as in NumPy."""
    with np.errstate(all="ignore"):
        operands = [wide(type_, column) for column in columns]
        found: Array = (SPECIAL.get(name) or getattr(np, name))(*operands)
        if type_ is f64:
            from vyre_cuda.testing.exact_f64 import exact_f64  # mpmath is an extra

            return exact_f64(name, operands, found)
        return found


def errors(type_: Type, expected: Array, found: Array) -> Array:
    """How far `found` is from `expected` in ULP of the expected value; below the smallest normal number the ULP is
    constant.

    inf where only one is NaN, or where the expected value is infinite or 0 and the found one is
    different. An overflow counts as the power of two at which it begins.
    """
    digits, least, end = SHAPES[type_]
    got = wide(type_, found)
    with np.errstate(all="ignore"):
        limit = np.ldexp(Long(1), end)
        exponent = np.frexp(np.where(np.isfinite(expected), expected, 1))[1].astype(np.int64)
        unit = np.ldexp(Long(1), np.maximum(exponent - 1, least).astype(np.int32) - (digits - 1))
        clipped = np.clip(expected, -limit, limit)
        off = np.abs(np.clip(got, -limit, limit) - clipped) / np.minimum(unit, np.ldexp(Long(1), end - digits))
        pole = np.isinf(expected) | (expected == 0)
        wrong = np.where(pole, (got != expected) | (np.signbit(got) != np.signbit(expected)), False)
        off = np.where(np.isnan(expected) | np.isnan(got), np.where(np.isnan(expected) & np.isnan(got), 0, np.inf), off)
        return np.where(wrong & ~np.isnan(expected), np.inf, off).astype(np.float64)


def worst(name: str, type_: Type, columns: list[Array], found: Array) -> tuple[float, str]:
    """The largest error, and a line that says where it is."""
    expected = exact(name, type_, columns)
    off = errors(type_, expected, found)
    at = int(off.argmax())
    arguments = ", ".join(
        f"{wide(type_, c[at : at + 1])[0]!r} (0x{int(c.view(type_.unsigned)[at]):x})" for c in columns
    )
    return float(off[at]), f"{name}({arguments}) = {found[at]!r}, exactly {expected[at]!r}: off by {off[at]:.3f} ULP"


__all__ = ["Array", "errors", "exact", "wide", "worst"]
