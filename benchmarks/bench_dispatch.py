"""Launches and host dispatch of saxpy on 3 x 4 KiB: Python beside its C twins, and other packages on the same tasks.

    python bench_dispatch.py --peers all            a CUDA device, results into results/
    python bench_dispatch.py --device emulator --quick --output /tmp/results      each once: shows that it works

Passes run in the order Python, C, C, Python, each in a process of its own; peers come after. The table is printed last.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vyre_cuda as vc

import peers
from harness.environment import describe
from harness.inputs import input_sets
from harness.processes import BENCHMARKS, run_lines
from harness.report import summary
from harness.resultfile import SCHEMA, Figure, Result, Series, TwinFigure, save
from harness.saxpy import WAYS, Saxpy, lowered_for
from harness.timing import FULL, QUICK, timer_ns
from harness.twins import Twins, prepare

_PYTHON_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One way of doing a task from Python, and the twin that does the same in C."""

    id: str
    task: str
    twin: str
    what: str


CASES = (
    Case("call_enqueue_same", "replay_enqueue", "launch_enqueue_graph_same", "bound call, nothing changed"),
    Case("launch_enqueue_same", "replay_enqueue", "launch_enqueue_graph_same", "k.launch, nothing changed"),
    Case("call_enqueue_changed", "launch_enqueue", "launch_enqueue_graph_changed", "bound call, all changed"),
    Case("launch_enqueue_changed", "launch_enqueue", "launch_enqueue_graph_changed", "k.launch, all changed"),
    Case("call_sync", "launch_sync", "graph_launch_sync", "bound call and synchronize"),
    Case("launch_sync", "launch_sync", "graph_launch_sync_changed", "k.launch, all changed, and synchronize"),
    Case("host_dispatch_out", "host_dispatch", "host_dispatch_zero_copy", "k(x, y, a, out=r)"),
    Case("host_dispatch_new", "host_dispatch", "host_dispatch_zero_copy", "k(x, y, a)"),
)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help='"cuda" (the first device) or "emulator"', choices=["cuda", "emulator"])
    parser.add_argument("--quick", action="store_true", help="a handful of calls of each: no measurement")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results", help="folder of the result file")
    parser.add_argument("--peers", default="none", help=f"all, none, or some of {','.join(peers.NAMES)}")
    parser.add_argument("--commit", help="state of the project, where there is no git")
    parser.add_argument("--raw", type=Path, help="a built raw_driver; without it, it is built")
    parser.add_argument("--seed", type=int, default=None, help="of the inputs; random without it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def driver_path(device: str) -> str:
    """The driver library that the package itself opens for this device."""
    if device == "emulator":
        return str(Path(vc.locations.get_library_dir()) / vc.locations.EMULATOR_LIBRARY)
    return os.environ.get("VYRE_CUDA_DRIVER") or "libcuda.so.1"
