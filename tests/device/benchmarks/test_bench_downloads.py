"""The benchmark of downloads of scattered ranges: it runs on the emulator, and checks what it measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..benchmark_scripts import run_script

pytestmark = [pytest.mark.device, pytest.mark.emulator]


@pytest.mark.slow
def test_every_point_has_a_figure_of_both_ways(tmp_path: Path) -> None:
    child = run_script("bench_downloads.py", "--device", "emulator", "--quick", "--output", tmp_path)
    assert child.returncode == 0, child.stderr + child.stdout

    (path,) = tmp_path.iterdir()
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    assert [(figure["ranges"], figure["nbytes"]) for figure in figures] == [(3, 16), (8, 16)]
    assert all(figure["copies_us"] > 0 and figure["kernel_us"] > 0 for figure in figures)
