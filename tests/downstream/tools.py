"""Programs that the tests call, and what they call them with. None uses the network."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import nvidia
from installed import program

import vyre_cuda as vc
from vyre_cuda.locations import EMULATOR_LIBRARY

ROOT = Path(__file__).parents[2]
HOST = Path(__file__).parent / "host"
EMULATOR = Path(vc.get_library_dir()) / EMULATOR_LIBRARY
# As vyc_version gives it.
VERSION_NUMBER = sum(
    int(number) * weight for number, weight in zip(re.findall(r"\d+", vc.__version__), (10000, 100, 1), strict=True)
)


def attempt(
    words: Sequence[str | Path], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program, which may fail."""
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(
        [str(word) for word in words], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def call(
    words: Sequence[str | Path], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """What a program prints on stdout. It must not fail."""
    done = attempt(words, folder=folder, environment=environment)
    assert done.returncode == 0, f"{done.args}\n{done.stdout}{done.stderr}"
    return done.stdout


def configure(source: Path, build: Path, **variables: str | Path) -> list[str | Path]:
    """The command of a CMake configuration; more variables of CMake by name."""
    defined = [f"-D{name}={value}" for name, value in variables.items()]
    make = f"-DCMAKE_MAKE_PROGRAM={program('ninja')}"
    return [program("cmake"), "-S", source, "-B", build, "-G", "Ninja", make, *defined]


def cuda_include() -> Path:
    """The directory of cuda.h: a toolkit's, else the wheel's."""
    places = [Path("/usr/local/cuda/include"), *(d for p in nvidia.__path__ for d in sorted(Path(p).glob("*/include")))]
    return next(place for place in places if (place / "cuda.h").exists())


def without_cuda(folder: Path) -> dict[str, str]:
    """The environment of a build that fails if it includes a cuda.h that is not of this tree."""
    (folder / "cuda.h").write_text('#error "a CUDA toolkit would be needed"\n')
    return {"CPATH": str(folder)}
