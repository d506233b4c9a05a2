"""The C and C++ programs: building them, and the folder of kernels and input sets that they run on.

raw_driver is the twins, on the driver alone; layer_driver calls libvyre_cuda, to show what the layer below Python
costs; host_driver is a C++ host that loads a bundle. All get the package's own PTX, its parameter layout and the run's
input sets.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import vyre_cuda as vc
from harness.counts import Counts
from harness.inputs import chain_sets, copy_sets, saxpy_sets, scale_sets, select_sets, write_sets
from harness.processes import BENCHMARKS, ChildFailed
from harness.programs import PROGRAMS, lowered_for, write_bundle, write_kernel
from vyre_cuda.locations import EMULATOR_LIBRARY
from vyre_cuda.testing.compilers import c_compiler, cpp_compiler

_RAW = BENCHMARKS / "raw"
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True, slots=True)
class Twins:
    """The command lines of the programs; `--rows` and `--core` are added by who runs them."""

    raw: tuple[str, ...]
    layer: tuple[str, ...]
    host: tuple[str, ...]


def prepare(folder: Path, device: vc.Device, *, ids: Sequence[str], seed: int, counts: Counts, driver: str) -> Twins:
    """Write kernels and inputs into `folder` and build the programs there; large inputs only if one of `ids` is so."""
    for name, build in PROGRAMS.items():
        program = build()
        write_kernel(folder, name, program, lowered_for(device, program))
    write_bundle(folder / "kernels.vyre", device)
    write_sets(folder / "saxpy.f32", saxpy_sets(seed, counts), inputs=2)
    write_sets(folder / "select.f32", select_sets(seed, counts), inputs=2)
    write_sets(folder / "chain.f32", chain_sets(seed, counts), inputs=2)
    if any(id.startswith("large_") for id in ids):
        write_sets(folder / "scale.f32", scale_sets(seed, counts), inputs=1)
    if any(id.startswith("copy_") for id in ids):
        write_sets(folder / "copy.f32", copy_sets(seed, counts), inputs=0)
    words = ("--driver", driver, "--folder", str(folder), *counts.words())
    programs = (build_raw(folder), build_layer(folder), build_host(folder))
    return Twins(*((str(program), *words) for program in programs))


def build_raw(folder: Path) -> Path:
    """raw_driver, compiled with $CC or cc."""
    others = ("layer_driver", "curve_driver", "replay_driver", "many_driver", "nccl_local")
    sources = sorted(path for path in _RAW.glob("*.c") if path.stem not in others)
    return _compile(folder / "raw_driver", sources, [])


def build_layer(folder: Path) -> Path:
    """layer_driver, linked to the installed libvyre_cuda."""
    return _compile(folder / "layer_driver", [_RAW / "layer_driver.c", _RAW / "support.c"], _with_library())


def build_host(folder: Path) -> Path:
    """host_driver, compiled with $CXX or c++ and linked to the installed libvyre_cuda."""
    support = _compile(folder / "support.o", [_RAW / "support.c"], ["-c"])
    return _compile(folder / "host_driver", [_RAW / "host_driver.cpp", support], _with_library())


def build_curves(folder: Path) -> Path:
    """curve_driver, on the driver alone."""
    return _compile(folder / "curve_driver", [_RAW / "curve_driver.c", _RAW / "support.c"], [])


def build_replay(folder: Path) -> Path:
    """replay_driver, on the driver alone."""
    return _compile(folder / "replay_driver", [_RAW / "replay_driver.c", _RAW / "support.c"], [])


def build_many(folder: Path) -> Path:
    """many_driver, linked to the installed libvyre_cuda."""
    return _compile(folder / "many_driver", [_RAW / "many_driver.c", _RAW / "support.c"], _with_library())


def build_service(folder: Path) -> Path:
    """service, the requests of bench_service.py, linked to the installed libvyre_cuda."""
    return _compile(folder / "service", [_RAW / "service.cpp"], _with_library())


def build_example(folder: Path) -> Path:
    """latency, the requests of examples/service, linked to the installed libvyre_cuda."""
    source = BENCHMARKS.parent / "examples" / "service" / "latency.cpp"
    return _compile(folder / "latency", [source], _with_library())


def driver_path(*, emulator: bool) -> str:
    """The driver library that a program loads."""
    if emulator:
        return str(Path(vc.get_library_dir()) / EMULATOR_LIBRARY)
    return os.environ.get("VYRE_CUDA_DRIVER") or "libcuda.so.1"


def _with_library() -> list[str]:
    library = vc.get_library_dir()
    return ["-I", vc.get_include(), "-L", library, "-lvyre_cuda", f"-Wl,-rpath,{library}"]


def _compile(output: Path, sources: list[Path], words: list[str]) -> Path:
    is_cpp = sources[0].suffix == ".cpp"
    compiler = [*cpp_compiler(), "-std=c++17"] if is_cpp else [*c_compiler(), "-std=c11"]
    command = [*compiler, *_FLAGS, "-isystem", str(cuda_include()), *map(str, sources), "-o", str(output), *words]
    child = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    if child.returncode != 0:
        raise ChildFailed(f"building {output.name} failed:\n{child.stderr}")
    return output


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
