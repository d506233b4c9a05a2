"""Intervals of results from intervals of operands, as exact integers.

A result outside its type's range means that the op may wrap; the caller then knows nothing. A rule that cannot say
returns None. The type passed to a rule is the result's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from vyre_cuda.codegen.forms.isel import BITS

Range: TypeAlias = tuple[int, int]
Rule: TypeAlias = Callable[[str, tuple[Range, ...]], "Range | None"]

FULL: dict[str, Range] = {
    "u32": (0, (1 << 32) - 1),
    "s32": (-(1 << 31), (1 << 31) - 1),
    "u64": (0, (1 << 64) - 1),
    "s64": (-(1 << 63), (1 << 63) - 1),
}
MODULUS: dict[str, int] = {type_: 1 << BITS[type_] for type_ in FULL}


def wrap(type_: str, value: int) -> int:
    """An exact integer reduced to the range of an integer type."""
    value %= MODULUS[type_]
    return value - MODULUS[type_] if value > FULL[type_][1] else value


def _corners(products: tuple[int, ...]) -> Range:
    return min(products), max(products)


def _add(type_: str, r: tuple[Range, ...]) -> Range:
    return r[0][0] + r[1][0], r[0][1] + r[1][1]


def _subtract(type_: str, r: tuple[Range, ...]) -> Range:
    return r[0][0] - r[1][1], r[0][1] - r[1][0]


def _multiply(type_: str, r: tuple[Range, ...]) -> Range:
    (a, b), (c, d) = r
    return _corners((a * c, a * d, b * c, b * d))


def _multiply_add(type_: str, r: tuple[Range, ...]) -> Range:
    return _add(type_, (_multiply(type_, r[:2]), r[2]))


def _negative(type_: str, r: tuple[Range, ...]) -> Range:
    return -r[0][1], -r[0][0]


def _absolute(type_: str, r: tuple[Range, ...]) -> Range:
    low, high = r[0]
    return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _bits_of_both(r: tuple[Range, ...]) -> Range:
    """The range of any bitwise op of two numbers: the signed range that contains both."""
    bits = 0
    for low, high in r:
        bits |= (low if low >= 0 else ~low) | (high if high >= 0 else ~high)
    span = 1 << bits.bit_length()
    return -span, span - 1


def _and(type_: str, r: tuple[Range, ...]) -> Range:
    highs = [high for low, high in r if low >= 0]
    return (0, min(highs)) if highs else _bits_of_both(r)


def _or(type_: str, r: tuple[Range, ...]) -> Range:
    low, high = _bits_of_both(r)
    return (max(r[0][0], r[1][0]), high) if r[0][0] >= 0 and r[1][0] >= 0 else (low, high)


def _xor(type_: str, r: tuple[Range, ...]) -> Range:
    low, high = _bits_of_both(r)
    return (0, high) if r[0][0] >= 0 and r[1][0] >= 0 else (low, high)


def _invert(type_: str, r: tuple[Range, ...]) -> Range:
    return ~r[0][1], ~r[0][0]


def _left_shift(type_: str, r: tuple[Range, ...]) -> Range | None:
    low, high = r[1]
    return _multiply(type_, (r[0], (1 << low, 1 << high))) if low >= 0 and high < BITS[type_] else None


def _right_shift(type_: str, r: tuple[Range, ...]) -> Range | None:
    low, high = r[1]
    if low < 0:
        return (0, r[0][1]) if r[0][0] >= 0 else None
    width = BITS[type_]
    low, high = min(low, width), min(high, width)
    return _corners((r[0][0] >> low, r[0][0] >> high, r[0][1] >> low, r[0][1] >> high))


def _quotient(type_: str, r: tuple[Range, ...]) -> Range | None:
    return (r[0][0] // r[1][1], r[0][1] // r[1][0]) if r[1][0] > 0 else None


def _multiply_high(type_: str, r: tuple[Range, ...]) -> Range:
    low, high = _multiply(type_, r)
    return low >> BITS[type_], high >> BITS[type_]


def _minimum(type_: str, r: tuple[Range, ...]) -> Range:
    return min(r[0][0], r[1][0]), min(r[0][1], r[1][1])


def _maximum(type_: str, r: tuple[Range, ...]) -> Range:
    return max(r[0][0], r[1][0]), max(r[0][1], r[1][1])


def _where(type_: str, r: tuple[Range, ...]) -> Range:
    return min(r[1][0], r[2][0]), max(r[1][1], r[2][1])


def _same(type_: str, r: tuple[Range, ...]) -> Range:
    return r[0]


def _within(low: int, high: int) -> Rule:
    """The operand itself where it fits, else anything that fits."""
    return lambda _type, r: r[0] if low <= r[0][0] and r[0][1] <= high else (low, high)


RULES: dict[str, Rule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "multiply_add": _multiply_add,
    "multiply_high": _multiply_high,
    "quotient": _quotient,
    "negative": _negative,
    "absolute": _absolute,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _xor,
    "invert": _invert,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "minimum": _minimum,
    "maximum": _maximum,
    "where": _where,
    "retype": _same,
    "widen": _same,
    "low": _same,
    "sign8": _within(-(1 << 7), (1 << 7) - 1),
    "sign16": _within(-(1 << 15), (1 << 15) - 1),
    "zero_extend": lambda _type, _r: (0, (1 << 16) - 1),
    "ones": lambda _type, _r: (0, 64),
    "leading_zeros": lambda _type, _r: (0, 64),
}
