"""Atomics in the interpreter: every row of the table for every type, global and shared, one lane after another.

The expected elements and old values come from a loop over the lanes with NumPy scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir.core.nodes import (
    Apply,
    Atomic,
    Barrier,
    Const,
    Id,
    If,
    Load,
    Local,
    Parameter,
    SharedArray,
    Size,
    Store,
)
from vyre_cuda.ir.core.ops import ATOMICS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INTEGERS, Type, bool_, f32, f64, i32, i64, u32, u64
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.testing.conformance import Count

pytestmark = pytest.mark.conformance
Array = np.ndarray[Any, np.dtype[Any]]
GID = Id(u32, "global_id", 0)
CASES = [(op, type_) for op, row in ATOMICS.items() for type_ in row.types]
THREADS = 600


def u32s(*values: int) -> Array:
    return np.array(values, dtype=np.uint32)


# ---- programs and what they give ------------------------------------------------------------------------------------


def atomic_program(type_: Type, op: str, *, keep_old: bool, shared: int = 0) -> Program:
    """h[at[i]] combined with v[i] (and w[i]) for every i; old values in r. `shared` elements take the place of h's."""
    names = ("v", "w")[: ATOMICS[op].operands]
    values = tuple(Load(type_, name, GID) for name in names)
    atomic = Atomic("old" if keep_old else None, op, "tile" if shared else "h", Load(u32, "at", GID), values)
    kept = (Store("r", GID, Local(type_, "old")),) if keep_old else ()
    inside = If(Apply(bool_, "less", (GID, Size(u32, "at"))), (atomic, *kept))
    fill = (Store("tile", GID, Load(type_, "h", GID)), Barrier())
    empty = (Barrier(), Store("h", GID, Load(type_, "tile", GID)))
    body = (*fill, inside, *empty) if shared else (inside,)
    parameters = [Parameter("at", "in", u32), *(Parameter(name, "in", type_) for name in names)]
    outs = [Parameter("h", "inout", type_), Parameter("r", "out", type_, Size(u32, "at"))]
    arrays = (SharedArray("tile", type_, shared),) if shared else ()
    return Program("p", (*parameters, *outs), body, block=(THREADS if shared else 256, 1, 1), shared=arrays)


def flushed(x: Any) -> Any:
    return np.copysign(x.dtype.type(0), x) if abs(x) < np.finfo(x.dtype).smallest_normal else x


def extreme(choose: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def combined(a: Any, b: Any) -> Any:
        if a != a or b != b:
            return a.dtype.type(np.nan)
        return choose(a, b, key=lambda x: (x, not np.signbit(x)))

    return combined


COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "minimum": extreme(min),
    "maximum": extreme(max),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "exchange": lambda a, b: b,
    "store": lambda a, b: b,
}


def one_by_one(op: str, h: Array, at: Array, v: Array, w: Array, *, flush: bool) -> Array:
    """What each lane in turn finds; changes `h`."""
    old = np.zeros_like(v)
    with np.errstate(all="ignore"):
        for lane, index in enumerate(at.tolist()):
            if index >= h.size:
                continue
            old[lane] = h[index]
            if op == "compare_exchange":
                h[index] = w[lane] if h[index] == v[lane] else h[index]
            elif op == "add" and flush:
                h[index] = flushed(flushed(h[index]) + flushed(v[lane]))
            elif op != "load":
                h[index] = COMBINED[op](h[index], v[lane])
    return old


