"""The native test programs, built against the installed libraries and run on the emulator.

The same programs run under the sanitizers by `cmake --preset asan` and `tsan` (CONTRIBUTING.md).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import nvidia
import pytest

import vyre_cuda as vc

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARIES = Path(vc.get_library_dir())
EMULATOR = LIBRARIES / "libvyre_cuda_emulator.so"
EXTRA_SOURCES = {"test_ptx_machine": sorted((ROOT / "csrc" / "emulator").glob("ptx_*.cpp"))}
PROGRAMS = sorted(path for path in HERE.iterdir() if path.suffix in (".c", ".cpp"))


def cuda_include() -> Path:
    """The directory of cuda.h: a toolkit's, else the wheel's."""
    places = [Path("/usr/local/cuda/include"), *(d for p in nvidia.__path__ for d in sorted(Path(p).glob("*/include")))]
    return next(place for place in places if (place / "cuda.h").exists())


@pytest.mark.slow
@pytest.mark.timeout(1200)  # compiling the PTX machine takes minutes on a busy core
@pytest.mark.emulator
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_native_program_passes(tmp_path: Path, source: Path) -> None:
    program = tmp_path / source.stem
    compiler = ["cc", "-std=c11"] if source.suffix == ".c" else ["c++", "-std=c++17"]
    includes = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}", f"-isystem{cuda_include()}"]
    link = [f"-L{LIBRARIES}", "-lvyre_cuda", f"-Wl,-rpath,{LIBRARIES}", "-lpthread", "-ldl"]
    sources = [str(path) for path in (source, *EXTRA_SOURCES.get(source.stem, []))]
    flags = ["-O1", "-ffp-contract=off", *includes]
    subprocess.run([*compiler, *flags, *sources, "-o", str(program), *link], check=True)

    done = subprocess.run([str(program), str(EMULATOR)], capture_output=True, text=True, timeout=200, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
