"""Hosts that open the library themselves, or link to it statically."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import program

import vyre_cuda as vc

from .test_cpp_header import CPP, INCLUDE, bundle  # noqa: F401
from .tools import EMULATOR, HOST, ROOT, VERSION_NUMBER, call, configure

LIBRARY = Path(vc.get_library_dir()) / f"libvyre_cuda.so.{vc.__version__.rpartition('.')[0]}"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("compiler", "language"), [("cc", "-std=c11"), ("c++", "-std=c++17")])
def test_a_host_opens_and_closes_the_library(tmp_path: Path, bundle: Path, compiler: str, language: str) -> None:  # noqa: F811
    kind = ["-xc++"] if compiler == "c++" else ["-D_GNU_SOURCE"]
    host = tmp_path / "plugin"
    call([compiler, language, *STRICT, *kind, INCLUDE, CPP / "plugin.c", "-o", host, "-ldl", "-pthread"])

    assert "vyre_cuda" not in call(["readelf", "-d", host])
    assert call([host, LIBRARY, EMULATOR, bundle]) == "300\n300\n300\n"


def test_the_table_has_every_function_once() -> None:
    text = (ROOT / "csrc" / "include" / "vyre_cuda" / "functions.h").read_text()
    table = [line.strip(" X(\\)\n") for line in text.splitlines() if line.startswith("  X(")]

    assert table == (ROOT / "csrc" / "symbols.txt").read_text().split()


@pytest.mark.thin
@pytest.mark.parametrize("way", ["installed", "subproject"])
def test_a_host_links_statically(tmp_path: Path, way: str) -> None:
    words = {"VYC_EMULATOR": "OFF", "VYC_STATIC": "ON", "CMAKE_BUILD_TYPE": "Debug"}
    source, prefix = tmp_path / "host", tmp_path / "prefix"
    source.mkdir()
    if way == "installed":
        call(configure(ROOT, tmp_path / "library", CMAKE_DISABLE_FIND_PACKAGE_Python="ON", **words))
        call([program("cmake"), "--build", tmp_path / "library", "-j", "2"])
        call([program("cmake"), "--install", tmp_path / "library", "--prefix", prefix])
        use, words = "find_package(vyre_cuda CONFIG REQUIRED COMPONENTS static)", {"CMAKE_PREFIX_PATH": prefix}
    else:
        use = f"add_subdirectory({ROOT} vyre_cuda)"
    (source / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.22)\nproject(host LANGUAGES C CXX)\n{use}\n"
        f"add_executable(host {HOST / 'host.c'})\ntarget_link_libraries(host PRIVATE vyre_cuda::static)\n"
    )
    call(configure(source, tmp_path / "build", **words))
    call([program("cmake"), "--build", tmp_path / "build", "-j", "2", "--target", "host"])

    assert "libvyre_cuda" not in call(["readelf", "-d", tmp_path / "build" / "host"])
    assert call([tmp_path / "build" / "host", EMULATOR]) == f"{VERSION_NUMBER}\n"
