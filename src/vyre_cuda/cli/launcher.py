"""`vyre-cuda bundle --launcher`: the C++ program around a bundle."""

from __future__ import annotations

from pathlib import Path

import vyre_cuda as vc
from vyre_cuda.bundles.launcher import target_name, write_launcher
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.failures import writing


def launcher(console: Console, *, bundle: Path, folder: Path) -> list[str]:
    """Write the program, say how to build it, and return the names of its files."""
    with writing(folder):
        written = write_launcher(folder, bundle.read_bytes(), name=bundle.stem, version=vc.__version__)
    console.note(f'cmake -S {folder} -B {folder}/build -Dvyre_cuda_DIR="$(vyre-cuda info --cmake-dir)"')
    console.note(f"cmake --build {folder}/build && {folder}/build/{target_name(bundle.stem)} --help")
    return [str(path) for path in written]
