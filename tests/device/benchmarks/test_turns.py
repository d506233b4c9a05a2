"""Rows of two installations in turns: that each side's processes import that side, and what the table says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import vyre_cuda as vc

from ..benchmark_scripts import harness, run_script

pytestmark = [
    pytest.mark.device,
    pytest.mark.emulator,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


@pytest.mark.slow
@pytest.mark.thin
def test_processes_of_two_installations_in_turns(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(Path(vc.__file__).parent, copy / "vyre_cuda")
    note = copy / "imported"
    with open(copy / "vyre_cuda" / "__init__.py", "a", encoding="utf-8") as file:
        file.write(f"\nwith open({str(note)!r}, 'a') as file:\n    file.write('x')\n")
    output = tmp_path / "rows.json"

    done = run_script("turns.py", f"old={copy}", "new=", "--device", "emulator", "--processes", 2, "--output", output)

    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert note.read_text() == "xx"
    assert list(found) == ["old", "new"]
    assert set(found["old"]) == set(found["new"])
    assert all(len(values) == 2 and min(values) > 0 for side in found.values() for values in side.values())
    assert "2 processes of each side" in done.stdout
    assert len(re.findall("new slower than old in", done.stdout)) == len(found["new"])


def test_the_table_says_which_side_is_slower() -> None:
    turns = harness("turns")

    text = turns.report({"old": {"call": [1.0, 1.0, 2.0]}, "new": {"call": [1.0, 3.0, 3.0]}})

    assert "new slower than old in 78% of pairs" in text
    assert re.search(r"call, old +1\.000 +1\.000 +1\.000 +1\.500", text)
    assert re.search(r"call, new +1\.000 +2\.000 +3\.000 +3\.000", text)


def test_a_side_that_cannot_start_ends_the_run(tmp_path: Path) -> None:
    broken = tmp_path / "vyre_cuda"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('this side is broken')\n")

    done = run_script("turns.py", f"old={tmp_path}", "new=", "--device", "emulator", "--processes", 1)

    assert done.returncode == 1
    assert "this side is broken" in done.stderr


def test_one_side_is_not_enough() -> None:
    done = run_script("turns.py", "new=")

    assert done.returncode == 2
    assert "at least two" in done.stderr
