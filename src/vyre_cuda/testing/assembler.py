"""PTX to machine code with ptxas, without a GPU: NVIDIA's verdict on whether text is valid for a target."""

from __future__ import annotations

import os
import subprocess

from vyre_cuda.ptxas import find_ptxas


def assemble(ptx: str, sm: int | str) -> None:
    """Raises AssertionError with ptxas's messages if the text is not valid PTX for sm_<sm>, such as 90 or "90a"."""
    done = subprocess.run(
        [find_ptxas(), f"-arch=sm_{sm}", "-o", os.devnull, "-"],
        input=ptx.encode("ascii"),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"ptxas refused this for sm_{sm}:\n{done.stderr.decode(errors='replace')}\n{ptx}")
