"""find_package(vyre_cuda) finds the package's own libraries; hosts in C and C++ link to them and run."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import program

from vyre_cuda.locations import get_cmake_dir

from .tools import EMULATOR, HOST, VERSION_NUMBER, attempt, call, configure

pytestmark = pytest.mark.slow


@pytest.mark.thin
def test_hosts_in_c_and_cpp_build_and_run(tmp_path: Path) -> None:
    words = {"WANTED": "0.1", "COMPONENTS": "COMPONENTS;emulator"}
    call(configure(HOST, tmp_path, vyre_cuda_DIR=get_cmake_dir(), **words))
    call([program("cmake"), "--build", tmp_path])

    emulator = (tmp_path / "emulator.txt").read_text()
    assert Path(emulator).samefile(EMULATOR)
    assert [call([tmp_path / host, emulator]) for host in ("host_c", "host_cpp")] == [f"{VERSION_NUMBER}\n"] * 2


@pytest.fixture(scope="module")
def finder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that only looks for the package."""
    folder = tmp_path_factory.mktemp("finder")
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(finder LANGUAGES NONE)\n"
        "set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS TRUE)\n"
        "find_package(vyre_cuda ${WANTED} CONFIG ${MORE})\n"
        'message(STATUS "found ${vyre_cuda_FOUND} ${vyre_cuda_VERSION}")\n'
    )
    return folder


def found(finder: Path, folder: Path, wanted: str, more: str = "") -> str:
    done = attempt(configure(finder, folder, vyre_cuda_DIR=get_cmake_dir(), WANTED=wanted, MORE=more))
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("-- found")).removeprefix("-- found ")


@pytest.mark.thin(4)
@pytest.mark.parametrize("wanted", ["", "0.1", "0.1.0", "0.1.0;EXACT"])
def test_a_version_that_fits_is_found(tmp_path: Path, finder: Path, wanted: str) -> None:
    assert found(finder, tmp_path, wanted) == "1 0.1.0"


@pytest.mark.thin
@pytest.mark.parametrize("wanted", ["0.0", "0.1.9", "0.2", "1.0"])
def test_another_minor_version_is_refused_before_1_0(tmp_path: Path, finder: Path, wanted: str) -> None:
    assert found(finder, tmp_path, wanted).split()[0] == "0"


def test_an_unknown_component_is_refused(tmp_path: Path, finder: Path) -> None:
    assert found(finder, tmp_path, "", "COMPONENTS;nonsense").split()[0] == "0"
