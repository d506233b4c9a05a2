"""Operands for the forms: edge values first, then patterns of all magnitudes.

Everything follows from the name of the form through a generator that is written out here, so that the answers stay
valid with every NumPy. A predicate is 0 or 1; a float is its bit pattern.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

CASES = 512

Words = npt.NDArray[np.uint64]

_EDGES_F32 = (
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF),
    *(0x7F800000, 0xFF800000, 0x7FC00000, 0x3F7FFFFF, 0x3F800001, 0x3F000000, 0xC0200000, 0x4B000001, 0x1F800000),
)
_EDGES_F64 = (
    *(0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x0000000000000001),
    *(0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000),
    *(0xFFF0000000000000, 0x7FF8000000000000, 0x3FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x3FE0000000000000),
    *(0xC004000000000000, 0x4330000000000001, 0x1FF0000000000000),
)
_EDGES_F16 = (
    *(0x0000, 0x8000, 0x3C00, 0xBC00, 0x0001, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3BFF, 0x3C01),
    *(0x3800, 0xC100, 0x6401, 0x2000),
)
_EDGES_BF16 = (
    *(0x0000, 0x8000, 0x3F80, 0xBF80, 0x0001, 0x807F, 0x0080, 0x8080, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F7F, 0x3F81),
    *(0x3F00, 0xC020, 0x4301, 0x1F80),
)
_MORE_F32 = (0x7F800001, 0xFFC12345, 0x40490FDB, 0xBEAAAAAB, 0x007FFFFF, 0x80000001, 0x00400000, 0x3EFFFFFF, 0xFF7FFFFF)
_MORE_F64 = (0x7FF0000000000001, 0xFFF8123456789ABC, 0x400921FB54442D18, 0x000FFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF)
_HALVES = (0.5, 1.5, 2.5, 0.25, 0.75, 126.5, 127.5, 128.5, 254.5, 255.5, 256.5, 32767.5, 65535.5, 8388607.5, 3.0, 1e9)


class Stream:
    """SplitMix64 as a stream of 64-bit words, seeded by a name."""

    def __init__(self, name: str) -> None:
        self._state = zlib.crc32(name.encode())

    def words(self, count: int) -> Words:
        """The next `count` words."""
        with np.errstate(over="ignore"):
            z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(self._state)) * np.uint64(0x9E3779B97F4A7C15)
            self._state += count
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            return z ^ (z >> np.uint64(31))

    def below(self, limit: int, count: int) -> npt.NDArray[np.int64]:
        """`count` indices in [0, limit)."""
        return (self.words(count) % np.uint64(limit)).astype(np.int64)


def _float_words(values: Sequence[float], bits: int) -> list[int]:
    wide = np.array(values, np.float64)
    return [int(v) for v in (wide.astype(np.float32).view(np.uint32) if bits == 32 else wide.view(np.uint64))]


def _float_edges(bits: int) -> tuple[list[int], list[int]]:
    """A short list whose products are affordable, and a long one around every limit of an integer type."""
    sign = 1 << (bits - 1)
    more = [*(_MORE_F32 if bits == 32 else _MORE_F64)]
    for word in _float_words([2.0**k for k in (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64)], bits):
        more += [word, word - 1, word + 1, word | sign, (word - 1) | sign, (word + 1) | sign]
    for word in _float_words(_HALVES, bits):
        more += [word, word | sign]
    if bits == 64:
        for value in (
            2.0**31 - 0.5,
            2.0**31 - 1,
            2.0**32 - 0.5,
            2.0**32 - 1,
            127.4999,
            255.4999,
            3.4028235677973366e38,
        ):
            more += [w for v in (value, -value) for w in _float_words([v], 64)]
        more += _float_words([2.0**-149, 2.0**-150, 1.5 * 2.0**-150, 2.0**-126 * (1 - 2.0**-25), 1 + 2.0**-24], 64)
    short = list(_EDGES_F32 if bits == 32 else _EDGES_F64)
    return short, short + more


def half_words(values: npt.NDArray[np.float64], kind: str) -> list[int]:
    """f16 or bf16 (`h`) words of values; those of bf16 lose the bits that do not fit."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
        words = single.astype(np.float16).view(np.uint16) if kind == "f" else single.view(np.uint32) >> np.uint32(16)
    return [int(word) for word in words]


