"""Every op of the table, for every type that it takes, against NumPy itself and against exact arithmetic.

The interpreter runs a program of one op over an edge grid and random bit patterns. The expected values come from the
NumPy ufunc of the op's name and, independently, from Python's integers and fractions.
"""

from __future__ import annotations

import itertools
import math
import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir.elementwise import CASTS, FUNCTIONS
from vyre_cuda.ir.nodes import Apply, Const, Id, Load, Parameter, Size, Store
from vyre_cuda.ir.ops import OPS, result_type
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.types import NUMBERS, TYPES, Type, bool_, f32, i32, u32

Array = np.ndarray[Any, np.dtype[Any]]

# The ops whose NumPy ufunc says all there is to say; the others have an exception spelled out below.
NUMPY_SAYS_ALL = sorted(OPS.keys() - {"fma", "trunc_divide", "cast", "bitcast", "minimum", "maximum", "fmin", "fmax"})
EXPLICIT = ("cast", "bitcast")


# ---- inputs ---------------------------------------------------------------------------------------------------------


def edges(type_: Type) -> Array:
    """Zeros, ones, extremes, powers of two and their neighbors; for floats also subnormals, infinities and NaN."""
    if type_ is bool_:
        return np.array([False, True])
    powers = [1 << k for k in (0, 1, 2, 3, 4, 5, 8, 15, 16, 23, 24, 30, 31, 32)]
    near = {n + d for n in powers for d in (-1, 0, 1)} | {0, 3, 7, 33}
    if type_.is_integer:
        values = {n for n in near | {-n for n in near} if type_.minimum <= n <= type_.maximum}
        return np.array(sorted(values | {type_.minimum, type_.maximum}), dtype=type_.dtype)
    magnitudes = [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x34000000]
    floats = np.array([*map(float, sorted(near)), 0.5, 1.5, 2.5, 0.75, 1 / 3], dtype=np.float32)
    around = [np.nextafter(floats[1:], np.float32(s)) for s in (-np.inf, np.inf)]
    positive = np.concatenate([np.array(magnitudes, np.uint32).view(np.float32), floats, *around])
    return np.concatenate([positive, -positive])


def inputs_of(types: tuple[Type, ...]) -> list[Array]:
    """All combinations of the edges (a sample of them for three operands) and random bit patterns."""
    rng = np.random.default_rng(20240229)
    grids = [edges(type_) for type_ in types]
    if len(types) == 3 and bool_ not in types:
        grids = [rng.choice(grid, 24, replace=False) for grid in grids]
    combined = [np.array(column) for column in zip(*itertools.product(*grids), strict=True)]
    count = 4000
    bits = [rng.integers(0, 2 if t is bool_ else 1 << 32, count, dtype=np.uint64) for t in types]
    random = [
        b.astype(np.bool_) if t is bool_ else b.astype(np.uint32).view(t.dtype)
        for b, t in zip(bits, types, strict=True)
    ]
    return [
        np.concatenate(pair).astype(t.dtype) for pair, t in zip(zip(combined, random, strict=True), types, strict=True)
    ]


def finite_pairs() -> tuple[Array, Array]:
    """Every seventh pair, because fractions are slow; seven divides no side of the grid."""
    a, b = (column[::7] for column in inputs_of((f32, f32)))
    finite = np.isfinite(a) & np.isfinite(b)
    return a[finite], b[finite]


def program_of(op: str, types: tuple[Type, ...], target: Type | None = None) -> Program:
    """r[i] = op(a[i], b[i], ...)."""
    result = result_type(OPS[op], types, target)
    names = "abc"[: len(types)]
    i = Id(u32, "global_id", 0)
    value = Apply(result, op, tuple(Load(t, name, i) for name, t in zip(names, types, strict=True)))
    parameters = [Parameter(name, "in", t) for name, t in zip(names, types, strict=True)]
    return Program("one_op", (*parameters, Parameter("r", "out", result, Size(u32, "a"))), (Store("r", i, value),))


def operand_types(op: str, type_: Type) -> tuple[Type, ...]:
    row = OPS[op]
    return (bool_, *[type_] * (row.arity - 1)) if row.leading_bool else (type_,) * row.arity


def same(actual: Array, expected: Array) -> bool:
    """Equal dtypes, equal bits; any NaN equals any other."""
    if actual.dtype != expected.dtype:
        return False
    if actual.dtype.kind != "f":
        return bool(np.array_equal(actual, expected))
    nan = np.isnan(expected)
    equal = actual.view(np.uint32) == expected.view(np.uint32)
    return bool(np.array_equal(np.isnan(actual), nan) and np.all(equal | nan))


CASES = [(op, t) for op, row in OPS.items() if op not in EXPLICIT for t in row.types]


# ---- exact scalar arithmetic ----------------------------------------------------------------------------------------


