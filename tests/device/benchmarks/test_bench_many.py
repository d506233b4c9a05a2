"""The benchmark of many launches as one: it runs on the emulator, and checks what it measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..benchmark_scripts import run_script

pytestmark = [pytest.mark.device, pytest.mark.emulator]


@pytest.mark.thin
@pytest.mark.slow
def test_every_form_has_a_figure(tmp_path: Path) -> None:
    child = run_script("bench_many.py", "--device", "emulator", "--quick", "--commit", "c0ffee", "--output", tmp_path)
    assert child.returncode == 0, child.stderr + child.stdout

    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["environment"]["commit"] == "c0ffee"
    assert path.name.startswith("emulator-many-")
    sides = [figure["form"].partition(": ") for figure in result["figures"]]
    assert {form for what, _, form in sides if not what.endswith("in C")} == {
        *("launch_many", "loop of launch", "one launch of all", "many", "loop of calls"),
    }
    assert {form for what, _, form in sides if what.endswith("in C")} == {
        *("one launch of one row", "loop of vyc_prepared_launch"),
        *("vyc_prepared_launch_many", "vyc_bundled_kernel_launch_many"),
    }
    assert all(0 < figure["enqueue_us"] <= figure["whole_us"] for figure in result["figures"])
    assert [(each["what"].rpartition(" ")[2], each["to_reach"]) for each in result["shares"]] == [
        *[("C", 0.05), ("Python", 0.3)] * 2
    ]
