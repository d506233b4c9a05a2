"""Neighbors by name: `x.vector(i, n)` in programs and in kernel functions, and what is not a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

X = np.arange(23, dtype=np.float32)


def swapped() -> vc.Program:
    b = vc.Builder("swapped", block=4)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x * 4)
    first, second, *rest = x.vector(i, 4)
    out.vector(i, 4).set(second, first, *rest)
    b.work(x.size)
    return b.build()


def swapped_by_hand(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    whole = np.concatenate([x, np.zeros(-len(x) % 4, x.dtype)]).reshape(-1, 4)
    return whole[:, [1, 0, 2, 3]].reshape(-1)[: len(x)]


def test_a_vector_is_its_elements() -> None:
    for size in range(len(X)):
        assert np.array_equal(vc.evaluate(swapped(), X[:size]), swapped_by_hand(X[:size]))


def test_text_and_bytes_have_the_single_accesses() -> None:
    program = swapped()

    assert vc.parse(program.text()) == program
    assert vc.Program.from_bytes(program.to_bytes()) == program
    assert program.text().count("store out[") == 4


def test_the_kernel_has_one_access() -> None:
    text = vc.ptx(swapped())

    assert text.count("ld.global.v4.f32") == 1
    assert text.count("st.global.v4.f32") == 1


def test_elements_of_a_buffer_that_is_written_are_those_where_they_are_read() -> None:
    b = vc.Builder("twice", block=1)
    x = b.inout("x", vc.i32)
    neighbors = x.vector(0, 2)
    one, other = neighbors
    neighbors.set(other, one)
    neighbors.set(neighbors[0] + 10, neighbors[-1] + 10)
    b.work(1)

    assert vc.evaluate(b.build(), np.array([1, 2, 3], np.int32)).tolist() == [12, 11, 3]


def test_writing_reads_nothing() -> None:
    b = vc.Builder("writing", block=1)
    b.output("out", vc.i32, size=2).vector(0, 2).set(1, 2)

    assert "load" not in b.build().text()


def test_the_last_axis_counts() -> None:
    b = vc.Builder("rows", block=1)
    x = b.input("x", vc.i32, ndim=2)
    out = b.output("out", vc.i32, size=4)
    out.vector(0, 4).set(*x.vector((1, 1), 4))
    b.work(1)

    assert vc.evaluate(b.build(), np.arange(8, dtype=np.int32).reshape(2, 4)).tolist() == [5, 6, 7, 0]


def test_in_a_kernel_function() -> None:
    @vc.kernel(block=4)
    def pairs(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        vc.work(x.size)
        i = vc.global_id.x * 2
        a, b = x.vector(i, 2)
        if a > 3:
            a = a * 2
        out.vector(i, 2).set(b, a)

    wanted = np.where(X > 3, X * 2, X)[: len(X) - 1].reshape(-1, 2)
    found = vc.evaluate(pairs.program(), X)

    assert np.array_equal(found[:-1:2], X[1::2])
    assert np.array_equal(found[1::2], wanted[:, 0])
    assert np.array_equal(pairs.python(X), found)


def test_loops_over_a_vector_in_a_kernel_function() -> None:
    @vc.kernel(block=4)
    def sums(x: vc.In[vc.u8]):
        out = vc.output(vc.u32, x.size // 16)
        vc.work(x.size // 16)
        total: vc.u32 = 0
        for element in x.vector(vc.global_id.x * 16, 16):
            total += vc.u32(element)
        out[vc.global_id.x] = total

    x = np.arange(96, dtype=np.uint8)

    assert np.array_equal(vc.evaluate(sums.program(), x), x.reshape(-1, 16).sum(1, dtype=np.uint32))
    assert np.array_equal(sums.python(x), x.reshape(-1, 16).sum(1, dtype=np.uint32))
    assert "ld.global.v4.b32" in vc.ptx(sums)


def with_f32(make: Callable[[vc.Builder, vc.Buffer, vc.Buffer], object]) -> str:
    b = vc.Builder("wrong")
    x, y = b.input("x", vc.f32), b.inout("y", vc.f32)
    with pytest.raises(vc.ProgramError) as error:
        make(b, x, y)
    return str(error.value)


def test_what_is_not_a_vector() -> None:
    assert "a vector of f32 has 2 or 4 elements, not 8" in with_f32(lambda b, x, y: x.vector(0, 8))
    assert "a vector of f32 has 2 or 4 elements, not 3" in with_f32(lambda b, x, y: x.vector(0, 3))
    assert "a vector of f32 has 2 or 4 elements, not True" in with_f32(lambda b, x, y: x.vector(0, True))
    assert "a vector of f64 has 2 elements" in with_f32(lambda b, x, y: b.input("d", vc.f64).vector(0, 4))
    assert "the index into x is f32" in with_f32(lambda b, x, y: x.vector(x[0], 2))
    assert "1 value for 2 elements of y" in with_f32(lambda b, x, y: y.vector(0, 2).set(1.0))
    assert "x is an input" in with_f32(lambda b, x, y: x.vector(0, 2).set(1.0, 2.0))