def wrap(type_: Type, value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if type_.kind == "signed" and low >> 31 else low


def toward_zero(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shift_right(type_: Type, a: int, count: int) -> int:
    return a >> min(count & 0xFFFFFFFF, 64)


INTEGER: dict[str, Callable[..., int]] = {
    "add": lambda t, a, b: a + b,
    "subtract": lambda t, a, b: a - b,
    "multiply": lambda t, a, b: a * b,
    "negative": lambda t, a: -a,
    "absolute": lambda t, a: abs(a),
    "floor_divide": lambda t, a, b: a // b if b else 0,
    "remainder": lambda t, a, b: a % b if b else 0,
    "trunc_divide": lambda t, a, b: toward_zero(a, b),
    "fmod": lambda t, a, b: a - toward_zero(a, b) * b if b else 0,
    "left_shift": lambda t, a, b: a << min(b & 0xFFFFFFFF, 64),
    "right_shift": shift_right,
    "bitwise_and": lambda t, a, b: a & b,
    "bitwise_or": lambda t, a, b: a | b,
    "bitwise_xor": lambda t, a, b: a ^ b,
    "invert": lambda t, a: ~a,
    "minimum": lambda t, a, b: min(a, b),
    "maximum": lambda t, a, b: max(a, b),
}


def to_bits(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def rounded(x: Fraction) -> float:
    """The f32 nearest to an exact value, ties to even; zero is +0."""
    if x == 0:
        return 0.0
    exponent = math.frexp(float(abs(x)))[1] if abs(x) >= Fraction(1, 2**1000) else -1000
    quantum = Fraction(2) ** (max(exponent, -125) - 24)
    if abs(x) / quantum < 2**23 and exponent > -125:
        quantum /= 2
    result = Fraction(round(x / quantum)) * quantum
    if abs(result) >= 2**128:
        return math.copysign(math.inf, float(1 if x > 0 else -1))
    return float(result) if result else math.copysign(0.0, -1.0 if x < 0 else 1.0)


def exact_fma(x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        product = math.nan if (math.isinf(x) and y == 0) or (x == 0 and math.isinf(y)) else x * y
        return product + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        sign = math.copysign(1.0, x) * math.copysign(1.0, y)
        return math.copysign(0.0, -1.0) if sign < 0 and math.copysign(1.0, z) < 0 and x * y == 0 == z else 0.0
    return rounded(exact)


def total_order(x: float) -> tuple[float, float]:
    return (x, math.copysign(1.0, x))


def propagating(choose: Callable[..., float]) -> Callable[[float, float], float]:
    return lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else choose(a, b, key=total_order)


def ignoring(choose: Callable[..., float]) -> Callable[[float, float], float]:
    return lambda a, b: b if math.isnan(a) else a if math.isnan(b) else choose(a, b, key=total_order)


MIN_MAX: dict[str, Callable[[float, float], float]] = {
    "minimum": propagating(min),
    "maximum": propagating(max),
    "fmin": ignoring(min),
    "fmax": ignoring(max),
}


# ---- tests ----------------------------------------------------------------------------------------------------------


def test_every_op_has_a_function() -> None:
    assert OPS.keys() == FUNCTIONS.keys() | CASTS.keys()
    assert not FUNCTIONS.keys() & CASTS.keys()


@pytest.mark.parametrize(("op", "type_"), [c for c in CASES if c[0] in NUMPY_SAYS_ALL], ids=str)
def test_op_equals_the_ufunc_of_its_name(op: str, type_: Type) -> None:
    operands = inputs_of(operand_types(op, type_))
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(*operands)

    assert same(evaluate(program_of(op, operand_types(op, type_)), *operands), expected)


@pytest.mark.parametrize(("op", "type_"), [c for c in CASES if c[0] in INTEGER and c[1].is_integer], ids=str)
def test_integer_op_equals_exact_integers(op: str, type_: Type) -> None:
    operands = inputs_of(operand_types(op, type_))
    rows = zip(*(operand.tolist() for operand in operands), strict=True)
    expected = np.array([wrap(type_, INTEGER[op](type_, *row)) for row in rows], dtype=type_.dtype)

    assert same(evaluate(program_of(op, operand_types(op, type_)), *operands), expected)


@pytest.mark.parametrize("op", sorted(MIN_MAX))
def test_float_minimum_and_maximum_order_zeros_and_treat_nan(op: str) -> None:
    a, b = inputs_of((f32, f32))
    expected = np.array([MIN_MAX[op](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], dtype=np.float32)

    assert same(evaluate(program_of(op, (f32, f32)), a, b), expected)


@pytest.mark.parametrize(
    ("op", "exact"), [("add", operator.add), ("subtract", operator.sub), ("multiply", operator.mul)]
)
def test_float_arithmetic_rounds_the_exact_value_once(op: str, exact: Callable[[Any, Any], Any]) -> None:
    a, b = finite_pairs()
    pairs = [exact(Fraction(x), Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    nonzero = np.array([value != 0 for value in pairs])
    expected = np.array([rounded(value) for value in pairs], dtype=np.float32)

    assert same(evaluate(program_of(op, (f32, f32)), a, b)[nonzero], expected[nonzero])


def test_divide_rounds_the_exact_quotient_once() -> None:
    a, b = finite_pairs()
    a, b = a[(a != 0) & (b != 0)], b[(a != 0) & (b != 0)]
    expected = [rounded(Fraction(x) / Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]

    assert same(evaluate(program_of("divide", (f32, f32)), a, b), np.array(expected, dtype=np.float32))


def test_fma_rounds_the_exact_value_once() -> None:
    x, y, z = inputs_of((f32, f32, f32))
    expected = [exact_fma(*row) for row in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)]

    assert same(evaluate(program_of("fma", (f32,) * 3), x, y, z), np.array(expected, dtype=np.float32))


def test_fma_is_right_where_rounding_twice_is_wrong() -> None:
    """x * y lies half an ulp from an f32 but for a z too small for f64 to hold beside it."""
    rng = np.random.default_rng(7)
    high = rng.integers(1 << 11, 1 << 12, 2000)
    x = (high * 2 + 1).astype(np.float32)  # 13 odd bits times 12 odd bits: 25 bits, a tie for f32
    y = (rng.integers(1 << 10, 1 << 11, 2000) * 2 + 1).astype(np.float32)
    z = np.ldexp(rng.choice([-1.0, 1.0], 2000), -rng.integers(40, 149, 2000)).astype(np.float32)
    expected = np.array(
        [exact_fma(*row) for row in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)], dtype=np.float32
    )
    twice = (x.astype(np.float64) * y + z).astype(np.float32)

    assert same(evaluate(program_of("fma", (f32,) * 3), x, y, z), expected)
    assert np.count_nonzero(twice != expected) > 200


def test_sqrt_is_correctly_rounded() -> None:
    x = np.abs(inputs_of((f32,))[0])
    x = x[np.isfinite(x) & (x > 0)]
    root = evaluate(program_of("sqrt", (f32,)), x)

    for value, found in zip(x.tolist(), root, strict=True):
        below, above = (Fraction(float(np.nextafter(found, np.float32(s)))) for s in (0, np.inf))
        exact = Fraction(value)
        assert ((below + Fraction(float(found))) / 2) ** 2 <= exact <= ((above + Fraction(float(found))) / 2) ** 2


def exact_cast(value: Any, source: Type, target: Type) -> Any:
    if target is bool_:
        return value != 0
    if target.is_float:
        return value if source.is_float else rounded(Fraction(int(value)))
    if source.is_float:
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return target.maximum if value > 0 else target.minimum
        return min(max(math.trunc(value), target.minimum), target.maximum)
    return wrap(target, int(value))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TYPES, TYPES)), ids=str)
def test_cast_equals_exact_conversion(source: Type, target: Type) -> None:
    (values,) = inputs_of((source,))
    expected = np.array([exact_cast(v, source, target) for v in values.tolist()], dtype=target.dtype)

    assert same(evaluate(program_of("cast", (source,), target), values), expected)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(NUMBERS, NUMBERS)), ids=str)
def test_bitcast_keeps_bits(source: Type, target: Type) -> None:
    (values,) = inputs_of((source,))
    values = values[values == values]
    codes = {"u32": "I", "i32": "i", "f32": "f"}
    raw = struct.pack(f"<{values.size}{codes[source.name]}", *values.tolist())
    expected = np.array(struct.unpack(f"<{values.size}{codes[target.name]}", raw), dtype=target.dtype)

    assert same(evaluate(program_of("bitcast", (source,), target), values), expected)


@pytest.mark.parametrize(("op", "type_"), CASES, ids=str)
def test_op_on_constants_equals_op_on_arrays(op: str, type_: Type) -> None:
    """Values that are the same in every thread take the interpreter's one-element path."""
    types = operand_types(op, type_)
    columns = [column[-40:] for column in inputs_of(types)]
    expected = evaluate(program_of(op, types), *columns)
    result = result_type(OPS[op], types)
    stores = []
    for row in range(40):
        operands = tuple(const(t, column[row]) for t, column in zip(types, columns, strict=True))
        stores.append(Store("r", Const(u32, row), Apply(result, op, operands)))
    program = Program("constants", (Parameter("r", "out", result, Const(u32, 40)),), tuple(stores))

    assert same(evaluate(program), expected)


def const(type_: Type, value: Any) -> Const:
    return Const(type_, int(value) if type_ is bool_ else int(np.asarray(value).view(np.uint32)))


@pytest.mark.parametrize("type_", [i32, u32], ids=str)
def test_division_by_zero_gives_zero(type_: Type) -> None:
    a = edges(type_)
    zeros = np.zeros_like(a)

    for op in ("floor_divide", "remainder", "trunc_divide", "fmod"):
        assert same(evaluate(program_of(op, (type_, type_)), a, zeros), zeros)
