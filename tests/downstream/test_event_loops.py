"""The hosts of examples/event_loop: one thread that waits in an event loop has the answers of many streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import program

import vyre_cuda as vc
from vyre_cuda.locations import get_cmake_dir

from .test_cpp_header import INCLUDE, LINK
from .tools import EMULATOR, ROOT, call, configure

EXAMPLES = ROOT / "examples"
LOOPS = EXAMPLES / "event_loop"

pytestmark = [pytest.mark.slow, pytest.mark.device]


@pytest.fixture(scope="session")
def saxpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "saxpy.vyre"
    vc.bundle(vc.parse((EXAMPLES / "saxpy.vir").read_text()), path)
    return path


def answers(host: Path, bundle: Path, device: vc.Device, clients: int) -> str:
    driver = [EMULATOR] if device.properties.is_emulator else []
    return call([host, bundle, str(clients), "100", *driver])


@pytest.mark.thin
def test_epoll_has_every_answer(tmp_path: Path, saxpy: Path, device: vc.Device) -> None:
    call(configure(LOOPS, tmp_path, vyre_cuda_DIR=get_cmake_dir(), CMAKE_CXX_FLAGS="-Wall -Wextra -Werror"))
    call([program("cmake"), "--build", tmp_path, "--target", "epoll"])

    for clients in (1, 5):
        assert answers(tmp_path / "epoll", saxpy, device, clients) == "100 of 100 answers are right\n"


@pytest.mark.asio
def test_asio_has_every_answer(tmp_path: Path, saxpy: Path, device: vc.Device) -> None:
    host = tmp_path / "asio"
    call(["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", INCLUDE, LOOPS / "asio.cpp", "-o", host, *LINK])

    for clients in (1, 5):
        assert answers(host, saxpy, device, clients) == "100 of 100 answers are right\n"
