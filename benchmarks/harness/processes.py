"""Child processes that print one JSON object per line.

Every side of a comparison runs in a process of its own, with nothing else of the run on the device.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[1]

_ERROR_LINES = 6


class ChildFailed(Exception):
    """A child process failed, ran too long or printed something else; says what it said last."""


def run_lines(
    command: Sequence[str | Path], *, limit_s: float, environment: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """What the command prints. It can import from the benchmarks folder and gets `environment` on top of our own."""
    path = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
    try:
        child = subprocess.run(
            [str(word) for word in command],
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"not finished after {limit_s:.0f} s") from None
    if child.returncode != 0:
        said = child.stderr.strip().splitlines()[-_ERROR_LINES:]
        raise ChildFailed(f"exit status {child.returncode}: " + "\n".join(said))
    try:
        return [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    except json.JSONDecodeError as error:
        raise ChildFailed(f"printed something that is not JSON: {error}") from None
