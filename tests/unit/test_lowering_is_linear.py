"""Building, validating, optimizing and lowering take time in proportion to the program.

What is counted is lines of Python that run: that number is the same each time, and the clock is not asked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from uncollected import uncollected

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.passes.pipeline import optimize, prepared

SMALL = 100
TIMES = 4


class Start:
    def __init__(self) -> None:
        self.b = vc.Builder("long", block=1)
        self.x = self.b.input("x", vc.f32)
        self.out = self.b.output("out", vc.f32, size=self.x.size)
        self.i = self.b.let("i", vc.global_id.x)


def branches(n: int) -> vc.Program:
    p = Start()
    for k in range(n):
        with p.b.if_(p.x[p.i] > float(k)):
            p.out[p.i] = float(k)
        with p.b.else_():
            p.out[p.i] = float(k + 1)
    return p.b.build()


def branches_that_set_one_variable(n: int) -> vc.Program:
    p = Start()
    v = p.b.var("v", vc.f32(0))
    for k in range(n):
        with p.b.if_(p.x[p.i] > float(k)):
            v += float(k)
    p.out[p.i] = v
    return p.b.build()


def branches_that_set_a_variable_each(n: int) -> vc.Program:
    p = Start()
    variables = [p.b.var("v", vc.f32(k)) for k in range(n)]
    for k, v in enumerate(variables):
        with p.b.if_(p.x[p.i] > float(k)):
            v += float(k)
    for v in variables:
        p.out[p.i] = v
    return p.b.build()


def returns(n: int) -> vc.Program:
    p = Start()
    for k in range(n):
        with p.b.if_(p.x[p.i] > float(k)):
            p.b.return_()
        p.out[p.i] = float(k)
    return p.b.build()


def loops(n: int) -> vc.Program:
    p = Start()
    v = p.b.var("v", vc.f32(0))
    for _ in range(n):
        with p.b.for_(0, p.x.size) as j:
            v += p.x[j]
            with p.b.if_(v > 3.0):
                p.b.break_()
    p.out[p.i] = v
    return p.b.build()


def assertions(n: int) -> vc.Program:
    p = Start()
    for k in range(n):
        p.b.assert_(p.x[p.i] > float(k), "too small")
    return p.b.build()


def statements(n: int) -> vc.Program:
    p = Start()
    value = p.x[p.i]
    for k in range(n):
        value = value * value + float(k)
        p.out[p.i] = value
    return p.b.build()


def integers(n: int, type_: vc.Type = vc.i32) -> vc.Program:
    """Sums and products that are linear in two loads, and ops that are not."""
    b = vc.Builder("integers", block=1)
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        value, other = b.let("value", x[i]), b.let("other", y[i])
        for k in range(n):
            value = b.let(f"v{k}", value * type_(k % 100 + 2) + (other ^ value))
        out[i] = value
    return b.build()


def sums(n: int) -> vc.Program:
    """Lets that are sums of the same two loads, each of the one before; only the last is used."""
    b = vc.Builder("sums", block=1)
    x, y = b.input("x", vc.u32), b.input("y", vc.u32)
    out = b.output("out", vc.u32, size=1)
    one, other = b.let("one", x[0]), b.let("other", y[0])
    value = one * 3 + other * 5
    for k in range(n):
        value = b.let(f"v{k}", value + (one, other)[k % 2])
    out[0] = value
    return b.build()


def lines_of(work: Callable[[], Any]) -> int:
    """How many lines of Python run, coverage tools aside."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    with uncollected():
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
    return count


