"""The tables from which a kernel is prepared, from program and lowering."""

from __future__ import annotations

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.descriptors.signature import COVERED, LEAF_CONSTANT, LEAF_SIZE, STREAMING, Signature, signature
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.program import Program

POINTER, SCALAR, SIZE, REPORT = 1, 2, 3, 4
IN, INOUT, OUT = 1, 2, 3


def tables(program: Program) -> Signature:
    return signature(program, lower(program, Target.parse("sm_90")))


def scale(size: object = None, **options: object) -> Program:
    b = vc.Builder("scale", **options)
    a = b.scalar("a", vc.f32)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size if size is None else size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i]
    return b.build()


def test_pointers_scalars_and_sizes_have_their_slots_and_offsets() -> None:
    found = tables(scale())

    kinds = [(kind, index) for kind, index, _, _ in found.parameters]
    assert kinds[:3] == [(SCALAR, 0), (POINTER, 0), (POINTER, 1)]
    assert {kind for kind, _ in kinds[3:]} == {SIZE}
    ends = [0]
    for _, _, offset, size in found.parameters:
        assert offset % size == 0
        assert offset >= ends[-1]
        ends.append(offset + size)


def test_a_plain_elementwise_kernel_streams_and_covers_its_out() -> None:
    assert tables(scale()).bindings == ((IN, STREAMING, 4, 4), (OUT, STREAMING | COVERED, 4, 4))


def test_rows_say_how_the_size_of_an_out_is_worked_out() -> None:
    found = tables(scale())

    assert found.simple
    assert [(row.role, row.slot) for row in found.rows] == [(4, 0), (IN, 0), (OUT, 1)]
    assert found.rows[2].size == ((LEAF_SIZE, 32, 1),)
    assert found.work == (((LEAF_SIZE, 32, 2),),)


def test_a_constant_size_is_in_the_row() -> None:
    found = tables(scale(size=10))

    assert found.simple
    assert found.rows[2].size == ((LEAF_CONSTANT, 32, 10),)


def test_sizes_with_arithmetic_and_blocks_of_several_axes_are_simple() -> None:
    b = vc.Builder("plane", block=(8, 8))
    w = b.scalar("w", vc.u32)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size * 2 + 1)
    out[vc.global_id.x + vc.global_id.y * 8] = 1.0
    b.work(w, x.size // w)
    found = tables(b.build())

    assert found.simple
    assert [op for op, _, _ in found.rows[2].size] == [
        LEAF_SIZE,
        LEAF_CONSTANT,
        OPS["multiply"].code,
        LEAF_CONSTANT,
        OPS["add"].code,
    ]
    assert len(found.work) == 2


def test_a_size_that_takes_other_ops_is_not_simple() -> None:
    b = vc.Builder("shifted")
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size << 1)
    out[vc.global_id.x] = 1.0

    assert not tables(b.build()).simple


def test_assertions_bring_a_report_and_atomics_do_not_stream() -> None:
    b = vc.Builder("checked")
    h = b.inout("h", vc.u32)
    b.assert_(vc.global_id.x < 5, "five")
    b.atomic_add(h, 0, vc.u32(1))
    found = tables(b.build())

    assert [kind for kind, *_ in found.parameters].count(REPORT) == 1
    assert found.bindings == ((INOUT, 0, 4, 0),)
