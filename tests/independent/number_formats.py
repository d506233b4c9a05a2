"""The thirteen types: ranges, bit patterns, rounding and casts, in Python integers and floats.

A float of any type is held as a Python float. Sums, products, quotients and square roots of f16, bf16 and f32 may be
computed in that and rounded once more: 53 bits are more than twice the 24 of f32 and two, so both roundings give what
one would, also for subnormal results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from struct import Struct

from program_tree import Value

INTEGERS = {f"{letter}{bits}": (bits, letter == "i") for letter in "ui" for bits in (8, 16, 32, 64)}
FLOATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
TYPES = (*INTEGERS, *FLOATS, "bool_")
NUMBERS = (*INTEGERS, *FLOATS)
BITS = {**{name: bits for name, (bits, _) in INTEGERS.items()}, **FLOATS, "bool_": 8}
RANGES = {
    name: (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for name, (bits, signed) in INTEGERS.items()
}

_HALF, _HALF_BITS = Struct("<e"), Struct("<H")
_SINGLE, _SINGLE_BITS = Struct("<f"), Struct("<I")
_DOUBLE, _DOUBLE_BITS = Struct("<d"), Struct("<Q")
_LAYOUTS = {"f16": (_HALF, _HALF_BITS), "f32": (_SINGLE, _SINGLE_BITS), "f64": (_DOUBLE, _DOUBLE_BITS)}
NAN_BITS = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}

SMALLEST_NORMAL_F32 = 2.0**-126
# Rounded to 24 bits, what is below this in magnitude is below the smallest normal f32.
FLUSHED_BELOW = 2.0**-126 - 2.0**-151


def wrapper(type_: str) -> Callable[[int], int]:
    """The low bits of an integer as a value of the type."""
    bits, signed = INTEGERS[type_]
    mask = (1 << bits) - 1
    if not signed:
        return lambda value: value & mask
    half = 1 << bits - 1
    return lambda value: ((value + half) & mask) - half


WRAP = {name: wrapper(name) for name in INTEGERS}


# ---- rounding -------------------------------------------------------------------------------------------------------


def round_f16(x: float) -> float:
    try:
        return float(_HALF.unpack(_HALF.pack(x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def round_f32(x: float) -> float:
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def round_bf16(x: float) -> float:
    """To 8 bits, or to a multiple of 2^-133."""
    if x == 0 or x - x != 0:
        return x
    mantissa, exponent = math.frexp(x)
    if exponent > 128:
        return math.copysign(math.inf, x)
    unit = max(exponent - 8, -133)
    rounded = math.ldexp(round(math.ldexp(mantissa, exponent - unit)), unit)
    return math.copysign(math.inf if abs(rounded) >= 2.0**128 else rounded, x)


def keep(x: float) -> float:
    return x


def round_f32_flushing(x: float) -> float:
    """An exact result, or one rounded to 53 bits, as `ftz` gives it."""
    if -FLUSHED_BELOW < x < FLUSHED_BELOW:
        return math.copysign(0.0, x)
    return round_f32(x)


def flush_f32(x: float) -> float:
    """An operand as `ftz` takes it."""
    if -SMALLEST_NORMAL_F32 < x < SMALLEST_NORMAL_F32:
        return math.copysign(0.0, x)
    return x


ROUND: dict[str, Callable[[float], float]] = {"f16": round_f16, "bf16": round_bf16, "f32": round_f32, "f64": keep}


# ---- bit patterns ---------------------------------------------------------------------------------------------------


def to_bits(type_: str, value: Value) -> int:
    """The pattern of a value; every NaN has the same one."""
    if type_ in INTEGERS:
        return int(value) & (1 << INTEGERS[type_][0]) - 1
    if type_ == "bool_":
        return int(value)
    if value != value:
        return NAN_BITS[type_]
    if type_ == "bf16":
        return int(_SINGLE_BITS.unpack(_SINGLE.pack(value))[0]) >> 16
    layout, pattern = _LAYOUTS[type_]
    return int(pattern.unpack(layout.pack(value))[0])


def from_bits(type_: str, bits: int) -> Value:
    if type_ in INTEGERS:
        return WRAP[type_](bits)
    if type_ == "bool_":
        return bits != 0
    if type_ == "bf16":
        return float(_SINGLE.unpack(_SINGLE_BITS.pack(bits << 16))[0])
    layout, pattern = _LAYOUTS[type_]
    return float(layout.unpack(pattern.pack(bits))[0])


ZERO: dict[str, Value] = {name: from_bits(name, 0) for name in TYPES}


# ---- casts ----------------------------------------------------------------------------------------------------------


def _truncate(type_: str) -> Callable[[float], int]:
    lowest, highest = RANGES[type_]

    def truncate(x: float) -> int:
        if x != x:
            return 0
        if x - x != 0:
            return highest if x > 0 else lowest
        return min(max(int(x), lowest), highest)

    return truncate


def int_to_double(value: int) -> float:
    """The integer, beyond 53 bits rounded to odd, so that a rounding to fewer bits gives what one rounding would."""
    excess = abs(value).bit_length() - 53
    if excess <= 0:
        return float(value)
    magnitude = abs(value)
    kept = magnitude >> excess
    if magnitude & (1 << excess) - 1:
        kept |= 1
    return math.copysign(math.ldexp(kept, excess), value)


def _int_to_float(type_: str) -> Callable[[int], float]:
    if type_ == "f64":
        return float
    rounded = ROUND[type_]
    return lambda value: rounded(int_to_double(value))


def _cast(source: str, target: str) -> Callable[[Value], Value]:
    if target == "bool_":
        return lambda value: value != 0
    if target in INTEGERS:
        if source in FLOATS:
            return _truncate(target)
        return WRAP[target] if source in INTEGERS else int
    if source == "bool_":
        return float
    return _int_to_float(target) if source in INTEGERS else ROUND[target]


_CASTS = {(source, target): _cast(source, target) for source in TYPES for target in TYPES}


def _flushing_casts() -> dict[tuple[str, str], Callable[[Value], Value]]:
    """Those that `ftz` changes: from f32 and from f64 to f32, but for f16 and bf16."""
    casts: dict[tuple[str, str], Callable[[Value], Value]] = {("f64", "f32"): round_f32_flushing}
    for target in (*INTEGERS, "f64", "bool_"):
        plain = _CASTS["f32", target]
        casts["f32", target] = lambda value, plain=plain: plain(flush_f32(value))
    return casts


_FLUSHING_CASTS = _flushing_casts()


def caster(source: str, target: str, *, flushes: bool) -> Callable[[Value], Value]:
    if flushes and (source, target) in _FLUSHING_CASTS:
        return _FLUSHING_CASTS[source, target]
    return _CASTS[source, target]
