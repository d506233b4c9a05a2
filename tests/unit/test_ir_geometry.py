"""Launch geometry: grids from work, explicit grids, and values that the host computes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.call.geometry import Geometry, host_size, host_value, launch_geometry
from vyre_cuda.ir.core.limits import MAX_GRID
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Id, Load, Local, Parameter, Scalar, SharedArray, Size
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.types import bool_, f32, i32, i64, u32, u64

IN = Parameter("x", "in", f32)
INOUT = Parameter("h", "inout", f32)
OUT = Parameter("r", "out", f32, Size(u32, "x"))
SIZES = {"x": 1000, "h": 300, "r": 513, "tile": 64}
N, M = Scalar(u32, "n"), Scalar(i32, "m")


def geometry(
    *parameters: Parameter,
    block: tuple[int, int, int] = (256, 1, 1),
    work: tuple[Expr, ...] | None = None,
    grid: Any = None,
    **scalars: int,
) -> Geometry:
    return launch_geometry(Program("p", parameters, (), block, u32, work), SIZES, scalars, grid)


@pytest.mark.parametrize(
    ("parameters", "name"), [((IN, INOUT, OUT), "r"), ((IN, INOUT), "h"), ((IN,), "x")], ids=["out", "inout", "in"]
)
def test_work_is_the_size_of_the_first_out_else_inout_else_in(parameters: tuple[Parameter, ...], name: str) -> None:
    size = SIZES[name]

    assert Geometry((-(-size // 256), 1, 1), (256, 1, 1), (size, 1, 1)) == geometry(*parameters)
    primary = primary_buffer(Program("p", parameters, ()))
    assert primary is not None
    assert name == primary.name


@settings(deadline=None)
@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=3), st.tuples(*[st.integers(1, 16)] * 3))
def test_grid_covers_the_work_with_no_block_to_spare(items: list[int], block: tuple[int, int, int]) -> None:
    x, y, z = (*block[: len(items)], 1, 1)[:3]
    found = geometry(block=(x, y, z), work=tuple(Const(u32, n) for n in items))

    for blocks, threads, n in zip(found.grid, (x, y, z), (*items, 1, 1), strict=False):
        assert n <= blocks * threads < n + threads


def test_work_is_evaluated_over_scalars_and_sizes() -> None:
    rows = Apply(u32, "floor_divide", (Size(u32, "x"), N))
    found = geometry(IN, block=(8, 4, 1), work=(N, rows), n=40)

    assert Geometry((5, 7, 1), (8, 4, 1), (40, 25, 1)) == found
    assert found.blocks == 35
    assert found.threads_per_block == 32


def test_work_of_size_zero_has_no_blocks() -> None:
    assert geometry(work=(N,), n=0).blocks == 0
    assert geometry(work=(N, Const(u32, 10**6)), n=0).blocks == 0


@pytest.mark.parametrize(("grid", "blocks"), [(7, (7, 1, 1)), ((2, 3), (2, 3, 1)), ((2, 3, 4), (2, 3, 4))], ids=str)
def test_explicit_grid_overrides_the_work(grid: Any, blocks: tuple[int, int, int]) -> None:
    expected = Geometry(blocks, (8, 4, 1), (blocks[0] * 8, blocks[1] * 4, blocks[2]))

    assert expected == geometry(IN, block=(8, 4, 1), grid=grid)


@pytest.mark.parametrize("grid", [0, (1, 0), (-1,), (), (1, 1, 1, 1), (1, 65536), (1, 1, 65536), 2**31], ids=str)
def test_grid_that_no_device_takes_is_a_value_error(grid: Any) -> None:
    with pytest.raises(ValueError):
        geometry(IN, grid=grid)


@pytest.mark.parametrize("grid", [1.0, "1", [1, 1], (1, 2.0), True], ids=repr)
def test_grid_of_another_kind_is_a_type_error(grid: Any) -> None:
    with pytest.raises(TypeError):
        geometry(IN, grid=grid)


def test_largest_grid_is_accepted() -> None:
    assert geometry(IN, block=(2, 1, 1), grid=MAX_GRID).grid == MAX_GRID


def test_more_blocks_than_cuda_allows_are_a_value_error_that_says_what_to_change() -> None:
    with pytest.raises(
        ValueError, match="70000 blocks on axis y; CUDA allows 65535: use a block with more threads on axis y"
    ):
        geometry(IN, block=(32, 1, 1), work=(Const(u32, 1), Const(u32, 70_000)))


def test_more_threads_than_ids_of_the_index_type_are_a_value_error() -> None:
    wide = Program("p", (IN,), (), (4, 1, 1), u64)

    assert launch_geometry(wide, SIZES, {}, MAX_GRID).grid == MAX_GRID
    with pytest.raises(ValueError, match=r"index=vc\.u64"):
        geometry(IN, block=(4, 1, 1), grid=MAX_GRID)
    with pytest.raises(ValueError, match=r"index=vc\.u64"):
        geometry(IN, block=(1024, 1, 1), work=(Const(u64, 2**32 + 1),))


@pytest.mark.parametrize(
    ("block", "work"),
    [((16, 16, 1), None), ((16, 16, 1), (N,)), ((1, 1, 4), (N, N)), ((1, 4, 1), None)],
    ids=["2 axes, no work", "2 axes, 1 of work", "3 axes, 2 of work", "y alone"],
)
def test_block_of_several_axes_needs_work_for_each(block: tuple[int, int, int], work: Any) -> None:
    with pytest.raises(ValueError):
        geometry(IN, OUT, block=block, work=work, n=4)
    assert geometry(IN, OUT, block=block, work=work, n=4, grid=2).grid == (2, 1, 1)


def test_program_without_buffers_and_work_needs_a_grid() -> None:
    with pytest.raises(ValueError):
        geometry()


def test_work_beyond_the_largest_grid_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        geometry(block=(1, 1, 1), work=(N,), n=2**31)


def test_negative_work_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        geometry(work=(M,), m=2**32 - 5)


def test_work_may_use_the_size_of_a_shared_array() -> None:
    program = Program("p", (), (), (32, 1, 1), u32, (Size(u32, "tile"),), (SharedArray("tile", f32, 64),))

    assert launch_geometry(program, {}, {}).grid == (2, 1, 1)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_host_sizes_divide_like_the_type_and_what_wraps_is_a_value_error(a: int, b: int) -> None:
    scalars = {"a": a, "b": b}
    operands = (Scalar(u32, "a"), Scalar(u32, "b"))
    expected = {"add": a + b, "subtract": a - b, "multiply": a * b, "floor_divide": a // b if b else 0}

    for op, value in expected.items():
        if 0 <= value < 2**32:
            assert value == host_size("it", Apply(u32, op, operands), {}, scalars)
            continue
        with pytest.raises(ValueError, match=f"it is {value}, which is out of range of u32; a = {a}, b = {b}"):
            host_size("it", Apply(u32, op, operands), {}, scalars)


@pytest.mark.parametrize(
    ("expr", "n", "expected"),
    [
        (Apply(u32, "subtract", (Apply(u32, "add", (N, Const(u32, 7))), Const(u32, 7))), 2**32 - 3, 2**32 - 3),
        (Apply(u32, "floor_divide", (Apply(u32, "subtract", (N, Const(u32, 5))), Const(u32, 2))), 3, -2),
        (Apply(u32, "cast", (Apply(i64, "subtract", (Apply(i64, "cast", (N,)), Const(i64, 5))),)), 3, -2),
        (Apply(u32, "minimum", (Apply(u32, "subtract", (N, Const(u32, 5))), Const(u32, 9))), 3, -2),
    ],
)
def test_a_size_wraps_only_where_the_end_does_or_an_op_looks_at_it(expr: Expr, n: int, expected: int) -> None:
    if expected >= 0:
        assert expected == host_size("it", expr, {}, {"n": n})
        return
    with pytest.raises(ValueError, match=f"it is {expected}, which is out of range of u32; n = {n}"):
        host_size("it", expr, {}, {"n": n})


def test_host_value_evaluates_floats_casts_and_conditions() -> None:
    half = Apply(f32, "multiply", (Apply(f32, "cast", (N,)), Const(f32, 0x3F000000)))
    rounded = Apply(u32, "cast", (Apply(f32, "ceil", (half,)),))
    chosen = Apply(u32, "where", (Apply(bool_, "less", (N, Size(u32, "x"))), rounded, Const(u32, 1)))

    assert host_value(chosen, SIZES, {"n": 7}).tolist() == [4]
    assert host_value(chosen, SIZES, {"n": 1000}).tolist() == [1]


@pytest.mark.parametrize(
    "expr", [Local(u32, "i"), Id(u32, "global_id", 0), Load(u32, "x", N)], ids=lambda e: type(e).__name__
)
def test_what_only_a_thread_knows_has_no_value_on_the_host(expr: Expr) -> None:
    with pytest.raises(ProgramError):
        host_value(Apply(u32, "add", (N, expr)), SIZES, {"n": 1})
