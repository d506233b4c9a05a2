"""What is made of other ops, and operators whose op the type decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc


def mapped(type_: vc.Type, make: object, x: np.ndarray) -> np.ndarray:
    b = vc.Builder("mapped", block=32)
    held = b.input("x", type_)
    out = b.output("out", type_, size=held.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = make(held[i])  # type: ignore[operator]
    found = vc.evaluate(b.build(), x)
    assert isinstance(found, np.ndarray)
    return found


def test_clip_is_numpys() -> None:
    x = np.array([-np.inf, -2, -0.5, 0.25, 3, np.inf, np.nan], np.float32)

    np.testing.assert_array_equal(np.clip(x, -1, 1), mapped(vc.f32, lambda v: vc.clip(v, -1, 1), x))
    np.testing.assert_array_equal(np.clip(x, 2, 1), mapped(vc.f32, lambda v: vc.clip(v, 2, 1), x))


@pytest.mark.parametrize("type_", [vc.f16, vc.f32, vc.f64])
def test_dot_rounds_each_product_with_its_sum(type_: vc.Type) -> None:
    x = np.array([0.1, -3.7, 1 / 3, 200], type_.dtype)

    def chained(v: Any) -> Any:
        return vc.fma(v + 2, v, vc.fma(v, 3.0, vc.fma(v, v, 0.5)))

    np.testing.assert_array_equal(
        mapped(type_, chained, x), mapped(type_, lambda v: vc.dot((v, v, v + 2), (v, 3.0, v), 0.5), x)
    )
    np.testing.assert_array_equal(x * x, mapped(type_, lambda v: vc.dot([v], iter([v])), x))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((1.0,), (1.0, 2.0), "the same number of elements from both: these are 1 and 2"),
        ((), (), "at least one element"),
        ((1.5,), (None,), "fma needs operands of one type"),
    ],
)
def test_dot_refuses(x: Any, y: Any, message: str) -> None:
    with pytest.raises((vc.ProgramError, TypeError), match=message):
        mapped(vc.f32, lambda v: vc.dot(x, (v if each is None else each for each in y), vc.i32(v)), np.ones(1, "f4"))


def test_square_is_numpys() -> None:
    x = np.array([-7, 0, 3, 2**31 - 1, -(2**31)], np.int32)

    np.testing.assert_array_equal(np.square(x), mapped(vc.i32, vc.square, x))


def test_square_reads_a_variable_once() -> None:
    b = vc.Builder("once", block=32)
    x = b.inout("x", vc.f32)
    v = b.var("v", x[0])
    x[0] = vc.square(v)

    assert b.build().text().count("multiply(t_1, t_1)") == 1


def test_the_operators_of_floats_and_integers_are_numpys() -> None:
    x = np.array([-7.5, -0.0, 0.0, 2.25, np.inf, np.nan], np.float32)
    k = np.array([-5, -1, 0, 2, 3], np.int32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(x // 2, mapped(vc.f32, lambda v: v // 2, x))
        np.testing.assert_array_equal(np.float32(2) % x, mapped(vc.f32, lambda v: 2.0 % v, x))
    np.testing.assert_array_equal(k**3, mapped(vc.i32, lambda v: v**3, k))
    np.testing.assert_array_equal(np.power(3, abs(k)), mapped(vc.i32, lambda v: vc.power(3, abs(v)), k))


@pytest.mark.parametrize(("scalar", "type_"), [(np.float64(0.5), vc.f32), (np.int64(3), vc.i8), (np.uint8(3), vc.f16)])
def test_a_numpy_scalar_takes_the_other_type_if_its_value_is_exact(scalar: np.generic, type_: vc.Type) -> None:
    x = np.array([1, 2], type_.dtype)

    np.testing.assert_array_equal(x + type_.dtype.type(scalar), mapped(type_, lambda v: v + scalar, x))


def test_a_numpy_scalar_that_is_not_exact_is_refused() -> None:
    with pytest.raises(TypeError, match="exactly"):
        mapped(vc.f32, lambda v: v + np.float64(0.1), np.zeros(1, np.float32))
