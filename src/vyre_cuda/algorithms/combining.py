"""What reductions and scans combine: types, the neutral element, and one combination, in programs and in NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import isnan, maximum, minimum, where
from vyre_cuda.ir.core.types import Type, bool_, by_dtype, f32, f64, i32, i64, u8, u32, u64
from vyre_cuda.ir.semantics.elementwise import apply
from vyre_cuda.records import FrozenRecord

# A combination of several values at once is a tuple of them, one for each component.
Values = tuple[Any, ...]

# Bytes that a thread of a float sum loads at once, counted in what it adds them up as.
VECTOR_BYTES = 16
_ARGUMENTS = ("argmin", "argmax")
_WARP_NAMES = {"sum": "add", "mean": "add", "min": "min", "max": "max", "any": "or", "all": "and"}
_UFUNCS = {"sum": "add", "mean": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}


class Combining(FrozenRecord):
    """How elements of one type are combined.

    `kinds` are the types that are combined: that of the sums, or for `argmin` and `argmax` those of an element and of
    its place.
    """

    name: str
    source: Type
    kinds: tuple[Type, ...]
    result: Type

    @property
    def kind(self) -> Type:
        return self.kinds[0]

    @property
    def is_argument(self) -> bool:
        return self.name in _ARGUMENTS

    @property
    def has_order(self) -> bool:
        """Whether the result depends on the order of combinations."""
        return self.kind.is_float and self.name in ("sum", "prod", "mean")

    @property
    def width(self) -> int:
        """How many neighboring elements a thread combines at once; part of the stated order."""
        if self.is_argument:
            return 4 if self.kind.itemsize <= 4 else 2
        if self.kind.is_float:
            return VECTOR_BYTES // self.kind.itemsize
        return min(VECTOR_BYTES // self.source.itemsize, 8)

    def neutral(self) -> Values:
        """Constants of a program that change nothing where they are combined."""
        return tuple(kind(value) for kind, value in zip(self.kinds, self.neutral_numbers(), strict=True))

    def neutral_numbers(self) -> tuple[Any, ...]:
        kind = self.kind
        match self.name:
            case "sum" | "mean":
                return (-0.0 if kind.is_float else 0,)
            case "prod":
                return (1.0 if kind.is_float else 1,)
            case "any":
                return (0,)
            case "all":
                return (1,)
            case _:
                greatest = self.name in ("min", "argmin")
                if kind.is_float:
                    first = float("inf") if greatest else -float("inf")
                else:
                    first = kind.maximum if greatest else kind.minimum
                return (first, *(other.maximum for other in self.kinds[1:]))

    def loaded(self, element: Any, place: Any) -> Values:
        """What one element of the source is combined as."""
        if self.name in ("any", "all"):
            return (u32(bool_(element)),)
        first = element if element.type is self.kind else self.kind(element)
        return (first, self.kinds[1](place)) if self.is_argument else (first,)

    def combine(self, left: Values, right: Values) -> Values:
        """One combination in a program."""
        match self.name:
            case "sum" | "mean":
                return (left[0] + right[0],)
            case "prod":
                return (left[0] * right[0],)
            case "min":
                return (minimum(left[0], right[0]),)
            case "max":
                return (maximum(left[0], right[0]),)
            case "any":
                return (left[0] | right[0],)
            case "all":
                return (left[0] & right[0],)
        return self._better(left, right)

    def _better(self, left: Values, right: Values) -> Values:
        """The first of the greatest or least elements; a NaN is more than both."""
        (a, i), (b, j) = left, right
        wins = b > a if self.name == "argmax" else b < a
        same = a == b
        if self.kind.is_float:
            wins = (wins & ~isnan(a)) | (isnan(b) & ~isnan(a))
            same = same | (isnan(a) & isnan(b))
        wins = wins | (same & (j < i))
        return where(wins, b, a), where(wins, j, i)

    def of_warp(self, b: Builder, values: Values) -> Values:
        """The values of a warp combined, with steps of 16, 8, 4, 2 and 1."""
        if self.name in _WARP_NAMES:
            return (b.warp_reduce(values[0], _WARP_NAMES[self.name]),)
        for step in (16, 8, 4, 2, 1):
            values = self.combine(values, tuple(b.shuffle_xor(value, step) for value in values))
            values = tuple(b.let("combined", value) for value in values)
        return values

    def finished(self, values: Values, count: Any) -> Any:
        """The result in a program; `count` is the number of elements in the type of the sums."""
        if self.is_argument:
            return i64(values[1])
        if self.result is bool_:
            return values[0] != 0
        value = values[0] / count if self.name == "mean" else values[0]
        return value if value.type is self.result else self.result(value)

    def combine_arrays(self, left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """One combination of each element in NumPy, with the bits of a program."""
        found: np.ndarray[Any, Any] = apply(_UFUNCS[self.name], self.kind, self.kind, [left, right])
        return found


@lru_cache(maxsize=256)
def combining(name: str, source: Type, dtype: Any = None, *, place: Type = u32) -> Combining:
    """How a function combines elements of a type: with NumPy's types of results, or with `dtype` for sums and
    products. `place` is the type of places."""
    if name in ("any", "all"):
        return Combining(name, source, (u32,), bool_)
    if name in _ARGUMENTS:
        return Combining(name, source, (u8 if source is bool_ else source, place), i64)
    if name in ("min", "max"):
        kind = sum_type(source) if source.is_float else source
        return Combining(name, source, (u8 if source is bool_ else kind,), source)
    if name == "mean":
        result = (source if source.is_float else f64) if dtype is None else _asked(source, dtype)
        if not result.is_float:
            raise TypeError(f"a mean as {result} would be cut off: ask for a float, and convert the result")
    else:
        result = _sum_result(source) if dtype is None else _asked(source, dtype)
    return Combining(name, source, (sum_type(result),), result)


@lru_cache(maxsize=256)
def scanning(name: str, source: Type, dtype: Any = None) -> Combining:
    """How a scan combines elements of a type; a maximum of narrow types in 32 bits."""
    if name != "max":
        return combining(name, source, dtype)
    if source.is_float:
        return Combining(name, source, (sum_type(source),), source)
    wide = source if source.bits >= 32 else (i32 if source.kind == "signed" else u32)
    return Combining(name, source, (wide,), source)


def _sum_result(source: Type) -> Type:
    """NumPy's type of a sum."""
    if source.is_float:
        return source
    return u64 if source.kind == "unsigned" else i64


def _asked(source: Type, dtype: Any) -> Type:
    """The type that `dtype=` names, a type of this package or a NumPy dtype."""
    try:
        found = dtype if isinstance(dtype, Type) else by_dtype(np.dtype(dtype))
    except (TypeError, ValueError):  # of NumPy, some of which do not say what they are about
        found = None
    if found is None or found is bool_:
        raise TypeError(
            f"dtype {dtype!r} is not a type that sums and products can have: "
            "ask for an integer or a float type, such as vc.f32"
        )
    if source.is_float and not found.is_float:
        raise TypeError(f"elements of {source} are not added up as {found}: convert them first")
    return found


def sum_type(result: Type) -> Type:
    """What sums of a type are made in: floats of 16 bits in f32, narrow integers in 32 bits."""
    if result.is_float:
        return f64 if result is f64 else f32
    if result.bits >= 32:
        return result
    return u32 if result.kind == "unsigned" else i32
