"""`vyre-cuda info`: versions, devices, and what the device in use can do. Without a GPU, it says why there is none."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cli.console import Console, columns
from vyre_cuda.cli.devices import VARIABLES, listed, opened, why_no_cuda
from vyre_cuda.locations import get_cmake_dir, get_include, get_library_dir, get_pkgconfig_dir

if TYPE_CHECKING:
    from vyre_cuda.runtime.base.properties import DeviceProperties

# The directories that C and C++ hosts are built with, by the option of `info` that prints them.
DIRECTORIES = {
    "include": get_include,
    "library": get_library_dir,
    "cmake": get_cmake_dir,
    "pkgconfig": get_pkgconfig_dir,
}


def info(console: Console, *, device: str) -> int:
    """Print it; the device is opened to read its properties."""
    found = listed()
    no_cuda = why_no_cuda()
    with opened(device, console) as opened_device:
        properties = opened_device.properties
    facts: dict[str, Any] = {
        "version": vc.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "include": get_include(),
        "library_dir": get_library_dir(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
    if console.json:
        named = [{"kind": entry.kind, "ordinal": entry.ordinal, "name": entry.name} for entry in found]
        probed = {**asdict(properties), "uuid": properties.uuid.hex()}
        console.data({**facts, "cuda_missing": no_cuda or None, "devices": named, "device": probed})
        return 0

    console.heading("vyre_cuda")
    facts["environment"] = ", ".join(f"{name}={value}" for name, value in facts["environment"].items()) or "none set"
    console.line("\n".join(columns([[name, str(value)] for name, value in facts.items()])))
    console.heading("devices")
    rows = [[f"cuda {entry.ordinal}" if entry.kind == "cuda" else entry.kind, entry.name] for entry in found]
    if no_cuda:
        rows.insert(0, ["cuda", f"none: {no_cuda}"])
    console.line("\n".join(columns(rows)))
    console.heading(f"{properties.name}, with the properties it reports" if properties.is_emulator else properties.name)
    console.line("\n".join(columns(_rows(properties))))
    return 0


def directory(console: Console, name: str) -> int:
    """Print one of DIRECTORIES and nothing else, without looking for a device."""
    path = DIRECTORIES[name]()
    if console.json:
        console.data({f"{name}_dir": path})
    else:
        console.line(path)
    return 0


def _rows(found: DeviceProperties) -> list[list[str]]:
    """The properties that most people need; --json prints all of them."""
    version = found.driver_version
    return [
        ["compute capability", ".".join(map(str, found.compute_capability))],
        ["CUDA version of the driver", f"{version // 1000}.{version % 1000 // 10}"],
        ["memory", _bytes(found.total_memory)],
        ["multiprocessors", str(found.multiprocessor_count)],
        ["maximum threads per block", str(found.max_threads_per_block)],
        ["shared memory per block", _bytes(found.max_shared_memory_per_block)],
        ["shared memory per block, opt-in", _bytes(found.max_shared_memory_per_block_optin)],
        ["registers per block", str(found.max_registers_per_block)],
        ["L2 cache", _bytes(found.l2_cache_size)],
        ["warp size", str(found.warp_size)],
    ]


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
