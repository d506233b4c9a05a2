"""docs/conformance.md has a count for the GPU in every cell that the op table supports.

The counts of the interpreter and of the emulator are checked in tests/unit; those of a GPU can be recorded only where
there is one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre_cuda.testing.conformance import read

RECORDED = sorted((Path(__file__).parents[3] / "docs" / "conformance").glob("*.json"))


@pytest.mark.cuda
def test_everything_that_the_op_table_supports_was_compared_on_a_gpu() -> None:
    runs = [run for run in map(read, RECORDED) if "cuda" in run.counts]

    assert runs, "record one: python -m pytest -m conformance tests/device --device=cuda --conformance=FILE"
    assert [run.holes("cuda") for run in runs] == [[]] * len(runs)
