"""Whether a GPU suits a worker: who else uses it, as the driver's own command line tool tells."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from vyre_cuda.cli.findings import Finding
from vyre_cuda.runtime.base.properties import DeviceProperties

_TOOL = "nvidia-smi"
_SECONDS = 10.0
# Of the daemon of MPS, unless CUDA_MPS_PIPE_DIRECTORY is set.
_PIPES = "/tmp/nvidia-mps"


def workers(found: DeviceProperties) -> Iterator[Finding]:
    """What keeps a kernel that stays on this GPU from being fast, or makes it slow down others."""
    if found.is_emulator:
        yield Finding("workers", "ok", "a worker runs on a thread of its own")
        return
    where = f"{found.pci_domain_id:08x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
    screen = _asked("--query-gpu=display_active", where)
    processes = _asked("--query-compute-apps=pid", where)
    if screen is None or processes is None:
        text = f"{_TOOL} cannot say who else uses the GPU: a worker delays a screen, and other processes without MPS"
        yield Finding("workers", "note", text)
        return
    others = [pid for pid in processes if pid.isdigit() and int(pid) != os.getpid()]
    suits = True
    if screen[:1] == ["Enabled"]:
        suits = False
        text = "the GPU drives a screen: a worker delays it, and the driver ends kernels that run for seconds"
        yield Finding("workers", "warning", text, "use another GPU for workers, or workers with a short idle=")
    if others and not _has_mps():
        suits = False
        count = "another process uses" if len(others) == 1 else f"{len(others)} other processes use"
        text = f"{count} the GPU, in turns: a worker delays them, and its calls wait for their turns"
        yield Finding("workers", "warning", text, "run all of them under MPS (nvidia-cuda-mps-control)")
    if suits:
        yield Finding("workers", "ok", "a worker would delay nothing else on the GPU")


def _asked(query: str, where: str) -> list[str] | None:
    """The lines of the answer; None: there is none."""
    tool = shutil.which(_TOOL)
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool, query, "--format=csv,noheader", "-i", where],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _has_mps() -> bool:
    return (Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _PIPES)) / "control").exists()
