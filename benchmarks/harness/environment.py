"""What a result file says of the machine and of the state of the project."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

import vyre_cuda as vc
from harness.processes import BENCHMARKS
from harness.resultfile import Environment

_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_CPU_FILE = Path("/proc/cpuinfo")


def describe(
    *, commit: str | None, emulator: bool, device: str, driver_version: int, python_timer_ns: float, c_timer_ns: float
) -> Environment:
    """The machine now. `commit` None asks git."""
    return Environment(
        date=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=commit or commit_name(),
        emulator=emulator,
        device=device,
        driver="" if emulator else _driver(),
        driver_api=f"{driver_version // 1000}.{driver_version % 1000 // 10}",
        cpu=_cpu(),
        cores=os.cpu_count() or 0,
        python=platform.python_version(),
        numpy=np.__version__,
        package=vc.__version__,
        python_timer_us=round(python_timer_ns / 1e3, 4),
        c_timer_us=round(c_timer_ns / 1e3, 4),
    )


def _output(*command: str) -> str:
    try:
        child = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return child.stdout.strip() if child.returncode == 0 else ""


def commit_name() -> str:
    """The commit at hand, with "-modified" when the tree differs from it."""
    head = _output("git", "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return f"{head}-modified" if _output("git", "status", "--porcelain", "--untracked-files=no") else head


def _driver() -> str:
    text = _DRIVER_FILE.read_text(encoding="utf-8") if _DRIVER_FILE.is_file() else ""
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    if found:
        return found[1]
    return _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0]


def _cpu() -> str:
    text = _CPU_FILE.read_text(encoding="utf-8") if _CPU_FILE.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()
