"""Operands where ops go wrong, programs of one op, and comparison of what they give.

Arrays have the types' storage dtypes: bf16 is u16 patterns here, whether or not ml_dtypes is installed.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir.core.nodes import Apply, Expr, Id, Load, Parameter, Size, Store
from vyre_cuda.ir.core.ops import OPS, result_type
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bf16, bool_, u32

Array = np.ndarray[Any, np.dtype[Any]]

EXPLICIT = ("cast", "bitcast")
CASES = [(op, t) for op, row in OPS.items() if op not in EXPLICIT for t in row.types]

# Bits of the stored fraction.
FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


# ---- inputs ---------------------------------------------------------------------------------------------------------


def edges(type_: Type) -> Array:
    """Zeros, ones, extremes, powers of two and their neighbors; for floats also subnormals, infinities and NaN."""
    if type_ is bool_:
        return np.array([False, True])
    if type_.is_float:
        return float_edges(type_)
    powers = [1 << k for k in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 16, 24, 31, 32, 53, 62, 63)]
    near = {n + d for n in powers for d in (-1, 0, 1)} | {0, 3, 7, 33}
    values = {n for n in near | {-n for n in near} if type_.minimum <= n <= type_.maximum}
    values |= {type_.minimum, type_.minimum + 1, type_.maximum - 1, type_.maximum}
    return np.array(sorted(values), dtype=type_.storage)


def float_edges(type_: Type) -> Array:
    fraction = FRACTION[type_.name]
    infinity = ((1 << (type_.bits - 1 - fraction)) - 1) << fraction
    one = ((1 << (type_.bits - 2 - fraction)) - 1) << fraction
    third = one - (2 << fraction) + (0x5555555555555 >> (52 - fraction))
    smallest = 1 << fraction
    patterns = {0, 1, 2, 3, smallest // 2, third, infinity, infinity | smallest >> 1}
    exponents = (-2, -1, 0, 1, 2, 3, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)
    for power in (smallest, infinity, *(one + (k << fraction) for k in exponents)):
        if power <= infinity:
            patterns |= {power - 2, power - 1, power}
            patterns |= {power + 1, power + smallest // 2} if power < infinity else set()
    patterns |= {pattern | 1 << (type_.bits - 1) for pattern in patterns}
    return np.array(sorted(patterns), dtype=type_.unsigned).view(type_.storage)


def random_values(type_: Type, count: int, rng: np.random.Generator) -> Array:
    """Random bit patterns; half of the floats of like exponents, so that sums and quotients are of interest."""
    if type_ is bool_:
        return rng.integers(0, 2, count).astype(np.bool_)
    bits = rng.integers(0, 1 << type_.bits, count, dtype=np.uint64) if type_.bits < 64 else rng.bytes(8 * count)
    patterns = np.frombuffer(bits, np.uint64).astype(type_.unsigned)
    if type_.is_float:
        fraction = FRACTION[type_.name]
        one = ((1 << (type_.bits - 2 - fraction)) - 1) << fraction
        keep = type_.unsigned.type((1 << (fraction + 2)) - 1 | 1 << (type_.bits - 1))
        near = (patterns & keep) + type_.unsigned.type(one - (2 << fraction))
        patterns = np.where(rng.integers(0, 2, count) == 1, near, patterns)
    return patterns.view(type_.storage)


def operands(types: tuple[Type, ...], *, pairs: int = 4000, random: int = 4000) -> list[Array]:
    """All combinations of the edges, or `pairs` of them at random, and random values.

    One operand of at most 16 bits: every pattern that there is.
    """
    rng = np.random.default_rng(20240229)
    if len(types) == 1 and types[0].bits == 16:
        return [np.arange(1 << 16, dtype=np.uint16).view(types[0].storage)]
    grids = [edges(type_) for type_ in types]
    sizes = [grid.size for grid in grids]
    if int(np.prod(sizes)) <= pairs:
        chosen = [np.array(column) for column in zip(*itertools.product(*map(range, sizes)), strict=True)]
    else:
        chosen = [rng.integers(0, size, pairs) for size in sizes]
    return [
        np.concatenate([grid[index], random_values(type_, random, rng)])
        for type_, grid, index in zip(types, grids, chosen, strict=True)
    ]


def operand_types(op: str, type_: Type) -> tuple[Type, ...]:
    row = OPS[op]
    return (bool_, *[type_] * (row.arity - 1)) if row.leading_bool else (type_,) * row.arity


# ---- what the interpreter gives -------------------------------------------------------------------------------------


def program_of(op: str, types: tuple[Type, ...], target: Type | None = None) -> Program:
    """r[i] = op(a[i], b[i], ...)."""
    result = result_type(OPS[op], types, target)
    names = "abc"[: len(types)]
    i = Id(u32, "global_id", 0)
    loads: tuple[Expr, ...] = tuple(Load(t, name, i) for name, t in zip(names, types, strict=True))
    parameters = [Parameter(name, "in", t) for name, t in zip(names, types, strict=True)]
    store = Store("r", i, Apply(result, op, loads))
    return Program("one_op", (*parameters, Parameter("r", "out", result, Size(u32, "a"))), (store,))


def computed(op: str, types: tuple[Type, ...], columns: list[Array], target: Type | None = None) -> Array:
    """The interpreter's answer, as storage."""
    result = result_type(OPS[op], types, target)
    arguments = [column.view(t.dtype) for column, t in zip(columns, types, strict=True)]
    answer = evaluate(program_of(op, types, target), *arguments)
    assert isinstance(answer, np.ndarray)
    assert answer.dtype == result.dtype
    return answer.view(result.storage)


def nan_mask(type_: Type, x: Array) -> Array:
    if type_ is bf16:
        return (x & 0x7FFF) > 0x7F80
    return np.isnan(x) if type_.is_float else np.zeros(x.shape, np.bool_)


def assert_equal(type_: Type, expected: Array, found: Array, columns: list[Array]) -> None:
    """The same bits, but any NaN equals any other; shows the operands of the first that differs."""
    assert expected.dtype == found.dtype == type_.storage
    nan = nan_mask(type_, expected)
    unlike = (expected.view(type_.unsigned) != found.view(type_.unsigned)) & ~nan | (nan != nan_mask(type_, found))
    if unlike.any():
        at = int(unlike.argmax())
        operands_there = [column[at] for column in columns]
        raise AssertionError(f"{unlike.sum()} differ; {operands_there}: {expected[at]!r} expected, {found[at]!r} found")
