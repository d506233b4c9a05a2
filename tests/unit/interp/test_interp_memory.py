"""Memory in the interpreter: bounds of every index type, zeroed arrays, bools, ids over a launch of many chunks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir.core.nodes import (
    Apply,
    Barrier,
    Const,
    Expr,
    Id,
    Let,
    Load,
    Local,
    Parameter,
    SharedArray,
    Size,
    Store,
)
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INTEGERS, TYPES, Type, bool_, f32, u32, u64
from vyre_cuda.ir.read.parse import parse

Array = np.ndarray[Any, np.dtype[Any]]
GID = Id(u32, "global_id", 0)


def outside(index: Type) -> list[int]:
    """Indices that five elements do not have: next to the end, ends of the type, and what is small modulo 2^32."""
    near = [5, 6, -1, -5, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, -(2**32), -(2**32) + 2, 2**63 + 3]
    return [n for n in [*near, index.minimum, index.maximum] if index.minimum <= n <= index.maximum and not 0 <= n < 5]


def at_of(index: Type, *inside: int) -> Array:
    return np.array([*inside, *outside(index)], dtype=index.storage)


def u32s(*values: int) -> Array:
    return np.array(values, dtype=np.uint32)


# ---- bounds ---------------------------------------------------------------------------------------------------------


def gather(type_: Type, index: Type) -> Program:
    """r[i] = x[at[i]]."""
    value = Load(type_, "x", Load(index, "at", GID))
    parameters = (Parameter("x", "in", type_), Parameter("at", "in", index))
    return Program("gather", (*parameters, Parameter("r", "out", type_, Size(u32, "at"))), (Store("r", GID, value),))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_load_out_of_bounds_gives_zero(type_: Type, index: Type) -> None:
    x = np.arange(1, 6).astype(type_.dtype)
    at = at_of(index, 0, 4)
    expected = np.concatenate([x[[0, 4]], np.zeros(at.size - 2, type_.dtype)])

    found = evaluate(gather(type_, index), x, at)

    assert isinstance(found, np.ndarray)
    assert (type_.dtype, expected.tobytes()) == (found.dtype, found.tobytes())


def test_load_from_an_empty_buffer_gives_zero() -> None:
    assert evaluate(gather(f32, u32), np.zeros(0, np.float32), u32s(0, 1)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_store_out_of_bounds_does_nothing(type_: Type, index: Type) -> None:
    at = at_of(index, 3, 0)
    store = Store("r", Load(index, "at", GID), Load(type_, "x", GID))
    parameters = (Parameter("at", "in", index), Parameter("x", "in", type_), Parameter("r", "inout", type_))
    program = Program("scatter", parameters, (store,), block=(at.size, 1, 1))
    x = (np.arange(at.size) % 2 == 0).astype(type_.dtype)
    r = np.ones(5, dtype=type_.dtype)

    assert evaluate(program, at, x, r).astype(np.int64).tolist() == [0, 1, 1, 1, 1]
    assert r.astype(np.int64).tolist() == [1] * 5


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_shared_arrays_of_every_type_keep_the_bits(type_: Type) -> None:
    """Each thread of a block writes one element and reads that of its neighbor; places past the array give 0."""
    at = Id(u32, "thread_id", 0)
    neighbor = Apply(u32, "bitwise_xor", (at, Const(u32, 1)))
    body = (Store("tile", at, Load(type_, "x", GID)), Barrier(), Store("r", GID, Load(type_, "tile", neighbor)))
    parameters = (Parameter("x", "in", type_), Parameter("r", "out", type_, Size(u32, "x")))
    program = Program("p", parameters, body, block=(8, 1, 1), shared=(SharedArray("tile", type_, 6),))
    patterns = np.random.default_rng(5).integers(0, 1 << min(type_.bits, 63), 16, dtype=np.uint64)
    x = patterns.astype(type_.unsigned).view(type_.dtype)
    place = np.arange(16) ^ 1
    expected = np.where(place % 8 < 6, x.view(type_.unsigned)[place], 0).astype(type_.unsigned)

    found = evaluate(program, x)

    assert isinstance(found, np.ndarray)
    assert expected.tolist() == found.view(type_.unsigned).tolist()


def test_indices_of_a_u64_program_do_not_wrap_at_32_bits() -> None:
    """Element i + 2^32 is not element i, in memory that has few elements."""
    gid = Id(u64, "global_id", 0)
    far = Apply(u64, "add", (gid, Const(u64, 2**32)))
    outs = tuple(Parameter(name, "out", u64, Size(u64, "x")) for name in ("near", "far"))
    body = (Store("near", gid, Load(u64, "x", gid)), Store("far", gid, Load(u64, "x", far)), Store("near", far, far))
    program = Program("p", (Parameter("x", "in", u64), *outs), body, index=u64, block=(4, 1, 1))
    x = np.array([2**63, 2**40, 7], dtype=np.uint64)

    found = evaluate(program, x)

    assert [column.tolist() for column in found] == [[2**63, 2**40, 7], [0, 0, 0]]


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


def test_bool_bytes_keep_their_bits_until_they_are_written() -> None:
    x = np.array([0, 1, 2, 255], dtype=np.uint8).view(np.bool_)
    write = Store("x", Const(u32, 2), Load(bool_, "x", Const(u32, 3)))

    found = evaluate(Program("p", (Parameter("x", "inout", bool_),), (write,)), x)

    assert isinstance(found, np.ndarray)
    assert found.view(np.uint8).tolist() == [0, 1, 1, 255]
    assert x.view(np.uint8).tolist() == [0, 1, 2, 255]


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
