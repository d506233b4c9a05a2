"""Ranks as processes: what launchers give them, and what they print."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from vyre_cuda.distributed.launchers import PORT_OFFSET

ENDS_WITHIN = 240.0  # seconds, on a machine that does much else

RANK = Path(__file__).with_name("rank.py")
LAUNCHERS: dict[str, Callable[[int, int, int], dict[str, str]]] = {
    "torchrun": lambda rank, size, port: {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port - PORT_OFFSET),
    },
    "Open MPI": lambda rank, size, port: {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
        "PMIX_NAMESPACE": f"prterun-{port}",
    },
    "MPICH": lambda rank, size, port: {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "MPI_LOCALRANKID": str(rank),
        "MPI_LOCALNRANKS": str(size),
        "VYRE_CUDA_RENDEZVOUS_PORT": str(port),
    },
    "Slurm": lambda rank, size, port: {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(size),
        "SLURM_LOCALID": str(rank),
        "SLURM_STEP_NODELIST": "localhost",
        "VYRE_CUDA_RENDEZVOUS_PORT": str(port),
    },
}


def ends_within(kind: str) -> float:
    """Seconds after which ranks have not ended for ever: the emulator's share their cores with much else."""
    return 60.0 if kind == "cuda" else ENDS_WITHIN


def end(process: subprocess.Popen[str]) -> None:
    """For good, and without a wait for one that the driver keeps."""
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=10.0)


def outputs(processes: Sequence[subprocess.Popen[str]], stopped: int | None, within: float) -> list[str]:
    """What each has printed. Where one does not end, all say where they are (see rank.py), and the test fails."""
    limit = time.monotonic() + within
    said: dict[int, str] = {}
    try:
        for number in sorted(range(len(processes)), key=lambda number: number == stopped):
            if number == stopped:
                processes[number].kill()
            said[number] = processes[number].communicate(timeout=max(limit - time.monotonic(), 1.0))[0]
    except subprocess.TimeoutExpired:
        late = [number for number, process in enumerate(processes) if process.poll() is None]
        where = {number: threads(processes[number].pid) for number in late}
        for number in late:
            processes[number].send_signal(signal.SIGABRT)
            processes[number].send_signal(signal.SIGCONT)
        for number in range(len(processes)):
            with suppress(subprocess.TimeoutExpired):
                said[number] = said.get(number) or processes[number].communicate(timeout=5.0)[0]
        all_said = "\n".join(
            f"---- rank {number}:\n{said.get(number)}\n{where.get(number, '')}" for number in range(len(processes))
        )
        pytest.fail(f"ranks {late} have not ended after {within:g} s\n{all_said}")
    return [said[number] for number in range(len(processes))]


def threads(process: int) -> str:
    """Where the threads of a process are, also those that never were Python's: their calls, if there is a debugger,
    else what the kernel knows of them."""
    debugger = shutil.which("gdb")
    if debugger is not None:
        words = [debugger, "-nx", "-batch", "-p", str(process), "-ex", "thread apply all backtrace 16"]
        with suppress(subprocess.TimeoutExpired):
            found = subprocess.run(words, capture_output=True, text=True, timeout=20.0).stdout
            if "#0 " in found:
                return found
    lines = []
    for thread in sorted(Path(f"/proc/{process}/task").glob("*")):
        known = []
        for name in ("comm", "wchan", "syscall", "stack"):
            with suppress(OSError):
                known.append(" ".join((thread / name).read_text().split()))
        lines.append(f"thread {thread.name}: {'; '.join(known)}")
    return "\n".join(lines)
