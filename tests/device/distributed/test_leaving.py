"""What one thread does while another one of its process is in an all-reduce in one shot. A rank that leaves: who still
gets a result, and who is told that there is none. A copy between the devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir
from vyre_cuda.testing.compilers import c_compiler

SMALL = 1 << 14
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.emulator


@pytest.fixture
def three(devices: list[vc.Device]) -> list[vc.Device]:
    return devices[:3]


@pytest.mark.ranks(3)
def test_what_a_rank_lacks_is_told_also_if_the_one_that_leaves_lacks_it_too(three):
    """Rank 2 takes no part. Rank 0 is ended at its limit, and leaves; rank 1 would wait for long."""
    with vc.distributed.local(three, small=SMALL) as comm:
        xs = [device.full(4, 1.0, vc.f32) for device in three[:2]]
        for rank, x in zip(comm.ranks, xs, strict=False):
            rank.all_reduce(x)
        comm.ranks[0]._watcher.limit = 0.1
        with pytest.raises(vc.CommunicationError, match="has not ended"):
            xs[0].numpy()

        comm.ranks[0].close()

        with pytest.raises(vc.CommunicationError, match="a rank left the group"):
            xs[1].numpy()


@pytest.mark.ranks(3)
def test_calls_that_all_ranks_have_ended_hold_beyond_a_close_of_one_that_lacks_a_later_one(three):
    with vc.distributed.local(three, small=SMALL) as comm:
        xs = comm.all_reduce([device.full(4, 1.0, vc.f32) for device in three])
        three[1].synchronize()
        three[2].synchronize()
        comm.ranks[0]._watcher.limit = 0.1
        more = comm.ranks[0].all_reduce(xs[0], out=three[0].zeros(4, vc.f32))
        with pytest.raises(vc.CommunicationError, match="has not ended"):
            more.numpy()

        comm.ranks[0].close()

        for x in xs[1:]:
            assert x.numpy().tolist() == [3.0] * 4


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The emulator, as a driver that stops threads in its calls."""
    path = tmp_path_factory.mktemp("stops") / "libstops.so"
    source = ROOT / "tests" / "native" / "stops.c"
    compiler = [*c_compiler(), "-std=gnu11", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}"]
    subprocess.run([*compiler, "-o", str(path), str(source), "-ldl"], check=True, timeout=120)
    return path


def _on_stops(stops: Path, nccl: dict[str, str], script: str, *words: str) -> list[str]:
    """The lines of a script of this directory."""
    emulator = os.path.join(get_library_dir(), EMULATOR_LIBRARY)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), *words],
        env=os.environ
        | nccl
        | {"VYRE_CUDA_DRIVER": str(stops), "VYC_STOPS_DRIVER": emulator, "VYRE_CUDA_EMULATOR_DEVICES": "2"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.thin
def test_a_rank_leaves_however_long_another_one_has_no_core_in_a_launch(stops, nccl):
    lines = _on_stops(stops, nccl, "stopped_launch.py")

    assert lines == ["rank 1 [2.0, 2.0, 2.0, 2.0]", "rank 0 [2.0, 2.0, 2.0, 2.0]"]


@pytest.mark.thin
@pytest.mark.parametrize("what", ["calls", "replays"])
def test_a_copy_between_two_devices_does_not_come_between_the_parts_of_a_call_for_both(stops, nccl, what):
    lines = _on_stops(stops, nccl, "copy_between_parts.py", what)

    assert lines == ["sums [[16.0, 16.0, 16.0, 16.0], [16.0, 16.0, 16.0, 16.0]]", "copies [True, True]"]
