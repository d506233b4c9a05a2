"""Where the installed package keeps what C and C++ hosts need."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
EMULATOR_LIBRARY = "libvyre_cuda_emulator.so"


def get_include() -> str:
    """The directory of vyre_cuda.h."""
    return str(_PACKAGE / "include")


def get_library_dir() -> str:
    """The directory of libvyre_cuda.so and the emulator."""
    return str(_PACKAGE / "lib")
