"""Kernel functions that run as Python: the bits, the results and the errors of `vc.evaluate`."""

from __future__ import annotations

import io
import pdb
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre_cuda as vc

T = TypeVar("T")


def listed(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def bits(results: Any) -> list[tuple[Any, ...]]:
    """Dtype, shape and bits of each result; every NaN is one."""
    rows = []
    for array in listed(results):
        clean = (
            np.where(array != array, np.array(np.nan).astype(array.dtype), array) if array.dtype.kind == "f" else array
        )
        rows.append((array.dtype, array.shape, clean.tobytes()))
    return rows


def check(kernel: Any, *args: Any, given: dict[str, Any] | None = None) -> None:
    """`given` are the open parameters for `program`, whose consts the call takes by name."""
    given = given or {}
    consts = {name: value for name, value in given.items() if not isinstance(value, vc.Type) or name.islower()}
    expected = vc.evaluate(kernel.program(**given), *args)
    assert bits(kernel.python(*args, **consts)) == bits(expected)


# ---- names and types


@vc.kernel(block=8)
def names(x: vc.In[vc.f32], n: vc.i32):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    acc: vc.f32 = 0
    step: vc.i32 = 1
    if i % 2 == 0:
        acc = 3
    else:
        acc, step = x[i], step + 2
    step = 7 // step
    half = acc / 2
    last = half if i > 3 else 1
    n = 5
    out[i] = half + vc.f32(step) / 2 + last / 4 + vc.f32(n) / 2


def test_numbers_take_the_type_of_the_name_that_they_are_assigned_to() -> None:
    check(names, np.arange(16, dtype=np.float32), 3)


@vc.kernel(block=8)
def choices(x: vc.In[vc.f32], scale: vc.const):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if scale is None:
        value = x[i]
    elif scale > 1:
        value = x[i] * scale
    else:
        value = x[i] / 3
    if value > 2:
        value = 0.7
        local = x[i]
    local = 0.1
    out[i] = value * 3 * 7 * 11 + vc.f32(local * 3)


@pytest.mark.parametrize("scale", [None, 1, 2])
def test_names_live_behind_a_condition_that_python_decides(scale: Any) -> None:
    check(choices, np.arange(8, dtype=np.float32), given={"scale": scale})


@vc.kernel(block=8)
def conditions(x: vc.In[vc.i32]):
    out = vc.output(vc.u32, x.size)
    i = vc.global_id.x
    small = x[i] < 3 and True
    even = not (x[i] % 2 > 0) or False
    between = 1 < x[i] < 6 <= x[i + 1]
    out[i] = vc.u32(~small) + vc.u32(even) * 2 + vc.u32(between) * 4 + vc.u32(not small) * 8


def test_conditions_are_bools_of_the_language() -> None:
    check(conditions, np.array([0, 1, 2, 3, 4, 5, 6, 7], np.int32))


@vc.kernel(block=8)
def loops(x: vc.In[vc.i32], stop: vc.i32, step: vc.i32):
    out = vc.output(vc.i32, x.size)
    i = vc.global_id.x
    total: vc.i32 = 0
    for j in range(x[i], stop, step):
        if j == 5:
            continue
        total += j // 2
        if total > 40:
            break
    for k in range(4):
        total -= k
    while total > 20:
        total //= 2
    for c in vc.unrolled(3):
        total += c * x[c]
    out[i] = total + x[i - 100] + x[100]
    out[1000] = 1


@pytest.mark.parametrize("step", [1, 3, -2, 0])
def test_loops_count_as_those_of_a_program(step: int) -> None:
    check(loops, np.array([0, -5, 3, 20, 7], np.int32), 12, step)


@vc.kernel(block=4)
def generic(x: vc.In[T], scale: vc.const, act: vc.const):
    out = vc.output(T, x.size)
    i = vc.global_id.x
    out[i] = act(x[i] * scale + T(1))


def test_type_variables_and_consts_stand_for_what_a_call_gives() -> None:
    for type_ in (vc.f16, vc.f32, vc.f64):
        values = np.linspace(-2, 2, 6).astype(type_.dtype)
        expected = vc.evaluate(generic.program(T=type_, scale=3, act=vc.tanh), values)
        assert bits(generic.python(values, 3, vc.tanh)) == bits(expected)


@vc.func
def pieces(x: Any, limit: Any) -> Any:
    if x > limit:
        return vc.f32(0), x
    low = x * 2
    return low, 1


@vc.kernel(block=8)
def calls(x: vc.In[vc.f32]):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    a, b = pieces(x[i], 3)
    out[i] = a / 2 + b / 4


def test_a_number_that_a_function_returns_has_the_type_of_its_other_paths() -> None:
    check(calls, np.arange(8, dtype=np.float32))


# ---- threads


@vc.kernel(block=64)
def reverse(x: vc.In[vc.i32]):
    out = vc.output(vc.i32, x.size)
    tile = vc.shared(vc.i32, 64)
    other = vc.shared(vc.i32, 64)
    t, i = vc.thread_id.x, vc.global_id.x
    tile[t] = x[i]
    vc.barrier()
    other[t] = tile[63 - t] + vc.warp_scan(tile[t], "add")
    vc.barrier()
    out[i] = other[t ^ 1] + vc.shuffle_xor(tile[t], 5) + vc.i32(vc.ballot(tile[t] % 3 == 0))


@pytest.mark.thin
def test_barriers_and_warp_operations_exchange_what_they_do_in_a_program() -> None:
    check(reverse, np.random.default_rng(0).integers(-100, 100, 150).astype(np.int32))


@vc.kernel(block=32)
def histogram(x: vc.In[vc.u32], counts: vc.InOut[vc.u32]):
    vc.work(x.size)
    i = vc.global_id.x
    if i >= x.size:
        return
    vc.atomic_add(counts, x[i], 1)
    vc.atomic_max(counts, 7, x[i])


def test_atomics_add_up_and_an_inout_is_returned_and_not_changed() -> None:
    counts = np.zeros(8, np.uint32)
    check(histogram, np.random.default_rng(0).integers(0, 7, 100).astype(np.uint32), counts)
    assert not counts.any()


@vc.kernel(block=4)
def checked(x: vc.In[vc.i32]):
    out = vc.output(vc.i32, x.size)
    i = vc.global_id.x
    assert x[i] < 10, "too big"
    out[i] = x[i]


def test_a_failed_assertion_is_the_error_of_a_call() -> None:
    given = np.array([1, 2, 30, 4, 50], np.int32)
    with pytest.raises(vc.KernelAssertionError) as expected:
        vc.evaluate(checked.program(), given)
    with pytest.raises(vc.KernelAssertionError) as found:
        checked.python(given)
    assert str(found.value) == str(expected.value)


# ---- arguments


def test_arguments_are_refused_in_the_words_of_a_call() -> None:
    for args in [(np.zeros(3),), (), (np.zeros(3, np.int32), 1)]:
        with pytest.raises(TypeError):
            checked.python(*args)
    with pytest.raises(TypeError, match=r"checked.python takes no iterations="):
        checked.python(np.zeros(3, np.int32), iterations=2)


def test_out_and_grid_are_those_of_a_call() -> None:
    out = np.full(3, -1, np.int32)
    assert checked.python(np.arange(3, dtype=np.int32), out=out) is out
    assert out.tolist() == [0, 1, 2]
    assert checked.python(np.arange(12, dtype=np.int32), grid=1).tolist() == [0, 1, 2, 3] + [0] * 8


# ---- debugging


@vc.kernel(block=2)
def watched(x: vc.In[vc.f32]):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    doubled = x[i] * 2
    vc.barrier()
    out[i] = doubled


class Debugger(pdb.Pdb):
    """Answers from a list."""

    def __init__(self, commands: list[str]) -> None:
        self.shown = io.StringIO()
        super().__init__(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=self.shown, nosigint=True, readrc=False)
        self.use_rawinput = False


def test_a_breakpoint_stops_at_the_users_line_and_shows_typed_values() -> None:
    lines = Path(__file__).read_text().splitlines()
    line = 1 + next(at for at, text in enumerate(lines) if "out[i] = doubled" in text)
    debugger = Debugger(
        [f"break {__file__}:{line}", "continue", "p doubled, i", "continue", "p doubled, i", "clear 1", "continue"]
    )
    results = debugger.runcall(watched.python, np.array([1.5, 2.5], np.float32))
    assert results.tolist() == [3.0, 5.0]
    shown = debugger.shown.getvalue()
    assert "(f32(3.0), i32(0))" in shown
    assert "(f32(5.0), i32(1))" in shown


def test_an_error_of_the_function_has_the_users_line() -> None:
    def broken(v: Any) -> Any:
        if vc.lane_id is None:
            raise AssertionError
        return v if type(v) is not _scalar() else v.missing

    with pytest.raises(AttributeError, match="missing") as caught:
        generic.python(np.zeros(2, np.float32), 1, broken)
    assert any(Path(str(entry.path)) == Path(__file__) and "act(" in str(entry.statement) for entry in caught.traceback)


def _scalar() -> type:
    from vyre_cuda.frontend.python.scalar import Scalar

    return Scalar


# ---- arrays of a thread, tables

weights = np.array([1, 2, 4, 8], np.int32)
weights.flags.writeable = False


@vc.kernel(block=4)
def counted(x: vc.In[vc.i32]):
    out = vc.output(vc.i32, x.size)
    counts = vc.local(vc.i32, 4)
    i = vc.global_id.x
    for j in range(x.size):
        counts[(x[j] + i) % 5] += 1
    total: vc.i32 = 0
    for k in range(-1, 6):
        total += counts[k] * weights[k]
    out[i] = total


def test_local_arrays_and_captured_tables_are_those_of_the_program() -> None:
    check(counted, np.arange(9, dtype=np.int32))


# ---- axes


@vc.kernel(block=(4, 4))
def stencil(x: vc.In2[vc.f32], weights: vc.In[vc.f32]):
    out = vc.output(vc.f32, (x.shape[0], x.shape[1] - 1))
    tile = vc.shared(vc.f32, (4, 5))
    vc.work(x.shape[1], x.shape[0])
    column, row = vc.global_id.x, vc.global_id.y
    tile[vc.thread_id.y, vc.thread_id.x] = x[row, column]
    vc.barrier()
    total: vc.f32 = 0
    for d in range(-1, 2):
        total += x[row + d, column - d] * weights[d + 1]
    out[row, column] = total + tile[vc.thread_id.y, vc.thread_id.x - 1]
    out[row, column - 100] = 7


@pytest.mark.thin
def test_an_index_out_of_bounds_in_any_axis_reads_0_and_writes_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((6, 7)).astype(np.float32)
    check(stencil, x, np.array([1, 2, 3], np.float32))
    assert stencil.python(x, np.ones(3, np.float32)).shape == (6, 6)
