"""Names and numbers for the extents of a kernel function's arrays: each call checks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc


@vc.kernel
def product(a: vc.In[vc.f32, "m k"], b: vc.In[vc.f32, "k n"]):
    out = vc.output(vc.f32, (a.shape[0], b.shape[1]))
    i, j = vc.global_id.yx
    if i < out.shape[0] and j < out.shape[1]:
        total = vc.f32(0)
        for p in range(a.shape[1]):
            total += a[i, p] * b[p, j]
        out[i, j] = total


@vc.kernel
def first_of(count: vc.i32, x: vc.In[vc.f32, "count"], pair: vc.InOut[vc.f32, "2"]):
    pair[vc.global_id.x] = x[vc.global_id.x]


@vc.kernel(block=32)
def rows_of(x: vc.In[vc.f32, "rows columns"], columns: vc.const):
    out = vc.output(vc.f32, x.shape)
    out[vc.block_id.x, vc.thread_id.x] = x[vc.block_id.x, vc.thread_id.x]


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: vc.evaluate(product.program(), a, b),
        product.python,
        lambda a, b: product.on(vc.Device("emulator"))(a, b),
    ],
    ids=["interpreter", "python", "emulator"],
)
def test_a_name_stands_for_one_extent(call: Callable[..., Any]) -> None:
    assert np.array_equal(call(ones(3, 4), ones(4, 5)), np.full((3, 5), 4, np.float32))
    with pytest.raises(ValueError, match=r"argument b has the shape \(3, 5\), not \(4, :\) \(size\(a, 1\) = 4\)"):
        call(ones(3, 4), ones(3, 5))


def test_a_name_can_be_a_scalar_and_a_number_stands_for_itself() -> None:
    program = first_of.program()
    assert np.array_equal(vc.evaluate(program, 3, ones(3), np.zeros(2, np.float32)), ones(2))
    with pytest.raises(ValueError, match=r"argument x has 4 elements, not 3 \(count = 3\)"):
        vc.evaluate(program, 3, ones(4), ones(2))
    with pytest.raises(ValueError, match="argument pair has 3 elements, not 2"):
        vc.evaluate(program, 3, ones(3), ones(3))


def test_a_name_can_be_a_const_and_needs_no_test_then() -> None:
    program = rows_of.program(columns=32)
    assert "in x: f32[:, i32:32]" in program.text()
    with pytest.raises(ValueError, match=r"argument x has the shape \(2, 31\), not \(:, 32\)"):
        vc.evaluate(program, ones(2, 31))
    assert vc.ptx(program).count("setp") < vc.ptx(vc.parse(program.text().replace("[:, i32:32]", "[:, :]"))).count(
        "setp"
    )


@pytest.mark.parametrize("words", ["a b c d e", "a-b", "", "-1"])
def test_what_is_not_a_name_or_a_number_is_refused(words: str) -> None:
    with pytest.raises(TypeError, match="write a name or a number for each of 1 to 4 axes"):
        vc.In[vc.f32, words]


def test_a_const_that_is_not_a_size_is_refused() -> None:
    for value in ("a", -1, True, 2.0):
        with pytest.raises(vc.ProgramError, match="is not a size") as caught:
            rows_of.program(columns=value)
        assert "test_extents.py" in str(caught.value)


def test_a_scalar_behind_the_array_is_refused() -> None:
    @vc.kernel
    def wrong(x: vc.In[vc.f32, "n"], n: vc.i32):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = x[vc.global_id.x]

    with pytest.raises(vc.ProgramError, match="declared before x"):
        wrong.program()
