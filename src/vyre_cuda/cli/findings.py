"""What an inspection of the machine shows: environment, driver, device files, caches, the device itself."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cache.directory import cache_root
from vyre_cuda.cli.devices import VARIABLES, cuda_names, why_no_cuda
from vyre_cuda.codegen.core.target import KNOWN_SM
from vyre_cuda.errors import CacheError, DeviceUnavailableError

Status = Literal["ok", "note", "warning", "failure"]

_DRIVERS = ("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH")
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
_MODULE = Path("/proc/driver/nvidia/version")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
# Free bytes below which a cache is reported as short of space.
_ROOM = 64 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A "failure" keeps calls from working, a "warning" makes them slower or less safe."""

    subject: str
    status: Status
    text: str
    advice: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


# ---- environment -----------------------------------------------------------------------------------------------------


def environment() -> Iterator[Finding]:
    """Interpreter, variables, processor."""
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    build = ", free-threaded" if free_threaded else ""
    yield Finding("python", "ok", f"{platform.python_version()}{build}, NumPy {np.__version__}, {platform.machine()}")
    given = [f"{name}={os.environ[name]}" for name in (*VARIABLES, *_DRIVERS) if name in os.environ]
    yield Finding("variables", "ok", ", ".join(given) or "no relevant variable is set")
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "") not in ("", "0"):
        yield Finding("variables", "warning", "CUDA_LAUNCH_BLOCKING makes every launch wait", "unset it")
    if os.environ.get("VYRE_CUDA_FUSE", "").lower() not in ("", "off"):
        text = f"VYRE_CUDA_FUSE={os.environ['VYRE_CUDA_FUSE']} does nothing: steps of graphs are merged"
        yield Finding("variables", "warning", text, "write off, or unset it")
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        yield Finding("variables", "warning", "CUDA_VISIBLE_DEVICES hides every device", "unset it, or name one")
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        yield Finding(
            "processor", "warning", "only one core: a wait competes with the work it waits for", "allow two or more"
        )
    else:
        yield Finding("processor", "ok", f"{cores} cores for this process")
    governor = _read(_GOVERNOR)
    if governor not in ("", "performance"):
        yield Finding("processor", "note", f"the governor is {governor}: latency varies with the clock rate")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


# ---- driver ----------------------------------------------------------------------------------------------------------


def driver(*, wanted: str) -> Iterator[Finding]:
    """Driver library, kernel module, device files. A missing GPU is a failure where one is wanted."""
    path = os.environ.get("VYRE_CUDA_DRIVER")
    if path is not None and not Path(path).exists() and "/" in path:
        yield Finding("driver", "failure", f"VYRE_CUDA_DRIVER={path} does not exist", "name the library, or unset it")
    missing = _why_no_cuda()
    required = wanted.partition(":")[0] not in ("auto", "emulator") or os.environ.get(
        "VYRE_CUDA_REQUIRE_GPU", ""
    ) not in ("", "0")
    if missing:
        yield Finding("cuda", "failure" if required else "note", missing, _advice())
    else:
        yield Finding("cuda", "ok", ", ".join(cuda_names()))
    module = _read(_MODULE).partition("\n")[0]
    if module:
        yield Finding("kernel module", "ok", module)
    yield from _device_files()


def _why_no_cuda() -> str:
    try:
        return why_no_cuda()
    except DeviceUnavailableError as error:
        return str(error)


def _advice() -> str:
    if not _MODULE.exists():
        return "the NVIDIA kernel module is not loaded: install a driver (CUDA 12.0 or newer), or use --device emulator"
    return "the kernel module is loaded: look for libcuda.so.1 (in a container: --gpus all), and check its version"


def _device_files() -> Iterator[Finding]:
    for name in _DEVICE_FILES:
        path = Path(name)
        if not path.exists():
            continue
        if os.access(path, os.R_OK | os.W_OK):
            yield Finding(name, "ok", "readable and writable")
        else:
            mode = stat.filemode(path.stat().st_mode)
            yield Finding(name, "failure", f"{mode}: this user has no access", "add the user to the file's group")


# ---- caches ----------------------------------------------------------------------------------------------------------


def caches() -> Iterator[Finding]:
    """Our directory, and that of the driver's own compiler."""
    try:
        root = cache_root(os.environ)
    except CacheError as error:
        yield Finding("cache", "warning", f"kernels are compiled again in every process: {error}")
    else:
        if root is None:
            yield Finding("cache", "note", "VYRE_CUDA_CACHE_DIR=off: kernels are compiled again in every process")
        else:
            yield _directory("cache", Path(root), private=True)
    if os.environ.get("CUDA_CACHE_DISABLE", "") not in ("", "0"):
        yield Finding("driver's cache", "note", "CUDA_CACHE_DISABLE is set: the driver keeps nothing that it compiles")
        return
    own = os.environ.get("CUDA_CACHE_PATH")
    yield _directory("driver's cache", Path(own) if own else Path.home() / ".nv" / "ComputeCache", private=False)


def _directory(subject: str, path: Path, *, private: bool) -> Finding:
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(subject, "warning", f"{path} cannot be written: kernels are compiled again in every process")
    free = shutil.disk_usage(there).free
    if free < _ROOM:
        return Finding(subject, "warning", f"{path}: {free >> 20} MiB are free on its file system", "free some space")
    if path != there:
        return Finding(subject, "ok", f"{path}, not created yet")
    info = path.stat()
    if private and info.st_uid != os.getuid():
        return Finding(subject, "warning", f"{path} belongs to another user and is not used", "choose another")
    if private and info.st_mode & 0o077:
        mode = stat.filemode(info.st_mode)
        return Finding(
            subject, "warning", f"{path} has mode {mode}: other users may read or write it", f"chmod 700 {path}"
        )
    return Finding(subject, "ok", str(path))


# ---- the device ------------------------------------------------------------------------------------------------------


def device(opened: vc.Device) -> Iterator[Finding]:
    """What the open device has and what it lacks."""
    found = opened.properties
    major, minor = found.compute_capability
    version = f"{found.driver_version // 1000}.{found.driver_version % 1000 // 10}"
    memory = f"{found.total_memory / (1 << 30):.4g} GiB"
    yield Finding("device", "ok", f"{found.name}, sm_{major}{minor}, CUDA {version}, {memory}")
    if found.is_emulator:
        yield Finding("device", "note", "this is the emulator: results are correct, but times say nothing about a GPU")
        return
    if major * 10 + minor > KNOWN_SM[-1]:
        yield Finding(
            "device",
            "note",
            f"newer than sm_{KNOWN_SM[-1]}, the newest this package knows: kernels are compiled for that",
        )
    if found.driver_version < 12040:
        text = f"the driver supports CUDA {version}: graphs with loops on the device need 12.4"
        yield Finding("driver", "note", text, "install a newer driver")
    if not found.unified_addressing or not found.can_map_host_memory:
        yield Finding("device", "failure", "no mapped host memory, which every call with host arrays needs")
    if not found.cooperative_launch:
        yield Finding("device", "note", "no cooperative launches: programs with grid barriers are refused")
    if found.ecc_enabled == 0:
        yield Finding("device", "note", "ECC is off: memory errors go undetected")
