"""Steps in a row that would not be the same as one program are refused."""

from __future__ import annotations

from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Barrier, Const, Id
from vyre_cuda.passes import merge as merging
from vyre_cuda.passes import part
from vyre_cuda.passes.arrays import Arrays
from vyre_cuda.passes.forwarding import Forwarded
from vyre_cuda.passes.merge import merge
from vyre_cuda.passes.places import Places
from vyre_cuda.passes.steps import Kind, Options, Step

from .merged_steps import BLOCK, array, check_dropped, first, recorded, refused, scale, shift, would_be_wrong


def test_a_neighbor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(), recorded(shift(by=1), {"x": array(1), "z": array(2)})]

    assert refused(steps) is Kind.ELEMENT
    key = Places.key
    monkeypatch.setattr(Places, "key", lambda self, _, of: key(self, Id(vc.u32, "global_id", 0), of))
    would_be_wrong(steps)


def test_memory_that_is_shared_in_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(), recorded(shift(), {"x": array(1, 1), "z": array(2)})]

    assert refused(steps) is Kind.OVERLAP
    monkeypatch.setattr(Arrays, "check_ranges", lambda *_: None)
    would_be_wrong(steps)


def test_another_type_of_the_same_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(), recorded(shift(type_=vc.i32), {"x": array(1), "z": array(2)})]

    assert refused(steps) is Kind.VIEW
    monkeypatch.setattr(Arrays, "check_ranges", lambda *_: None)
    would_be_wrong(steps)


def test_a_return_that_leaves_a_branch_in_its_middle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = vc.Builder("leaves", block=BLOCK)
    z = b.inout("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 50):
        with b.if_(i > 20):
            b.return_()
        z[i] = 1.0
    steps = [recorded(b.build(), {"z": array(1)}), recorded(shift(), {"x": array(1), "z": array(2)})]

    assert refused(steps) is Kind.RETURN
    monkeypatch.setattr(part, "Return", Barrier)
    would_be_wrong(steps)


def test_a_clear_that_the_threads_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        recorded(scale(), {"x": array(0, 0, 20), "z": array(1, 0, 140)}, {"a": 2.0}),
        recorded(scale(), {"x": array(2, 0, 20), "z": array(1, 0, 140)}, {"a": 2.0}),
    ]
    steps[0] = recorded(scale(out="inout"), {"x": array(0, 0, 20), "z": array(1, 0, 140)}, {"a": 2.0})

    assert refused(steps) is Kind.CLEAR
    monkeypatch.setattr(merging.Merge, "_clears", lambda *_: ())
    would_be_wrong(steps)


def test_other_launches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = vc.Builder("everyone", block=BLOCK)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(x.size)
    z[vc.global_id.x] = z[vc.global_id.x] + 1
    every = b.build()
    steps = [
        recorded(every, {"x": array(0, 0, 20), "z": array(1)}),
        recorded(every, {"x": array(0), "z": array(2)}),
    ]

    assert refused(steps) is Kind.LAUNCH
    monkeypatch.setattr(merging, "check_launches", lambda _: None)
    would_be_wrong(steps)


def test_what_nobody_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(out="inout", guard=3), recorded(shift(), {"x": array(1), "z": array(2)})]

    assert refused(steps, [array(1)]) is Kind.UNKNOWN
    assert refused([steps[1]], [array(1)]) is Kind.UNKNOWN
    zero = Const(vc.f32, 0)

    def zeros(*given: Any) -> Forwarded:
        type_, shape, index, key, stores, _ = given
        return Forwarded(type_, shape, index, key, stores, zero)

    monkeypatch.setattr(merging, "Forwarded", zeros)
    with pytest.raises(AssertionError):
        check_dropped(lambda p, **given: vc.evaluate(p, **given), steps, merge(steps, [array(1)]), 0, [array(1)])


def test_other_options_are_refused() -> None:
    second = recorded(shift(), {"x": array(1), "z": array(2)})
    step = Step(second.program, second.spans, {}, second.geometry, Options(precision="ftz"))
    trap = Step(second.program, second.spans, {}, second.geometry, Options(bounds="trap"))

    assert refused([first(), step]) is Kind.OPTIONS
    assert refused([trap, trap]) is Kind.OPTIONS


def test_products_and_sums_that_could_become_one_are_refused() -> None:
    fast = Options(precision="fast")
    steps = [first(), recorded(shift(), {"x": array(1), "z": array(2)})]
    steps = [Step(s.program, s.spans, s.scalars, s.geometry, fast) for s in steps]

    assert refused(steps) is Kind.PRECISION


@pytest.mark.thin
def test_more_than_2000_operations_are_refused() -> None:
    assert (
        refused([recorded(scale(), {"x": array(0), "z": array(1 + k % 2)}, {"a": 2.0}) for k in range(900)])
        is Kind.SIZE
    )


@pytest.mark.parametrize("what", ["assert", "barrier", "print", "shared"])
def test_statements_that_other_threads_or_the_host_see_are_refused(what: str) -> None:
    b = vc.Builder("other", block=BLOCK)
    z = b.inout("z", vc.f32)
    if what == "assert":
        b.assert_(z.size > 3, "short")
    elif what == "barrier":
        b.barrier()
    elif what == "print":
        b.print("here")
    else:
        b.shared("s", vc.f32, 4)
    other = recorded(b.build(), {"z": array(2)})

    assert refused([first(), other]) is Kind.STATEMENT
