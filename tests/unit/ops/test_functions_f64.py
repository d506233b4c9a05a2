"""The functions of f64 where they are hard: within their bounds, and exact where the result is a float."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from vyre_cuda.functions import table
from vyre_cuda.functions.coefficients_f64 import TWO_OVER_PI_BITS
from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.types import f64
from vyre_cuda.ir.semantics.elementwise import function
from vyre_cuda.testing.accuracy import Array
from vyre_cuda.testing.function_errors import measured

ODD = ("sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "cbrt", "erf")
INCREASING = ("exp", "expm1", "log", "log1p", "arctan", "sinh", "tanh", "arcsinh", "erf", "sigmoid")
INFINITY = np.inf
NAN = np.nan


def value(name: str, *operands: float) -> float:
    with np.errstate(all="ignore"):
        return float(function(name, f64)(*[np.array([x]) for x in operands])[0])


@pytest.mark.thin(30)
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_function_is_within_its_bound(name: str) -> None:
    found = measured(name, 20_000, seed=1)

    assert found.ulp <= table.exact_form(name, "f64").ulp, found


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_function_is_within_its_bound_on_a_million(name: str) -> None:
    found = measured(name, 1_000_000, seed=2)

    assert found.ulp <= table.exact_form(name, "f64").ulp, found


def test_bits_of_two_over_pi_are_right() -> None:
    bits = 32 * len(TWO_OVER_PI_BITS)
    with mp.workprec(bits + 64):
        expected = int(mp.floor(mp.ldexp(2 / mp.pi, bits)))

    assert int.from_bytes(np.array(TWO_OVER_PI_BITS, ">u4").tobytes(), "big") == expected


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
@given(x=st.floats(allow_nan=False))
def test_odd_function_of_the_negative_is_the_negative(name: str, x: float) -> None:
    forward, backward = value(name, x), value(name, -x)

    assert np.isnan(forward) == np.isnan(backward)
    assert np.isnan(forward) or (forward.hex() == (-backward).hex())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cos", "cosh"])
@given(x=st.floats(allow_nan=False))
def test_even_function_of_the_negative_is_the_same(name: str, x: float) -> None:
    assert np.array_equal(value(name, x), value(name, -x), equal_nan=True)


@given(k=st.integers(-1074, 1023))
def test_exp2_and_log2_of_whole_powers_are_exact(k: int) -> None:
    assert value("exp2", float(k)) == float(np.ldexp(1.0, k))
    assert value("log2", float(np.ldexp(1.0, k))) == k


@given(root=st.integers(-(2**17), 2**17), k=st.integers(-300, 300))
def test_cbrt_of_a_cube_is_exact(root: int, k: int) -> None:
    assert value("cbrt", float(np.ldexp(float(root**3), 3 * k))) == float(np.ldexp(float(root), k))


@given(base=st.integers(-1000, 1000), exponent=st.integers(0, 300))
def test_power_of_whole_numbers_that_is_a_float_is_exact(base: int, exponent: int) -> None:
    exact = base**exponent
    if abs(exact) < 2**1023 and Fraction(float(exact)) == exact:
        assert value("power", float(base), float(exponent)) == float(exact)


@given(scale=st.integers(-1000, 1000))
def test_hypot_of_whole_triangles_is_exact(scale: int) -> None:
    for a, b, c in ((3, 4, 5), (5, 12, 13), (8, 15, 17), (20, 21, 29)):
        assert value("hypot", float(np.ldexp(a, scale)), float(np.ldexp(-b, scale))) == float(np.ldexp(c, scale))


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("exp", (-INFINITY,), 0.0),
        ("exp", (709.782712893384,), 1.7976931348622732e308),
        ("exp", (709.782712893385,), INFINITY),
        ("expm1", (-0.0,), -0.0),
        ("expm1", (-INFINITY,), -1.0),
        ("expm1", (5e-324,), 5e-324),
        ("log", (-0.0,), -INFINITY),
        ("log", (-5e-324,), NAN),
        ("log", (1.0,), 0.0),
        ("log10", (1e15,), 15.0),
        ("log1p", (-1.0,), -INFINITY),
        ("log1p", (-0.0,), -0.0),
        ("log1p", (1.7976931348623157e308,), 709.782712893384),
        ("sin", (-0.0,), -0.0),
        ("sin", (INFINITY,), NAN),
        ("sin", (1e22,), -0.8522008497671888),
        ("cos", (6381956970095103 * 2.0**797,), -4.6871659242546277e-19),
        ("arcsin", (1.0000000000000002,), NAN),
        ("arccos", (1.0,), 0.0),
        ("arctan2", (0.0, -0.0), np.pi),
        ("arctan2", (-0.0, 0.0), -0.0),
        ("arctan2", (-0.0, -1.0), -np.pi),
        ("arctan2", (INFINITY, -INFINITY), 2.356194490192345),
        ("arctan2", (1.0, INFINITY), 0.0),
        ("arctan2", (5e-324, 1.0), 5e-324),
        ("arctan2", (1e-320, 1e-320), 0.7853981633974483),
        ("arctan2", (NAN, 1.0), NAN),
        ("tanh", (-INFINITY,), -1.0),
        ("arccosh", (1.0,), 0.0),
        ("arccosh", (0.9999999999999999,), NAN),
        ("arctanh", (-1.0,), -INFINITY),
        ("power", (NAN, 0.0), 1.0),
        ("power", (1.0, NAN), 1.0),
        ("power", (-1.0, INFINITY), 1.0),
        ("power", (-2.0, -1074.0), 5e-324),
        ("power", (-2.0, -1075.0), -0.0),
        ("power", (-0.0, -3.0), -INFINITY),
        ("power", (-0.0, -INFINITY), INFINITY),
        ("power", (-INFINITY, 3.0), -INFINITY),
        ("power", (-8.0, 1 / 3), NAN),
        ("power", (0.9999999999999999, 1.7976931348623157e308), 0.0),
        ("hypot", (NAN, -INFINITY), INFINITY),
        ("hypot", (1.7976931348623157e308, 1.7976931348623157e308), INFINITY),
        ("hypot", (5e-324, 0.0), 5e-324),
        ("cbrt", (-INFINITY,), -INFINITY),
        ("erf", (-INFINITY,), -1.0),
        ("rsqrt", (-0.0,), -INFINITY),
        ("rsqrt", (INFINITY,), 0.0),
        ("sigmoid", (-INFINITY,), 0.0),
        ("sigmoid", (INFINITY,), 1.0),
    ],
)
def test_f64_function_of_a_special_value(name: str, operands: tuple[float, ...], expected: float) -> None:
    found = value(name, *operands)

    assert np.isnan(found) if np.isnan(expected) else found.hex() == float(expected).hex()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_function_of_nan_is_nan(name: str) -> None:
    assert np.isnan(value(name, *(NAN,) * FUNCTIONS[name].arity))


def increasing(name: str, x: Array) -> bool:
    found = function(name, f64)(np.sort(x))
    return bool((np.diff(found) >= -2 * np.spacing(np.abs(found[1:]))).all())


@pytest.mark.thin
@pytest.mark.parametrize(
    "name", ["exp", "expm1", "log", "log1p", "arctan", "sinh", "tanh", "arcsinh", "erf", "sigmoid"]
)
def test_pieces_of_a_function_meet(name: str) -> None:
    """No step back by more than the errors of two neighbors, across every border of a reduction."""
    rng = np.random.default_rng(4)

    assert increasing(name, rng.uniform(1e-3, 8, 20_000))
