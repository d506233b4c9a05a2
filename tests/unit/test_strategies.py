"""The strategies make valid programs that use the whole language, and the comparison tells what differs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.core import nodes
from vyre_cuda.ir.core.ops import ATOMICS, FUNCTIONS, OPS, WARP_OPS, AtomicOp, Op, WarpOp
from vyre_cuda.ir.core.types import TYPES, Type, bf16, f64
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.testing.compare import assert_close, assert_same, ulp_distance
from vyre_cuda.testing.strategies import (
    programs,
    programs_using,
    programs_using_atomic,
    programs_using_warp,
    programs_with_inputs,
)

STATEMENTS = {
    *(nodes.Let, nodes.Var, nodes.Assign, nodes.Store, nodes.Atomic, nodes.If, nodes.For, nodes.While, nodes.Break),
    *(nodes.Continue, nodes.Return, nodes.Barrier, nodes.Assert, nodes.Warp, nodes.GridBarrier),
}


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.thin
@pytest.mark.slow
@given(programs_with_inputs())
def test_random_programs_run_on_their_inputs(pair: tuple[vc.Program, list[Any]]) -> None:
    program, arguments = pair
    before = [np.copy(argument) for argument in arguments]
    results = vc.evaluate(program, *arguments)

    assert_same(results, vc.evaluate(program, *arguments))
    for kept, argument in zip(before, arguments, strict=True):
        assert_same(np.atleast_1d(kept), np.atleast_1d(argument))


@pytest.mark.thin
@pytest.mark.slow
@given(programs())
def test_random_programs_survive_text_and_wire(program: vc.Program) -> None:
    assert vc.parse(program.text()) == program
    assert vc.Program.from_bytes(program.to_bytes()) == program


def name_of(row: Any) -> str:
    return str(row.name)


@pytest.mark.thin(121)
@pytest.mark.parametrize(("op", "type_"), [(op, t) for op in OPS.values() for t in op.types], ids=name_of)
@settings(max_examples=4)
@given(data=st.data())
def test_programs_using_an_op_apply_it(op: Op, type_: Type, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_using(op, type_=type_))
    exprs = (e for s in statements(program.body) for e in expressions(operands(s)))
    used = {(e.op, e.operands[-1].type) for e in exprs if isinstance(e, nodes.Apply)}
    result = vc.evaluate(program, *arguments)

    assert (op.name, type_) in used
    assert isinstance(result, np.ndarray)
    assert result.size == arguments[0].size


@pytest.mark.thin(35)
@pytest.mark.parametrize(("op", "type_"), [(op, t) for op in ATOMICS.values() for t in op.types], ids=name_of)
@settings(max_examples=4)
@given(data=st.data())
def test_programs_using_an_atomic_apply_it(op: AtomicOp, type_: Type, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_using_atomic(op, type_=type_))
    used = {s.op for s in statements(program.body) if isinstance(s, nodes.Atomic)}

    assert {op.name} == used
    assert_same(vc.evaluate(program, *arguments), vc.evaluate(program, *arguments))


@pytest.mark.thin(28)
@pytest.mark.parametrize(("op", "type_"), [(op, t) for op in WARP_OPS.values() for t in op.types], ids=name_of)
@settings(max_examples=4)
@given(data=st.data())
def test_programs_using_a_warp_operation_apply_it(op: WarpOp, type_: Type, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_using_warp(op, type_=type_))
    used = {s.op for s in statements(program.body) if isinstance(s, nodes.Warp)}
    result = vc.evaluate(program, *arguments)

    assert op.name in used
    assert isinstance(result, np.ndarray)
    assert result.size == arguments[0].size


@pytest.mark.thin
@pytest.mark.slow
def test_random_programs_use_every_statement_op_and_type() -> None:
    seen: Counter[Any] = Counter()

    @settings(max_examples=800, derandomize=True, database=None, phases=[Phase.generate])
    @given(programs())
    def count(program: vc.Program) -> None:
        for statement in statements(program.body):
            seen[type(statement)] += 1
            for e in expressions(operands(statement)):
                if isinstance(e, nodes.Apply):
                    seen[e.op] += 1
                seen[e.type] += 1

    count()
    everything: set[Any] = {*OPS, *TYPES, *STATEMENTS} - FUNCTIONS.keys()

    assert everything - seen.keys() == set()
    assert len(FUNCTIONS.keys() & seen.keys()) > len(FUNCTIONS) // 2  # too many to meet each by chance


# ---- comparing ------------------------------------------------------------------------------------------------------


def test_same_takes_any_nan_for_any_nan() -> None:
    assert_same(np.array([0x7FC00001], np.uint32).view(np.float32), np.array([0xFFC00000], np.uint32).view(np.float32))


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (f32(0.0), f32(-0.0)),
        (f32(1.0), f32(np.nan)),
        (f32(1.0, 2.0), f32(1.0, 2.0000002)),
        (f32(1.0), f32(1.0, 2.0)),
        (f32(1.0), np.array([1.0])),
        (np.array([1], np.uint32), np.array([1], np.int32)),
        (np.array([1], np.uint32), np.array([2], np.uint32)),
        (np.array([True]), np.array([False])),
        ((f32(1.0), f32(2.0)), (f32(1.0),)),
        ((f32(1.0), f32(2.0)), (f32(1.0), f32(3.0))),
    ],
)
def test_same_refuses_what_differs(expected: Any, got: Any) -> None:
    with pytest.raises(AssertionError):
        assert_same(expected, got)


def test_the_report_names_the_first_difference_and_their_number() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_same(f32(1, 2, 3, 4), f32(1, -0.0, 3, 5))

    report = str(raised.value)
    assert "element 1" in report
    assert "0x80000000" in report
    assert "0x40000000" in report
    assert "2 of 4" in report


@pytest.mark.parametrize(
    ("x", "y", "steps"),
    [
        (1.0, 1.0000001, 1),
        (0.0, -0.0, 0),
        (2.0**-149, -(2.0**-149), 2),
        (np.nan, np.nan, 0),
        (np.inf, np.inf, 0),
        (np.inf, -np.inf, np.inf),
        (np.inf, 3.4028235e38, np.inf),
        (1.0, np.nan, np.inf),
    ],
)
def test_ulp_distance_counts_the_floats_between(x: float, y: float, steps: float) -> None:
    assert ulp_distance(f32(x), f32(y))[0] == steps


def test_ulp_distance_of_f64_and_bf16() -> None:
    ends = np.array([2.0**-1074, np.finfo(np.float64).max])
    narrow = np.array([0x3F80, 0xBF80], np.uint16).view(bf16.dtype)

    assert list(ulp_distance(ends, -ends)) == [2, 2.0 * 0x7FEFFFFFFFFFFFFF]
    assert list(ulp_distance(narrow, narrow[::-1])) == [2 * 0x3F80] * 2


@pytest.mark.parametrize("type_", [t for t in TYPES if t.is_float and t is not f64], ids=str)
def test_every_float_type_has_one_nan(type_: Type) -> None:
    nans = np.array([-1, -2], f"i{type_.itemsize}").view(type_.dtype)

    assert_same(nans[:1], nans[1:])


def test_close_allows_as_many_ulp_as_it_is_given() -> None:
    near = np.nextafter(np.nextafter(f32(1.0), f32(2.0)), f32(2.0))

    assert_close(f32(1.0), near, ulp=2)
    with pytest.raises(AssertionError):
        assert_close(f32(1.0), near, ulp=1)
