#!/usr/bin/env python3
"""Build the sdist and a wheel of it for each interpreter, make the wheels manylinux wheels, and try each out.

    python tools/wheels.py --output dist python3.10 python3.11 python3.12 ...

Needs auditwheel and patchelf. A wheel gets the oldest manylinux tag that the C library of this machine allows. With
--offline nothing is downloaded: the build tools and NumPy are those of the interpreters. Each wheel is installed in a
new environment, where it runs its demonstration on the emulator. Exit status 1 when one could not be made or run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SDIST = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
_PLACES = "import sysconfig; print(sysconfig.get_path('purelib'))"
_OFFLINE_BUILD = ("--no-build-isolation", "--no-index")


class Failed(Exception):
    """A program did not do what it was asked for; the text is what it printed."""


def _call(words: Sequence[str | Path], folder: Path = ROOT) -> str:
    """What a program prints. It finds the tools of this environment."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    variables = {**os.environ, "PATH": path, "PYTHONPATH": "", "VYRE_CUDA_DEVICE": "emulator"}
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def sdist(output: Path) -> Path:
    """The sdist of this tree, in `output`."""
    return output / _call([sys.executable, "-c", _SDIST, output]).splitlines()[-1]


def wheel(source: Path, python: str, output: Path, *, offline: bool) -> Path:
    """The wheel of an sdist for one interpreter, with a manylinux tag, in `output`."""
    with tempfile.TemporaryDirectory() as folder:
        built, repaired = Path(folder, "built"), Path(folder, "repaired")
        more = _OFFLINE_BUILD if offline else ()
        _call([python, "-m", "pip", "wheel", "--no-deps", *more, "--wheel-dir", built, source])
        # A library that is not there already would be bundled, libcuda.so.1 too: nothing is linked to it.
        _call(["auditwheel", "repair", "--wheel-dir", repaired, next(built.iterdir())])
        found = next(repaired.iterdir())
        return Path(shutil.copy(found, output))


def environment(made: Path, python: str, folder: Path, *, offline: bool) -> Path:
    """The interpreter of a new environment that has the wheel."""
    _call([python, "-m", "venv", folder])
    interpreter = folder / "bin" / "python"
    if not offline:
        _call([interpreter, "-m", "pip", "install", made])
        return interpreter
    _call([interpreter, "-m", "pip", "install", "--no-deps", "--no-index", made])
    # Not its path alone, whose own .pth files would not be read.
    others = f"import site; site.addsitedir({_call([python, '-c', _PLACES]).strip()!r})\n"
    Path(_call([interpreter, "-c", _PLACES]).strip(), "others.pth").write_text(others)
    return interpreter


def try_out(made: Path, python: str, *, offline: bool) -> None:
    """Run the demonstration, which compares with the interpreter, in a new environment. Failed says what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        interpreter = environment(made, python, Path(folder, "environment"), offline=offline)
        _call([interpreter, "-m", "vyre_cuda", "demo"], Path(folder))


def main(argv: Sequence[str] | None = None) -> int:
    """One line for each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="an interpreter")
    parser.add_argument("--output", type=Path, default=Path("dist"), help="folder of sdist and wheels (default: dist)")
    parser.add_argument("--offline", action="store_true", help="download nothing")
    options = parser.parse_args(argv)
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    code = 0
    try:
        source = sdist(output)
        print(source.name, flush=True)
    except Failed as error:
        print(f"sdist: {error}")
        return 1
    for python in options.pythons:
        try:
            made = wheel(source, python, output, offline=options.offline)
            try_out(made, python, offline=options.offline)
            print(made.name, flush=True)
        except (Failed, OSError) as error:
            print(f"{python}: {error}", flush=True)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
