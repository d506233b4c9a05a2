"""An sdist gives a wheel, and the wheel gives a package that others can build on: portable, whole, and nothing more.

Minutes: the emulator is compiled. No network: the build tools are those of the environment that the tests run in.
"""

from __future__ import annotations

import importlib
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from installed import program

import vyre_cuda as vc

from .tools import HOST, ROOT, VERSION_NUMBER, call, configure, without_cuda

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

SONAME = f"libvyre_cuda.so.{vc.__version__.rpartition('.')[0]}"

# What a wheel for manylinux may expect of the system.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6"}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that tools/wheels.py fills; it has tried the wheel out."""
    folder = tmp_path_factory.mktemp("made")
    words = ["--offline", "--output", folder, sys.executable]
    variables = without_cuda(tmp_path_factory.mktemp("without_cuda"))
    # The emulator is the only C++; without optimization it compiles in half the time.
    variables["SKBUILD_CMAKE_DEFINE"] = "CMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"
    call([sys.executable, ROOT / "tools" / "wheels.py", *words], environment=variables)
    return folder


@pytest.fixture(scope="session")
def sdist(made: Path) -> Path:
    """The sdist of this tree."""
    return next(made.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def wheel(made: Path) -> Path:
    """The wheel that pip makes of the sdist, with the tag that auditwheel gave it."""
    return next(made.glob("*.whl"))


@pytest.fixture(scope="session")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package folder of the wheel."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / "vyre_cuda"


@pytest.fixture(scope="session")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that has the wheel; NumPy is that of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        wheels = importlib.import_module("wheels")
    made: Path = wheels.environment(wheel, sys.executable, tmp_path_factory.mktemp("environment"), offline=True)
    return made


def run(python: Path, folder: Path, *words: str | Path) -> str:
    """The new environment's Python in a folder that has no vyre_cuda."""
    return call([python, *words], folder=folder, environment={"PYTHONPATH": "", "VYRE_CUDA_DEVICE": "emulator"})


def test_the_sdist_has_what_a_build_needs_and_no_results(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}

    assert {"CMakeLists.txt", "cmake/package.cmake", "csrc/include/vyre_cuda.h", "LICENSE"} <= names
    assert [name for name in names if name.endswith((".so", ".o")) or name.startswith("benchmarks/results")] == []


def test_the_wheel_has_what_others_build_on_and_no_sources(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert {
        "vyre_cuda/c_api.pxd",
        "vyre_cuda/_native/core/c_status.pxd",
        "vyre_cuda/include/vyre_cuda.h",
        "vyre_cuda/include/vyre_cuda.hpp",
        "vyre_cuda/include/vyre_cuda/kernel.h",
        "vyre_cuda/include/vyre_cuda/error.hpp",
        "vyre_cuda/lib/libvyre_cuda.so",
        f"vyre_cuda/lib/{SONAME}",
        "vyre_cuda/lib/libvyre_cuda_emulator.so",
        "vyre_cuda/lib/cmake/vyre_cuda/vyre_cudaConfig.cmake",
        "vyre_cuda/lib/pkgconfig/vyre_cuda.pc",
        "vyre_cuda/py.typed",
    } <= names
    libraries = {name for name in names if ".so." in name} - {f"vyre_cuda/lib/{SONAME}"}
    sources = libraries | {name for name in names if name.endswith((".pyx", ".c", ".cpp", ".o"))}
    sources |= {name for name in names if name.endswith(".h") and "/_native/" in name}
    assert {str(Path(name).parent) for name in sources} == {"vyre_cuda/bundles/launcher_sources"}
    outside = {name.split("/")[0] for name in names} - {"vyre_cuda"}
    assert outside == {f"vyre_cuda-{vc.__version__}.dist-info"}


def test_libraries_need_the_system_and_each_other_alone(unpacked: Path) -> None:
    for library in (*unpacked.rglob("*.so"), unpacked / "lib" / SONAME):
        if library.name == "libvyre_cuda.so":
            continue  # a text for the linker
        dynamic = call(["readelf", "-d", library])
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        paths = set(re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic))

        own = library.parent.parent.name == "_native"
        loader = {name for name in needed if name.startswith("ld-linux")}
        assert needed - SYSTEM - loader <= ({SONAME} if own else set()), library
        assert paths == ({"$ORIGIN/../../lib"} if own else set()), library


def test_the_wheel_is_for_manylinux_and_nothing_was_bundled(wheel: Path) -> None:
    assert "manylinux_2_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        libraries = {name for name in archive.namelist() if ".so" in name}

    rooms = {
        f"vyre_cuda/_native/{room}" for room in ("bundle", "call", "collective", "core", "graph", "memory", "trace")
    }
    assert {str(Path(name).parent) for name in libraries} == {"vyre_cuda/lib", *rooms}
    assert not any("libcuda" in name for name in libraries)


def test_the_installed_wheel_runs(python: Path, tmp_path: Path) -> None:
    code = "import vyre_cuda, pathlib; print(pathlib.Path(vyre_cuda.__file__).parents[5])"
    assert Path(run(python, tmp_path, "-c", code).strip()).samefile(python.parents[2])
    assert "bit for bit" in run(python, tmp_path, "-m", "vyre_cuda", "demo")
    assert run(python, tmp_path, "-m", "vyre_cuda", "--version") == f"vyre-cuda {vc.__version__}\n"


def test_a_host_is_built_against_the_installed_wheel(python: Path, tmp_path: Path) -> None:
    package = run(python, tmp_path, "-m", "vyre_cuda", "info", "--cmake-dir").strip()
    words = {"WANTED": vc.__version__, "COMPONENTS": "COMPONENTS;emulator"}
    call(configure(HOST, tmp_path / "build", vyre_cuda_DIR=package, **words))
    call([program("cmake"), "--build", tmp_path / "build"])

    emulator = (tmp_path / "build" / "emulator.txt").read_text()
    assert Path(emulator).is_relative_to(python.parents[1])
    assert call([tmp_path / "build" / "host_c", emulator]) == f"{VERSION_NUMBER}\n"


def test_a_project_that_is_built_by_scikit_build_finds_the_package(python: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.metadata import entry_points; from importlib.resources import files\n"
        "(each,) = [p for p in entry_points(group='cmake.prefix') if p.name == 'vyre_cuda']\n"
        "print(files(each.load()) / 'lib' / 'cmake' / 'vyre_cuda' / 'vyre_cudaConfig.cmake')"
    )

    assert Path(run(python, tmp_path, "-c", code).strip()).is_file()
