"""Runs the processes of harness/startup.py, and those of other packages, and makes series of what they say.

Each start has caches of its own: a cold one begins with none, the warm one right after it with what that one left.
The first of all, which warms the disk, is not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.processes import ChildFailed, run_lines
from harness.resultfile import PeerFailure, PeerFigure, Series
from harness.timing import Line

_SCRIPT = Path(__file__).with_name("startup.py")
_LIMIT_S = 60.0
# Peers with a process of that kind: `peers.start_NAME`. They take seconds each.
PEERS = ("cupy", "triton")
_PEER_STARTS = 3
# Folders that packages and driver keep what they compiled in.
_CACHES = ("VYRE_CUDA_CACHE_DIR", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")


def measure(device: str, driver: str, starts: int) -> dict[str, Line]:
    """A line for each of the rows and twins of a start."""
    samples: dict[str, list[float]] = {}
    script: list[str | Path] = [sys.executable, _SCRIPT]
    for number in range(starts + 1):
        with tempfile.TemporaryDirectory() as folder:
            cold = _start([*script, "first_result", device, driver], folder)
            warm = _start([*script, "first_result", device, driver], folder)
            floor = _start([*script, "floor", device, driver], folder)
        if number > 0:
            for id, value in (floor | warm | {"first_result_cold": cold["first_result"]}).items():
                samples.setdefault(id, []).append(value)
    return {id: Line(id, sorted(v)[len(v) // 2], max(v), len(v), 1) for id, v in samples.items()}


def measure_peers(names: Sequence[str], *, quick: bool, deadline: float) -> tuple[list[PeerFigure], list[PeerFailure]]:
    """The same of other packages, as many as are done before the deadline, of time.monotonic."""
    figures: list[PeerFigure] = []
    failures: list[PeerFailure] = []
    for name in (name for name in PEERS if name in names):
        series: dict[str, list[float]] = {"cold": [], "warm": []}
        version = ""
        try:
            for number in range(1 if quick else _PEER_STARTS + 1):
                if time.monotonic() > deadline:
                    break
                with tempfile.TemporaryDirectory() as folder:
                    for values in series.values():
                        row = _start([sys.executable, "-m", f"peers.start_{name}"], folder)
                        version = str(row["version"])
                        if quick or number > 0:
                            values.append(float(row["first_result"]))
        except ChildFailed as error:
            last = str(error).rstrip().splitlines()[-1]
            failures.append(PeerFailure(name, f"start: {last}"))
            continue
        figures += [
            PeerFigure(name, version, "start", f"first result, {state} caches", _series(values))
            for state, values in series.items()
            if values
        ]
        if not series["warm"]:
            failures.append(PeerFailure(name, "start: no time left for it"))
    return figures, failures


def _start(command: Sequence[str | Path], folder: str) -> Mapping[str, float]:
    """What one process says; its start is the moment that it is told."""
    environment = {name: str(Path(folder) / name.lower()) for name in _CACHES}
    (row,) = run_lines([*command, str(time.monotonic_ns())], limit_s=_LIMIT_S, environment=environment)
    return row


def _series(values: Sequence[float]) -> Series:
    median = round(sorted(values)[len(values) // 2] / 1e3, 4)
    return Series(median, round(max(values) / 1e3, 4), [median], samples=len(values), calls_per_sample=1)
