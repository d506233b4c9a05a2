"""Every op of the table on every type it takes: the device agrees with the interpreter on every bit."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import Op
from vyre_cuda.ir.core.types import Type
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.conformance import Count

from .op_programs import MOVING, cases, operands, program

pytestmark = pytest.mark.conformance


@pytest.mark.thin(65)
@pytest.mark.parametrize(("op", "operand", "target"), cases(), ids=lambda case: getattr(case, "name", str(case)))
def test_op_agrees_with_the_interpreter(
    device: vc.Device, op: Op, operand: Type, target: Type, count_device: Count
) -> None:
    use = program(op, operand, target)
    inputs = operands(op, operand)

    expected, got = vc.evaluate(use, *inputs), device.run(use, *inputs)
    assert_same(expected, got)
    if op.name in MOVING:
        np.testing.assert_array_equal(expected.view(target.unsigned), got.view(target.unsigned))
    cell = (f"{op.name}s", operand.name, target.name) if op.result == "explicit" else ("ops", op.name, operand.name)
    count_device(*cell, inputs[0].size)
