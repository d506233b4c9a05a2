"""Values of the tree as NumPy arrays and back to bit patterns, in which every NaN is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from number_formats import FLOATS, INTEGERS, NAN_BITS, to_bits
from program_tree import Program, Value

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = np.uint16

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES: dict[str, Any] = {
    **{name: np.dtype(f"{'int' if signed else 'uint'}{bits}") for name, (bits, signed) in INTEGERS.items()},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bool_": np.dtype(np.bool_),
}
_INFINITY_BITS = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}


def to_array(type_: str, values: Sequence[Value]) -> Array:
    dtype = _DTYPES[type_]
    if type_ == "bf16":
        return np.array([to_bits("bf16", value) for value in values], np.uint16).view(dtype)
    return np.array(values, dtype)


def patterns(type_: str, array: Array) -> Array:
    """The elements as unsigned integers."""
    flat = np.ascontiguousarray(array)
    if type_ == "bool_":
        return (flat.view(np.uint8) != 0).astype(np.uint8)
    bits = flat.view(f"u{flat.dtype.itemsize}")
    if type_ not in FLOATS:
        return bits
    magnitude_mask = bits.dtype.type((1 << flat.dtype.itemsize * 8 - 1) - 1)
    is_nan = (bits & magnitude_mask) > bits.dtype.type(_INFINITY_BITS[type_])
    return np.where(is_nan, bits.dtype.type(NAN_BITS[type_]), bits) if is_nan.any() else bits


def arguments(program: Program, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a call takes by name."""
    found: dict[str, Any] = {
        name: to_array(buffer.type, buffer.values).reshape(buffer.shape or -1)
        for name, buffer in program.buffers.items()
        if buffer.role in ("in", "inout") and name not in without
    }
    found.update({name: value for name, (_, value) in program.scalars.items()})
    return found
