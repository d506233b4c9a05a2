"""What statements and expressions of a kernel function mean, on the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .interpreted import XS, N, clamped, results


def test_a_name_assigned_once_is_a_let_and_one_assigned_more_often_a_variable() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        once = x[i] + 1
        often = once * 2
        if once > 10:
            often = often + 1
        out[i] = often

    text = f.program().text()

    assert "let once = " in text
    assert "var often = " in text
    assert np.array_equal(results(f, XS), np.where(XS + 1 > 10, (XS + 1) * 2 + 1, (XS + 1) * 2))


def test_a_size_has_a_name() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], y: vc.i32):
        n = x.size
        half = n // 2 + y
        out = vc.output(vc.i32, half)
        vc.work(half)
        i = vc.global_id.x
        if i < half:
            out[i] = x[i + n // 2]

    assert results(f, XS, 0).tolist() == list(range(32, 64))


def test_a_value_taken_before_a_change_stays() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        v: vc.i32 = 1
        before = v
        kept = [v, v + 1]
        v += x[i]
        out[i] = before * 100 + kept[0] * 10 + kept[1] + v * 1000

    assert np.array_equal(results(f, XS), 112 + (XS + 1) * 1000)


def test_assignments_of_several_names_are_simultaneous() -> None:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        a: vc.i32 = 1
        b: vc.i32 = 2
        a, b = b, a + b
        x[0], x[1] = x[1], x[0]
        x[2] = c = a * 10 + b
        x[3] = c + 1

    assert results(f, np.array([5, 6, 0, 0], np.int32)).tolist() == [6, 5, 23, 24]


def test_elif_and_else_take_the_first_that_holds() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        if x[i] < 10:
            out[i] = 1
        elif x[i] < 20:
            out[i] = 2
        elif x[i] < 30:
            out[i] = 3
        else:
            out[i] = 4

    assert np.array_equal(results(f, XS), np.select([XS < 10, XS < 20, XS < 30], [1, 2, 3], 4))


@pytest.mark.parametrize("mode", ["sum", "product", None])
def test_a_branch_on_a_python_value_is_taken_when_the_program_is_built(mode: str | None) -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], mode: vc.const):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        if mode is None:
            out[i] = undefined_if_taken if mode else 0  # noqa: F821
            return
        if mode in ("sum", "other"):
            how = x[i] + 3
        else:
            how = x[i] * 3
        out[i] = how

    program = f.program(mode=mode)

    expected = {"sum": XS + 3, "product": XS * 3, None: XS * 0}[mode]
    assert np.array_equal(vc.evaluate(program, XS), expected)
    assert "if " not in program.text()


def test_loops_on_the_device_count_like_range() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        total: vc.i32 = 0
        for k in range(i):
            if k == 5:
                continue
            if k > 9:
                break
            total += k
        for k in range(10, 0, -3):
            total += k * 1000
        for _ in range(i, i + 2):
            total += 100000
        out[i] = total

    def expected(i: int) -> int:
        return sum(k for k in range(min(i, 10)) if k != 5) + 22000 + 200000

    assert results(f, XS).tolist() == [expected(i) for i in range(N)]


def test_while_evaluates_its_condition_before_each_pass() -> None:
    @vc.kernel
    def f(x: vc.In[vc.u32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        n: vc.u32 = x[i]
        steps: vc.i32 = 0
        while n != 1 and steps < 1000:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        out[i] = steps

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
        return count

    assert results(f, np.arange(1, 30, dtype=np.uint32)).tolist() == [steps(n) for n in range(1, 30)]


def test_loops_over_python_objects_run_when_the_program_is_built() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], weights: vc.const):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        values = [x[i] * w for w in weights]
        total: vc.i32 = 0
        for v in values:
            total += v
        for k in vc.unrolled(10):
            if k == 3:
                break
            total += k
        for k, w in enumerate(weights):
            if w == 2:
                continue
            total += k * 100
        out[i] = total

    program = f.program(weights=(1, 2, 3))

    assert "for" not in program.text()
    assert np.array_equal(vc.evaluate(program, XS), XS * 6 + 3 + 200)


def test_an_operand_that_reads_memory_is_read_only_where_python_would() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        if (i < 10 and x[i] > 3) or x[i] == 50:
            out[i] = x[i] if i > 5 else -x[i]

    program = f.program()
    text = program.text()

    assert text.index("if less(i, i32:10)") < text.index("greater(load(x[i]), i32:3)")
    expected = [(i if i > 5 else -i) if (i < 10 and i > 3) or i == 50 else 0 for i in range(N)]
    assert vc.evaluate(program, XS).tolist() == expected


def test_conditional_expressions_choose_bools_that_are_read() -> None:
    @vc.kernel
    def f(x: vc.In[vc.bool_], y: vc.In[vc.bool_]):
        out = vc.output(vc.bool_, x.size)
        i = vc.global_id.x
        out[i] = y[i] if x[i] else not y[i]

    x, y = XS % 2 == 0, XS % 3 == 0

    assert np.array_equal(vc.evaluate(f, x, y), x == y)


@pytest.mark.parametrize("left", [False, True])
def test_a_constant_bool_may_stand_before_an_operand_that_reads_memory(left: bool) -> None:
    @vc.kernel
    def f(x: vc.In[vc.bool_], left: vc.const):
        either = vc.output(vc.bool_, x.size)
        both = vc.output(vc.bool_, x.size)
        i = vc.global_id.x
        either[i] = vc.bool_(left) or x[i]
        both[i] = vc.bool_(left) and x[i]

    x = XS % 2 == 0
    either, both = vc.evaluate(f.program(left=left), x)

    assert np.array_equal(either, left | x)
    assert np.array_equal(both, left & x)


def test_operands_that_only_compute_are_evaluated_in_any_case() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        v = x[i]
        w: vc.i32 = 0
        w += v
        if (3 < v <= 20 and not w == 7) or v * 2 > 100:  # noqa: SIM201
            out[i] = v if w > 10 else 1

    program = f.program()

    assert program.text().count("if ") == 1
    assert vc.evaluate(program, XS).tolist() == [
        (i if i > 10 else 1) if (3 < i <= 20 and i != 7) or i > 50 else 0 for i in range(N)
    ]


def test_an_element_is_updated_once() -> None:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        i = vc.global_id.x
        x[i] += 1
        x[i] *= 3
        x[i] -= i

    assert np.array_equal(results(f, XS), (XS + 1) * 3 - XS)


def test_a_parameter_can_be_assigned() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], a: vc.i32):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        if i > 5:
            a = a * 2
        out[i] = a

    assert np.array_equal(results(f, XS, 7), np.where(XS > 5, 14, 7))


def test_arrays_that_a_block_shares_and_barriers() -> None:
    @vc.kernel(block=32)
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        t = vc.shared(vc.i32, 32)
        j = vc.thread_id.x
        t[j] = x[vc.global_id.x]
        vc.barrier()
        out[vc.global_id.x] = t[31 - j] + vc.warp_reduce(vc.u32(1), "sum").type.bits

    assert np.array_equal(results(f, XS), XS.reshape(2, 32)[:, ::-1].ravel() + 32)


def test_a_failed_assertion_has_its_message() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        assert x[i] < 60, "too large"
        assert x[i] >= 0
        out[i] = x[i]

    with pytest.raises(vc.KernelAssertionError, match="too large"):
        results(f, XS)
    with pytest.raises(vc.KernelAssertionError, match=r"x\[i\] >= 0"):
        results(f, XS - 1000)


def test_lines_of_the_program_are_those_of_the_function() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        out[vc.global_id.x] = x[0]

    (statement,) = f.program().body

    first = f.__wrapped__.__code__.co_firstlineno
    assert statement.source == (__file__, first + 3)


def test_outputs_follow_the_parameters() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], y: vc.InOut[vc.i32], z: vc.Out[vc.i32], s: vc.f32):
        second = vc.output(vc.i32, x.size)
        first = vc.output(vc.f32, 1)
        first[0] = s
        second[vc.global_id.x] = x[0]
        z[0] = 1

    assert [p.name for p in f.program().parameters] == ["x", "y", "z", "s", "second", "first"]


# ---- functions -------------------------------------------------------------------------------------------------------


def plain(v: Any, w: Any) -> Any:
    return v * 2 + w


@vc.func
def divided(a, b):
    q: vc.i32 = 0
    r = a
    while r >= b:
        r = r - b
        q += 1
    return q, r


@vc.func
def add_to(out, i, v):
    if v > 3:
        out[i] += v


def test_functions_are_inlined() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        quotient, rest = divided(x[i], 7)
        out[i] = plain(clamped(x[i], vc.i32(10), vc.i32(20)), 1) + 1000 * quotient + 100000 * rest
        add_to(out, i, x[i])

    expected = np.clip(XS, 10, 20) * 2 + 1 + 1000 * (XS // 7) + 100000 * (XS % 7) + np.where(XS > 3, XS, 0)
    assert np.array_equal(results(f, XS), expected)


def test_functions_are_constants_too() -> None:
    @vc.kernel
    def f(x: vc.In[vc.i32], act: vc.const):
        out = vc.output(vc.i32, x.size)
        out[vc.global_id.x] = act(x[vc.global_id.x])

    assert np.array_equal(results(f, XS, act=lambda v: v * 5), XS * 5)
    assert np.array_equal(results(f, XS, act=abs), XS)


def test_a_function_of_a_nested_call_reads_its_own_names() -> None:
    @vc.func
    def inner(v):
        i: vc.i32 = 1
        for _ in range(3):
            i = i + v
        return i

    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        out[i] = inner(x[i]) + inner(inner(x[i]))

    assert np.array_equal(results(f, XS), (1 + 3 * XS) + (1 + 3 * (1 + 3 * XS)))


def test_a_function_returns_bools_under_conditions() -> None:
    @vc.func
    def same(a, b):
        if a:
            return b
        return ~b

    @vc.kernel
    def f(x: vc.In[vc.bool_], y: vc.In[vc.bool_]):
        out = vc.output(vc.bool_, x.size)
        i = vc.global_id.x
        if i < out.size:
            out[i] = same(x[i], y[i])

    x, y = XS % 2 == 0, XS % 3 == 0

    assert np.array_equal(vc.evaluate(f, x, y), x == y)
