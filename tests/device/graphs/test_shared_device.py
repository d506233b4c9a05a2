"""Graphs in processes that share a device: each replay ends, however many of its steps are independent, and the first
one of a new graph is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "wide_graphs.py"
STEPS = ("1", "7", "8", "9", "16", "17", "18", "40", "100")


@pytest.mark.slow
def test_replays_of_processes_on_one_device_end(device_name: int | str) -> None:
    is_emulator = str(device_name).startswith("emulator")
    processes, seconds = (2, 0) if is_emulator else (12, 10)
    words = [sys.executable, str(SCRIPT), "emulator" if is_emulator else str(device_name), str(seconds), *STEPS]
    started = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(processes)
    ]
    told = []
    try:
        for each in started:
            told.append(each.communicate(timeout=600)[0])
    finally:
        for each in started:
            each.kill()
            each.wait()
    assert [each.returncode for each in started] == [0] * processes, told
    assert all(line.startswith("ended") for line in told), told


@pytest.mark.cuda
@pytest.mark.slow
def test_first_replays_in_processes_on_one_device_are_right(device_name: int | str, tmp_path: Path) -> None:
    """Of tables of rows beside other launches, which were launched before the driver had uploaded all of the graph."""
    words = f"--device {device_name} --kinds table --count 100000 --processes 12 --seconds 15 --limit 30 --alone 1"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.device.graphs.many_recordings", *words.split(), "--output", str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
