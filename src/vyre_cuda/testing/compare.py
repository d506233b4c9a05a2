"""Comparing results: bit for bit, or within a number of ULPs.

Sign and payload of a NaN are unspecified, so any NaN equals any NaN; -0.0 and +0.0 are different unless ULPs are
allowed. A failure shows the first element that differs, with its bits, and how many differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre_cuda.errors import counted

Array: TypeAlias = npt.NDArray[Any]
Results: TypeAlias = "Array | Sequence[Array]"


def assert_same(expected: Results, got: Results) -> None:
    """Raises AssertionError unless the arrays are the same, bit for bit except for NaN."""
    assert_close(expected, got, ulp=0)


def assert_close(expected: Results, got: Results, *, ulp: int) -> None:
    """Raises AssertionError unless floats differ by at most `ulp` units in the last place and everything else is the
    same.

    With `ulp=0` the bits are compared. An infinity is close only to itself.
    """
    with np.errstate(all="ignore"):  # signaling NaN
        _compare(expected, got, ulp)


def _compare(expected: Results, got: Results, ulp: int) -> None:
    for number, (want, have) in enumerate(_pairs(expected, got)):
        if want.shape != have.shape or want.dtype != have.dtype:
            raise AssertionError(
                f"result {number} is {have.dtype} of shape {have.shape}, expected {want.dtype} of shape {want.shape}"
            )
        differ = _beyond(want, have, ulp)
        if differ.any():
            raise AssertionError(f"result {number}: {_report(want, have, differ)}")


def ulp_distance(x: Array, y: Array) -> Array:
    """The steps from float to float, elementwise, as float64: 0 for two NaN, inf if only one is NaN or infinite."""
    a, b = _ordinal(x), _ordinal(y)
    steps = np.where(a > b, a - b, b - a).view(np.uint64).astype(np.float64)  # exact modulo 2^64
    apart = (np.isnan(x) != np.isnan(y)) | (np.isinf(x) != np.isinf(y)) | (np.isinf(x) & np.isinf(y) & (x != y))
    return np.where(np.isnan(x) & np.isnan(y), 0.0, np.where(apart, np.inf, steps))


def _pairs(expected: Results, got: Results) -> list[tuple[Array, Array]]:
    wants = [expected] if isinstance(expected, np.ndarray) else list(expected)
    haves = [got] if isinstance(got, np.ndarray) else list(got)
    if len(wants) != len(haves):
        raise AssertionError(f"{counted(len(haves), 'result')}, expected {len(wants)}")
    return list(zip(wants, haves, strict=True))


def _beyond(want: Array, have: Array, ulp: int) -> Array:
    if _is_float(want) and ulp > 0:
        return ulp_distance(want, have) > ulp
    differ: Array = _bits(want) != _bits(have)
    if _is_float(want):
        with np.errstate(invalid="ignore"):  # bfloat16 says so for its NaN
            differ &= ~(np.isnan(want) & np.isnan(have))
    return differ


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f" or x.dtype.name == "bfloat16"


def _report(want: Array, have: Array, differ: Array) -> str:
    first = tuple(int(axis) for axis in np.argwhere(differ)[0])
    place = first[0] if len(first) == 1 else first
    count = int(differ.sum())
    digits = 2 * want.dtype.itemsize
    return (
        f"element {place} is {have[first]!r} (0x{int(_bits(have)[first]):0{digits}x}), "
        f"expected {want[first]!r} (0x{int(_bits(want)[first]):0{digits}x}); {count} of {want.size} elements differ"
    )


def _bits(x: Array) -> Array:
    bits: Array = np.ascontiguousarray(x).reshape(x.shape).view(f"u{x.dtype.itemsize}")
    return bits


def _ordinal(x: Array) -> Array:
    """Floats numbered in their order, both zeros 0."""
    signed = np.ascontiguousarray(x).reshape(x.shape).view(f"i{x.dtype.itemsize}").astype(np.int64)
    lowest = -(1 << (8 * x.dtype.itemsize - 1))
    ordinal: Array = np.where(signed < 0, lowest - signed, signed)
    return ordinal
