"""What the half forms give, by exact rational arithmetic: a second opinion that shares nothing with the emulator.

A result is the nearest entry of the sorted list of all halves. NaN is None.
"""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import numpy as np
from silicon_forms import Form

_INFINITY = {"f16": 0x7C00, "h16": 0x7F80}
_LEAST_NORMAL = {"f16": 0x0400, "h16": 0x0080}
_LIMIT = {"f16": 2.0**16, "h16": 2.0**128}


def value_of(type_: str, word: int) -> float:
    """The value of a word; an integer one only where a double holds it."""
    bits = int(type_[1:])
    if type_ == "f16":
        return float(np.uint16(word).view(np.float16))
    if type_ in ("h16", "f32"):
        return float(np.uint32(word << 16 if type_ == "h16" else word).view(np.float32))
    if type_ == "f64":
        return float(np.uint64(word).view(np.float64))
    raise ValueError(f"{type_} of {bits} bits is no float")


@functools.cache
def _magnitudes(type_: str) -> list[Fraction]:
    finite = [Fraction(value_of(type_, word)) for word in range(_INFINITY[type_])]
    return [*finite, Fraction(_LIMIT[type_])]


def _half(exact: Fraction, negative: bool, type_: str, mode: str) -> int:
    """The word next to a value in the mode; the entry behind the largest number stands for infinity."""
    sign, all_ = 0x8000 if negative else 0, _magnitudes(type_)
    size = abs(exact)
    low = bisect.bisect_right(all_, size) - 1
    if low == len(all_) - 1:
        low, up = low - 1, True
    else:
        up = False
    inward = mode == "rz" or mode == ("rp" if negative else "rm")
    if all_[low] == size or (inward and mode != "rn"):
        return sign | low
    if mode != "rn" or up:
        return sign | low + 1
    below, above = size - all_[low], all_[low + 1] - size
    return sign | (low + 1 if above < below or (above == below and low % 2 == 1) else low)


def round_to(exact: float | Fraction, negative: bool, type_: str, mode: str = "rn", flush: bool = False) -> int | None:
    """A result as a half, or as f32 or f64 that holds it exactly."""
    if isinstance(exact, float) and not math.isfinite(exact):
        return None if math.isnan(exact) else _INFINITY[type_] | (0x8000 if negative else 0)
    exact = Fraction(exact)
    least = Fraction(value_of(type_, _LEAST_NORMAL[type_]))
    if flush and abs(exact) < least:
        # to nearest even with 11 bits of any exponent, the tie goes up to the power of two
        kept = abs(exact) >= least * (1 - Fraction(1, 4096))
        return (0x8000 if negative else 0) | (_LEAST_NORMAL[type_] if kept else 0)
    return _half(exact, negative, type_, mode)


def _combined(form: Form, values: list[float]) -> float | Fraction:
    a, b = values[0], values[1]
    if form.opcode == "sub":
        b = -b
    finite = all(math.isfinite(v) for v in values)
    if form.opcode in ("add", "sub"):
        exact: float | Fraction = Fraction(a) + Fraction(b) if finite else a + b
        return exact if exact != 0 else a + b
    product = a * b
    if form.opcode == "mul":
        return product
    exact = Fraction(product) + Fraction(values[2]) if finite else product + values[2]
    return exact if exact != 0 else product + values[2]


def _negative(value: float | Fraction) -> bool:
    return value < 0 if isinstance(value, Fraction) else math.copysign(1, value) < 0


def _saturated(value: float | Fraction) -> float | Fraction:
    return min(value, 1.0) if value > 0 else 0.0


def arithmetic(form: Form, words: list[int]) -> int | None:
    """add, sub, mul, fma."""
    type_, parts = form.operands[0].type, form.name.split(".")
    values = [value_of(type_, _flushed(type_, word) if "ftz" in parts else word) for word in words]
    exact = _combined(form, values)
    if "sat" in parts:
        exact = _saturated(exact)
    return round_to(exact, _negative(exact), type_, flush="ftz" in parts)


def _flushed(type_: str, word: int) -> int:
    return word & 0x8000 if word & 0x7FFF < _LEAST_NORMAL[type_] else word


def selection(form: Form, words: list[int]) -> int | None:
    """min, max, abs, neg."""
    type_, parts = form.operands[0].type, form.name.split(".")
    if "ftz" in parts:
        words = [_flushed(type_, word) for word in words]
    numbers = [word for word in words if not math.isnan(value_of(type_, word))]
    if not numbers or ("NaN" in parts and len(numbers) < len(words)):
        return None
    if form.opcode in ("abs", "neg"):
        return words[0] & 0x7FFF if form.opcode == "abs" else words[0] ^ 0x8000
    ordered = sorted(numbers, key=lambda word: (value_of(type_, word), word < 0x8000))
    return ordered[0 if form.opcode == "min" else -1]


def comparison(form: Form, words: list[int]) -> int:
    """setp, combined with a predicate that the last word gives."""
    type_, parts = form.operands[1].type, form.name.split(".")
    a, b = (value_of(type_, _flushed(type_, word) if "ftz" in parts else word) for word in words[:2])
    unordered, name = math.isnan(a) or math.isnan(b), parts[1]
    if name in ("num", "nan"):
        is_ = unordered == (name == "nan")
    elif unordered:
        is_ = name.endswith("u") and len(name) == 3
    else:
        is_ = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name[:2]]
    if len(words) == 3:
        other = words[2] != 0
        is_ = {"and": is_ and other, "or": is_ or other, "xor": is_ != other}[parts[2]]
    return int(is_)
