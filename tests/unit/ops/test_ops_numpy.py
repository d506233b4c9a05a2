"""Every op of the table, for every type that it takes, against the NumPy ufunc of its name.

Where NumPy has no such ufunc, or says something else, `test_ops_exact` has the answer; `test_ops_functions` has
the mathematical functions. For bf16, ops whose result is exact are NumPy's on the same values as f64.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir.core.nodes import Apply, Const, Parameter, Store
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS, result_type
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import FLOATS, INTEGERS, TYPES, Type, bf16, f16, u32
from vyre_cuda.ir.semantics.elementwise import CASTS, function
from vyre_cuda.testing.conformance import Count

from . import exact
from .grid import CASES, EXPLICIT, Array, assert_equal, computed, operand_types, operands

pytestmark = pytest.mark.conformance

# No ufunc of this name, or one that leaves something open: zeros of both signs, bits of negative numbers.
NOT_NUMPYS = {"fma", "trunc_divide", "minimum", "maximum", "fmin", "fmax", "bitwise_count"}
NUMPYS = [(op, t) for op, t in CASES if hasattr(np, op) and op not in NOT_NUMPYS and op not in FUNCTIONS]
# On bf16, these round.
ROUNDING = {"add", "subtract", "multiply", "divide", "reciprocal", "sqrt", "nextafter", "floor_divide", "remainder"}


def test_every_row_of_the_table_has_a_function() -> None:
    assert set(EXPLICIT) == CASTS.keys()
    for op, type_ in CASES:
        assert callable(function(op, type_))


@pytest.mark.thin(5)
@pytest.mark.parametrize(("op", "type_"), [c for c in NUMPYS if c[1] is not bf16], ids=str)
def test_op_equals_the_ufunc_of_its_name(op: str, type_: Type, count_interpreter: Count) -> None:
    types = operand_types(op, type_)
    columns = operands(types)
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(*columns)
    if (op, type_) == ("nextafter", f16):  # NumPy gives the first of two zeros, the C library and the table the second
        expected = np.where(columns[0] == columns[1], columns[1], expected)

    assert_equal(result_type(OPS[op], types), expected, computed(op, types, columns), columns)
    count_interpreter("ops", op, type_.name, expected.size)


@pytest.mark.parametrize("op", sorted({op for op, t in NUMPYS if t is bf16} - ROUNDING))
def test_exact_op_on_bf16_equals_the_ufunc_on_its_values(op: str, count_interpreter: Count) -> None:
    types = operand_types(op, bf16)
    columns = operands(types)
    wide = [np.array(exact.values(t, x)) for t, x in zip(types, columns, strict=True)]
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(*wide).tolist()
    result = result_type(OPS[op], types)

    assert_equal(result, exact.array(result, expected), computed(op, types, columns), columns)
    count_interpreter("ops", op, bf16.name, len(expected))


@pytest.mark.parametrize("op", ["floor_divide", "remainder"])
def test_quotients_of_bf16_are_those_of_f32_rounded(op: str, count_interpreter: Count) -> None:
    columns = operands((bf16, bf16))
    wide = [np.array(exact.values(bf16, x), np.float32) for x in columns]
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(*wide).astype(ml_dtypes.bfloat16).view(np.uint16)

    assert_equal(bf16, expected, computed(op, (bf16, bf16), columns), columns)
    count_interpreter("ops", op, bf16.name, expected.size)


@pytest.mark.parametrize("type_", [f16, bf16], ids=str)
def test_nextafter_steps_through_all_values_in_order(type_: Type, count_interpreter: Count) -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(type_.storage)
    every = np.array(exact.values(type_, patterns))
    ordered = np.unique(every[~np.isnan(every)])
    x = np.concatenate([every, every, np.roll(every, 12345)])
    y = np.concatenate([np.full_like(every, np.inf), np.full_like(every, -np.inf), every])
    nan = np.isnan(x) | np.isnan(y)
    place = np.searchsorted(ordered, np.where(nan, 0, x))
    step = np.clip(place + (y > x) - (y < x).astype(int), 0, ordered.size - 1)
    sign = np.where(ordered[step] == 0, np.copysign(0.0, x), ordered[step])  # a step to zero keeps the sign
    expected = np.where(nan, np.nan, np.where(x == y, y, sign))
    columns = [exact.array(type_, c.tolist()) for c in (x, y)]

    found = computed("nextafter", (type_, type_), columns)

    assert_equal(type_, exact.array(type_, expected.tolist()), found, columns)
    count_interpreter("ops", "nextafter", type_.name, expected.size)


@pytest.mark.thin(42)
@pytest.mark.parametrize(("op", "type_"), CASES, ids=str)
def test_op_on_constants_equals_op_on_arrays(op: str, type_: Type) -> None:
    """Values that are the same in every thread take the interpreter's one-element path."""
    types = operand_types(op, type_)
    columns = [column[7::99][:40] for column in operands(types)]
    result = result_type(OPS[op], types)
    stores = []
    for row in range(columns[0].size):
        constants = tuple(const(t, column[row : row + 1]) for t, column in zip(types, columns, strict=True))
        stores.append(Store("r", Const(u32, row), Apply(result, op, constants)))
    program = Program("constants", (Parameter("r", "out", result, Const(u32, len(stores))),), tuple(stores))

    found = evaluate(program)

    assert isinstance(found, np.ndarray)
    assert_equal(result, computed(op, types, columns), found.view(result.storage), columns)


def const(type_: Type, value: Array) -> Const:
    return Const(type_, int(value.view(type_.unsigned)[0]))


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "trunc_divide", "fmod"])
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_division_by_zero_gives_zero(op: str, type_: Type) -> None:
    a = operands((type_,))[0]
    zeros = np.zeros_like(a)

    assert_equal(type_, zeros, computed(op, (type_, type_), [a, zeros]), [a])


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_where_takes_both_arms_bit_for_bit(type_: Type, count_interpreter: Count) -> None:
    a = operands((type_,))[0]
    b = a[::-1].copy()
    choose = np.arange(a.size) % 3 == 0
    expected: Any = np.where(choose, a.view(type_.unsigned), b.view(type_.unsigned))

    found = computed("where", operand_types("where", type_), [choose, a, b])

    assert expected.tolist() == found.view(type_.unsigned).tolist()
    count_interpreter("ops", "where", type_.name, expected.size)


@pytest.mark.parametrize("op", ["negative", "absolute", "copysign"])
@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_sign_ops_change_the_sign_bit_alone(op: str, type_: Type, count_interpreter: Count) -> None:
    columns = operands((type_, type_))
    columns = [c[exact_numbers(type_, columns)] for c in columns]
    a, b = (c.view(type_.unsigned) for c in columns)
    sign = type_.unsigned.type(1 << (type_.bits - 1))
    expected = {"negative": a ^ sign, "absolute": a & ~sign, "copysign": (a & ~sign) | (b & sign)}[op]
    count = OPS[op].arity

    found = computed(op, (type_,) * count, columns[:count])

    assert expected.tolist() == found.view(type_.unsigned).tolist()
    count_interpreter("ops", op, type_.name, expected.size)


def exact_numbers(type_: Type, columns: list[Array]) -> Array:
    """Where no operand is NaN."""
    return ~np.isnan(np.array([exact.values(type_, c) for c in columns])).any(axis=0)
