"""Groups of devices: on the emulator with a fake libnccl.so.2, which is built here; on GPUs with NCCL, as many as there
are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir
from vyre_cuda.testing.compilers import c_compiler

from .ports import free_port
from .started_ranks import LAUNCHERS, RANK, end, ends_within, outputs

_OF_GROUPS = {"comm", "devices", "start"}

MOST = int(os.environ.get("VYRE_CUDA_TEST_GPUS", "0"))  # 0: all that there are
EMULATED = MOST or 4


@pytest.fixture(scope="package")
def nccl(device_name: int | str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What names the library in the environment of this process and of those that it starts."""
    if not str(device_name).startswith("emulator"):
        yield {}
        return
    path = tmp_path_factory.mktemp("nccl") / "libnccl.so.2"
    source = Path(__file__).with_name("fake_nccl.c")
    compiler = [*c_compiler(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    subprocess.run([*compiler, "-o", str(path), str(source), "-ldl", "-lrt"], check=True, timeout=120)
    named = {
        "VYRE_CUDA_NCCL": str(path),
        "FAKE_NCCL_DRIVER": os.path.join(get_library_dir(), EMULATOR_LIBRARY),
        "VYRE_CUDA_EMULATOR_DEVICES": str(EMULATED),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        yield named


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test of more ranks than there are devices is deselected; and so is one whose devices must access each other's
    memory, where they cannot."""
    ranks = {item: _ranks_of(item) for item in items if Path(__file__).parent in item.path.parents}
    if max(ranks.values(), default=1) < 2:
        return
    is_emulator = str(config.getoption("--device")).startswith("emulator")
    there = _devices_there(is_emulator=is_emulator)
    are_direct = is_emulator or there < 2 or _are_direct()
    dropped = {item for item, count in ranks.items() if count > there or (not are_direct and _accesses_another(item))}
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def _ranks_of(item: pytest.Item) -> int:
    """Of how many a test is. What only the emulator can do here is done to one device of two."""
    marker = item.get_closest_marker("ranks")
    if marker is not None:
        return int(marker.args[0])
    names = set(getattr(item, "fixturenames", ()))
    is_of_two = names & {"both", "pair"} or (names & _OF_GROUPS and item.get_closest_marker("emulator") is not None)
    return 2 if is_of_two else 1


def _accesses_another(item: pytest.Item) -> bool:
    """Whether its communicator is the one below, of a module that says what is small."""
    return isinstance(item, pytest.Function) and hasattr(item.module, "SMALL") and "comm" in item.fixturenames


def _devices_there(*, is_emulator: bool) -> int:
    if is_emulator:
        return EMULATED
    there = sum(info.kind == "cuda" for info in vc.devices())
    return min(there, MOST or there)


def _are_direct() -> bool:
    """Whether the first two GPUs can access each other's memory."""
    with vc.Device("cuda:0") as first, vc.Device("cuda:1") as second:
        return all(peer.is_direct for device in (first, second) for peer in device.peers if peer.ordinal < 2)


@pytest.fixture(scope="session")
def gpus(device_name: int | str) -> int:
    """How many devices a group can have."""
    return _devices_there(is_emulator=str(device_name).startswith("emulator"))


@pytest.fixture
def devices(
    nccl: dict[str, str], gpus: int, device_name: int | str, request: pytest.FixtureRequest
) -> Iterator[list[vc.Device]]:
    """All devices of a group."""
    kind = "cuda"
    if str(device_name).startswith("emulator"):
        request.getfixturevalue("emulator").set("device_count", EMULATED)
        kind = "emulator"
    opened = [vc.Device(f"{kind}:{number}") for number in range(gpus)]
    yield opened
    for device in opened:
        device.close()


@pytest.fixture
def comm(devices: list[vc.Device], request: pytest.FixtureRequest) -> Iterator[vc.distributed.LocalCommunicator]:
    """Two devices whose all-reduces of up to SMALL bytes, of the module, go in one shot."""
    with vc.distributed.local(devices[:2], small=request.module.SMALL) as made:
        yield made


@pytest.fixture
def start(nccl: dict[str, str], gpus: int, device_name: int | str) -> Callable[..., list[tuple[int, str]]]:
    """Starts ranks, and gives the exit status and the output of each."""
    kind = "emulator" if str(device_name).startswith("emulator") else "cuda"

    def run(
        scene: str,
        launcher: Callable[[int, int, int], dict[str, str]],
        size: int | None = None,
        started: int | None = None,
        small: int | None = None,
        stopped: int | None = None,  # the rank that stops, and is killed once the others have ended
    ) -> list[tuple[int, str]]:
        size = min(gpus, 4) if size is None else size
        command = [sys.executable, str(RANK), kind, scene]
        bytes_of_small = {} if small is None else {"SMALL_BYTES": str(small)}
        with ExitStack() as ends:
            port = ends.enter_context(free_port())
            processes = []
            for rank in range(size if started is None else started):
                process = subprocess.Popen(
                    command,
                    env=os.environ | nccl | launcher(rank, size, port) | bytes_of_small,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                processes.append(process)
                ends.callback(end, process)
            printed = outputs(processes, stopped, ends_within(kind))
        return [(process.returncode, output) for process, output in zip(processes, printed, strict=True)]

    return run


@pytest.fixture
def both(start: Callable[..., list[tuple[int, str]]]) -> Callable[..., list[str]]:
    """Runs a scene on two ranks, which must end well, and gives what each has printed."""

    def run(scene: str, small: int | None = None) -> list[str]:
        ended = start(scene, LAUNCHERS["torchrun"], 2, small=small)
        assert [status for status, _ in ended] == [0, 0], ended
        return [output for _, output in ended]

    return run


@pytest.fixture
def pair(comm: vc.distributed.LocalCommunicator) -> vc.distributed.LocalCommunicator:
    """The same, where there are two."""
    return comm
