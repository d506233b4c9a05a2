"""The library that stands before the allocator and counts what libvyre_cuda allocates (tests/native/host_faults.h)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vyre_cuda.testing.compilers import c_compiler

_FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DHOST_FAULTS_INTERPOSE")


def build(folder: Path) -> Path:
    """Compiled with $CC or cc, to be loaded by LD_PRELOAD."""
    path = folder / "host_faults.so"
    source = Path(__file__).parents[1] / "native" / "host_faults.c"
    subprocess.run([*c_compiler(), *_FLAGS, str(source), "-o", str(path), "-lpthread"], check=True)
    return path
