#!/usr/bin/env python3
"""Run Python tests on a build whose library, emulator and extensions are made with sanitizers.

    python tools/sanitized.py asan tests/binding tests/device -m "not slow"
    python tools/sanitized.py tsan tests/device/threads/test_free_threading.py tests/device/threads/test_threads.py

The first word is a CMake preset; what follows goes to pytest. The build is build/PRESET-python, with this interpreter,
which itself has no sanitizer: their libraries are loaded before it. A finding ends the process that made it, and the
status is pytest's then. The thread sanitizer understands an interpreter without a GIL only if that was built with it
(configure --disable-gil --with-thread-sanitizer), and is used for that one alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from vyre_cuda.testing.compilers import c_compiler

ROOT = Path(__file__).resolve().parents[1]
# What the tests of warm calls count, a sanitizer adds to. The others preload an allocator, which a sanitizer refuses.
LEFT_OUT = ("tests/device/calls/test_budget.py", "tests/device/faults/test_replay_allocations.py")
LIBRARIES = {"asan": ("libasan.so", "libubsan.so"), "tsan": ("libtsan.so",)}
OPTIONS = {
    # Leaks: the interpreter leaves memory to the end of the process. tests/native looks for those of the library.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:abort_on_error=1",
    "TSAN_OPTIONS": f"halt_on_error=1:abort_on_error=1:second_deadlock_stack=1:suppressions={ROOT}/tools/tsan.supp",
}
if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # without a GIL there is one allocator, and no other is taken
    OPTIONS["PYTHONMALLOC"] = "malloc"  # each object has memory of its own, which is watched


def build(preset: str) -> Path:
    """The built libraries and extensions."""
    folder = ROOT / "build" / f"{preset}-python"
    settings = ["-DVYC_PYTHON=ON", "-DVYC_NATIVE_TESTS=OFF", f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(["cmake", "--preset", preset, "-B", folder, *settings], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", folder], cwd=ROOT, check=True)
    return folder


def package(folder: Path) -> Path:
    """A folder with the package as it would be installed: a copy of its sources, links to what was built."""
    made = folder / "package"
    source = ROOT / "src" / "vyre_cuda"
    shutil.rmtree(made, ignore_errors=True)  # or modules that have moved would be there twice
    (made / "vyre_cuda").mkdir(parents=True)
    for path in source.rglob("*"):
        there = made / "vyre_cuda" / path.relative_to(source)
        if path.is_dir() and not path.is_symlink() and path.name != "__pycache__":
            there.mkdir(parents=True, exist_ok=True)
        elif path.suffix in (".py", ".pyi", ".pxd", ".typed") or "launcher_sources" in path.parts:
            shutil.copyfile(path, there)
    for extension in folder.glob(f"_native/*/*{sysconfig.get_config_var('EXT_SUFFIX')}"):
        (made / "vyre_cuda" / extension.relative_to(folder)).symlink_to(extension)
    library = next(path for path in folder.glob("libvyre_cuda.so.*") if path.is_symlink())  # by its SONAME
    (made / "vyre_cuda" / "lib").mkdir()
    (made / "vyre_cuda" / "lib" / "libvyre_cuda.so").write_text(f"INPUT({library.name})\n", encoding="utf-8")
    for name in (library.name, "libvyre_cuda_emulator.so", "cmake", "pkgconfig"):
        (made / "vyre_cuda" / "lib" / name).symlink_to(folder / name)
    (made / "vyre_cuda" / "include").symlink_to(ROOT / "csrc" / "include")
    return made


def environment(preset: str, path: Path) -> dict[str, str]:
    """The variables of a process that tests the build; what the caller's ASAN_OPTIONS and its like say holds."""
    words = [[*c_compiler(), f"-print-file-name={name}"] for name in LIBRARIES[preset]]
    preload = [subprocess.run(word, capture_output=True, text=True, check=True).stdout.strip() for word in words]
    if sysconfig.get_config_var("CONFIG_ARGS") and "thread-sanitizer" in sysconfig.get_config_var("CONFIG_ARGS"):
        preload = []  # the interpreter has it
    return {**OPTIONS, **os.environ, "LD_PRELOAD": ":".join(preload), "PYTHONPATH": str(path)}


def main(argv: Sequence[str]) -> int:
    if not argv or argv[0] not in LIBRARIES:
        print(__doc__, file=sys.stderr)
        return 2
    variables = environment(argv[0], package(build(argv[0])))
    ignored = [f"--ignore={ROOT / path}" for path in LEFT_OUT]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *ignored, *argv[1:]]
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
