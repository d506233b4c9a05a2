"""Random programs over the whole language: device and interpreter agree bit for bit.

A disagreement is printed as program text, and the smallest one is written to `regressions/found_*.vir` with its
arguments: a file that is renamed after the defect and kept. Each kept file is run here too.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from examples import examples
from vyre_cuda.ir.core.ops import ATOMICS, OPS, WARP_OPS, AtomicOp, WarpOp
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.regression import load, save
from vyre_cuda.testing.strategies import (
    programs_using,
    programs_using_atomic,
    programs_using_warp,
    programs_with_inputs,
)

REGRESSIONS = Path(__file__).parents[1] / "regressions"
EXAMPLES = examples(2)
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


Capture = pytest.CaptureFixture[str]

# More lines than a GPU's buffer for them is sure to hold until the next wait.
MOST_LINES = 2000


def printed(capfd: Capture) -> list[str]:
    """The lines since the last call, sorted: threads of a GPU print in any order."""
    ctypes.CDLL(None).fflush(None)  # the driver may write through the buffer of C's stdout
    return sorted(capfd.readouterr().out.splitlines())


def assert_agrees(device: vc.Device, program: vc.Program, arguments: list[object], name: str, capfd: Capture) -> None:
    """Device and interpreter give and print the same; where not, the case is kept. Hypothesis runs the smallest one
    last."""
    note(program.text())
    printed(capfd)
    expected = vc.evaluate(program, *arguments)
    lines = printed(capfd)
    try:
        assert_same(expected, device.run(program, *arguments))
        found = printed(capfd)
        assert found == lines or len(lines) > MOST_LINES
    except (AssertionError, vc.Error):
        save(REGRESSIONS / f"{name}.vir", program, arguments)
        raise


@pytest.mark.slow
@COMMON
@given(case=programs_with_inputs())
def test_random_programs_agree(shared_device: vc.Device, capfd: Capture, case: tuple[vc.Program, list[object]]) -> None:
    program, arguments = case
    before = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]

    assert_agrees(shared_device, program, arguments, "found_program", capfd)

    for original, argument in zip(before, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            assert_same(original, argument)


@pytest.mark.slow
@COMMON
@given(data=st.data())
def test_random_uses_of_ops_agree(shared_device: vc.Device, capfd: Capture, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(OPS)))
    program, arguments = data.draw(programs_using(op))

    assert_agrees(shared_device, program, arguments, "found_op", capfd)


@pytest.mark.thin(15)
@pytest.mark.slow
@pytest.mark.parametrize(("op", "type_"), ATOMIC_CASES, ids=lambda row: row.name)
@FEW
@given(data=st.data())
def test_atomics_agree(
    shared_device: vc.Device, capfd: Capture, op: AtomicOp, type_: vc.Type, data: st.DataObject
) -> None:
    program, arguments = data.draw(programs_using_atomic(op, type_=type_))

    assert_agrees(shared_device, program, arguments, "found_atomic", capfd)


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize(("op", "type_"), WARP_CASES, ids=lambda row: row.name)
@FEW
@given(data=st.data())
def test_warp_operations_agree(
    shared_device: vc.Device, capfd: Capture, op: WarpOp, type_: vc.Type, data: st.DataObject
) -> None:
    program, arguments = data.draw(programs_using_warp(op, type_=type_))

    assert_agrees(shared_device, program, arguments, "found_warp", capfd)


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.vir")), ids=lambda path: path.stem)
def test_what_once_disagreed_agrees(shared_device: vc.Device, path: Path) -> None:
    program, arguments, options = load(path)
    kernel = shared_device.compile(program, **options)

    assert_same(vc.evaluate(program, *arguments), kernel(*arguments))
