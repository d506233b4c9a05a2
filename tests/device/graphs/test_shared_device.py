"""Graphs in processes that share a device: each replay ends, however many of its steps are independent."""

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
