"""Other packages on the same tasks, each in a process of its own with a time limit.

`peers.peer_NAME` is run as a module; it prints its version and a JSON line per way of doing a task. A peer that is
missing, fails or takes too long is noted and the others go on. All of them together stay under 200 seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.processes import ChildFailed, run_lines
from harness.resultfile import PeerFailure, PeerFigure, Series

NAMES = ("cupy", "cuda_core", "cuda_bindings", "triton", "torch", "jax")

_LIMIT_S = 60.0
_TOTAL_S = 200.0
# JAX takes most of the device's memory at once unless told not to.
_ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def chosen(text: str) -> tuple[str, ...]:
    """The names in "all", "none" or a list with commas. An unknown one is an error of the command line."""
    if text in ("all", "none"):
        return NAMES if text == "all" else ()
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no peer {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


def run(names: Sequence[str], *, seed: int, quick: bool, deadline: float) -> tuple[list[PeerFigure], list[PeerFailure]]:
    """The figures of these peers, and what went wrong. None begins after the deadline, of time.monotonic."""
    figures: list[PeerFigure] = []
    failures: list[PeerFailure] = []
    deadline = min(deadline, time.monotonic() + _TOTAL_S)
    for name in names:
        limit_s = min(_LIMIT_S, deadline - time.monotonic())
        if limit_s < 1:
            failures.append(PeerFailure(name, "no time left for it"))
            continue
        command: list[str | Path] = [sys.executable, "-m", f"peers.peer_{name}", "--seed", str(seed)]
        if quick:
            command.append("--quick")
        try:
            rows = run_lines(command, limit_s=limit_s, environment=_ENVIRONMENT)
        except ChildFailed as error:
            failures.append(PeerFailure(name, _reason(str(error))))
            continue
        version = next((row["version"] for row in rows if "version" in row), "")
        figures += [_figure(name, version, row) for row in rows if "median_ns" in row]
        failures += [PeerFailure(name, f"{row['id']}: {row['error']}") for row in rows if "error" in row]
    return figures, failures


def _reason(text: str) -> str:
    last = text.rstrip().splitlines()[-1]
    return f"missing: {last}" if last.startswith("ModuleNotFoundError") else text


def _figure(name: str, version: str, row: dict[str, Any]) -> PeerFigure:
    median_us, p99_us = round(row["median_ns"] / 1e3, 4), round(row["p99_ns"] / 1e3, 4)
    series = Series(median_us, p99_us, [median_us], samples=row["n"], calls_per_sample=row["calls"])
    return PeerFigure(peer=name, version=version, task=row["task"], what=row["what"], series=series)
