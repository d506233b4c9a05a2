"""The C and C++ compilers that CC and CXX name, with which tests, benchmarks and tools build programs."""

from __future__ import annotations

import os
import shlex


def c_compiler() -> list[str]:
    """$CC or cc, as the first words of a command: `CC="ccache gcc"` is two."""
    return _words("CC", "cc")


def cpp_compiler() -> list[str]:
    """$CXX or c++, as the first words of a command."""
    return _words("CXX", "c++")


def _words(variable: str, default: str) -> list[str]:
    return shlex.split(os.environ.get(variable, "")) or [default]
