"""Programs whose ids and sizes are signed, or have 64 bits: the same rules, with the limits of the type."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Id, Size
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INDEX_TYPES, Type
from vyre_cuda.ir.core.walk import expressions, operands, statements

EDGE = 2**31  # what i32 does not count


def neighbors(index: Type) -> Program:
    """x[i - 1] + x[i + 1], 0 for the one that is missing."""
    b = vc.Builder("neighbors", block=32, index=index)
    x = b.input("x", vc.i32)
    out = b.output("out", vc.i32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        total = b.var("total", vc.i32(0))
        for at in (i - 1, i + 1):
            with b.if_((at >= 0) & (at < x.size)):
                total.set(total + x[at])
        out[i] = total
    return b.build()


@pytest.mark.parametrize("index", INDEX_TYPES)
def test_ids_and_sizes_have_the_index_type(index: Type) -> None:
    program = neighbors(index)
    found = [e for s in statements(program.body) for e in expressions(operands(s)) if isinstance(e, (Id, Size))]

    assert found
    assert {e.type for e in found} == {index}


@pytest.mark.parametrize("index", INDEX_TYPES)
def test_text_and_bytes_come_back(index: Type) -> None:
    program = neighbors(index)

    assert vc.parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program


def test_only_signed_indices_need_the_second_version_of_the_bytes() -> None:
    versions = {index.name: neighbors(index).to_bytes()[4] for index in INDEX_TYPES}

    assert versions == {"u32": 1, "u64": 1, "i32": 2, "i64": 2}


@pytest.mark.parametrize("index", [vc.i32, vc.i64])
def test_the_left_neighbor_of_the_first_element_is_below_it(index: Type) -> None:
    x = np.arange(1, 6, dtype=np.int32)

    np.testing.assert_array_equal([2, 4, 6, 8, 4], vc.evaluate(neighbors(index), x))


def test_more_elements_than_i32_counts_are_refused_with_what_to_write() -> None:
    b = vc.Builder("big", index=vc.i32)
    n = b.scalar("n", vc.u32)
    b.output("out", vc.u8, size=n)
    program = b.build()

    with pytest.raises(ValueError, match=rf"{EDGE} elements.*index=vc\.i64"):
        vc.evaluate(program, EDGE)


def test_more_threads_than_i32_counts_are_refused_with_what_to_write() -> None:
    b = vc.Builder("wide", block=1024, index=vc.i32)
    x = b.inout("x", vc.u8)
    x[vc.global_id.x] = vc.u8(1)
    program = b.build()

    with pytest.raises(ValueError, match=r"index=vc\.i64"):
        vc.evaluate(program, np.zeros(1, np.uint8), grid=EDGE // 1024 + 1)


def test_a_size_below_zero_is_refused() -> None:
    b = vc.Builder("short", index=vc.i32)
    x = b.input("x", vc.f32)
    b.output("out", vc.f32, size=x.size - 2)
    program = b.build()

    with pytest.raises(ValueError, match="-1"):
        vc.evaluate(program, np.zeros(1, np.float32))


def test_signed_indices_cost_no_instruction_more() -> None:
    def lines(index: Type) -> list[str]:
        b = vc.Builder("twice", index=index)
        x = b.input("x", vc.f32)
        out = b.output("out", vc.f32, size=x.size)
        i = b.let("i", vc.global_id.x)
        with b.if_(i < out.size):
            out[i] = x[i] * 2
        return vc.ptx(b.build(), "sm_90").splitlines()

    assert [line.replace(".s32", ".u32") for line in lines(vc.i32)] == lines(vc.u32)
    assert [line.replace(".s64", ".u64") for line in lines(vc.i64)] == lines(vc.u64)


@pytest.mark.parametrize("index", [-1, np.int64(-1)])
def test_an_index_from_the_end_is_refused_with_what_to_write(index: int | np.int64) -> None:
    b = vc.Builder("last", index=vc.i32)
    x = b.inout("x", vc.f32, ndim=2)

    for access in (lambda: x[0, index], lambda: x.__setitem__((0, index), 1.0), lambda: b.atomic_add(x, (0, index), 1)):
        with pytest.raises(vc.ProgramError, match=r"no element -1: .*write x\.shape\[1\] - 1"):
            access()
