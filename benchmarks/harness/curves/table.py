"""The curves: what is counted along each, the points, and the ways that are measured.

Constants of the package stand between points: 16 and 32 (arguments), 62 (streams that buffers know by number), 128,
512 (prepared graphs of a device).
"""

from __future__ import annotations

from dataclasses import dataclass

# Of a program: parameters of any kind; of these one or two are taken by what is not counted.
MOST_PARAMETERS = 256
_ARGUMENTS = (1, 2, 4, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 128, 192, 254)
# Loaded kernels have more: 4 KiB of parameters everywhere, 32,764 bytes from sm_70 and CUDA 12.1 on.
MORE_ARGUMENTS = (511, 1022, 1023, 4096, 8189)
_QUICK_ARGUMENTS = (1, 15, 16, 17)
_DOORS = {
    "launch": "k.launch, nothing changed",
    "call": "bound call, nothing changed",
    "call_changed": "bound call, all changed",
    "host": "host call",
    "submit": "submit and result",
    "recorded": "replay of a recorded call",
    "loaded": "launch of a loaded kernel",
}
_DOOR_TWINS = {"same": "launch of its graph", "changed": "the same, all changed", "host": "copies, launch, wait, copy"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve. `each`: a call works on all items, so that its cost may grow with them; else it must not depend on
    their number. `ways` and `twins`: what is measured from Python and by raw/curve_driver.c, and what that is.
    """

    id: str
    title: str
    counted: str
    each: bool
    points: tuple[int, ...]
    quick: tuple[int, ...]
    ways: dict[str, str]
    twins: dict[str, str]


CURVES = (
    Curve("buffers", "buffers of 4 KiB", "buffers", True, _ARGUMENTS, _QUICK_ARGUMENTS, _DOORS, _DOOR_TWINS),
    Curve("scalars", "scalars beside two buffers", "scalars", True, _ARGUMENTS, _QUICK_ARGUMENTS, _DOORS, _DOOR_TWINS),
    Curve(
        "streams",
        "launches on streams in turn, and allocations beside them",
        "streams",
        False,
        (1, 2, 4, 8, 16, 32, 48, 61, 62, 63, 64, 65, 96, 128, 129, 256),
        (1, 61, 62, 63),
        {
            "own": "k.launch, buffers of each stream's own",
            "shared": "k.launch, the same buffers on all",
            "allocation": "dev.empty, dropped",
        },
        {
            "own": "launch of a graph each",
            "shared": "event, wait, launch",
            "allocation": "cuMemAllocAsync, cuMemFreeAsync",
        },
    ),
    Curve(
        "threads",
        "launches from threads, time of all over launches of all",
        "threads",
        False,
        tuple(range(1, 17)),
        (1, 2, 3),
        {"one": "k.launch of one kernel", "own": "k.launch of a kernel each"},
        {"own": "launch of a graph each"},
    ),
    Curve(
        "calls",
        "bound calls alive, launched in turn",
        "bound calls",
        False,
        (1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 511, 512, 513, 640, 1024, 2048, 4096),
        (1, 16, 17),
        {"same": "bound call, nothing changed"},
        {"same": "launch of a graph each"},
    ),
    Curve(
        "blocks",
        "allocations while blocks wait for a running kernel",
        "waiting blocks",
        False,
        (0, 1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
        (0, 1, 17),
        {"known": "dev.empty of a size that is idle, dropped", "new": "dev.empty of a size that is not, dropped"},
        {"known": "cuMemAllocAsync, cuMemFreeAsync"},
    ),
)
