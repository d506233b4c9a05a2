"""Values where programs go wrong, and strategies for constants, scalars and arrays that are mostly made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from vyre_cuda.ir.scalars import bits_of
from vyre_cuda.ir.types import Type, bool_, f32, i32, u32

_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e10, -1e10, 3.4028234663852886e38, -3.4028234663852886e38),
    *(float("inf"), float("-inf"), float("nan")),
    *(2.0**-149, -(2.0**-149), 2.0**-126, -(2.0**-126), 2.0**-126 - 2.0**-149),
    *(2.0**23, 2.0**23 - 0.5, 2.0**24, 2.0**24 + 2, 2.0**31, -(2.0**31), 2.0**32, 2.0**32 - 256, 2.0**31 - 128),
)

# Bit patterns by type, simple ones first.
EDGES: dict[Type, tuple[int, ...]] = {
    bool_: (0, 1),
    u32: (0, 1, 2, 3, 5, 7, 8, 31, 32, 33, 63, 255, 65535, 65536, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1),
    i32: tuple(
        v & 0xFFFFFFFF
        for v in (0, 1, -1, 2, -2, 3, -3, 7, -7, 31, 32, 33, -32, 65536, 2**31 - 1, -(2**31), -(2**31) + 1, 2**31 - 2)
    ),
    f32: tuple(bits_of(f32, v) for v in _FLOATS),
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
    """Arrays of small whole numbers: their sums are exact in every type and order."""
    palette = draw(st.lists(st.integers(0, 8), min_size=1, max_size=12))
    return np.array([palette[i % len(palette)] for i in range(size)], dtype=type_.dtype)


def from_bits(type_: Type, patterns: list[int]) -> npt.NDArray[Any]:
    """The array with these bit patterns."""
    array: npt.NDArray[Any] = np.array(patterns, dtype=f"u{type_.itemsize}").view(type_.dtype)
    return array
