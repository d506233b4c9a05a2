"""The mathematical functions of the table: within their bounds, on special values as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp

from vyre_cuda.functions import table
from vyre_cuda.functions.forms_f32 import FORMS_F32
from vyre_cuda.functions.forms_f64 import FORMS_F64
from vyre_cuda.ir.core.ops import FUNCTIONS, OPS
from vyre_cuda.ir.core.types import Type, bf16, f16, f32, f64
from vyre_cuda.testing.accuracy import Array, worst
from vyre_cuda.testing.conformance import Count

from .grid import computed, operand_types, operands

pytestmark = pytest.mark.conformance

CASES = [(name, type_) for name in FUNCTIONS for type_ in OPS[name].types]


def test_every_function_has_forms_for_both_types_and_every_form_is_of_a_function():
    assert set(FORMS_F32) == set(FORMS_F64) == set(FUNCTIONS)


def bound(name: str, type_: Type) -> float:
    return table.HALF_ULP if type_ in (f16, bf16) else table.exact_form(name, type_.name).ulp


def spread(type_: Type, arity: int) -> list[Array]:
    """Bit patterns at even distances, for two operands in an order that mixes them.

    None of f64, whose exact values take long; `test_functions_f64` has those.
    """
    if type_.bits == 16 or type_ is f64:
        return []
    step = 1 << (type_.bits - 18)
    rng = np.random.default_rng(5)
    patterns = np.arange(0, 1 << type_.bits, step, np.uint64) + rng.integers(0, step, 1 << 18, np.uint64)
    column = patterns.astype(type_.unsigned).view(type_.storage)
    return [column, *(rng.permutation(column) for _ in range(arity - 1))]


@pytest.mark.thin(20)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "type_"), CASES, ids=str)
def test_function_is_within_its_bound(name: str, type_: Type, count_interpreter: Count) -> None:
    types = operand_types(name, type_)
    columns = operands(types)
    more = spread(type_, len(types))
    if more:
        columns = [np.concatenate([c, s]) for c, s in zip(columns, more, strict=True)]

    found = computed(name, types, columns)

    off, place = worst(name, type_, columns, found)
    assert off <= bound(name, type_), place
    count_interpreter("ops", name, type_.name, found.size)


@pytest.mark.parametrize("name", [name for name, type_ in CASES if type_ is f32])
def test_function_of_special_values_is_numpys(name: str) -> None:
    """Where the result is exact: infinities, NaN, zeros of either sign."""
    types = operand_types(name, f32)
    special = [0.0, 1.0, np.inf, np.nan, 2.0**-149, 3.4028234663852886e38]
    grid = np.array(special + [-x for x in special], np.float32)
    columns = [c.ravel() for c in np.meshgrid(*[grid] * len(types))]

    found = computed(name, types, columns)

    off, place = worst(name, f32, columns, found)
    assert off <= bound(name, f32), place


# ---- what is exact --------------------------------------------------------------------------------------------------


def values(name: str, *columns: Array) -> Array:
    return computed(name, operand_types(name, f32), [np.asarray(c, np.float32) for c in columns])


def test_exp2_of_whole_numbers_and_log2_of_powers_of_two_are_exact() -> None:
    whole = np.arange(-149, 128).astype(np.float32)
    powers = np.ldexp(np.float32(1), whole.astype(np.int32)).astype(np.float32)

    np.testing.assert_array_equal(powers, values("exp2", whole))
    np.testing.assert_array_equal(whole, values("log2", powers))


@pytest.mark.parametrize(
    "name", ["sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "cbrt", "erf"]
)
def test_odd_functions_are_odd_to_the_bit(name: str) -> None:
    x = operands((f32,))[0]
    x = x[~np.isnan(x)]
    there, back = values(name, x), -values(name, -x)

    np.testing.assert_array_equal(there, back)
    np.testing.assert_array_equal(np.signbit(there[~np.isnan(there)]), np.signbit(back[~np.isnan(back)]))


@pytest.mark.parametrize("name", ["cos", "cosh"])
def test_even_functions_are_even_to_the_bit(name: str) -> None:
    x = operands((f32,))[0]

    np.testing.assert_array_equal(values(name, x), values(name, -x))


def nearest_to_quarter_turns() -> Array:
    """For each exponent f32 that are near a multiple of pi/2: denominators of the continued fraction of 2^e 2/pi."""
    found = []
    with mp.workprec(400):
        for exponent in range(-23, 105):
            rest, before, denominator = mp.ldexp(2 / mp.pi, exponent) % 1, 0, 1
            while rest > mp.ldexp(1, -200):
                term = int(1 / rest)
                rest = 1 / rest - term
                before, denominator = denominator, before + term * denominator
                if denominator >= 1 << 24:
                    break
                found.append(mp.ldexp(denominator * ((1 << 24) // denominator - 1 or 1), exponent))
                found.append(mp.ldexp(denominator, exponent))
    return np.array([float(x) for x in found], np.float64).astype(np.float32)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_next_to_multiples_of_a_quarter_turn_are_reduced_well(name: str) -> None:
    near = nearest_to_quarter_turns()
    limit = np.float32(65536)
    around = np.array([np.nextafter(limit, np.float32(0)), limit, np.nextafter(limit, np.float32(np.inf))], np.float32)
    turns = (np.arange(1, 60000, dtype=np.float64) * np.pi / 2).astype(np.float32)
    x = np.concatenate([near, -near, around, turns, -turns])

    off, place = worst(name, f32, [x], values(name, x))

    assert off <= bound(name, f32), place


def powers_near(results: Array, bases: Array) -> Array:
    """The y for which bases^y is near results."""
    with np.errstate(all="ignore"):
        found: Array = (np.log2(results.astype(np.float64)) / np.log2(bases.astype(np.float64))).astype(np.float32)
    return found


def test_power_is_within_its_bound_next_to_overflow_and_underflow_and_for_bases_near_1() -> None:
    rng = np.random.default_rng(8)
    count = 100_000
    bases = np.concatenate(
        [
            np.ldexp(rng.uniform(1, 2, count), rng.integers(-149, 127, count)),
            1 + rng.normal(size=count) * 10.0 ** rng.uniform(-7, -1, count),
        ]
    ).astype(np.float32)
    bases = np.where(bases == 1, np.float32(3), np.abs(bases))
    exponents = np.where(rng.integers(0, 2, 2 * count) == 1, rng.uniform(126, 128, 2 * count), 0)
    exponents = np.where(exponents == 0, rng.uniform(-150, 126, 2 * count), exponents)
    y = powers_near(2.0**exponents, bases)

    off, place = worst("power", f32, [bases, y], values("power", bases, y))

    assert off <= bound("power", f32), place


@pytest.mark.parametrize("name", ["hypot", "arctan2"])
def test_two_operands_of_like_size_are_within_the_bound_at_every_scale(name: str) -> None:
    rng = np.random.default_rng(9)
    count = 100_000
    x, y = (np.ldexp(rng.uniform(1, 2, count), rng.integers(-3, 4, count)) for _ in range(2))
    scale = rng.integers(-145, 124, count)
    with np.errstate(over="ignore"):
        columns = [(np.ldexp(each, scale) * rng.choice([-1, 1], count)).astype(np.float32) for each in (x, y)]

    off, place = worst(name, f32, columns, values(name, *columns))

    assert off <= bound(name, f32), place