def values_of(type_: Type, count: int, rng: np.random.Generator) -> Array:
    """Few numbers, many of them equal, and for floats zeros of both signs, subnormals, infinities and NaN."""
    if type_.is_integer:
        few = [0, 1, 2, type_.maximum, type_.maximum // 3, type_.minimum, type_.maximum - 1]
        return rng.choice(np.array(few, dtype=type_.storage), count)
    limits = ml_dtypes.finfo(type_.dtype)
    tiny, large = float(limits.smallest_normal), float(limits.max) / 4
    usual = [0.0, -0.0, 1.5, -2.25, large, tiny, -tiny, 0.75 * tiny, -0.5 * tiny, tiny / 1024]
    rare = [np.inf, -np.inf, np.nan]
    chosen = np.where(rng.integers(0, 200, count) == 0, rng.choice(rare, count), rng.choice(usual, count))
    return chosen.astype(type_.dtype)


def assert_bits(expected: Array, found: Array) -> None:
    """The same bits, any NaN equal to any other."""
    if expected.dtype.kind not in "iub":
        expected, found = (np.where(x != x, x.dtype.type(np.nan), x) for x in (expected, found))
    assert expected.tobytes() == found.tobytes()


# ---- every row ------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize("size", [1, 40, 3000])
@pytest.mark.parametrize("keep_old", [True, False])
@pytest.mark.parametrize(("op", "type_"), CASES, ids=str)
def test_global_atomic_is_as_if_lanes_came_one_after_the_other(
    op: str, type_: Type, keep_old: bool, size: int, count_interpreter: Count
) -> None:
    keep_old = (keep_old and ATOMICS[op].result) or op == "load"
    rng = np.random.default_rng(size)
    at = rng.integers(0, size + 2, THREADS, dtype=np.uint32)
    v, w, h = (values_of(type_, count, rng) for count in (THREADS, THREADS, size))
    h_expected = h.copy()
    old_expected = one_by_one(op, h_expected, at, v, w, flush=type_ is f32)

    program = atomic_program(type_, op, keep_old=keep_old)
    h_found, old_found = evaluate(program, at, *(v, w)[: ATOMICS[op].operands], h)

    assert_bits(h_expected, h_found)
    assert_bits(old_expected if keep_old else np.zeros_like(v), old_found)
    count_interpreter("atomics", op, type_.name, h_found.size + old_found.size * keep_old)


@pytest.mark.thin(5)
@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize(("op", "type_"), CASES, ids=str)
def test_shared_atomic_keeps_subnormals_and_old_values(
    op: str, type_: Type, size: int, count_interpreter: Count
) -> None:
    rng = np.random.default_rng(size)
    at = rng.integers(0, size + 2, THREADS, dtype=np.uint32)
    v, w, h = (values_of(type_, count, rng) for count in (THREADS, THREADS, size))
    h_expected = h.copy()
    old_expected = one_by_one(op, h_expected, at, v, w, flush=False)
    keep_old = ATOMICS[op].result

    program = atomic_program(type_, op, keep_old=keep_old, shared=size)
    h_found, old_found = evaluate(program, at, *(v, w)[: ATOMICS[op].operands], h)

    assert_bits(h_expected, h_found)
    assert_bits(old_expected if keep_old else np.zeros_like(v), old_found)
    count_interpreter("shared atomics", op, type_.name, h_found.size + old_found.size * keep_old)


@pytest.mark.thin
@pytest.mark.parametrize("type_", [u32, i32, u64, i64], ids=str)
@given(data=st.data())
def test_compare_exchange_of_few_values_follows_the_lanes(type_: Type, data: st.DataObject) -> None:
    few = st.integers(0, 3)
    lanes = data.draw(st.lists(st.tuples(few, few, few), min_size=1, max_size=20))
    at, v, w = (np.array(column, dtype=np.uint32) for column in zip(*lanes, strict=True))
    v, w = v.astype(type_.dtype), w.astype(type_.dtype)
    h = np.zeros(3, dtype=type_.dtype)
    h_expected = h.copy()
    old_expected = one_by_one("compare_exchange", h_expected, at, v, w, flush=False)

    h_found, old_found = evaluate(atomic_program(type_, "compare_exchange", keep_old=True), at, v, w, h)

    assert h_expected.tolist() == h_found.tolist()
    assert old_expected.tolist() == old_found.tolist()


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INTEGERS, ids=str)
@pytest.mark.parametrize("op", sorted(ATOMICS))
def test_atomic_out_of_bounds_does_nothing_and_gives_zero(op: str, index: Type) -> None:
    row = ATOMICS[op]
    operands = (Const(u32, 4), Const(u32, 9))[-row.operands :] if row.operands else ()
    atomic = Atomic("old" if row.result else None, op, "h", Load(index, "at", GID), operands)
    kept = (Store("r", GID, Local(u32, "old")),) if row.result else ()
    outside = [n for n in (-1, -3, 5, 2**31, 2**32 + 2, 2**63, index.minimum, index.maximum) if not 0 <= n < 5]
    at = np.array([2, *(n for n in outside if index.minimum <= n <= index.maximum)], dtype=index.storage)
    parameters = (Parameter("at", "in", index), Parameter("r", "inout", u32), Parameter("h", "inout", u32))
    program = Program("p", parameters, (atomic, *kept), block=(at.size, 1, 1))
    two = np.full(1, 4, np.uint32)
    one_by_one(op, two, u32s(0), u32s(9 if row.operands == 1 else 4), u32s(9), flush=False)

    old, h = evaluate(program, at, np.full(at.size, 77, np.uint32), u32s(1, 2, 4, 4, 4))

    assert [4, *[0] * (at.size - 1)] == old.tolist() if row.result else np.all(old == 77)
    assert [1, 2, int(two[0]), 4, 4] == h.tolist()


