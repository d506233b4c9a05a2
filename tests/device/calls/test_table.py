"""The warm path's scalars, sizes and grids are those of the general path, or it declines."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda._native.call.table import Table
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.descriptors.signature import signature
from vyre_cuda.ir.call.geometry import host_size, launch_geometry
from vyre_cuda.ir.core.nodes import Expr
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import INTEGERS, TYPES, Type
from vyre_cuda.testing.edges import scalars as scalars_of


def table_of(program: Program) -> Table:
    found = signature(program, lower(program, Target.parse("sm_90")))
    rows = tuple(astuple(row) for row in found.rows)
    return Table(rows, found.work, program.block, program.index.value_bits, found.simple, found.extents)


def takes(type_: Type) -> Table:
    b = vc.Builder("takes")
    x = b.inout("x", vc.u32)
    b.scalar("a", type_)
    x[vc.global_id.x] = vc.u32(1)
    return table_of(b.build())


TABLES = {type_.name: takes(type_) for type_ in TYPES}

NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.sampled_from([s * 2**k + d for k in (7, 8, 15, 16, 31, 32, 53, 63, 64) for d in (-1, 0, 1) for s in (1, -1)]),
    st.floats(),
    st.sampled_from([math.inf, -math.inf, math.nan, 3.5e38, 3.4028235e38, 1e-45, -0.0]),
    st.booleans(),
    st.none(),
    st.sampled_from(
        [np.float32(1.5), np.float64(1.5), np.int8(-1), np.uint64(2**64 - 1), np.bool_(True), np.float16(2)]
    ),
)


@pytest.mark.thin(3)
@pytest.mark.parametrize("type_", TYPES, ids=lambda t: t.name)
@given(data=st.data())
def test_scalars_have_the_bits_of_the_general_rule(type_: Type, data: st.DataObject) -> None:
    value: Any = data.draw(st.one_of(scalars_of(type_), NUMBERS))
    try:
        expected = bits_of(type_, value)
    except (TypeError, OverflowError):
        expected = None

    found = TABLES[type_.name].scalar(1, value)

    assert found is None or found == expected


@pytest.mark.parametrize("type_", [t for t in TYPES if t.name not in ("f16", "bf16")], ids=lambda t: t.name)
def test_ordinary_scalars_are_known_at_a_glance(type_: Type) -> None:
    plain: Any = True if type_.kind == "bool" else 1.5 if type_.is_float else 7
    for value in (plain, type_.dtype.type(plain)):
        assert TABLES[type_.name].scalar(1, value) == bits_of(type_, value)


@st.composite
def host_expressions(draw: st.DrawFn, leaves: list[Expr], index: Type, depth: int = 2) -> Any:
    """An expression over sizes and scalars with the ops that the table knows, of the index type."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(leaves))
    a = draw(host_expressions(leaves, index, depth - 1))
    b = draw(host_expressions(leaves, index, depth - 1))
    op = draw(st.sampled_from([vc.add, vc.subtract, vc.multiply, vc.floor_divide, vc.minimum, vc.maximum]))
    through = draw(st.sampled_from([None, *INTEGERS]))
    if through is None:
        return op(a, b)
    cast = getattr(vc, through.name)
    return getattr(vc, index.name)(op(cast(a), cast(b)))


@given(data=st.data())
def test_sizes_and_grids_are_those_of_the_general_rule(data: st.DataObject) -> None:
    index = data.draw(st.sampled_from([vc.u32, vc.u64, vc.i32, vc.i64]))
    block = data.draw(st.sampled_from([(1,), (256,), (8, 8), (4, 4, 4)]))
    b = vc.Builder("sized", block=block, index=index)
    x = b.input("x", vc.f32)
    n = b.scalar("n", index)
    k = b.scalar("k", vc.i16)
    number = data.draw(st.integers(0, min(index.maximum, 2**32 - 1)))
    leaves = [x.size, n, getattr(vc, index.name)(k), getattr(vc, index.name)(number)]
    b.output("out", vc.f32, size=data.draw(host_expressions(leaves, index)))
    axes = data.draw(st.integers(len(block), 3))
    b.work(*[data.draw(host_expressions(leaves, index, 1)) for _ in range(axes)])
    program = b.build()
    table = table_of(program)
    count = data.draw(st.integers(0, 2**20))
    scalars = [
        data.draw(st.integers(0, 2**index.bits - 1) | st.integers(0, 1000)),
        data.draw(st.integers(0, 2**16 - 1)),
    ]
    by_name = {"n": scalars[0], "k": scalars[1]}
    size = grid = None
    try:
        size = host_size("out", program.parameters[3].size, {"x": count}, by_name)
        grid = launch_geometry(program, {"x": count, "out": size}, by_name).grid
    except ValueError:
        pass  # the general path tells

    assert table.simple, program.text()
    sizes, found = table.sizes_and_grid([count, 0, 0, 0], scalars)

    # Where a step wraps the general path decides, also when the end is in range again.
    assert sizes is None or sizes[3] == size
    if found is not None:
        assert grid is not None
        assert found == grid or (0 in found and 0 in grid)


def test_a_size_or_a_grid_that_wraps_is_for_the_general_path() -> None:
    for index, count in ((vc.u32, 2**31), (vc.u64, 2**63)):
        for make in (lambda n: n + n, lambda n: n * 2, lambda n: n - (n + 1)):
            b = vc.Builder("wraps", block=256, index=index)
            b.input("x", vc.f32)
            n = b.scalar("n", index)
            b.output("out", vc.f32, size=make(n))
            table = table_of(b.build())

            assert table.sizes_and_grid([1, 0, 0], [count]) == (None, None)
            assert (table.sizes_and_grid([1, 0, 0], [5])[0] is None) == (make(5) < 0)


@pytest.mark.parametrize("through", [vc.i16, vc.i64])
def test_a_size_that_is_negative_on_the_way_to_its_type_is_for_the_general_path(through: Type) -> None:
    b = vc.Builder("cast", block=256, index=vc.u64)
    b.input("x", vc.f32)
    n = b.scalar("n", vc.u64)
    b.output("out", vc.f32, size=vc.u64(getattr(vc, through.name)(n) - 1))
    table = table_of(b.build())

    assert table.sizes_and_grid([1, 0, 0], [0]) == (None, None)
    assert table.sizes_and_grid([1, 0, 0], [5])[0] == [1, 0, 4]
