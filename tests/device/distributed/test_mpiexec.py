"""Ranks under mpiexec, of Open MPI and MPICH: how they start, and what becomes of them where one or mpiexec is gone."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from installed import program

from vyre_cuda.distributed.launchers import place_of

from .started_ranks import ENDS_WITHIN, RANK

pytestmark = pytest.mark.timeout(ENDS_WITHIN + 200)

OPEN_MPI = {  # may start as many as the test wants, whoever runs it
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@pytest.mark.mpiexec
def test_mpiexec_starts_ranks(nccl, gpus, device_name):
    kind = "emulator" if str(device_name).startswith("emulator") else "cuda"
    size = min(gpus, 4)
    command = [program("mpiexec"), "-n", str(size), sys.executable, str(RANK), kind, "sums"]
    done = subprocess.run(command, env=os.environ | nccl | OPEN_MPI, capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sums hold") == size


@contextmanager
def _under_mpiexec(
    nccl: dict[str, str], kind: str, said_in: Path, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """Two ranks that have joined, with a file each in the folder: mpiexec, and an open number of each process."""
    command = [program("mpiexec"), "-n", "2", sys.executable, str(RANK), kind, "under_mpiexec"]
    environment["SAID_IN"] = str(said_in)
    with ExitStack() as ends:
        mpiexec = ends.enter_context(subprocess.Popen(command, env=os.environ | nccl | OPEN_MPI | environment))
        ends.callback(mpiexec.kill)
        ranks = []
        for rank in range(2):
            while not (said_in / f"here {rank}").exists():
                assert mpiexec.poll() is None
                time.sleep(0.01)
            ranks.append(os.pidfd_open(int((said_in / f"here {rank}").read_text())))
            ends.callback(os.close, ranks[-1])
            ends.callback(_kill, ranks[-1])
        yield mpiexec, ranks


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)


def _has_ended(process: int) -> bool:
    return bool(select.select([process], [], [], ENDS_WITHIN)[0])


@pytest.mark.mpiexec
@pytest.mark.ranks(2)
def test_a_rank_under_mpiexec_that_is_stopped_is_told_to_the_other(nccl, device_name, tmp_path):
    kind = "emulator" if str(device_name).startswith("emulator") else "cuda"
    with _under_mpiexec(nccl, kind, tmp_path, STOPS="1") as (_, ranks):
        (tmp_path / "go on").touch()
        has_ended = False
        while not (tmp_path / "told 0").exists():
            assert not has_ended
            has_ended = bool(select.select([ranks[0]], [], [], 0.01)[0])
        signal.pidfd_send_signal(ranks[1], signal.SIGCONT)

        assert _has_ended(ranks[0])
        assert _has_ended(ranks[1])
    assert "has not ended after" in (tmp_path / "told 0").read_text()


@pytest.mark.mpiexec
@pytest.mark.ranks(2)
def test_ranks_end_where_mpiexec_is_killed(nccl, device_name, tmp_path):
    """MPICH ends them; those of Open MPI go on, and one that waits in vain is told."""
    kind = "emulator" if str(device_name).startswith("emulator") else "cuda"
    with _under_mpiexec(nccl, kind, tmp_path) as (mpiexec, ranks):
        mpiexec.kill()
        mpiexec.wait()
        (tmp_path / "go on").touch()

        assert _has_ended(ranks[0])
        assert _has_ended(ranks[1])
    said = tmp_path / "told 0"
    assert not said.exists() or re.search("has not ended after|rank 1 of 2 ranks is gone", said.read_text())


def test_jobs_of_mpich_on_one_machine_meet_apart_and_a_shell_around_a_rank_is_no_job():
    """Nothing in the environment tells two of them apart: its numbers of files are the same in all."""
    rank = "import os; from vyre_cuda.distributed.launchers import _starter; print(_starter('PMI_RANK'))"
    mpich = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "HYDI_CONTROL_FD": "7"}
    in_shell = ["sh", "-c", f'{sys.executable} -c "{rank}"; true']

    def started(*words: str) -> int:
        return int(subprocess.run(words, env=os.environ | mpich, capture_output=True, text=True, check=True).stdout)

    assert started(sys.executable, "-c", rank) == started(*in_shell) == os.getpid()
    assert place_of(mpich).port == place_of(mpich | {"HYDI_CONTROL_FD": "9"}).port
