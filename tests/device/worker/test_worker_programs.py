"""Random programs in a worker: their results are, bit for bit, those of launches and of the interpreter."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import ATOMICS, WARP_OPS
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.strategies import programs_using_atomic, programs_using_warp, programs_with_inputs

from ..launches.test_many_programs import launch_row

RANDOM = settings(
    max_examples=int(os.environ.get("VYRE_CUDA_TEST_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def assert_worker_agrees(device: vc.Device, cases: list[tuple[vc.Program, list[Any]]]) -> None:
    """All programs in one worker, several times in turn, with host arrays and with device arrays."""
    try:
        worker = device.worker([program for program, _ in cases], idle=0.2)
    except vc.UnsupportedError:
        return  # what a worker does not run, which test_worker.py has
    with worker:
        for turn in range(4):
            for number, (program, arguments) in enumerate(cases):
                kernel = worker.kernels[number]
                expected = vc.evaluate(program, *arguments)
                if turn % 2 == 0:
                    assert_same(expected, worker.call(kernel, *arguments))
                    continue
                row = launch_row(device, program, arguments, expected)
                worker.bind(kernel, *row)()
                found = tuple(v.numpy() for p, v in zip(program.parameters, row, strict=True) if p.is_writable)
                assert_same(expected, found if isinstance(expected, tuple) else found[0])


def drawn(data: st.DataObject) -> tuple[vc.Program, list[Any]]:
    kind = data.draw(st.integers(0, 3))
    if kind == 0:
        op = data.draw(st.sampled_from([(op, t) for op in ATOMICS.values() for t in op.types]))
        return data.draw(programs_using_atomic(op[0], type_=op[1]))
    if kind == 1:
        row = data.draw(st.sampled_from([(op, t) for op in WARP_OPS.values() for t in op.types]))
        return data.draw(programs_using_warp(row[0], type_=row[1]))
    return data.draw(programs_with_inputs())


@pytest.mark.slow
@RANDOM
@given(data=st.data())
def test_random_programs_agree(shared_device: vc.Device, data: st.DataObject) -> None:
    cases = [drawn(data) for _ in range(data.draw(st.integers(1, 3)))]
    for program, _ in cases:
        note(program.text())
    assert_worker_agrees(shared_device, cases)


def test_one_of_each_kind(shared_device: vc.Device) -> None:
    """Without hypothesis, so that a plain run has it too."""
    from .. import programs

    x = np.arange(1000, dtype=np.uint32)
    assert_worker_agrees(
        shared_device,
        [
            (programs.saxpy(), [x.astype(np.float32), x.astype(np.float32), 2.0]),
            (programs.histogram(), [np.zeros(16, np.uint32), x % 16]),
            (programs.every_second(), [x]),
        ],
    )
