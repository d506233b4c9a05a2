"""Conversions that need no instruction: those of constants, and those that undo another conversion."""

from __future__ import annotations

import math

from vyre_cuda.codegen.ssa.intervals import FULL, MODULUS, wrap
from vyre_cuda.ir.core.scalars import bits_of, value_of
from vyre_cuda.ir.core.types import BY_NAME

_LEAST_NORMAL = 2.0**-126
_HALF_UNIT = 2.0**-151  # half the distance between two 24-bit numbers below it
_INFINITE = 2.0**128 - 2.0**103  # half way from the largest finite f32 to the next: the tie becomes infinity

BITS_OF_FLOATS = frozenset({"bits.u32", "bits.s32", "bits.u64", "bits.s64"})

# A conversion that undoes the other one gives back the original.
INVERSES = {
    "half.f16": "float.f16",
    "bits.f32": "bits.u32",
    "bits.u32": "bits.f32",
    "bits.s32": "bits.f32",
    "bits.f64": "bits.u64",
    "bits.u64": "bits.f64",
    "bits.s64": "bits.f64",
}


def fold_conversion(op: str, type_: str, source: str, constant: int) -> int | None:
    """The constant as another type. An integer is in the range of `source`, a float is its bit pattern."""
    if op in ("retype", "low", "widen") or op in BITS_OF_FLOATS:
        return wrap(type_, constant)
    if op in ("bits.f32", "bits.f64"):
        return constant % MODULUS[source]
    if op in ("cast.f32", "cast.f64") and source in FULL:
        return bits_of(BY_NAME[type_], constant)
    if op == "cast.f32.ftz":
        return _flushed(constant)
    return None


def _flushed(bits: int) -> int:
    """An f64 as f32, flushed where it is subnormal after rounding to 24 bits (precision.py)."""
    number = value_of(BY_NAME["f64"], bits)
    if abs(number) < _LEAST_NORMAL - _HALF_UNIT:
        return bits >> 32 & 1 << 31
    if abs(number) >= _INFINITE:
        number = math.copysign(math.inf, number)
    return bits_of(BY_NAME["f32"], number)
