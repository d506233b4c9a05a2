"""Conversions to f16 and bf16, and their fma, near the places where rounding decides: many cases lie around ties."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from silicon_grid import CASES, Stream, Words, operand_grid
from silicon_kernels import Kernel, pure

_TIES = CASES // 2
_PRECISION = {"f16": 11, "h16": 8}


def half_values(words: npt.NDArray[np.uint16], type_: str) -> npt.NDArray[np.float64]:
    """The values of f16 or bf16 words."""
    if type_ == "f16":
        return words.view(np.float16).astype(np.float64)
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _around_ties_of_floats(stream: Stream, target: str, bits: int) -> Words:
    """Halves, the middles between two of them, and the source's next values on both sides."""
    end = 0x7C00 if target == "f16" else 0x7F80
    low = stream.below(end - 1, _TIES).astype(np.uint16)
    low[: _TIES // 8] &= np.uint16(end // 31 - 1 if target == "f16" else 0x7F)
    values = half_values(low, target)
    middles = (values + half_values(low + np.uint16(1), target)) / 2
    chosen = np.where(stream.below(4, _TIES) == 0, values, middles)
    source = chosen.astype(np.float32).view(np.uint32).astype(np.uint64) if bits == 32 else chosen.view(np.uint64)
    nudge = stream.below(3, _TIES)
    source = source + (nudge == 2).astype(np.uint64) - ((nudge == 1) & (source != 0)).astype(np.uint64)
    return source | stream.below(2, _TIES).astype(np.uint64) << np.uint64(bits - 1)


def _around_ties_of_integers(stream: Stream, target: str, bits: int) -> Words:
    """Integers of one bit more than the half has, shifted, and their neighbors; some with the sign turned."""
    wanted = min(_PRECISION[target] + 1, bits)
    top = np.uint64(1 << (wanted - 1))
    base = (stream.words(_TIES) % top | top) << stream.below(bits - wanted + 1, _TIES).astype(np.uint64)
    with np.errstate(over="ignore"):
        near = base + stream.below(3, _TIES).astype(np.uint64) - np.uint64(1)
        turned = np.where(stream.below(3, _TIES) == 0, np.uint64(0) - near, near)
    return turned & np.uint64((1 << bits) - 1)


def conversion(kernel: Kernel) -> None:
    """cvt, each result from the thread's own operand."""
    pure(kernel)
    target, source = kernel.form.operands[0].type, kernel.form.operands[1]
    if target not in _PRECISION or (source.bits == 16 and source.kind in "fh"):
        return
    stream = Stream(kernel.form.key + " ties")
    near = _around_ties_of_floats if source.kind == "f" else _around_ties_of_integers
    kernel.grid = operand_grid(kernel.form.key, kernel.inputs)
    kernel.grid[0, CASES - _TIES :] = near(stream, target, source.bits)


def fused(kernel: Kernel) -> None:
    """fma. In the last quarter of the cases of a half form a tiny addend decides where a product near a tie goes."""
    pure(kernel)
    type_ = kernel.form.operands[0].type
    if type_ not in _PRECISION:
        return
    first, tie = CASES * 3 // 4, {"f16": 0x3E00, "h16": 0x3FC0}[type_]
    count = CASES - first
    stream = Stream(kernel.form.key + " ties")
    kernel.grid = operand_grid(kernel.form.key, kernel.inputs)
    kernel.grid[0, first:] = half_one(type_) | stream.below(1 << (_PRECISION[type_] - 1), count)
    kernel.grid[1, first:] = tie | stream.below(2, count) << 15
    kernel.grid[2, first:] = stream.below(2, count) << 15 | stream.below(4, count)


def half_one(type_: str) -> int:
    """The word of 1."""
    return {"f16": 0x3C00, "h16": 0x3F80}[type_]
