"""PTX to machine code without a GPU, by NVIDIA's ptxas."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from vyre_cuda.errors import CompileError, UnsupportedError
from vyre_cuda.locations import find_ptxas
from vyre_cuda.ptx.target import Target


def has_assembler() -> bool:
    """Whether there is a ptxas: that of the wheel nvidia-cuda-nvcc, or one on PATH."""
    try:
        find_ptxas()
    except FileNotFoundError:
        return False
    return True


def cubin(ptx: str, target: Target) -> bytes:
    """The machine code of a kernel. UnsupportedError without ptxas, CompileError when it refuses the text."""
    try:
        ptxas = find_ptxas()
    except FileNotFoundError as error:
        raise UnsupportedError(str(error), capability="ptxas") from None
    with tempfile.TemporaryDirectory(prefix="vyre_cuda-") as directory:
        out = Path(directory) / "kernel.cubin"
        done = subprocess.run(
            [ptxas, f"-arch={target}", "-o", out, "-"], input=ptx.encode("ascii"), capture_output=True, check=False
        )
        if done.returncode != 0:
            log = done.stderr.decode("utf-8", "replace")
            raise CompileError(f"ptxas refused a kernel for {target}:\n{log}", op="ptxas", log=log, ptx=ptx)
        return out.read_bytes()
