"""The mathematical functions of f64, by mpmath, to 64 bits.

Where a result is an infinity, a NaN or far beyond the range of f64, and for operands that are zeros or not numbers,
`rough` is used: the function as NumPy computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpmath import mp, mpf

Array = np.ndarray[Any, np.dtype[Any]]
Long = np.longdouble
Real = Any  # mpf

_BITS = 120
# Beyond these an f64 has overflowed, or is 0, whatever the last bits are.
_HUGE, _TINY = np.ldexp(Long(1), 1030), np.ldexp(Long(1), -1120)


def _log2(x: Real) -> Real:
    return mp.log(x) / mp.ln2


# For operands in the domain. Bits that cancel are brought along.
FUNCTIONS: dict[str, Callable[..., Real]] = {
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "log": mp.log,
    "log2": _log2,
    "log10": mp.log10,
    "log1p": mp.log1p,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arctan2": mp.atan2,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "power": mp.power,
    "hypot": mp.hypot,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "erf": mp.erf,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}


def exact_f64(name: str, operands: Sequence[Array], rough: Array) -> Array:
    """The function of f64 values as longdouble, rounded once where that has 64 bits."""
    function = FUNCTIONS[name]
    result = rough.astype(Long)
    plain = np.isfinite(rough) & (np.abs(rough) < _HUGE) & (np.abs(rough) > _TINY)
    for operand in operands:
        plain &= np.isfinite(operand) & (operand != 0)
    chosen = np.flatnonzero(plain)
    columns = [operand.astype(np.float64)[chosen].tolist() for operand in operands]
    halves = np.empty((2, chosen.size), np.uint32)
    exponents, signs = np.empty(chosen.size, np.int32), np.empty(chosen.size, np.int8)
    with mp.workprec(_BITS):
        for at, values in enumerate(zip(*columns, strict=True)):
            negative, significand, exponent, length = function(*map(mpf, values))._mpf_
            shift = 64 - length
            bits = int(significand) << shift if shift >= 0 else _rounded_right(int(significand), -shift)
            bits, exponent = (bits >> 1, exponent - shift + 1) if bits >> 64 else (bits, exponent - shift)
            halves[0, at], halves[1, at] = bits >> 32, bits & 0xFFFFFFFF
            exponents[at], signs[at] = exponent, -1 if negative else 1
    whole = halves[0].astype(Long) * Long(2.0**32) + halves[1].astype(Long)
    result[chosen] = np.ldexp(whole, exponents) * signs
    return result


def _rounded_right(value: int, places: int) -> int:
    return (value + (1 << (places - 1))) >> places
