"""Downloads of many small ranges: by a copy each, and by the kernel that reads all of them.

python bench_downloads.py                                             the first CUDA device, into results/; under 30 s
python bench_downloads.py --device emulator --quick --output somewhere   a few calls: shows that it works

A figure is the time of one `device.download` of ranges that do not touch, the median of its calls. The copies are
those of a device that has not read enough ranges to load the kernel; each point has a device of its own. Results are
compared with NumPy.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from harness.figures import parsed, written

import vyre_cuda as vc

COUNTS = (1, 2, 3, 4, 6, 8, 16, 32, 64, 256)
SIZES = (4, 16, 256, 1024, 4096)
QUICK_COUNTS, QUICK_SIZES = (3, 8), (16,)
WARM, COPIED = 8, 48  # downloads by copies, which end before the kernel is loaded
LOADING = 20  # afterwards


@dataclass(frozen=True)
class Figure:
    """Microseconds of a download of `ranges` of `nbytes` each; the same where few ranges are copied either way."""

    ranges: int
    nbytes: int
    copies_us: float
    kernel_us: float


def timed(device: vc.Device, items: Sequence[tuple[vc.DeviceArray, int, int]], calls: int) -> float:
    times = []
    for _ in range(calls):
        begin = perf_counter_ns()
        device.download(items)
        times.append(perf_counter_ns() - begin)
    return statistics.median(times) / 1e3


def measured(name: str, ranges: int, nbytes: int, calls: int) -> Figure:
    with vc.Device(name) if name == "emulator" else vc.Device(0) as device:
        host = np.random.default_rng(ranges).integers(0, 256, 2 * ranges * nbytes, np.uint8)
        array = device.array(host)
        items = [(array, 2 * nbytes * i, nbytes) for i in range(ranges)]
        timed(device, items, WARM)
        copies = timed(device, items, COPIED)
        timed(device, items, LOADING)
        kernel = timed(device, items, calls)
        for (_, offset, count), found in zip(items, device.download(items), strict=True):
            if found.tobytes() != host[offset : offset + count].tobytes():
                raise SystemExit("a range has a wrong result")
    return Figure(ranges, nbytes, round(copies, 2), round(kernel, 2))


def run(name: str, *, quick: bool) -> list[Figure]:
    found = []
    gc.disable()
    for nbytes in QUICK_SIZES if quick else SIZES:
        for ranges in QUICK_COUNTS if quick else COUNTS:
            found.append(measured(name, ranges, nbytes, 4 if quick else 300))
            print(
                f"{ranges:4} ranges of {nbytes:5} bytes: copies {found[-1].copies_us:8.2f} us, "
                f"kernel {found[-1].kernel_us:8.2f} us",
                flush=True,
            )
    gc.enable()
    return found


def main(words: Sequence[str] | None = None) -> int:
    options = parsed(__doc__, words, quick="a few calls")
    found = run(options.device, quick=options.quick)
    with vc.Device(options.device) as device:
        written(options, device, "downloads", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