def _half_edges(kind: str) -> tuple[list[int], list[int]]:
    """As _float_edges, for f16 and bf16."""
    short = list(_EDGES_F16 if kind == "f" else _EDGES_BF16)
    more = [0x7C01, 0xFE12, 0x03FF, 0x8001, 0x0200] if kind == "f" else [0x7F81, 0xFFC1, 0x007F, 0x8001, 0x0040]
    limits = np.array([2.0**k for k in (7, 8, 10, 11, 15, 16, 23, 31, 32, 63, 64) if kind == "h" or k < 16])
    for word in half_words(limits, kind):
        more += [word, word - 1, word + 1, word | 0x8000, (word - 1) | 0x8000, (word + 1) | 0x8000]
    for word in half_words(np.array(_HALVES), kind):
        more += [word, word | 0x8000]
    return short, short + more


def _integer_edges(bits: int) -> tuple[list[int], list[int]]:
    top = 1 << bits
    short = [0, 1, 2, 3, top - 1, top - 2, top // 2 - 1, top // 2, top // 2 + 1, 7, 10, 15, 16, 31, 32, 33, 63, 64]
    long = [*short, 5, 8, 17, 65, 100, 127, 128, 255, top - 10, top - 7, top // 3, top // 3 * 2]
    for k in range(4, bits):
        long += [(1 << k) - 1, 1 << k, (1 << k) + 1, top - (1 << k)]
    return [w % top for w in short], [w % top for w in long]


def edges(kind: str, bits: int) -> tuple[Words, Words]:
    if kind == "p":
        short = long = [0, 1]
    else:
        if kind in "fh":
            short, long = _half_edges(kind) if bits == 16 else _float_edges(bits)
        else:
            short, long = _integer_edges(bits)
    return np.array(short, np.uint64), np.array(long, np.uint64)


def _patterns(stream: Stream, kind: str, bits: int, count: int) -> Words:
    """Random words: of every magnitude, and for floats around 1 and around the root of the least normal number."""
    words = stream.words(count) >> np.uint64(64 - bits)
    choice = stream.below(3, count)
    if kind == "p":
        return words
    if kind not in "fh":
        shifted = words >> (stream.words(count) % np.uint64(bits))
        return np.where(choice == 0, words, shifted)
    mantissa, bias = {"f16": (10, 15), "h16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}[f"{kind}{bits}"]
    low = words & np.uint64((1 << mantissa) - 1 | 1 << (bits - 1))
    spread = stream.words(count) % np.uint64(9)
    near_one = low | (spread + np.uint64(bias - 4)) << np.uint64(mantissa)
    near_root = low | (spread + np.uint64(bias // 2 - 4)) << np.uint64(mantissa)
    return np.where(choice == 0, words, np.where(choice == 1, near_one, near_root))


def operand_grid(name: str, types: Sequence[tuple[str, int]]) -> Words:
    """Operands of one form, shape (len(types), CASES); `types` are pairs of kind and bits."""
    stream = Stream(name)
    grid = np.zeros((len(types), CASES), np.uint64)
    limits = [edges(kind, bits) for kind, bits in types]
    for k, (kind, bits) in enumerate(types):
        short, long = limits[k]
        fill = np.where(
            stream.below(2, CASES) == 0, long[stream.below(len(long), CASES)], _patterns(stream, kind, bits, CASES)
        )
        grid[k] = fill
        if len(types) == 1:
            grid[k, : len(long)] = long[:CASES]
        elif len(types) > 2:
            grid[k, : CASES // 2] = short[stream.below(len(short), CASES // 2)]
    if len(types) == 2:
        first, second = limits[0][0], limits[1][0]
        product = len(first) * len(second)
        grid[0, :product] = np.repeat(first, len(second))
        grid[1, :product] = np.tile(second, len(first))
    return grid
