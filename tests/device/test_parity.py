"""Random programs over the whole language: device and interpreter agree bit for bit.

A disagreement is printed as program text, which `vyre-cuda run` takes.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.ops import ATOMICS, OPS, WARP_OPS, AtomicOp, WarpOp
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.strategies import (
    programs_using,
    programs_using_atomic,
    programs_using_warp,
    programs_with_inputs,
)

EXAMPLES = int(os.environ.get("VYRE_CUDA_TEST_EXAMPLES", "150"))
COMMON = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)

ATOMIC_CASES = [(op, type_) for op in ATOMICS.values() for type_ in op.types]
WARP_CASES = [(op, type_) for op in WARP_OPS.values() for type_ in op.types]
FEW = settings(COMMON, max_examples=max(EXAMPLES // 30, 2))


@pytest.mark.slow
@COMMON
@given(case=programs_with_inputs())
def test_random_programs_agree(shared_device: vc.Device, case: tuple[vc.Program, list[object]]) -> None:
    program, arguments = case
    note(program.text())
    before = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    expected = vc.evaluate(program, *arguments)

    found = shared_device.run(program, *arguments)

    assert_same(expected, found)
    for original, argument in zip(before, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            assert_same(original, argument)


@pytest.mark.slow
@COMMON
@given(data=st.data())
def test_random_uses_of_ops_agree(shared_device: vc.Device, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(OPS)))
    program, arguments = data.draw(programs_using(op))
    note(program.text())

    assert_same(vc.evaluate(program, *arguments), shared_device.run(program, *arguments))


@pytest.mark.slow
@pytest.mark.parametrize(("op", "type_"), ATOMIC_CASES, ids=lambda row: row.name)
@FEW
@given(data=st.data())
def test_atomics_agree(shared_device: vc.Device, op: AtomicOp, type_: vc.Type, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_using_atomic(op, type_=type_))
    note(program.text())

    assert_same(vc.evaluate(program, *arguments), shared_device.run(program, *arguments))


@pytest.mark.slow
@pytest.mark.parametrize(("op", "type_"), WARP_CASES, ids=lambda row: row.name)
@FEW
@given(data=st.data())
def test_warp_operations_agree(shared_device: vc.Device, op: WarpOp, type_: vc.Type, data: st.DataObject) -> None:
    program, arguments = data.draw(programs_using_warp(op, type_=type_))
    note(program.text())

    assert_same(vc.evaluate(program, *arguments), shared_device.run(program, *arguments))
