"""Memory in the interpreter: bounds, zeroed arrays, atomics with their old values, ids over a launch of many chunks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir.nodes import Apply, Atomic, Const, Expr, Id, If, Let, Load, Local, Parameter, Size, Store
from vyre_cuda.ir.ops import OPS
from vyre_cuda.ir.parse import parse
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.types import TYPES, Type, bool_, f32, i32, u32

Array = np.ndarray[Any, np.dtype[Any]]
GID = Id(u32, "global_id", 0)
OUTSIDE = [5, 6, 2**31 - 1, 2**31, 2**32 - 1]


def u32s(*values: int) -> Array:
    return np.array(values, dtype=np.uint32)


# ---- bounds ---------------------------------------------------------------------------------------------------------


def gather(type_: Type, index: Type) -> Program:
    """r[i] = x[at[i]]."""
    value = Load(type_, "x", Load(index, "at", GID))
    parameters = (Parameter("x", "in", type_), Parameter("at", "in", index))
    return Program("gather", (*parameters, Parameter("r", "out", type_, Size(u32, "at"))), (Store("r", GID, value),))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("index", [u32, i32], ids=str)
def test_load_out_of_bounds_gives_zero(type_: Type, index: Type) -> None:
    x = np.arange(1, 6).astype(type_.dtype)
    at = u32s(0, 4, *OUTSIDE).view(index.dtype)
    expected = [*x[[0, 4]].tolist(), *[type_.dtype.type(0)] * 5]

    assert expected == evaluate(gather(type_, index), x, at).tolist()


def test_load_from_an_empty_buffer_gives_zero() -> None:
    assert evaluate(gather(f32, u32), np.zeros(0, np.float32), u32s(0, 1)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("index", [u32, i32], ids=str)
def test_store_out_of_bounds_does_nothing(index: Type) -> None:
    store = Store("r", Load(index, "at", GID), Apply(u32, "add", (GID, Const(u32, 10))))
    parameters = (Parameter("at", "in", index), Parameter("r", "inout", u32))
    program = Program("scatter", parameters, (store,), block=(7, 1, 1))
    at = u32s(3, *OUTSIDE, 0).view(index.dtype)

    assert evaluate(program, at, u32s(1, 2, 3, 4, 5)).tolist() == [16, 2, 3, 10, 5]


@pytest.mark.parametrize("op", ["add", "compare_exchange"])
def test_atomic_out_of_bounds_does_nothing_and_gives_zero(op: Any) -> None:
    operands = (Const(u32, 9),) if op == "add" else (Const(u32, 4), Const(u32, 9))
    atomic = Atomic("old", op, "h", Load(u32, "at", GID), operands)
    parameters = (Parameter("at", "in", u32), Parameter("r", "inout", u32), Parameter("h", "inout", u32))
    program = Program("p", parameters, (atomic, Store("r", GID, Local(u32, "old"))), block=(6, 1, 1))

    old, h = evaluate(program, u32s(2, *OUTSIDE), np.full(6, 77, np.uint32), u32s(1, 2, 4, 4, 4))

    assert old.tolist() == [4, 0, 0, 0, 0, 0]
    assert h.tolist() == [1, 2, 13 if op == "add" else 9, 4, 4]


def test_shared_array_bounds_are_those_of_the_block_and_literal_indices_count() -> None:
    """A store past one block's array must not land in the next block's."""
    program = parse("""
        program p
        block 4
        index u32
        work u32:8
        out r: u32[u32:8]
        shared tile: u32[4]
        store tile[add(thread_id.x, u32:2)], add(global_id.x, u32:1)
        store tile[u32:4], u32:55
        barrier
        store r[global_id.x], load(tile[thread_id.x])
    """)

    assert evaluate(program).tolist() == [0, 0, 1, 2, 0, 0, 5, 6]


def test_masked_shared_stores_and_atomics_stay_in_their_block() -> None:
    program = parse("""
        program p
        block 4
        index u32
        work u32:12
        out r: u32[u32:12]
        shared tile: u32[4]
        if less(thread_id.x, u32:3)
          store tile[thread_id.x], add(global_id.x, u32:1)
          atomic add tile[u32:3], global_id.x order relaxed scope block
        end
        barrier
        store r[global_id.x], load(tile[thread_id.x])
    """)

    assert evaluate(program).tolist() == [1, 2, 3, 0 + 1 + 2, 5, 6, 7, 4 + 5 + 6, 9, 10, 11, 8 + 9 + 10]


def test_store_of_each_thread_at_one_index_keeps_one_of_the_values() -> None:
    program = parse(
        "program p\nblock 4\nindex u32\nwork u32:4\nout r: u32[u32:2]\nstore r[u32:1], add(global_id.x, u32:1)"
    )

    first, second = evaluate(program).tolist()

    assert first == 0
    assert second in (1, 2, 3, 4)


def test_bool_bytes_other_than_zero_and_one_read_as_true() -> None:
    x = np.array([0, 1, 2, 255], dtype=np.uint8).view(np.bool_)
    both = Apply(bool_, "logical_xor", (Load(bool_, "x", GID), Const(bool_, 1)))
    program = Program(
        "p", (Parameter("x", "in", bool_), Parameter("r", "out", bool_, Size(u32, "x"))), (Store("r", GID, both),)
    )

    assert evaluate(program, x).view(np.uint8).tolist() == [1, 0, 0, 0]


# ---- atomics --------------------------------------------------------------------------------------------------------


def atomic_program(type_: Type, op: Any, *, keep_old: bool) -> Program:
    """h[at[i]] combined with v[i] (and w[i]) for every i; old values in r."""
    names = ("v",) if op == "add" else ("v", "w")
    value = tuple(Load(type_, name, GID) for name in names)
    atomic = Atomic("old" if keep_old else None, op, "h", Load(u32, "at", GID), value)
    kept = (Store("r", GID, Local(type_, "old")),) if keep_old else ()
    inside: Expr = Apply(bool_, "less", (GID, Size(u32, "at")))
    parameters = [Parameter("at", "in", u32), *(Parameter(name, "in", type_) for name in names)]
    outs = [Parameter("h", "inout", type_), Parameter("r", "out", type_, Size(u32, "at"))]
    return Program("p", (*parameters, *outs), (If(inside, (atomic, *kept)),))


def flushed(x: np.float32) -> np.float32:
    return np.copysign(np.float32(0), x) if abs(x) < np.finfo(np.float32).smallest_normal else x


def one_by_one(op: str, h: Array, at: Array, v: Array, w: Array | None = None) -> Array:
    """What each lane in turn finds; changes `h`."""
    old = np.zeros_like(v)
    with np.errstate(all="ignore"):
        for lane, index in enumerate(at.tolist()):
            if index >= h.size:
                continue
            old[lane] = h[index]
            if op == "add" and h.dtype == np.float32:
                h[index] = flushed(flushed(h[index]) + flushed(v[lane]))
            elif op == "add":
                h[index] += v[lane]
            elif w is not None and h[index] == v[lane]:
                h[index] = w[lane]
    return old


@pytest.mark.parametrize("keep_old", [True, False])
@pytest.mark.parametrize("type_", [u32, i32, f32], ids=str)
@pytest.mark.parametrize("spread", [1, 3, 40, 5000])
def test_atomic_add_is_as_if_lanes_came_one_after_the_other(type_: Type, spread: int, keep_old: bool) -> None:
    rng = np.random.default_rng(spread)
    at = rng.integers(0, spread + 2, 1500, dtype=np.uint32)
    v = rng.integers(0, 2**32, 1500, dtype=np.uint64).astype(np.uint32).view(type_.dtype)
    if type_ is f32:
        v = (rng.standard_normal(1500) * 10.0 ** rng.integers(-40, -36, 1500)).astype(np.float32)
    h = np.full(spread, 99, dtype=np.uint32).view(type_.dtype)  # as f32 a subnormal
    h_expected = h.copy()
    old_expected = one_by_one("add", h_expected, at, v)

    h_found, old_found = evaluate(atomic_program(type_, "add", keep_old=keep_old), at, v, h)

    assert h_expected.tobytes() == h_found.tobytes()
    assert not keep_old or old_expected.tobytes() == old_found.tobytes()


@pytest.mark.parametrize("type_", [u32, i32], ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_compare_exchange_is_as_if_lanes_came_one_after_the_other(type_: Type, data: st.DataObject) -> None:
    few = st.integers(0, 3)
    lanes = data.draw(st.lists(st.tuples(few, few, few), min_size=1, max_size=20))
    at, v, w = (np.array(column, dtype=np.uint32) for column in zip(*lanes, strict=True))
    v, w = v.astype(type_.dtype), w.astype(type_.dtype)
    h = np.zeros(3, dtype=type_.dtype)
    h_expected = h.copy()
    old_expected = one_by_one("compare_exchange", h_expected, at, v, w)

    h_found, old_found = evaluate(atomic_program(type_, "compare_exchange", keep_old=True), at, v, w, h)

    assert h_expected.tolist() == h_found.tolist()
    assert old_expected.tolist() == old_found.tolist()


def test_atomic_add_of_floats_on_global_memory_flushes_operands_and_results() -> None:
    tiny, normal = np.float32(1e-40), np.finfo(np.float32).smallest_normal
    at = u32s(0, 1, 2, 3)
    v = np.array([tiny, -normal, 0, tiny], dtype=np.float32)
    h = np.array([0, normal * np.float32(1.5), -tiny, -0.0], dtype=np.float32)

    found, old = evaluate(atomic_program(f32, "add", keep_old=True), at, v, h)

    assert np.array([0, 0, 0, 0], np.float32).tobytes() == found.tobytes()
    assert h.tobytes() == old.tobytes()


@pytest.mark.parametrize("keep_old", [True, False])
def test_atomic_add_of_floats_on_shared_memory_keeps_subnormals(keep_old: bool) -> None:
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


# ---- a launch -------------------------------------------------------------------------------------------------------


def test_ids_of_a_three_dimensional_launch() -> None:
    """Every thread records all of its coordinates under its linear id."""
    kinds = ["thread_id", "block_id", "block_dim", "grid_dim", "global_id"]
    block, grid = (3, 2, 2), (2, 3, 4)
    coordinates = [Id(u32, kind, axis) for kind in kinds for axis in range(3)]
    outs = [Parameter(f"{e.kind}_{e.axis}", "out", u32, Const(u32, 288)) for e in coordinates]
    linear: Expr = Const(u32, 0)
    for kind in ("block", "thread"):
        for axis in (2, 1, 0):
            dim = Id(u32, "grid_dim" if kind == "block" else "block_dim", axis)
            linear = Apply(u32, "add", (Apply(u32, "multiply", (linear, dim)), Id(u32, f"{kind}_id", axis)))
    stores = [Store(out.name, Local(u32, "linear"), e) for out, e in zip(outs, coordinates, strict=True)]
    program = Program("ids", tuple(outs), (Let("linear", linear), *stores), block)
    expected = []
    for bz, by, bx, tz, ty, tx in product(*(range(n) for n in (*grid[::-1], *block[::-1]))):
        place = [b * d + t for b, d, t in zip((bx, by, bz), block, (tx, ty, tz), strict=True)]
        expected.append((tx, ty, tz, bx, by, bz, *block, *grid, *place))

    found = evaluate(program, grid=grid)

    assert expected == list(zip(*(column.tolist() for column in found), strict=True))


def test_saxpy_over_many_chunks_equals_numpy() -> None:
    program = parse("""
        program saxpy
        block 96
        index u32
        in x: f32
        in y: f32
        out out: f32[size(x)]
        scalar a: f32
        let i = global_id.x
        if less(i, size(out))
          store out[i], add(multiply(a, load(x[i])), load(y[i]))
        end
    """)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 300_001)).astype(np.float32)
    expected = np.float32(2.5) * x + y

    assert np.array_equal(expected, evaluate(program, x, y, 2.5))
    assert np.array_equal(expected, evaluate(program, a=2.5, y=y, x=x))


def test_shared_arrays_are_zero_at_the_start_of_every_block() -> None:
    """65,536 lanes make a chunk; a block of a later chunk must not see what an earlier one left."""
    program = parse("""
        program p
        block 1024
        index u32
        work u32:200000
        out r: u32[u32:200]
        shared tile: u32[1]
        atomic add r[block_id.x], load(tile[u32:0]) order relaxed scope device
        barrier
        store tile[u32:0], u32:1
    """)

    assert not evaluate(program).any()


def test_out_is_zero_where_nothing_is_written_and_inout_keeps_its_values() -> None:
    head = "program p\nblock 4\nindex u32\nout r: f32[u32:3]\ninout h: i32\n"
    program = parse(head + "store h[u32:1], i32:-1\nstore r[u32:2], f32:1.0")
    h = np.array([5, 6, 7], dtype=np.int32)

    r, returned = evaluate(program, h)

    assert r.tolist() == [0.0, 0.0, 1.0]
    assert returned.tolist() == [5, -1, 7]
    assert h.tolist() == [5, 6, 7]


def test_work_of_size_zero_launches_nothing() -> None:
    program = parse(
        "program p\nblock 4\nindex u32\nin x: u32\nout r: u32[size(x)]\ninout h: u32\nstore h[u32:0], u32:1"
    )

    r, h = evaluate(program, np.zeros(0, np.uint32), u32s(0))

    assert (r.size, h.tolist()) == (0, [0])


def test_out_may_overlap_an_input() -> None:
    reverse = Store("r", GID, Load(u32, "x", Apply(u32, "subtract", (Const(u32, 4), GID))))
    program = Program("p", (Parameter("x", "in", u32), Parameter("r", "out", u32, Size(u32, "x"))), (reverse,))
    x = u32s(1, 2, 3, 4, 5)

    returned = evaluate(program, x, out=x)

    assert returned is x
    assert x.tolist() == [5, 4, 3, 2, 1]


def test_interpreter_raises_no_numpy_warning() -> None:
    """Warnings are errors in this suite; these operands would give one of each kind."""
    a, b = Load(f32, "a", GID), Load(f32, "b", GID)
    values = [Apply(f32, op, (a, b)) for op in ("add", "subtract", "multiply", "divide", "minimum") if op in OPS]
    stores = tuple(Store("r", GID, value) for value in values)
    ins = (Parameter("a", "in", f32), Parameter("b", "in", f32))
    program = Program("p", (*ins, Parameter("r", "out", f32, Size(u32, "a"))), stores)
    edge = np.array([0, np.inf, np.nan, 3e38, 1e-45], dtype=np.float32)

    assert evaluate(program, edge, edge[::-1]).size == 5
