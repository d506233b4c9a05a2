"""CMake alone installs the library, without Python and without the emulator, and what it installed may be moved."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from installed import program

import vyre_cuda as vc

from .tools import EMULATOR, HOST, ROOT, VERSION_NUMBER, attempt, call, configure, without_cuda

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix, moved from where it was installed."""
    folder = tmp_path_factory.mktemp("install")
    build, first, moved = folder / "build", folder / "first", folder / "moved"
    call(
        configure(
            ROOT,
            build,
            CMAKE_BUILD_TYPE="Debug",
            CMAKE_DISABLE_FIND_PACKAGE_Python="ON",
            CMAKE_INSTALL_LIBDIR="lib",
            VYC_EMULATOR="OFF",
        )
    )
    call([program("cmake"), "--build", build, "-j", "2"], environment=without_cuda(folder))
    call([program("cmake"), "--install", build, "--prefix", first])
    first.rename(moved)
    return moved


@pytest.mark.thin
def test_exactly_what_a_host_needs_is_installed(installed: Path) -> None:
    version = vc.__version__
    soname = f"libvyre_cuda.so.{version.rsplit('.', 1)[0]}"

    parts = {f"include/vyre_cuda/{path.name}" for path in (ROOT / "csrc" / "include" / "vyre_cuda").iterdir()}
    assert {str(path.relative_to(installed)) for path in installed.rglob("*") if not path.is_dir()} == parts | {
        "include/vyre_cuda.h",
        "include/vyre_cuda.hpp",
        "lib/libvyre_cuda.so",
        f"lib/{soname}",
        f"lib/libvyre_cuda.so.{version}",
        "lib/cmake/vyre_cuda/vyre_cudaConfig.cmake",
        "lib/cmake/vyre_cuda/vyre_cudaConfigVersion.cmake",
        "lib/cmake/vyre_cuda/vyre_cudaTargets.cmake",
        "lib/cmake/vyre_cuda/vyre_cudaTargets-debug.cmake",
        "lib/pkgconfig/vyre_cuda.pc",
    }
    dynamic = call(["readelf", "-d", installed / "lib" / "libvyre_cuda.so"])
    assert f"soname: [{soname}]" in dynamic
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


@pytest.mark.thin
def test_no_file_names_the_place_of_the_build(installed: Path) -> None:
    texts = [path.read_text() for path in installed.rglob("*") if path.suffix in (".cmake", ".pc", ".h", ".hpp")]

    assert len(texts) == 7 + len(list((ROOT / "csrc" / "include" / "vyre_cuda").iterdir()))
    assert [text for text in texts if str(installed.parent) in text] == []


@pytest.mark.thin
def test_a_host_is_built_by_cmake_against_the_moved_prefix(installed: Path, tmp_path: Path) -> None:
    call(configure(HOST, tmp_path, CMAKE_PREFIX_PATH=installed, WANTED="0.1", COMPONENTS=""))
    call([program("cmake"), "--build", tmp_path])

    assert call([tmp_path / "host_c", EMULATOR]) == f"{VERSION_NUMBER}\n"


@pytest.mark.thin
def test_a_host_is_built_by_pkg_config_against_the_moved_prefix(installed: Path, tmp_path: Path) -> None:
    environment = {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = shlex.split(call([program("pkg-config"), "--cflags", "--libs", "vyre_cuda"], environment=environment))
    call(["cc", "-std=c11", HOST / "host.c", *flags, "-o", tmp_path / "host"])

    assert Path(next(flag for flag in flags if flag.startswith("-L"))[2:]).samefile(installed / "lib")
    libraries = {"LD_LIBRARY_PATH": str(installed / "lib")}
    assert call([tmp_path / "host", EMULATOR], environment=libraries) == f"{VERSION_NUMBER}\n"


@pytest.mark.thin
def test_a_host_with_the_cpp_header_is_built_against_the_moved_prefix(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "host.cpp").write_text(
        "#include <cstdio>\n#include <vyre_cuda.hpp>\n"
        "int main(int, char **words) {\n"
        "  const auto driver = vyre::Driver::open(words[1]);\n"
        "  const auto context = vyre::Context::open(driver);\n"
        '  std::printf("%d\\n", context.caps().warp_size);\n}\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(host LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 17)\n"
        "find_package(vyre_cuda 0.1 CONFIG REQUIRED)\nadd_executable(host host.cpp)\n"
        "target_link_libraries(host PRIVATE vyre_cuda::vyre_cuda)\n"
    )
    call(configure(tmp_path, tmp_path / "build", CMAKE_PREFIX_PATH=installed))
    call([program("cmake"), "--build", tmp_path / "build"])

    assert call([tmp_path / "build" / "host", EMULATOR]) == "32\n"


@pytest.mark.thin
def test_a_missing_emulator_is_said_when_it_is_asked_for(installed: Path, tmp_path: Path) -> None:
    words = {"WANTED": "0.1", "COMPONENTS": "COMPONENTS;emulator"}
    done = attempt(configure(HOST, tmp_path, CMAKE_PREFIX_PATH=installed, **words))

    assert done.returncode != 0
    assert "without the component emulator" in done.stderr


@pytest.mark.thin
def test_python_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    done = attempt(configure(ROOT, tmp_path, CMAKE_DISABLE_FIND_PACKAGE_Python="ON", VYC_PYTHON="ON"))

    assert done.returncode != 0
    assert "VYC_PYTHON" in done.stderr
