"""Groups of processes as torchrun, mpiexec, Slurm, Ray and users start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.distributed.launchers import first_node, place_of

from .started_ranks import ENDS_WITHIN, LAUNCHERS, RANK

pytestmark = pytest.mark.timeout(ENDS_WITHIN + 200)  # so that ranks that do not end say where they are
EXAMPLE = Path(__file__).parents[3] / "examples" / "ranks.py"


@pytest.mark.thin
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_join_as_their_launcher_says(start, launcher):
    ended = start("sums", LAUNCHERS[launcher])

    for rank, (status, output) in enumerate(ended):
        assert status == 0, output
        assert f"sums hold {rank} {len(ended)}" in output


@pytest.mark.torch
def test_torchrun_starts_ranks(nccl, gpus, device_name):
    kind = "emulator" if str(device_name).startswith("emulator") else "cuda"
    size = min(gpus, 4)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    done = subprocess.run(
        [*command, str(RANK), kind, "sums"], env=os.environ | nccl, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sums hold") == size


@pytest.mark.thin
def test_a_broadcast_of_the_callers_own_joins_ranks(start, tmp_path):
    def own(rank: int, size: int, _: int) -> dict[str, str]:
        return {"OWN_RANK": str(rank), "OWN_SIZE": str(size), "OWN_FILE": str(tmp_path / "exchanged")}

    for status, output in start("by_exchange", own):
        assert status == 0, output
        assert "sums hold" in output


@pytest.mark.thin
def test_the_example_runs_as_a_user_runs_it(nccl, gpus, device_name):
    kind = "emulator" if str(device_name).startswith("emulator") else "cuda"
    size = min(gpus, 2)
    points = ["--points", "1000"] if kind == "emulator" else []  # more than a block
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--device", kind, "--ranks", str(size), *points],
        env=os.environ | nccl,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{size} ranks with" in done.stdout
    assert "as NumPy finds it" in done.stdout


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("answer", [b"junk", b"[1]", b"{}", b"7"])
def test_an_exchange_that_gives_other_bytes_than_those_of_rank_0_is_told(devices, rank, answer):
    with pytest.raises(ValueError, match="which rank 0 has not given: it must be a broadcast"):
        vc.distributed.join(devices[0], lambda _: answer, rank=rank, size=2)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, "MASTER_PORT"),
        ({"RANK": "x", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "RANK='x'"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, "MASTER_ADDR"),
    ],
)
def test_an_environment_that_is_not_enough_says_what_is_missing(environment, words):
    with pytest.raises(ValueError, match=words):
        place_of(environment)


def test_places_of_launchers():
    assert place_of({}) is None
    slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_NODELIST": "gpu[003-004]"}
    place = place_of(slurm | {"SLURM_JOB_ID": "77"})
    assert (place.rank, place.size, place.local_rank, place.address) == (5, 8, 1, "gpu003")
    assert place.port == place_of(slurm | {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0"}).port
    assert first_node("a-1,a-2") == "a-1"
    torch = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "29500"}
    assert place_of(torch).port == 29529
    assert place_of(torch | {"MASTER_PORT": "65530"}).port == 65501
