"""Other packages on the same tasks, each in a process of its own with a time limit.

`peers.peer_NAME` is run as a module; it prints its version and a JSON line per task, as every child does. A peer that
is missing, fails or takes too long is noted and the others go on. All of them together stay under two minutes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from harness.processes import ChildFailed, run_lines
from harness.resultfile import PeerFailure, PeerFigure, Series

NAMES = ("cupy", "cuda_core", "cuda_bindings", "triton", "torch", "jax")

_LIMIT_S = 45.0
_TOTAL_S = 115.0
# JAX takes most of the device's memory at once unless told not to.
_ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def chosen(text: str) -> tuple[str, ...]:
    """The names in "all", "none" or a list with commas. ValueError for an unknown one."""
    if text in ("all", "none"):
        return NAMES if text == "all" else ()
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"no peer {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


def run(text: str, *, seed: int, ptx: Path, quick: bool) -> tuple[list[PeerFigure], list[PeerFailure]]:
    """The figures of the chosen peers, and what went wrong with the others."""
    figures: list[PeerFigure] = []
    failures: list[PeerFailure] = []
    deadline = time.monotonic() + _TOTAL_S
    for name in chosen(text):
        limit_s = min(_LIMIT_S, deadline - time.monotonic())
        if limit_s < 1:
            failures.append(PeerFailure(name, "no time left for it"))
            continue
        command: list[str | Path] = [sys.executable, "-m", f"peers.peer_{name}", "--seed", str(seed), "--ptx", ptx]
        if quick:
            command.append("--quick")
        try:
            figures += _figures(name, run_lines(command, limit_s=limit_s, environment=_ENVIRONMENT))
        except ChildFailed as error:
            failures.append(PeerFailure(name, str(error)))
    return figures, failures


def _figures(name: str, rows: list[dict[str, Any]]) -> list[PeerFigure]:
    version = next(row["version"] for row in rows if "version" in row)
    return [
        PeerFigure(
            peer=name,
            version=version,
            task=row["task"],
            what=row["what"],
            series=Series(
                median_us=round(row["median_ns"] / 1e3, 4),
                p99_us=round(row["p99_ns"] / 1e3, 4),
                passes=[round(row["median_ns"] / 1e3, 4)],
                samples=row["n"],
                calls_per_sample=row["calls"],
            ),
        )
        for row in rows
        if "task" in row
    ]
