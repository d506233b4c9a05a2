"""The meaning of every op on NumPy arrays, element by element: one function per row of the op table.

Operands and results are 1-D arrays of the types' `storage` dtypes (`bits.py`). `precision="ieee"` holds: one rounding
per op, subnormals kept. Callers turn NumPy's floating-point warnings off (`np.errstate(all="ignore")`): infinities, NaN
and wrapping are valid results here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.types import Type, bf16, f16
from vyre_cuda.ir.semantics import casts, floats, half, ints
from vyre_cuda.ir.semantics.bits import Array, constant
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.semantics import steps
else:
    steps = later("vyre_cuda.ir.semantics.steps")

__all__ = ["CASTS", "Array", "apply", "constant", "function"]


def apply(op: str, source: Type, result: Type, operands: Sequence[Array]) -> Array:
    """The op of this name on these operands.

    `source` is the type of the operands (of the arms of a `where`), `result` that of the result.
    """
    if op in CASTS:
        return CASTS[op](operands[0], source, result)
    return function(op, source)(*operands)


def function(op: str, type_: Type) -> Callable[..., Array]:
    """The function that computes an op other than a cast on operands of one type. KeyError if there is no such row."""
    if op in FUNCTIONS:
        return steps.function_on_arrays(op, type_)
    if type_ is bf16:
        return half.BF16[op]
    if type_.is_float:
        return _F16.get(op, _FLOATS[op]) if type_ is f16 else _FLOATS[op]
    return _INTEGERS[op] if type_.is_integer else _BOOLS[op]


CASTS: dict[str, Callable[[Array, Type, Type], Array]] = {"cast": casts.cast, "bitcast": casts.bitcast}

_BOOLS: dict[str, Callable[..., Array]] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "where": np.where,
}

_NUMBERS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "negative": np.negative,
    "absolute": np.absolute,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "where": np.where,
    "sign": np.sign,
}

_INTEGERS: dict[str, Callable[..., Array]] = {
    **_NUMBERS,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "trunc_divide": ints.trunc_divide,
    "integer_power": ints.integer_power,
    "fmod": ints.fmod,
    "left_shift": ints.left_shift,
    "right_shift": ints.right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "invert": np.invert,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "bitwise_count": ints.bitwise_count,
    "count_leading_zeros": ints.count_leading_zeros,
    "count_trailing_zeros": ints.count_trailing_zeros,
    "reverse_bits": ints.reverse_bits,
    "rotate_left": ints.rotate_left,
    "rotate_right": ints.rotate_right,
    "multiply_high": ints.multiply_high,
    "add_saturate": ints.add_saturate,
    "subtract_saturate": ints.subtract_saturate,
}

_FLOATS: dict[str, Callable[..., Array]] = {
    **_NUMBERS,
    "fma": floats.fma,
    "fmod": np.fmod,
    "floor_divide": floats.floor_divide,
    "remainder": floats.remainder,
    "divide": np.divide,
    "reciprocal": floats.reciprocal,
    "sqrt": np.sqrt,
    "minimum": floats.lesser(np.minimum),
    "maximum": floats.greater(np.maximum),
    "fmin": floats.lesser(np.fmin),
    "fmax": floats.greater(np.fmax),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "copysign": np.copysign,
    "signbit": np.signbit,
    "nextafter": np.nextafter,
}

_F16: dict[str, Callable[..., Array]] = {
    "nextafter": half.nextafter_f16,
    "floor_divide": floats.through_f32(floats.floor_divide),
    "remainder": floats.through_f32(floats.remainder),
}
