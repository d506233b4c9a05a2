"""The time that driver calls take by themselves on this machine: the floors that everything else is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device

# Name: number in vyre_cuda.h, what is measured.
FLOORS: dict[str, tuple[int, str]] = {
    "clock": (0, "two readings of the clock"),
    "launch": (1, "cuLaunchKernel, enqueue"),
    "graph_launch": (2, "cuGraphLaunch of one kernel, enqueue"),
    "synchronize": (3, "cuStreamSynchronize, idle"),
    "event": (4, "cuEventRecord"),
    "round_trip": (5, "cuLaunchKernel and cuStreamSynchronize"),
    "graph_round_trip": (6, "cuGraphLaunch and cuStreamSynchronize"),
    "upload": (7, "copy to the device, to completion"),
    "download": (8, "copy from the device, to completion"),
    "copy": (9, "copy within the device, to completion"),
    "mapped": (10, "kernel writes to host memory, host sees it"),
}


def measure_floor(device: Device, name: str, *, count: int, nbytes: int = 0) -> list[int]:
    """`count` times in nanoseconds; copies are of `nbytes`, with page-locked memory. KeyError: no such floor."""
    return device.context.measure(FLOORS[name][0], count, nbytes)
