"""Constants: edges of their type half of the time, any bit pattern now and then."""

from __future__ import annotations

import math
import random

from number_formats import BITS, FLOATS, INTEGERS, RANGES, ROUND, WRAP, from_bits
from program_tree import Value

_SMALL = (0, 1, 2, 3, 4, 5, 7, 8, 10, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000)
_PLAIN_FLOATS = (
    0.0,
    0.0,
    0.0,
    1.0,
    1.0,
    0.5,
    2.0,
    3.0,
    2.5,
    1.5,
    0.25,
    7.0,
    127.5,
    128.5,
    255.0,
    256.0,
    1e-3,
    65504.0,
    math.inf,
)

# Bit patterns without the sign: the ends of the subnormal and normal numbers, neighbors of one, ends of integer types.
_FLOAT_EDGES = {
    "f16": (1, 2, 0x3FF, 0x400, 0x401, 0x7BFF, 0x3BFF, 0x3C01, 0x5BF8, 0x6400, 0x6401, 0x7800),
    "bf16": (1, 2, 0x7F, 0x80, 0x81, 0x7F7F, 0x3F7F, 0x3F81, 0x4300, 0x4780, 0x4F00, 0x4F80, 0x5F00, 0x5F80),
    "f32": (
        *(1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFF, 0x7F7FFFFE, 0x3F7FFFFF, 0x3F800001, 0x33800000, 0x387FC000),
        *(0x33000000, 0x4EFFFFFF, 0x4F000000, 0x4F7FFFFF, 0x4F800000, 0x5EFFFFFF, 0x5F000000, 0x5F7FFFFF, 0x5F800000),
        *(0x477FEFFF, 0x477FF000, 0x477FFF00, 0x7F7F8000, 0x4B000000, 0x4B7FFFFF, 0x1F800000, 0x20000000),
    ),
    "f64": (
        *(1, (1 << 52) - 1, 1 << 52, 0x7FEFFFFFFFFFFFFF, 0x3FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x41DFFFFFFFC00000),
        *(0x41E0000000000000, 0x41EFFFFFFFE00000, 0x41F0000000000000, 0x43DFFFFFFFFFFFFF, 0x43E0000000000000),
        *(0x43EFFFFFFFFFFFFF, 0x43F0000000000000, 0x36A0000000000000, 0x3690000000000000, 0x380FFFFFE0000000),
        *(0x380FFFFFF0000000, 0x3810000000000000, 0x47EFFFFFE0000000, 0x47EFFFFFEFFFFFFF, 0x47EFFFFFF0000000),
        *(0x40EFFC0000000000, 0x40EFFE0000000000, 0x3E60000000000000, 0x3F10000000000000, 0x4330000000000000),
    ),
}


def draw_integer(rng: random.Random, type_: str) -> int:
    lowest, highest = RANGES[type_]
    kind = rng.random()
    if kind < 0.35:
        value = rng.choice(_SMALL)
    elif kind < 0.52:
        value = rng.choice((lowest, lowest + 1, lowest + 2, highest, highest - 1, highest - 2, highest // 2 + 1))
    elif kind < 0.62:
        value = -rng.randint(1, 9)
    elif kind < 0.72:
        value = 1 << rng.randrange(64)
    elif kind < 0.8:
        value = (1 << rng.randrange(1, 65)) - 1
    elif kind < 0.84:
        value = highest // rng.randint(2, 9)
    else:
        value = rng.getrandbits(64)
    return WRAP[type_](value)


def draw_float(rng: random.Random, type_: str) -> float:
    kind = rng.random()
    if kind < 0.4:
        value = rng.choice(_PLAIN_FLOATS)
        return ROUND[type_](-value if rng.random() < 0.5 else value)
    if kind < 0.68:
        value = float(from_bits(type_, rng.choice(_FLOAT_EDGES[type_])))
        return -value if rng.random() < 0.4 else value
    if kind < 0.72:
        return math.nan
    if kind < 0.84:
        return ROUND[type_](float(rng.randint(-1000, 1000)))
    return float(from_bits(type_, rng.getrandbits(BITS[type_])))


def draw_value(rng: random.Random, type_: str) -> Value:
    if type_ in INTEGERS:
        return draw_integer(rng, type_)
    if type_ in FLOATS:
        return draw_float(rng, type_)
    return rng.random() < 0.5


def draw_values(rng: random.Random, type_: str, count: int) -> list[Value]:
    return [draw_value(rng, type_) for _ in range(count)]
