"""Where a value may be used: until its block ends. And that a variable is set by `+=` and its like."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

X = np.arange(1, 9, dtype=np.float32)


class Parts:
    """A program of 8 threads; what `size` of x is read by thread i."""

    def __init__(self) -> None:
        self.b = vc.Builder("parts", block=8)
        self.x = self.b.input("x", vc.f32)
        self.n = self.b.scalar("n", vc.u32)
        self.out = self.b.output("out", vc.f32, size=self.x.size)
        self.ints = self.b.inout("ints", vc.u32)
        self.i = self.b.let("i", vc.global_id.x)


# What reads something, by what it reads.
READERS: dict[str, Callable[[Parts], Any]] = {
    "an input": lambda p: p.x[p.i],
    "an input at a literal": lambda p: p.x[0],
    "arithmetic on an input": lambda p: p.x[p.n] * 10,
    "a buffer that is written": lambda p: vc.f32(p.ints[0]),
    "a let of outside": lambda p: vc.f32(p.i + 1),
    "an atomic": lambda p: vc.f32(p.b.atomic_add(p.ints, 0, 1)),
    "a warp operation": lambda p: vc.f32(p.b.ballot(p.n > 1)),
    "a cast": lambda p: vc.f32(vc.u32(p.x[0])),
    "a choice": lambda p: vc.where(p.n > 1, p.x[0], 0.0),
}
# What reads nothing.
FREE: dict[str, Callable[[Parts], Any]] = {
    "an id": lambda p: vc.f32(vc.global_id.x),
    "arithmetic on ids": lambda p: vc.f32(vc.thread_id.x * 2 + vc.block_id.x),
    "a size": lambda p: vc.f32(p.x.size),
    "a scalar": lambda p: vc.f32(p.n + 1),
    "a literal": lambda p: vc.f32(3),
}


def in_if(p: Parts, make: Callable[[Parts], Any]) -> Any:
    with p.b.if_(p.n > 1):
        return make(p)


def in_else(p: Parts, make: Callable[[Parts], Any]) -> Any:
    with p.b.if_(p.n > 1):
        pass
    with p.b.else_():
        return make(p)


def in_loop(p: Parts, make: Callable[[Parts], Any]) -> Any:
    with p.b.for_(0, 4):
        return make(p)


def in_while(p: Parts, make: Callable[[Parts], Any]) -> Any:
    with p.b.while_(lambda: p.n > 100):
        return make(p)


def two_deep(p: Parts, make: Callable[[Parts], Any]) -> Any:
    with p.b.if_(p.n > 1), p.b.for_(0, 4):
        return make(p)


BLOCKS = [in_if, in_else, in_loop, in_while, two_deep]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("make", READERS.values(), ids=READERS)
def test_a_value_that_reads_something_ends_with_its_block(block: Callable[..., Any], make: Callable[..., Any]) -> None:
    p = Parts()
    value = block(p, make)

    with pytest.raises(vc.ProgramError, match="outside the block in which it was made"):
        p.out[p.i] = value
    with pytest.raises(vc.ProgramError, match=r"b\.var"):
        p.b.let("t", value + 1)
    with pytest.raises(vc.ProgramError, match="outside the block"), p.b.if_(p.n > 2):
        p.out[p.i] = value


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("make", FREE.values(), ids=FREE)
def test_a_value_that_reads_nothing_goes_anywhere(block: Callable[..., Any], make: Callable[..., Any]) -> None:
    p = Parts()
    value = block(p, make)
    wanted = make(p)

    p.out[p.i] = value - wanted
    p.out[p.i] = p.out[p.i] + 1

    results = vc.evaluate(p.b.build(), X, np.uint32(2), ints=np.zeros(4, np.uint32))
    np.testing.assert_array_equal(np.ones(8, np.float32), results[0])


def test_a_value_is_used_in_its_block_and_in_those_inside() -> None:
    p = Parts()
    with p.b.if_(p.n > 1):
        value = p.x[p.i] * 10
        p.out[p.i] = value
        with p.b.for_(0, 2), p.b.if_(p.n > 1):
            p.out[p.i] = p.out[p.i] + value

    results = vc.evaluate(p.b.build(), X, np.uint32(2), ints=np.zeros(4, np.uint32))
    np.testing.assert_array_equal(30 * X, results[0])


def test_one_name_in_both_arms_is_refused_where_it_is_used() -> None:
    p = Parts()
    with p.b.if_(p.x[p.i] > 2):
        v = p.x[p.i] * 10
    with p.b.else_():
        v = p.x[p.i]

    with pytest.raises(vc.ProgramError, match="else_ block") as raised:
        p.out[p.i] = v

    assert raised.value.diagnostics[0].source == (__file__, raised.traceback[0].lineno + 1)


def test_a_sum_by_a_python_name_in_a_loop_is_refused_behind_it() -> None:
    p = Parts()
    total: Any = vc.f32(0)
    with p.b.for_(0, p.x.size) as j:
        total = total + p.x[j]

    with pytest.raises(vc.ProgramError, match="for_ block"):
        p.out[p.i] = total


def test_a_value_of_a_condition_is_used_in_the_loop_and_not_behind() -> None:
    p = Parts()
    kept: list[Any] = []

    def condition() -> Any:
        kept.append(p.ints[0])
        return kept[0] < 3

    with p.b.while_(condition):
        p.ints[0] = p.ints[0] + 1
    with pytest.raises(vc.ProgramError, match="while_ block"):
        p.ints[1] = kept[0]


UPDATES: list[tuple[Callable[[Any, Any], Any], vc.Type, Any]] = [
    (operator.iadd, vc.f32, 3.0),
    (operator.isub, vc.f32, 3.0),
    (operator.imul, vc.f32, 3.0),
    (operator.itruediv, vc.f32, 4.0),
    (operator.ifloordiv, vc.i32, 3),
    (operator.imod, vc.i32, 3),
    (operator.ilshift, vc.i32, 1),
    (operator.irshift, vc.i32, 1),
    (operator.iand, vc.i32, 6),
    (operator.ior, vc.i32, 5),
    (operator.ixor, vc.i32, 5),
]


@pytest.mark.parametrize(("update", "type_", "by"), UPDATES, ids=[u[0].__name__ for u in UPDATES])
def test_an_update_sets_the_variable(update: Callable[[Any, Any], Any], type_: vc.Type, by: Any) -> None:
    b = vc.Builder("update", block=1)
    out = b.output("out", type_, size=1)
    v = b.var("v", type_(7))
    with b.for_(0, 3):
        assert update(v, by) is v
    out[0] = v

    wanted = type_.dtype.type(7)
    for _ in range(3):
        wanted = update(wanted, type_.dtype.type(by))
    np.testing.assert_array_equal(np.array([wanted], type_.dtype), vc.evaluate(b.build()))


def test_a_power_sets_the_variable() -> None:
    b = vc.Builder("power", block=1)
    out = b.output("out", vc.f32, size=1)
    v = b.var("v", vc.f32(3))
    v **= 2.0
    out[0] = v

    np.testing.assert_array_equal(np.float32([9]), vc.evaluate(b.build()))


def test_an_update_with_what_is_no_operand_is_a_type_error() -> None:
    b = vc.Builder("update", block=1)
    v = b.var("v", vc.f32(3))

    with pytest.raises(TypeError):
        v += "3"  # type: ignore[operator]
    with pytest.raises(vc.ProgramError):
        v += vc.u32(3)
