"""Where the installed package keeps what C and C++ hosts need, and where NVIDIA's assembler is."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
EMULATOR_LIBRARY = "libvyre_cuda_emulator.so"


def get_include() -> str:
    """The directory of vyre_cuda.h."""
    return str(_PACKAGE / "include")


def get_library_dir() -> str:
    """The directory of libvyre_cuda.so and the emulator."""
    return str(_PACKAGE / "lib")


@functools.cache
def find_ptxas() -> Path:
    """ptxas of the wheel nvidia-cuda-nvcc, else of PATH. FileNotFoundError says where it was looked for."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec is not None else []
    for root in roots:
        for found in sorted(root.glob("*/bin/ptxas")):
            return found
    on_path = shutil.which("ptxas")
    if on_path is None:
        places = ", ".join(map(str, roots)) or "no nvidia package"
        raise FileNotFoundError(f"no ptxas in {places} or on PATH; the wheel nvidia-cuda-nvcc has it")
    return Path(on_path)
