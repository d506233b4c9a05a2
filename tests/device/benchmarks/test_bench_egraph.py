"""The benchmark of closures: it runs on the emulator, and compares each table with the C program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ..benchmark_scripts import harness, run_script

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


@pytest.mark.thin
@pytest.mark.slow
def test_every_table_has_a_figure(tmp_path: Path) -> None:
    child = run_script("bench_egraph.py", "--device", "emulator", "--quick", "--commit", "c0ffee", "--output", tmp_path)
    assert child.returncode == 0, child.stderr + child.stdout

    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["environment"]["commit"] == "c0ffee"
    rounds = {(figure["table"], figure["rows"]): figure["rounds"] for figure in result["figures"]}
    assert rounds["equal", 1000] == 2
    assert rounds["depth 16", 1986] == rounds["depth 16, backwards", 1986] == 18
    assert all(figure["c_ms"] > 0 for figure in result["figures"])


def test_the_tables_are_what_the_page_says() -> None:
    bench = harness("bench_egraph")
    for columns in (bench.copies(3000), bench.chains(1000, 16), bench.backwards(bench.chains(1000, 16))):
        op, left, right = (each.astype(np.int64) for each in columns)
        inner = left != bench.NONE
        assert ((left < op.size) & (right < op.size) | ~inner).all()
        assert ((right == bench.NONE) == ~inner).all()
    op, left, right = bench.copies(3000)
    distinct = np.unique(np.stack([op, left, right], axis=1), axis=0).shape[0]
    assert 0.6 < distinct / 3000 < 0.9
