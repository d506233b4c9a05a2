"""Slices, `in`, names declared together, items of threads and arguments of functions, interpreted and as Python."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

import vyre_cuda as vc

from .test_python import bits, check

T = TypeVar("T")


@vc.kernel(block=8)
def slices(x: vc.In[vc.f32, 2], y: vc.InOut[vc.f32, 2]):
    sums, last = vc.output(vc.f32, x.shape[0]), vc.output(vc.f32, (x.shape[0], 4))
    near = vc.local(vc.f32, (2, 3))
    i = vc.work(x.shape[0])
    near[1, :3] = x[i, 1:4]  # past the end of the axis it is 0
    sums[i] = sum(near[1, :3], vc.f32(0)) + sum((), start=vc.f32(0))
    a, b, _ = y[i, :3]
    y[i, :2] = b, a
    y[i, 2:5:2] = 7
    last[i, :4] = *near[1, 0:3:2], a, x[i, :2][1]


def test_a_slice_is_a_tuple_of_elements() -> None:
    x, y = np.arange(33, dtype=np.float32).reshape(11, 3), np.arange(55, dtype=np.float32).reshape(11, 5)
    swapped = y[:, [1, 0, 2, 3, 4]]
    swapped[:, [2, 4]] = 7
    expected = swapped, x[:, 1] + x[:, 2], np.stack([x[:, 1], 0 * x[:, 0], y[:, 0], x[:, 1]], axis=1)

    for found, wanted in zip(vc.evaluate(slices, x, y), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    check(slices, x, y)


def test_slices_of_a_builder() -> None:
    b = vc.Builder("p")
    x, y = b.input("x", vc.i32, ndim=2), b.output("y", vc.i32, 4)
    y[0:4] = [0, *x[1, :3]]

    assert vc.evaluate(b.build(), np.arange(6, dtype=np.int32).reshape(2, 3)).tolist() == [0, 3, 4, 5]


EMPTY = ()


@vc.kernel
def members(x: vc.In[T], flag: vc.const):
    out = vc.output(vc.i32, x.size)
    i = vc.global_id.x
    seen = x[i] in (2, x[0], 5)
    if (x[i] not in [3, 4] and 1 in (x[i + 1], x[i - 1])) or flag in (2, 3):
        out[i] = 1
    if seen and x[i] not in EMPTY:
        out[i] += 10


@pytest.mark.thin(6)
@pytest.mark.parametrize("flag", [1, 2])
@pytest.mark.parametrize("type_", [np.uint8, np.int32, np.float32])
def test_in_compares_with_each_element_of_a_tuple(type_: type, flag: int) -> None:
    x = np.array([1, 2, 0, 1, 5, 1, 3, 1], type_)
    near = [any(0 <= k < 8 and x[k] == 1 for k in (i + 1, i - 1)) for i in range(8)]
    one = [(v not in (3, 4) and each) or flag == 2 for v, each in zip(x, near, strict=True)]

    found = vc.evaluate(
        members.program(T=vc.f32 if type_ is np.float32 else vc.i32 if type_ is np.int32 else vc.u8, flag=flag), x
    )
    assert found.tolist() == [one_ + 10 * (v in (2, 1, 5)) for one_, v in zip(one, x, strict=True)]
    assert bits(members.python(x, flag)) == bits(found)


@vc.kernel
def not_a_number(x: vc.In[vc.f32]):
    out = vc.output(vc.i32, x.size)
    i = vc.global_id.x
    v = x[i]
    out[i] = vc.i32(v in (v, 2))


def test_in_is_false_for_nan_as_comparisons_are() -> None:
    x = np.array([np.nan, 1], np.float32)

    assert vc.evaluate(not_a_number, x).tolist() == [0, 1]
    check(not_a_number, x)


@vc.kernel(block=(4, 2))
def items_of_two_axes(n: vc.i32):
    out = vc.output(vc.i32, (n, n + 1))
    column, row = vc.work(n + 1, n)
    out[row, column] = 10 * row + column


def test_work_gives_the_item_of_each_thread() -> None:
    row, column = np.mgrid[:5, :6]

    np.testing.assert_array_equal(vc.evaluate(items_of_two_axes, 5), 10 * row + column)
    check(items_of_two_axes, 5)


# ---- parameters of a vc.func


@vc.func
def of_each_kind(first, /, second, third=3, *, fourth=4, fifth):
    return first * 10000 + second * 1000 + third * 100 + fourth * 10 + fifth


@vc.kernel
def calls_of_each_kind(x: vc.In[vc.i32]):
    out = vc.output(vc.i32, 4)
    out[0] = of_each_kind(x[0], 2, fifth=5)
    out[1] = of_each_kind(x[0], 2, 9, fifth=5, fourth=8)
    out[2] = of_each_kind(x[0], third=7, second=x[0], fifth=1)
    out[3] = of_each_kind(x[0], 2, fifth=x[0])


def test_a_call_of_a_func_takes_arguments_as_its_def_says() -> None:
    x = np.ones(1, np.int32)

    assert vc.evaluate(calls_of_each_kind, x).tolist() == [12345, 12985, 11741, 12341]
    check(calls_of_each_kind, x)