# ---- subnormals -----------------------------------------------------------------------------------------------------


def test_atomic_add_of_f32_on_global_memory_flushes_operands_and_results() -> None:
    tiny, normal = np.float32(1e-40), np.finfo(np.float32).smallest_normal
    at = u32s(0, 1, 2, 3)
    v = np.array([tiny, -normal, 0, tiny], dtype=np.float32)
    h = np.array([0, normal * np.float32(1.5), -tiny, -0.0], dtype=np.float32)

    found, old = evaluate(atomic_program(f32, "add", keep_old=True), at, v, h)

    assert np.array([0, 0, 0, 0], np.float32).tobytes() == found.tobytes()
    assert h.tobytes() == old.tobytes()


@pytest.mark.parametrize("op", ["minimum", "maximum", "exchange", "store"])
def test_other_f32_atomics_on_global_memory_keep_subnormals(op: str) -> None:
    tiny = np.array([-1e-40 if op == "minimum" else 1e-40], dtype=np.float32)

    found, _ = evaluate(atomic_program(f32, op, keep_old=False), u32s(0), tiny, np.zeros(1, np.float32))

    assert tiny.tobytes() == found.tobytes()


def test_atomic_add_of_f64_on_global_memory_keeps_subnormals() -> None:
    tiny = np.full(100, 5e-324)

    found, _ = evaluate(atomic_program(f64, "add", keep_old=False), np.zeros(100, np.uint32), tiny, tiny[:1])

    assert found.tolist() == [101 * 5e-324]


@pytest.mark.parametrize("keep_old", [True, False])
def test_atomic_add_of_f32_on_shared_memory_keeps_subnormals(keep_old: bool) -> None:
    result = "let old = " if keep_old else ""
    program = parse(f"""
        program p
        block 200
        index u32
        work size(v)
        in v: f32
        out r: f32[u32:1]
        shared sum: f32[1]
        {result}atomic add sum[u32:0], load(v[global_id.x]) order relaxed scope block
        barrier
        if equal(thread_id.x, u32:0)
          store r[u32:0], load(sum[u32:0])
        end
    """)
    v = np.random.default_rng(3).integers(-(2**22), 2**22, 200).astype(np.float32) * np.float32(2.0**-149)
    expected = np.float32(0)
    for value in v:
        expected = expected + value

    assert expected != 0
    assert evaluate(program, v).tolist() == [expected]
