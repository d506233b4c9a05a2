"""Hosts that build the library as a part of their own build: by add_subdirectory, and by FetchContent."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import program

from .tools import EMULATOR, HOST, ROOT, VERSION_NUMBER, call, configure

pytestmark = pytest.mark.slow

WAYS = {
    "add_subdirectory": "add_subdirectory(${VYRE_CUDA} vyre_cuda)\n",
    "FetchContent": "include(FetchContent)\n"
    "FetchContent_Declare(vyre_cuda SOURCE_DIR ${VYRE_CUDA})\n"
    "FetchContent_MakeAvailable(vyre_cuda)\n",
    "find_package": "include(FetchContent)\n"
    "FetchContent_Declare(vyre_cuda SOURCE_DIR ${VYRE_CUDA} OVERRIDE_FIND_PACKAGE)\n"
    "find_package(vyre_cuda REQUIRED)\n",
}


def project(folder: Path, way: str) -> Path:
    """A host that builds the library in that way and installs itself."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\n"
        "project(host LANGUAGES C CXX)\n"
        f"{WAYS[way]}"
        f"add_executable(host_c {HOST / 'host.c'})\n"
        "target_link_libraries(host_c PRIVATE vyre_cuda::vyre_cuda)\n"
        "install(TARGETS host_c)\n"
        "foreach(name vyre_cuda::vyre_cuda vyre_cuda::emulator)\n"
        "  if(TARGET ${name})\n"
        '    message(STATUS "target ${name}")\n'
        "  endif()\n"
        "endforeach()\n"
    )
    return folder


@pytest.mark.thin
@pytest.mark.parametrize("way", WAYS)
def test_a_host_builds_the_library_as_a_part_of_itself(tmp_path: Path, way: str) -> None:
    words = {"VYRE_CUDA": ROOT, "VYC_EMULATOR": "OFF"}
    build, installed = tmp_path / "build", tmp_path / "installed"
    call(configure(project(tmp_path / "host", way), build, CMAKE_INSTALL_PREFIX=installed, **words))
    call([program("cmake"), "--build", build])
    call([program("cmake"), "--install", build])

    assert call([build / "host_c", EMULATOR]) == f"{VERSION_NUMBER}\n"
    assert [path.name for path in installed.rglob("*") if path.is_file()] == ["host_c"]


@pytest.mark.thin
def test_the_targets_are_called_as_find_package_calls_them(tmp_path: Path) -> None:
    words = {"VYRE_CUDA": ROOT}
    printed = call(configure(project(tmp_path / "host", "add_subdirectory"), tmp_path / "build", **words))

    found = [line.removeprefix("-- target ") for line in printed.splitlines() if line.startswith("-- target ")]
    assert found == ["vyre_cuda::vyre_cuda", "vyre_cuda::emulator"]
