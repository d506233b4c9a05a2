"""The meaning of every op on NumPy arrays, element by element: one function per row of the op table.

Operands and results are 1-D arrays of the types' own dtypes; an array of one element stands for a value that is the
same everywhere, and broadcasts. `precision="ieee"` holds: one rounding per op, subnormals kept. Callers turn NumPy's
floating-point warnings off (`np.errstate(all="ignore")`): infinities, NaN and wrapping are answers here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre_cuda.ir.types import Type

Array: TypeAlias = npt.NDArray[Any]


def apply(op: str, type_: Type, operands: Sequence[Array]) -> Array:
    """The op of this name on these operands; `type_` is the result's type, which casts need."""
    if op in CASTS:
        return CASTS[op](operands[0], type_)
    return FUNCTIONS[op](*operands)


@lru_cache(maxsize=4096)
def constant(type_: Type, bits: int) -> Array:
    """A bit pattern of the type as a read-only array of one element."""
    array = np.array([bits], dtype=f"u{type_.itemsize}").view(type_.dtype)
    array.flags.writeable = False
    return array


def _bits(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


# ---- floats ------------------------------------------------------------------------------------------------------


def _fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z for f32 with one rounding.

    The product of two f32 is exact in f64. The sum is rounded to odd in f64 (the last bit is set when the sum is
    inexact), which keeps enough for the rounding to f32 to be right: 53 >= 24 + 2 bits.
    """
    product = np.multiply(x, y, dtype=np.float64)
    addend = z.astype(np.float64)
    total = product + addend
    rest = total - product
    error = (product - (total - rest)) + (addend - rest)  # exactly what rounding the sum lost
    bits = total.view(np.int64)
    adjust = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    outward = (error > 0) == (total > 0)
    odd = bits + np.where(adjust, np.where(outward, 1, -1), 0)
    rounded: Array = odd.view(np.float64).astype(np.float32)
    return rounded


def _reciprocal(x: Array) -> Array:
    inverse: Array = np.divide(x.dtype.type(1), x)
    return inverse


def _lesser(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`choose` (np.minimum or np.fmin) with -0 below +0: of equal floats the sign bits are or-ed."""

    def lesser(a: Array, b: Array) -> Array:
        chosen = choose(a, b)
        if chosen.dtype.kind != "f":
            return chosen
        return np.where(a == b, (_bits(a) | _bits(b)).view(chosen.dtype), chosen)

    return lesser


def _greater(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`choose` (np.maximum or np.fmax) with +0 above -0: of equal floats the sign bits are and-ed."""

    def greater(a: Array, b: Array) -> Array:
        chosen = choose(a, b)
        if chosen.dtype.kind != "f":
            return chosen
        return np.where(a == b, (_bits(a) & _bits(b)).view(chosen.dtype), chosen)

    return greater


# ---- integers ----------------------------------------------------------------------------------------------------


def _trunc_divide(a: Array, b: Array) -> Array:
    """The quotient toward zero: one more than the floor where the signs differ and a remainder is left."""
    quotient = np.floor_divide(a, b)  # by zero: 0; MIN // -1: MIN
    rounded_down = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    truncated: Array = quotient + rounded_down.astype(a.dtype)
    return truncated


def _fmod(a: Array, b: Array) -> Array:
    """The remainder with the dividend's sign; 0 by zero."""
    return np.where(b == 0, np.zeros_like(a), a - _trunc_divide(a, b) * b)


def _left_shift(a: Array, count: Array) -> Array:
    width = 8 * a.dtype.itemsize
    unsigned = _bits(count)
    shifted = _bits(a) << np.minimum(unsigned, width - 1)
    return np.where(unsigned < width, shifted, np.zeros_like(shifted)).view(a.dtype)


def _right_shift(a: Array, count: Array) -> Array:
    """A signed operand shifted by its width or more leaves its sign, which one less than the width leaves too."""
    width = 8 * a.dtype.itemsize
    unsigned = _bits(count)
    shifted = a >> np.minimum(unsigned, width - 1).view(a.dtype)
    if a.dtype.kind == "i":
        return shifted
    return np.where(unsigned < width, shifted, np.zeros_like(shifted))


# ---- casts -------------------------------------------------------------------------------------------------------


def _cast(x: Array, target: Type) -> Array:
    if target.is_integer and x.dtype.kind == "f":
        return _saturate(x, target)
    return x.astype(target.dtype)  # to bool: != 0, NaN too


def _saturate(x: Array, target: Type) -> Array:
    """Float to integer: truncated, held at the ends of the type, NaN to 0."""
    whole = np.trunc(x)
    below = whole < float(target.minimum)
    above = whole >= float(target.maximum + 1)
    inside = np.where(below | above | np.isnan(x), x.dtype.type(0), whole).astype(target.dtype)
    least, most = target.dtype.type(target.minimum), target.dtype.type(target.maximum)
    return np.where(above, most, np.where(below, least, inside))


def _bitcast(x: Array, target: Type) -> Array:
    return x.view(target.dtype)


CASTS: dict[str, Callable[[Array, Type], Array]] = {"cast": _cast, "bitcast": _bitcast}

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "negative": np.negative,
    "absolute": np.absolute,
    "fma": _fma,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "trunc_divide": _trunc_divide,
    "fmod": _fmod,
    "divide": np.divide,
    "reciprocal": _reciprocal,
    "sqrt": np.sqrt,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "invert": np.invert,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "minimum": _lesser(np.minimum),
    "maximum": _greater(np.maximum),
    "fmin": _lesser(np.fmin),
    "fmax": _greater(np.fmax),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "where": np.where,
}
