"""PTX to machine code with ptxas, which needs no GPU: whether text is valid for a target, said by NVIDIA's assembler.

ptxas comes from the wheel nvidia-cuda-nvcc (the `test` extra), else from PATH.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path


@functools.cache
def find_ptxas() -> Path:
    """The assembler. FileNotFoundError says where it was looked for."""
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


def assemble(ptx: str, sm: int | str) -> None:
    """Raises AssertionError with ptxas's messages when the text is not valid PTX for sm_<sm>, as 90 or "90a"."""
    done = subprocess.run(
        [find_ptxas(), f"-arch=sm_{sm}", "-o", os.devnull, "-"],
        input=ptx.encode("ascii"),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"ptxas refused this for sm_{sm}:\n{done.stderr.decode(errors='replace')}\n{ptx}")
