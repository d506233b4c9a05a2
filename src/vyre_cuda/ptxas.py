"""Finds the assembler of the CUDA toolkit, which produces machine code without a device."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from pathlib import Path


@functools.cache
def find_ptxas() -> Path:
    """ptxas from the wheel nvidia-cuda-nvcc or from PATH. FileNotFoundError says where it was looked for."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec is not None else []
    for root in roots:
        for found in sorted(root.glob("*/bin/ptxas")):
            return found
    on_path = shutil.which("ptxas")
    if on_path is None:
        places = ", ".join(map(str, roots)) or "no nvidia package"
        raise FileNotFoundError(f"no ptxas in {places} or on PATH; install the wheel nvidia-cuda-nvcc")
    return Path(on_path)
