"""Which rank of how many this process is, from what its launcher has set in the environment."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping

from vyre_cuda.records import FrozenRecord

# The rendezvous of torchrun listens at MASTER_PORT itself; ranks meet this many ports above it.
PORT_OFFSET = 29
# Where no launcher names a port, one of these is derived from the number of the job.
_FIRST_PORT, _PORTS = 20000, 10000

# rank, size, rank on the machine, ranks on the machine, and what numbers the job.
_MPI = (
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ("PMI_JOBID", "PMI_PORT")),
)


class Place(FrozenRecord):
    """The rank of a process, and where its group meets. `launcher` says who named it."""

    rank: int
    size: int
    local_rank: int
    address: str
    port: int
    launcher: str


def place_of(environment: Mapping[str, str]) -> Place | None:
    """What torchrun, MPI or Slurm has set; None if nobody has. ValueError where that is not enough."""
    return _torchrun(environment) or _mpi(environment) or _slurm(environment)


def _torchrun(e: Mapping[str, str]) -> Place | None:
    if "RANK" not in e or "WORLD_SIZE" not in e:
        return None
    rank, size = _number(e, "RANK"), _number(e, "WORLD_SIZE")
    address, port = _meeting(e, "torchrun", None, None)
    return Place(rank, size, _number(e, "LOCAL_RANK", rank), address, port, "torchrun")


def _mpi(e: Mapping[str, str]) -> Place | None:
    for name, rank, size, local_rank, local_size, jobs in _MPI:
        if rank not in e or size not in e:
            continue
        is_one_machine = _number(e, local_size, -1) == _number(e, size)
        job = next((e[key] for key in jobs if key in e), None)
        if job is None:  # one number for several machines, and so for all jobs that go over several
            job = str(_starter(rank)) if is_one_machine else ""
        address, port = _meeting(e, name, "127.0.0.1" if is_one_machine else None, job)
        return Place(_number(e, rank), _number(e, size), _number(e, local_rank, 0), address, port, name)
    return None


def _starter(variable: str) -> int:
    """The process that started the ranks of this machine: the nearest one above without the variable, as ranks may be
    started by a shell."""
    process = os.getppid()
    while process > 1:
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                if not any(entry.startswith(f"{variable}=".encode()) for entry in file.read().split(b"\0")):
                    break
            with open(f"/proc/{process}/stat", "rb") as file:
                process = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:  # it is another user's, or has ended
            break
    return process


def _slurm(e: Mapping[str, str]) -> Place | None:
    if "SLURM_PROCID" not in e or "SLURM_NTASKS" not in e:
        return None
    job = f"{e.get('SLURM_JOB_ID', '')}.{e.get('SLURM_STEP_ID', '')}"
    nodes = e.get("SLURM_STEP_NODELIST") or e.get("SLURM_JOB_NODELIST") or ""
    address, port = _meeting(e, "Slurm", first_node(nodes), job)
    rank = _number(e, "SLURM_PROCID")
    return Place(rank, _number(e, "SLURM_NTASKS"), _number(e, "SLURM_LOCALID", 0), address, port, "Slurm")


def first_node(nodes: str) -> str | None:
    """The first name of a list as Slurm writes it: "gpu[003-007,9],other" begins with gpu003."""
    found = re.match(r"([^,\[]+)(?:\[(\w+))?", nodes)
    return found and found[1] + (found[2] or "")


def _meeting(e: Mapping[str, str], launcher: str, address: str | None, job: str | None) -> tuple[str, int]:
    """Where rank 0 listens: VYRE_CUDA_RENDEZVOUS_PORT, or above MASTER_PORT, or by the number of the job."""
    address = e.get("MASTER_ADDR") or address
    if address is None:
        raise ValueError(
            f"{launcher} has started ranks on several machines, and nothing says where rank 0 is: set MASTER_ADDR to "
            "its machine for all of them"
        )
    if e.get("VYRE_CUDA_RENDEZVOUS_PORT"):
        return address, _number(e, "VYRE_CUDA_RENDEZVOUS_PORT")
    if e.get("MASTER_PORT"):
        port = _number(e, "MASTER_PORT")
        return address, port + PORT_OFFSET if port + PORT_OFFSET < 65536 else port - PORT_OFFSET
    if job is None:
        raise ValueError(f"{launcher} has set RANK and WORLD_SIZE, but not MASTER_PORT")
    return address, _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS


def _number(e: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = e.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdigit():
        raise ValueError(f"{name}={text!r} in the environment; it must be a number")
    return int(text)
