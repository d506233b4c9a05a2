"""Values where programs tend to go wrong, and strategies for constants, scalars and arrays made mostly of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import TYPES, Type, bool_

# Bits of the significand without the hidden one.
_FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_SIMPLE = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 100.0, 1e4, -1e4)
_SPECIAL = (float("inf"), float("-inf"), float("nan"))


def _integer_edges(type_: Type) -> tuple[int, ...]:
    """Around zero, the widths as shift counts, powers of two that are widths of other types, the ends."""
    low, high = type_.minimum, type_.maximum
    near = [0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 8, 15, 16, 31, 32, 33, -32, 63, 64, 65, 127, -128, 255, 256]
    wide = [s * (1 << power) + d for power in (15, 16, 31, 32, 53, 63) for d in (-1, 0, 1) for s in (1, -1)]
    ends = [low, low + 1, low + 2, high, high - 1, high // 2, high // 2 + 1, high // 3]
    patterns = dict.fromkeys(v & ((1 << type_.bits) - 1) for v in [*near, *ends, *wide] if low <= v <= high)
    return tuple(patterns)


def _float_edges(type_: Type) -> tuple[int, ...]:
    """Simple and special values, subnormals and their neighbors, where whole numbers and integer types end."""
    fraction = _FRACTION[type_.name]
    exponent_bits = type_.bits - 1 - fraction
    infinity = ((1 << exponent_bits) - 1) << fraction
    smallest_normal = 1 << fraction
    sign = 1 << (type_.bits - 1)
    patterns = [bits_of(type_, value) for value in (*_SIMPLE, *_SPECIAL)]
    for magnitude in (infinity - 1, infinity - 2, 1, 2, smallest_normal - 1, smallest_normal, smallest_normal + 1):
        patterns += [magnitude, magnitude | sign]
    whole = bits_of(type_, float(1 << fraction))  # from here on there are no fractions
    patterns += [whole - 1, whole, whole + 1, whole + smallest_normal, whole + smallest_normal + 1]
    for power in (7, 8, 15, 16, 31, 32, 63, 64):  # ends of integer types
        if power < 1 << (exponent_bits - 1):
            end = bits_of(type_, 2.0**power)
            patterns += [end - 1, end, end | sign, (end + 1) | sign]
    one = bits_of(type_, 1.0)
    patterns += [one - 1, one + 1, bits_of(type_, 0.5) - 1]
    return tuple(dict.fromkeys(patterns))


# Bit patterns by type, simple ones first.
EDGES: dict[Type, tuple[int, ...]] = {
    t: (0, 1) if t is bool_ else _float_edges(t) if t.is_float else _integer_edges(t) for t in TYPES
}


def bit_patterns(type_: Type) -> st.SearchStrategy[int]:
    """Bit patterns of a type, edges first."""
    if type_ is bool_:
        return st.sampled_from(EDGES[bool_])
    return st.sampled_from(EDGES[type_]) | st.integers(0, (1 << type_.bits) - 1)


def scalars(type_: Type) -> st.SearchStrategy[Any]:
    """NumPy scalars of a type."""
    return bit_patterns(type_).map(lambda bits: from_bits(type_, [bits])[0])


@st.composite
def arrays(draw: st.DrawFn, type_: Type, size: int) -> npt.NDArray[Any]:
    """Arrays of `size` elements, made of a few values in varying order."""
    palette = draw(st.lists(bit_patterns(type_), min_size=1, max_size=12))
    stride = draw(st.sampled_from((1, 3, 5, 7)))
    return from_bits(type_, [palette[i * stride % len(palette)] for i in range(size)])


@st.composite
def small_whole_arrays(draw: st.DrawFn, type_: Type, size: int) -> npt.NDArray[Any]:
    """Arrays of small whole numbers: their sums are exact in every number type and order."""
    palette = [bits_of(type_, n) for n in draw(st.lists(st.integers(0, 8), min_size=1, max_size=12))]
    return from_bits(type_, [palette[i % len(palette)] for i in range(size)])


def from_bits(type_: Type, patterns: list[int]) -> npt.NDArray[Any]:
    """The array with these bit patterns."""
    array: npt.NDArray[Any] = np.array(patterns, dtype=type_.unsigned).view(type_.dtype)
    return array
