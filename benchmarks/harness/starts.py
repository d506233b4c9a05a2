"""Runs the processes of harness/startup.py and makes series of what they say."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from harness.processes import run_lines
from harness.timing import Line

_SCRIPT = Path(__file__).with_name("startup.py")
_LIMIT_S = 60.0


def measure(device: str, driver: str, starts: int) -> dict[str, Line]:
    """A line for each of the rows and twins of a start."""
    samples: dict[str, list[float]] = {}
    for number in range(starts + 1):
        for kind in ("first_result", "floor"):
            command: list[str | Path] = [sys.executable, _SCRIPT, kind, device, driver, str(time.monotonic_ns())]
            (row,) = run_lines(command, limit_s=_LIMIT_S)
            if number > 0:
                for id, value in row.items():
                    samples.setdefault(id, []).append(value)
    return {id: Line(id, sorted(v)[len(v) // 2], max(v), len(v), 1) for id, v in samples.items()}
