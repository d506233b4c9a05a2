"""The C twins: building raw_driver, and running it on a kernel of this package.

The twin gets the kernel's own PTX, its parameter layout and the run's input sets, so that both sides launch the very
same kernel on the same numbers.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.inputs import BLOCK, InputSet, write_sets
from harness.processes import BENCHMARKS, ChildFailed, run_lines
from vyre_cuda.ptx import Lowered

_LIMIT_S = 180.0
_SOURCES = ("raw_driver.c", "raw_support.c")
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True, slots=True)
class Twins:
    """raw_driver with everything it needs to run, in one folder."""

    command: tuple[str, ...]

    def run(self) -> list[dict[str, Any]]:
        """One pass over all twins: a line about the device, then a line each."""
        return run_lines(self.command, limit_s=_LIMIT_S)


def prepare(
    folder: Path, lowered: Lowered, sets: list[InputSet], *, driver: str, binary: Path | None, quick: bool
) -> Twins:
    """Write the kernel and its inputs into `folder`; build raw_driver there unless a binary is given."""
    program = binary or build(folder)
    ptx, data = folder / "kernel.ptx", folder / "sets.f32"
    ptx.write_text(lowered.ptx, encoding="ascii")
    write_sets(data, sets)
    command = [
        *(str(program), "--driver", driver, "--ptx", str(ptx), "--entry", lowered.entry),
        *("--layout", layout(lowered), "--block", str(BLOCK), "--data", str(data)),
        *("--sets", str(len(sets)), "--elements", str(sets[0].x.size)),
    ]
    return Twins((*command, "--quick") if quick else tuple(command))


def layout(lowered: Lowered) -> str:
    """The parameters as raw_driver takes them: kind, number among the buffers or scalars, offset, bytes."""
    buffers = [p.name for p in lowered.parameters if p.kind == "buffer"]
    scalars = [p.name for p in lowered.parameters if p.kind == "scalar"]
    words = []
    for parameter in lowered.parameters:
        group = scalars if parameter.kind == "scalar" else buffers
        words.append(f"{parameter.kind}:{group.index(parameter.name)}:{parameter.offset}:{parameter.size}")
    return ",".join(words)


def build(folder: Path) -> Path:
    """raw_driver, compiled with $CC or cc."""
    binary = folder / "raw_driver"
    sources = [str(BENCHMARKS / name) for name in _SOURCES]
    compiler = [os.environ.get("CC", "cc"), *_FLAGS, "-isystem", str(cuda_include())]
    command = [*compiler, *sources, "-o", str(binary), "-ldl"]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode != 0:
        raise ChildFailed(f"building raw_driver failed:\n{child.stderr}")
    return binary


def cuda_include() -> Path:
    """The folder of cuda.h: a toolkit's, else the wheel's."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates = [Path(root) / "include" for root in roots if root]
    wheels = importlib.util.find_spec("nvidia")
    for place in (wheels.submodule_search_locations or []) if wheels is not None else []:
        candidates += sorted(header.parent for header in Path(place).glob("*/include/cuda.h"))
    for folder in candidates:
        if (folder / "cuda.h").is_file():
            return folder
    raise ChildFailed("cuda.h not found: install the wheel nvidia-cuda-runtime, or set CUDA_HOME")
