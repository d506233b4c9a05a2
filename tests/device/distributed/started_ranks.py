"""Ranks as processes: what launchers give them, and what they print."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from vyre_cuda.distributed.launchers import PORT_OFFSET

ENDS_WITHIN = 400.0  # seconds, on a machine that does much else

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


def outputs(processes: Sequence[subprocess.Popen[str]], stopped: int | None) -> list[str]:
    """What each has printed. Where one does not end, all say where they are (see rank.py), and the test fails."""
    limit = time.monotonic() + ENDS_WITHIN
    said: dict[int, str] = {}
    try:
        for number in sorted(range(len(processes)), key=lambda number: number == stopped):
            if number == stopped:
                processes[number].kill()
            said[number] = processes[number].communicate(timeout=max(limit - time.monotonic(), 1.0))[0]
    except subprocess.TimeoutExpired:
        late = [number for number, process in enumerate(processes) if process.poll() is None]
        for number in late:
            processes[number].send_signal(signal.SIGABRT)
            processes[number].send_signal(signal.SIGCONT)
        for number in range(len(processes)):
            with suppress(subprocess.TimeoutExpired):
                said[number] = said.get(number) or processes[number].communicate(timeout=30.0)[0]
        all_said = "\n".join(f"---- rank {number}:\n{said.get(number)}" for number in range(len(processes)))
        pytest.fail(f"ranks {late} have not ended after {ENDS_WITHIN:g} s\n{all_said}")
    return [said[number] for number in range(len(processes))]
