"""The builder: each statement becomes its node, names stay apart, and misuse is an error at its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core import nodes
from vyre_cuda.ir.core.nodes import Assign, Atomic, Const, For, If, Let, Load, Local, Size, Store, Var, While


def u32(value: int) -> Const:
    return Const(vc.u32, value)


def here(function: Callable[..., Any], offset: int) -> tuple[str, int]:
    return (__file__, function.__code__.co_firstlineno + offset)


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy", block=128)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def test_saxpy_is_what_its_text_says() -> None:
    text = """
    program saxpy
    block 128
    index u32
    in x: f32
    in y: f32
    out out: f32[size(x)]
    scalar a: f32

    let i = global_id.x
    if less(i, size(out))
      store out[i], add(multiply(a, load(x[i])), load(y[i]))
    end
    """

    assert saxpy() == vc.parse(text)


def test_saxpy_computes_saxpy() -> None:
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)

    np.testing.assert_array_equal(2 * x + y, vc.evaluate(saxpy(), x, y, 2.0))


def test_header_keeps_what_was_declared() -> None:
    b = vc.Builder("header", block=(8, 4))
    n = b.scalar("n", vc.u32)
    x = b.inout("x", vc.i32)
    b.output("out", vc.bool_, size=vc.minimum(n, x.size) + 1)
    b.output("free", vc.f32)
    b.shared("tile", vc.f32, 32)
    b.work(n, 3)
    program = b.build()

    assert program.block == (8, 4, 1)
    assert [(p.name, p.kind, p.type) for p in program.parameters] == [
        ("n", "scalar", vc.u32),
        ("x", "inout", vc.i32),
        ("out", "out", vc.bool_),
        ("free", "out", vc.f32),
    ]
    assert program.parameters[3].size is None
    assert program.work == (nodes.Scalar(vc.u32, "n"), u32(3))
    assert program.shared == (nodes.SharedArray("tile", vc.f32, 32),)


def test_statements_have_the_line_that_wrote_them() -> None:
    b = vc.Builder("lines")
    out = b.output("out", vc.u32, size=1)
    out[0] = 7
    program = b.build()

    assert program.body[0].source == here(test_statements_have_the_line_that_wrote_them, 3)
    assert program.parameters[0].source == here(test_statements_have_the_line_that_wrote_them, 2)
    assert program.source == here(test_statements_have_the_line_that_wrote_them, 1)


# ---- reads happen where they are written ----------------------------------------------------------------------------


def test_reads_of_writable_buffers_swap() -> None:
    b = vc.Builder("swap", block=1)
    x = b.inout("x", vc.u32)
    t = x[0]
    x[0] = x[1]
    x[1] = t
    b.work(1)

    np.testing.assert_array_equal([5, 4], vc.evaluate(b.build(), np.array([4, 5], np.uint32)))


def test_reads_of_variables_keep_the_value_of_their_time() -> None:
    b = vc.Builder("times", block=1)
    out = b.output("out", vc.u32, size=2)
    count = b.var("count", vc.u32(1))
    before = count + 0
    count.set(count * 5)
    out[0] = before
    out[1] = count

    np.testing.assert_array_equal([1, 5], vc.evaluate(b.build()))


def test_reads_of_inputs_stay_expressions() -> None:
    b = vc.Builder("pure")
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    out[1] = x[0] + x[0]
    (store,) = b.build().body

    assert isinstance(store, Store)
    assert store.value == nodes.Apply(vc.u32, "add", (Load(vc.u32, "x", u32(0)),) * 2)


def test_let_of_a_variable_reads_it_once() -> None:
    b = vc.Builder("let")
    out = b.output("out", vc.u32, size=1)
    v = b.var("v", vc.u32(3))
    out[0] = b.let("seen", v)

    assert b.build().body[1] == Let("seen", Local(vc.u32, "v"))


def test_augmented_assignment_reads_and_stores_one_element() -> None:
    b = vc.Builder("augmented", block=1)
    x = b.inout("x", vc.i32)
    x[vc.u32(1)] -= 3

    np.testing.assert_array_equal([5, 2], vc.evaluate(b.build(), np.array([5, 5], np.int32), grid=1))


# ---- control flow ---------------------------------------------------------------------------------------------------


def test_if_and_else_nest() -> None:
    b = vc.Builder("nest", block=8)
    out = b.output("out", vc.u32, size=8)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 2):
        out[i] = 1
    with b.else_():
        with b.if_(i < 5):
            out[i] = 2
        with b.else_():
            out[i] = 3

    np.testing.assert_array_equal([1, 1, 2, 2, 2, 3, 3, 3], vc.evaluate(b.build()))


@pytest.mark.parametrize(
    ("lo", "hi", "step"), [(0, 5, 1), (2, 11, 3), (5, 5, 1), (np.int32(7), -2, -3), (0, np.int32(9), 2)]
)
def test_for_counts_like_range(lo: Any, hi: Any, step: int) -> None:
    b = vc.Builder("count", block=1)
    out = b.output("out", vc.i32, size=20)
    at = b.var("at", vc.u32(0))
    with b.for_(lo, hi, step=step) as j:
        out[at] = vc.i32(j)
        at.set(at + 1)
    expected = np.zeros(20, np.int32)
    expected[: len(range(lo, hi, step))] = range(lo, hi, step)

    np.testing.assert_array_equal(expected, vc.evaluate(b.build(), grid=1))


def test_two_literal_bounds_take_the_index_type() -> None:
    b = vc.Builder("bounds")
    with b.for_(1, 4) as j:
        assert j.type is vc.u32
    (loop,) = b._scope.block.statements

    assert loop == For("j", u32(1), u32(4), u32(1), ())


def test_while_evaluates_its_condition_before_each_pass() -> None:
    b = vc.Builder("collatz", block=4)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    i = b.let("i", vc.global_id.x)
    n, steps = b.var("n", x[i]), b.var("steps", vc.u32(0))
    with b.while_(lambda: n > 1):
        n.set(vc.where(n % 2 == 0, n // 2, n * 3 + 1))
        steps.set(steps + 1)
    out[i] = steps
    program = b.build()

    np.testing.assert_array_equal([0, 0, 1, 7], vc.evaluate(program, np.array([0, 1, 2, 3], np.uint32)))
    (loop,) = (s for s in program.body if isinstance(s, While))
    assert loop.setup == (Let("t", Local(vc.u32, "n")),)


def test_locals_of_a_while_condition_are_visible_in_its_body() -> None:
    b = vc.Builder("visible", block=1)
    out = b.output("out", vc.u32, size=1)
    n = b.var("n", vc.u32(7))
    seen: list[vc.Value] = []

    def condition() -> vc.Value:
        seen[:] = [b.let("now", n)]
        return seen[0] > 2

    with b.while_(condition):
        out[0] = seen[0]
        n.set(seen[0] - 2)

    np.testing.assert_array_equal([3], vc.evaluate(b.build()))


def test_break_continue_and_return_leave_what_they_should() -> None:
    b = vc.Builder("leave", block=6)
    out = b.output("out", vc.u32, size=6)
    i = b.let("i", vc.global_id.x)
    total = b.var("total", vc.u32(0))
    with b.for_(0, 10) as j:
        with b.if_(j == 1):
            b.continue_()
        with b.if_(j > i):
            b.break_()
        total.set(total + j)
    with b.if_(i == 4):
        b.return_()
    out[i] = total + 100

    np.testing.assert_array_equal([100, 100, 102, 105, 0, 114], vc.evaluate(b.build()))


# ---- shared memory, atomics, assertions -----------------------------------------------------------------------------


def test_a_block_exchanges_through_shared_memory() -> None:
    b = vc.Builder("reverse", block=4)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    tile = b.shared("tile", vc.u32, 4)
    t = b.let("t", vc.thread_id.x)
    tile[t] = x[vc.global_id.x]
    b.barrier()
    out[vc.global_id.x] = tile[tile.size - 1 - t]

    expected = [3, 2, 1, 0, 7, 6, 5, 4]
    np.testing.assert_array_equal(expected, vc.evaluate(b.build(), np.arange(8, dtype=np.uint32)))


def test_an_atomic_result_is_dropped_only_when_nothing_reads_it() -> None:
    b = vc.Builder("results", block=1)
    x = b.inout("x", vc.u32)
    with b.if_(x.size > 0):
        b.atomic_add(x, 0, 1)
    old = b.atomic_add(x, 0, 10, order="acq_rel", scope="system")
    x[1] = b.atomic_compare_exchange(x, 0, old + 10, 99)
    program = b.build()
    branch, add, exchange, store = program.body

    assert isinstance(branch, If)
    assert branch.then == (Atomic(None, "add", "x", u32(0), (u32(1),)),)
    assert add == Atomic("old_1", "add", "x", u32(0), (u32(10),), "acq_rel", "system")
    assert isinstance(exchange, Atomic)
    assert isinstance(store, Store)
    assert exchange.result == "old_2"
    assert store.value == Local(vc.u32, "old_2")
    np.testing.assert_array_equal([99, 11], vc.evaluate(program, np.zeros(2, np.uint32), grid=1))


def test_a_failed_assertion_names_its_line() -> None:
    b = vc.Builder("holds", block=4)
    out = b.output("out", vc.u32, size=4)
    b.assert_(vc.global_id.x < 2, "too far")
    out[vc.global_id.x] = 1

    with pytest.raises(vc.KernelAssertionError) as raised:
        vc.evaluate(b.build())
    assert (raised.value.message, raised.value.thread) == ("too far", 2)
    assert raised.value.source == here(test_a_failed_assertion_names_its_line, 3)


# ---- names ----------------------------------------------------------------------------------------------------------


def test_names_that_clash_are_numbered() -> None:
    b = vc.Builder("names")
    x = b.inout("x", vc.u32)
    for _ in range(3):
        b.let("i", vc.global_id.x)
    b.let("i_1", vc.global_id.y)
    x[0] = b.let("x", x[1])
    b.var("i", vc.u32(1))
    with b.for_(0, 2):
        b.let("j", vc.u32(0))
    tiles = [b.shared("tile", vc.u32, 4).name for _ in range(2)]
    body = b.build().body

    assert tiles == ["tile", "tile_1"]
    expected = ["i", "i_1", "i_2", "i_1_1", "t", "x_1", "i_3", "j"]
    assert expected == [s.name for s in body if isinstance(s, (Let, Var, For))]


def test_buffers_tell_name_type_and_size() -> None:
    b = vc.Builder("handles")
    x = b.input("x", vc.i32)
    b.let("n", x.size)

    assert (x.name, x.type, x.dtype) == ("x", vc.i32, np.dtype(np.int32))
    assert b._scope.block.statements[-1] == Let("n", Size(vc.u32, "x"))


def test_variables_assign_their_own_type() -> None:
    b = vc.Builder("assign")
    v = b.var("v", vc.f32(1))
    v.set(2)

    assert b._scope.block.statements == [
        Var("v", Const(vc.f32, 0x3F800000)),
        Assign("v", Const(vc.f32, 0x40000000)),
    ]
