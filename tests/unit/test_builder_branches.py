"""elif_ and for_(n): what their conditions and bounds read, and where."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc


def test_the_first_condition_that_holds_decides() -> None:
    b = vc.Builder("grade", block=32)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(x[i] >= 30):
        out[i] = 3
    with b.elif_(x[i] >= 20):
        out[i] = 2
    with b.elif_(x[i] >= 10):
        out[i] = 1
    with b.else_():
        out[i] = -1
    program = b.build()

    np.testing.assert_array_equal([3, 2, 1, -1], vc.evaluate(program, np.array([35, 25, 15, 5], np.int32)))
    assert vc.parse(program.text()) == program


def test_a_condition_reads_a_variable_where_those_before_it_do_not_hold() -> None:
    b = vc.Builder("steps", block=32)
    x = b.inout("x", vc.i32)
    i = b.let("i", vc.global_id.x)
    v = b.var("v", x[i])
    with b.if_(v < 10):
        v.set(25)
    with b.elif_(v < 20):
        v.set(v + 100)
    with b.elif_(x[i] == 30):
        v.set(0)
    x[i] = v

    found = vc.evaluate(b.build(), np.array([5, 15, 30, 40], np.int32))

    np.testing.assert_array_equal([25, 115, 0, 40], found)


def test_a_value_that_a_condition_read_is_gone_after_its_block() -> None:
    b = vc.Builder("gone", block=32)
    x = b.inout("x", vc.i32)
    v = b.var("v", x[0])
    with b.if_(v < 10):
        v.set(1)
    read = +v
    with b.elif_(read < 20):
        v.set(2)

    with pytest.raises(vc.ProgramError, match="outside the block"):
        v.set(read)


def test_elif_needs_an_if_right_before_it() -> None:
    b = vc.Builder("alone", block=32)
    x = b.inout("x", vc.i32)
    with pytest.raises(vc.ProgramError, match="elif_ comes right after"):
        b.elif_(x.size > 1)
    with b.if_(x.size > 1):
        x[0] = 1
    x[1] = 2
    with pytest.raises(vc.ProgramError, match="elif_ comes right after"):
        b.elif_(x.size > 2)


def test_else_ends_the_branches() -> None:
    b = vc.Builder("ended", block=32)
    x = b.inout("x", vc.i32)
    with b.if_(x.size > 1):
        x[0] = 1
    with b.else_():
        x[0] = 2
    with pytest.raises(vc.ProgramError, match="elif_ comes right after"):
        b.elif_(x.size > 2)


def test_an_elif_that_an_exception_leaves_is_dropped() -> None:
    b = vc.Builder("dropped", block=32)
    x = b.inout("x", vc.i32)
    with b.if_(x.size > 1):
        x[0] = 1
    with pytest.raises(KeyError), b.elif_(x[1] > 2):
        raise KeyError
    with b.else_():
        x[0] = 2

    np.testing.assert_array_equal([2], vc.evaluate(b.build(), np.array([7], np.int32)))


def test_branches_are_limited_like_nested_blocks() -> None:
    b = vc.Builder("many", block=32)
    x = b.inout("x", vc.i32)
    with b.if_(x.size > 1):
        x[0] = 1
    for number in range(63):
        with b.elif_(x.size > number):
            x[0] = 2
    with pytest.raises(vc.ProgramError, match="branches"):
        b.elif_(x.size > 100)
    b.build()


@pytest.mark.parametrize("index", [vc.u32, vc.i32])
def test_for_with_one_bound_counts_from_zero(index: vc.Type) -> None:
    b = vc.Builder("count", block=32, index=index)
    x = b.inout("x", vc.i32)
    n = b.scalar("n", vc.i16)
    with b.if_(vc.global_id.x == 0):
        for bound in (n, x.size, 3):
            with b.for_(bound, step=2) as j:
                x[j] = x[j] + 1

    np.testing.assert_array_equal([3, 0, 3, 0, 2], vc.evaluate(b.build(), np.zeros(5, np.int32), 5))
