"""Ops against Python's integers and fractions: wrapping, saturation, and one rounding of the exact value."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vyre_cuda.ir.core.ops import OPS, result_type
from vyre_cuda.ir.core.types import FLOATS, Type, bf16, f16, f32, f64
from vyre_cuda.testing.conformance import Count

from . import exact
from .grid import CASES, Array, assert_equal, computed, operand_types, operands

pytestmark = pytest.mark.conformance

# Rows of each kind: fractions are slow.
PAIRS, RANDOM = 700, 500


def thinned(columns: list[Array]) -> list[Array]:
    """Where there are all patterns of 16 bits, every 37th and the ends."""
    if columns[0].size < 1 << 16:
        return columns
    return [np.concatenate([c[::37], c[-2:]]) for c in columns]


def expected_of(op: str, type_: Type, types: tuple[Type, ...], columns: list[Array]) -> Array:
    table = exact.FLOAT if type_.is_float else exact.INTEGER
    rows = zip(*(exact.values(t, c) for t, c in zip(types, columns, strict=True)), strict=True)
    result = result_type(OPS[op], types)
    answers = [table[op](type_, *row) for row in rows]
    if result.is_integer:
        answers = [exact.wrap(type_, int(answer)) for answer in answers]
    return exact.array(result, answers)


@pytest.mark.thin
@pytest.mark.parametrize(("op", "type_"), [c for c in CASES if c[1].is_integer], ids=str)
def test_integer_op_equals_exact_integers(op: str, type_: Type, count_interpreter: Count) -> None:
    types = operand_types(op, type_)
    columns = thinned(operands(types, pairs=2500, random=1000))
    expected = expected_of(op, type_, types, columns)

    assert_equal(result_type(OPS[op], types), expected, computed(op, types, columns), columns)
    count_interpreter("ops", op, type_.name, expected.size)


@pytest.mark.thin(5)
@pytest.mark.parametrize(("op", "type_"), [c for c in CASES if c[0] in exact.FLOAT and c[1].is_float], ids=str)
def test_float_op_rounds_the_exact_value_once(op: str, type_: Type, count_interpreter: Count) -> None:
    types = operand_types(op, type_)
    columns = thinned(operands(types, pairs=PAIRS, random=RANDOM))
    expected = expected_of(op, type_, types, columns)

    assert_equal(type_, expected, computed(op, types, columns), columns)
    count_interpreter("ops", op, type_.name, expected.size)


# ---- fma ------------------------------------------------------------------------------------------------------------


def checked_fma(type_: Type, columns: list[Array]) -> None:
    types = (type_,) * 3
    expected = expected_of("fma", type_, types, columns)

    assert_equal(type_, expected, computed("fma", types, columns), columns)


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_fma_is_right_where_rounding_twice_is_wrong(type_: Type) -> None:
    """x * y lies half an ulp from a value but for a z too small to show in any wider sum."""
    digits = {f16: 11, bf16: 8, f32: 24, f64: 53}[type_]
    rng = np.random.default_rng(7)
    low = digits // 2
    x = rng.integers(1 << low, 2 << low, 800) | 1
    y = rng.integers(1 << (digits - low - 1), 2 << (digits - low - 1), 800) | 1  # together one bit too many: ties
    lowest = {f16: -24, bf16: -133, f32: -149, f64: -1074}[type_]
    z = np.ldexp(rng.choice([-1.0, 1.0], 800), rng.integers(lowest, min(-1, lowest + 2 * digits), 800))

    checked_fma(type_, [exact.array(type_, [float(v) for v in column.tolist()]) for column in (x, y, z)])


@pytest.mark.thin(5)
@pytest.mark.parametrize("type_", FLOATS, ids=str)
@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 2, 30])
def test_fma_of_subnormal_results_and_far_addends(type_: Type, shift: int) -> None:
    """Products and addends around the smallest normal number, and sums that all but cancel."""
    rng = np.random.default_rng(shift + 10)
    digits, least = {f16: (11, -14), bf16: (8, -126), f32: (24, -126), f64: (53, -1022)}[type_]
    count = 400
    one = [np.ldexp(rng.integers(1 << (digits - 1), 1 << digits, count).astype(float), 1 - digits) for _ in range(3)]
    x, y = np.ldexp(one[0], least // 2), np.ldexp(one[1], least - least // 2 + rng.integers(-shift - 3, 4, count))
    near = np.array([exact.rounded(type_, -Fraction(a) * Fraction(b)) for a, b in zip(x, y, strict=True)])
    far = np.ldexp(one[2] * rng.choice([-1.0, 1.0], count), least + shift)
    z = np.where(rng.integers(0, 2, count) == 1, near, far)
    columns = [[exact.rounded(type_, Fraction(v)) if v else v for v in c.tolist()] for c in (x, y, z)]

    checked_fma(type_, [exact.array(type_, column) for column in columns])


@pytest.mark.parametrize("exponent", [-1074, -1073, -1060, -1023, -1022, -1021, -900, 0, 900, 1023])
def test_f64_fma_over_the_whole_range_of_exponents(exponent: int) -> None:
    """Results near one exponent, from products and addends of every distance to each other."""
    rng = np.random.default_rng(exponent + 2000)
    count = 300
    ones = [np.ldexp(rng.integers(1 << 52, 1 << 53, count).astype(float), -52) for _ in range(3)]
    ones = [np.where(rng.integers(0, 3, count) == 0, 1.0, one) * rng.choice([-1.0, 1.0], count) for one in ones]
    of_x = rng.integers(max(-1074, exponent - 1023), min(1024, exponent + 1074), count)
    gap = rng.choice([0, 1, 2, 52, 53, 54, 105, 106, 107, 108, 199, 200, 201, 400], count) * rng.choice([-1, 1], count)
    x, y = np.ldexp(ones[0], of_x), np.ldexp(ones[1], exponent - of_x)
    with np.errstate(over="ignore", under="ignore"):
        z = np.ldexp(ones[2], np.clip(exponent + gap, -1074, 1023))

    checked_fma(f64, [x, y, z])


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_fma_of_a_product_that_overflows_and_an_infinity_is_that_infinity(type_: Type) -> None:
    largest = exact.rounded(type_, Fraction(2) ** {f16: 15, bf16: 127, f32: 127, f64: 1023}[type_])
    columns = [[largest, largest, -largest], [largest, largest, largest], [-np.inf, np.inf, np.inf]]

    found = computed("fma", (type_,) * 3, [exact.array(type_, column) for column in columns])

    assert exact.values(type_, found) == [-np.inf, np.inf, np.inf]
