"""Every op on integers and bools, from the documented rules."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from number_formats import INTEGERS, RANGES, WRAP

Function = Callable[..., Any]

COMPARISONS: dict[str, Function] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
BOOL_OPS: dict[str, Function] = {
    "logical_and": operator.and_,
    "logical_or": operator.or_,
    "logical_xor": operator.xor,
    "logical_not": operator.not_,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


def _truncated(x: int, y: int) -> int:
    """The quotient toward zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def integer_ops(type_: str) -> dict[str, Function]:
    bits, _ = INTEGERS[type_]
    lowest, highest = RANGES[type_]
    wrap = WRAP[type_]
    mask = (1 << bits) - 1

    def clamp(value: int) -> int:
        return lowest if value < lowest else highest if value > highest else value

    def left_shift(x: int, y: int) -> int:
        count = y & mask
        return wrap(x << count) if count < bits else 0

    def right_shift(x: int, y: int) -> int:
        return x >> min(y & mask, bits)

    def rotate(x: int, count: int) -> int:
        pattern = x & mask
        return wrap(pattern << count | pattern >> bits - count)

    def trailing_zeros(x: int) -> int:
        pattern = x & mask
        return (pattern & -pattern).bit_length() - 1 if pattern else bits

    def power(x: int, y: int) -> int:
        if y < 0:
            return x if x == -1 and y % 2 else int(x in (1, -1))
        return wrap(pow(x, y, 1 << bits))

    return {
        **COMPARISONS,
        "integer_power": power,
        "add": lambda x, y: wrap(x + y),
        "subtract": lambda x, y: wrap(x - y),
        "multiply": lambda x, y: wrap(x * y),
        "negative": lambda x: wrap(-x),
        "absolute": lambda x: wrap(abs(x)),
        "floor_divide": lambda x, y: wrap(x // y) if y else 0,
        "remainder": lambda x, y: x % y if y else 0,
        "trunc_divide": lambda x, y: wrap(_truncated(x, y)) if y else 0,
        "fmod": lambda x, y: x - y * _truncated(x, y) if y else 0,
        "left_shift": left_shift,
        "right_shift": right_shift,
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "invert": lambda x: wrap(~x),
        "minimum": min,
        "maximum": max,
        "bitwise_count": lambda x: (x & mask).bit_count(),
        "count_leading_zeros": lambda x: bits - (x & mask).bit_length(),
        "count_trailing_zeros": trailing_zeros,
        "reverse_bits": lambda x: wrap(int(f"{x & mask:0{bits}b}"[::-1], 2)),
        "rotate_left": lambda x, y: rotate(x, (y & mask) % bits),
        "rotate_right": lambda x, y: rotate(x, -(y & mask) % bits),
        "multiply_high": lambda x, y: x * y >> bits,
        "add_saturate": lambda x, y: clamp(x + y),
        "subtract_saturate": lambda x, y: clamp(x - y),
        "sign": lambda x: (x > 0) - (x < 0),
    }
