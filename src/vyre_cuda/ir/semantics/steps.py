"""The mathematical functions on NumPy arrays: the steps of `vyre_cuda.functions`, done for all elements at once.

Values are arrays of the machine types' dtypes, or of one element; their operators are NumPy's, which round as the op
table says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vyre_cuda.functions import table
from vyre_cuda.functions.steps import V
from vyre_cuda.ir.core.types import Type, bf16, f16, f32, f64, i32, i64, u32, u64
from vyre_cuda.ir.semantics import floats, ints
from vyre_cuda.ir.semantics.bits import Array, bf16_from_f32, bf16_to_f32
from vyre_cuda.ir.semantics.casts import cast_native

_TYPES = {"f32": f32, "f64": f64, "u32": u32, "s32": i32, "u64": u64, "s64": i64}


class ArraySteps:
    """`vyre_cuda.functions.steps.Steps` on arrays."""

    def constant(self, type_: str, value: float) -> V:
        return np.array([value], dtype=_TYPES[type_].dtype)

    def fma(self, x: Any, y: Any, z: Any) -> V:
        dtype = next(v.dtype for v in (x, y, z) if isinstance(v, np.ndarray))
        x, y, z = (v if isinstance(v, np.ndarray) else np.array([v], dtype=dtype) for v in (x, y, z))
        return floats.fma(x, y, z)

    def absolute(self, x: Array) -> V:
        return np.abs(x)

    def copysign(self, x: Any, y: Array) -> V:
        return np.copysign(x, y, dtype=y.dtype)

    def sqrt(self, x: Array) -> V:
        return np.sqrt(x)

    def fmin(self, x: Array, y: Any) -> V:
        return np.fmin(x, y)

    def fmax(self, x: Array, y: Any) -> V:
        return np.fmax(x, y)

    def rint(self, x: Array) -> V:
        return np.rint(x)

    def trunc(self, x: Array) -> V:
        return np.trunc(x)

    def where(self, condition: Array, x: Any, y: Any) -> V:
        return np.where(condition, x, y)

    def cast(self, x: Array, type_: str) -> V:
        return cast_native(x, _TYPES[type_])

    def bits(self, x: Array, type_: str) -> V:
        return x.view(_TYPES[type_].dtype)

    def multiply_high(self, x: Array, y: Any) -> V:
        return ints.multiply_high(x, np.asarray(y, dtype=x.dtype))

    def count_leading_zeros(self, x: Array) -> V:
        return ints.count_leading_zeros(x)

    def shift_left(self, x: Array, count: Array) -> V:
        return ints.left_shift(x, count.astype(x.dtype))

    def shift_right(self, x: Array, count: Array) -> V:
        return ints.right_shift(x, count.astype(x.dtype))

    def rare(
        self, condition: Array, usual: tuple[Array, ...], function: Callable[..., tuple[Array, ...]], *x: Array
    ) -> tuple[Array, ...]:
        """The function is computed only for the elements that need it."""
        if not condition.any():
            return usual
        shape = np.broadcast(condition, *usual, *x).shape
        chosen = np.flatnonzero(np.broadcast_to(condition, shape))
        parts = function(self, *[each[chosen] if each.size > 1 else each for each in x])
        results = []
        for each, part in zip(usual, parts, strict=True):
            result = np.broadcast_to(each, shape).copy()
            result[chosen] = part
            results.append(result)
        return tuple(results)


_STEPS = ArraySteps()


def function_on_arrays(name: str, type_: Type) -> Callable[..., Array]:
    """The function that computes a mathematical function on storage arrays. KeyError if the table has no such row."""
    if type_ is f64 or type_ is f32:
        expand = table.exact_form(name, type_.name).expand
        return lambda *operands: expand(_STEPS, *operands)
    expand = table.exact_form(name, "f32").expand
    if type_ is bf16:
        return lambda *operands: bf16_from_f32(expand(_STEPS, *map(bf16_to_f32, operands)))
    return lambda *operands: expand(_STEPS, *[x.astype(np.float32) for x in operands]).astype(f16.dtype)
