"""The benchmarks folder: its scripts in processes of their own, and its modules."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run_script(script: str | Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A script of the benchmarks folder in a process of its own."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def harness(name: str) -> Any:
    """A module of the benchmarks folder."""
    return importlib.import_module(name)
