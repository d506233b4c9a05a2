"""What is done in the background for the fixtures that wait for it (`background_work`)."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from background_work import Job
from installed import PLACES, find_program

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY, get_cmake_dir

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
LABELS = ("native", "emulator", "explorer", "fuzz")
# Fixtures that wait for something, in the order in which it is done; tests with later ones come later.
FIXTURES = (
    "native_build",
    "typed_package",
    "launcher",
    "dispatch_benchmark",
    "curves_benchmark",
    "algorithms_benchmark",
    "native_runs",
)


def jobs_for(fixtures: Collection[str], folder: Path, *, is_thinned: bool, is_emulator: bool) -> list[Job]:
    """The jobs that these fixtures wait for, in their order."""
    made = []
    if {"native_build", "native_runs"} & set(fixtures):
        made.append(_build(folder, is_thinned=is_thinned, everything=is_emulator))
    if "typed_package" in fixtures:
        made.append(_job("typed_package", folder, ((sys.executable, "-m", "mypy"),)))
    if "launcher" in fixtures:
        made.append(_launcher(folder))
    for name, words in (
        ("dispatch_benchmark", ("bench_dispatch.py", "--quick", "--rounds", "2", "--peers", "cupy")),
        ("curves_benchmark", ("curves.py", "--quick")),
        ("algorithms_benchmark", ("bench_algorithms.py",)),
    ):
        if name in fixtures:
            made.append(_benchmark(name, folder, *words))
    if "native_runs" in fixtures:
        made += [_run(label, folder, is_thinned=is_thinned) for label in LABELS]
    return made


def build_folder(folder: Path) -> Path:
    """Where the C layer and the native programs are built."""
    return folder / "build"


def launcher_folder(folder: Path) -> Path:
    """Where the launcher of `launched_programs` is built."""
    return folder / "launcher" / "build"


def results_folder(folder: Path, name: str) -> Path:
    """Where a benchmark puts its results."""
    return folder / "results" / name


def _build(folder: Path, *, is_thinned: bool, everything: bool) -> Job:
    """Configure, and build all targets if `everything` is wanted."""
    options = ["-DVYC_NATIVE_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug"]
    if is_thinned:
        emulator = Path(vc.get_library_dir()) / EMULATOR_LIBRARY
        options += ["-DVYC_EMULATOR=OFF", f"-DVYC_EMULATOR_FILE={emulator}"]
    where = str(build_folder(folder))
    cmake = _program("cmake")
    python = f"-DPython_EXECUTABLE={sys.executable}"
    configure = (cmake, "-S", str(ROOT), "-B", where, "-G", "Ninja", python, *options)
    commands = (configure, (cmake, "--build", where)) if everything else (configure,)
    return _job("native_build", folder, commands)


def _launcher(folder: Path) -> Job:
    """Write the launcher, and build it as a user would, with all warnings."""
    build = launcher_folder(folder)
    place = build.parent
    place.mkdir()
    cmake = _program("cmake")
    flags = "-Wall -Wextra -Wpedantic -Wconversion -Werror"
    options = [f"-Dvyre_cuda_DIR={get_cmake_dir()}", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS={flags}"]
    write = (sys.executable, str(ROOT / "tests" / "support" / "launched_programs.py"), str(place))
    configure = (cmake, "-S", str(place / "sources"), "-B", str(build), "-G", "Ninja", *options)
    return _job("launcher", folder, (write, configure, (cmake, "--build", str(build))))


def _run(label: str, folder: Path, *, is_thinned: bool) -> Job:
    """The native programs with this label."""
    thinned = ("-LE", "^thin$") if is_thinned else ()
    words = ("-L", f"^{label}$", *thinned, "-j2", "--output-on-failure", "--no-tests=error")
    return _job(f"native_{label}", folder, ((_program("ctest"), "--test-dir", str(build_folder(folder)), *words),))


def _benchmark(name: str, folder: Path, script: str, *words: str) -> Job:
    output = results_folder(folder, name)
    output.mkdir(parents=True)
    options = ("--device", "emulator", *words, "--output", str(output))
    if script != "bench_algorithms.py":
        options += ("--commit", "c0ffee")
    return _job(name, folder, ((sys.executable, str(BENCHMARKS / script), *options),))


def _job(name: str, folder: Path, commands: tuple[tuple[str, ...], ...]) -> Job:
    """In the folder of the project, with a cache of kernels that nothing else has."""
    environment = (("PATH", PLACES), ("VYRE_CUDA_CACHE_DIR", str(folder / "cache")))
    return Job(name, commands, str(ROOT), environment)


def _program(name: str) -> str:
    """Where it is; its name where it is not installed, so that the job says so."""
    return find_program(name) or name
