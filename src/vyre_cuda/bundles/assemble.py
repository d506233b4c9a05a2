"""PTX to machine code without a GPU, by NVIDIA's ptxas or nvJitLink."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from vyre_cuda.bundles.nvjitlink import find_nvjitlink
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.errors import CompileError, UnsupportedError
from vyre_cuda.ptxas import find_ptxas


def has_assembler() -> bool:
    """Whether ptxas or nvJitLink is available: from the wheels nvidia-cuda-nvcc and nvidia-nvjitlink, or installed."""
    return _has_ptxas() or find_nvjitlink() is not None


def cubin(ptx: str, target: Target) -> bytes:
    """The machine code of a kernel. UnsupportedError without an assembler, CompileError if it rejects the text."""
    if _has_ptxas():
        return _by_ptxas(ptx, target)
    linker = find_nvjitlink()
    if linker is None:
        raise UnsupportedError(
            "machine code needs ptxas (the wheel nvidia-cuda-nvcc, or on PATH) or nvJitLink (the wheel "
            "nvidia-nvjitlink); neither was found",
            capability="ptxas",
        )
    return linker.cubin(ptx, target)


def _has_ptxas() -> bool:
    try:
        find_ptxas()
    except FileNotFoundError:
        return False
    return True


def _by_ptxas(ptx: str, target: Target) -> bytes:
    with tempfile.TemporaryDirectory(prefix="vyre_cuda-") as directory:
        out = Path(directory) / "kernel.cubin"
        done = subprocess.run(
            [find_ptxas(), f"-arch={target}", "-o", out, "-"],
            input=ptx.encode("ascii"),
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            log = done.stderr.decode("utf-8", "replace")
            raise CompileError(f"ptxas refused a kernel for {target}:\n{log}", op="ptxas", log=log, ptx=ptx)
        return out.read_bytes()