@pytest.mark.thin(28)
@pytest.mark.parametrize(
    "make",
    [
        branches,
        branches_that_set_one_variable,
        branches_that_set_a_variable_each,
        returns,
        loops,
        assertions,
        statements,
        integers,
        sums,
    ],
)
@pytest.mark.parametrize("stage", ["build", "optimize", "lower"])
def test_four_times_the_program_is_four_times_the_work(make: Callable[[int], vc.Program], stage: str) -> None:
    def work(n: int) -> Callable[[], Any]:
        if stage == "build":
            return lambda: make(n)
        program = make(n)
        return (lambda: optimize(program)) if stage == "optimize" else (lambda: vc.ptx(program))

    work(SMALL)()  # imports and tables
    small = lines_of(work(SMALL))

    assert lines_of(work(TIMES * SMALL)) < 1.15 * TIMES * small


@pytest.mark.thin
@pytest.mark.slow
def test_eight_times_the_branches_take_eight_times_as_long() -> None:
    """Copies of lists are no lines of Python. CPU time, the least of three: one that is quadratic takes 20 times."""

    def seconds(n: int) -> float:
        program = branches(n)
        times = []
        for _ in range(3):
            begin = time.process_time()
            vc.ptx(program)
            times.append(time.process_time() - begin)
        return min(times)

    small = seconds(500)
    assert seconds(4000) < 14 * small


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("type_", [vc.i32, vc.u8, vc.u64])
def test_four_thousand_ops_take_twenty_times_as_long_as_two_hundred(type_: vc.Type) -> None:
    """CPU time, the least of five: one that is quadratic takes 400 times."""

    def seconds(ops: int) -> float:
        program = integers(ops // 3, type_)
        times = []
        for _ in range(5):
            begin = time.process_time()
            vc.ptx(program)
            times.append(time.process_time() - begin)
        return min(times)

    small = seconds(200)
    assert seconds(4000) < 40 * small


def _mixed_with_a_dead_let(n: int) -> vc.Program:
    """Eight ops a turn on i32 and f32; the last number is not used."""
    p = Start()
    number, value = p.b.let("number", vc.i32(p.x[p.i])), p.b.let("value", p.x[p.i])
    for k in range(n):
        both = p.b.let(f"b{k}", number * 3 + (number ^ (k + 1)))
        value = p.b.let(f"v{k}", value * 1.5 + vc.f32(both))
        number = p.b.let(f"n{k}", vc.i32(vc.minimum(value, 1e6)))
    p.out[p.i] = value
    return p.b.build()


def _with_xor(n: int, type_: vc.Type) -> vc.Program:
    b = vc.Builder("with_xor")
    x, out = b.input("x", type_), b.output("out", type_, size=1)
    value, other = b.let("value", x[0]), b.let("other", x[1])
    for k in range(n):
        value = b.let(f"v{k}", value * type_(k % 100 + 2) + (other ^ value))
    out[0] = value
    return b.build()


def _sums_and_products(n: int, type_: vc.Type) -> vc.Program:
    b = vc.Builder("sums_and_products")
    x, out = b.input("x", type_), b.output("out", type_, size=1)
    value = b.let("value", x[0])
    for k in range(n):
        value = b.let(f"v{k}", value * type_(k % 100 + 2) + x[0])
    out[0] = value
    return b.build()


# About a tenth more than they take with CPython 3.11.
@pytest.mark.parametrize(
    ("make", "most"),
    [
        pytest.param(lambda: _mixed_with_a_dead_let(25), 95_000, id="mixed"),
        pytest.param(lambda: _with_xor(66, vc.u32), 104_000, id="u32 with xor"),
        pytest.param(lambda: _with_xor(66, vc.u8), 162_000, id="u8 with xor"),
        pytest.param(lambda: _sums_and_products(100, vc.i32), 69_000, id="i32"),
        pytest.param(lambda: _sums_and_products(100, vc.bf16), 145_000, id="bf16"),
    ],
)
def test_passes_and_lowering_of_two_hundred_ops_run_few_lines(make: Callable[[], vc.Program], most: int) -> None:
    program, target = make(), Target.parse("sm_90")
    lower(prepared(program), target)  # imports and tables

    assert lines_of(lambda: lower(prepared(program), target)) < most
