"""What the slowest calls of a worker consist of: its own launches, or interruptions of the host.

    python benchmarks/worker_tail.py [--calls 1000000] [--device auto]

The same empty call, bound, by a worker that leaves the device every 10 ms, as usual, and by one that never does; and a
loop of the same length that makes no call. Prints how many calls took how long, in microseconds, and the percentiles.
What the first has more of than the second comes from its launches; what the third has comes from the host.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np
from bench_worker import bare, times_of

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker

EDGES = (4, 5, 6, 8, 10, 12, 16, 20, 30, 50, 100)  # microseconds
SHARES = (0.5, 0.99, 0.999, 0.9999)


def spinning(microseconds: float) -> Callable[[], None]:
    """A call that takes so long, and uses no device."""
    length = round(microseconds * 1000)

    def spin() -> None:
        end = perf_counter_ns() + length
        while perf_counter_ns() < end:
            pass

    return spin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    columns: dict[str, np.ndarray] = {}
    launches: dict[str, int] = {}
    with vc.Device(options.device) as device:
        kernel = device.compile(bare())
        for name, busy in (("every 10 ms", 0.01), ("never", 3600.0)):
            with Worker(device, [kernel], busy=busy) as worker:
                columns[name] = times_of(worker.bind(kernel, 0, grid=1), options.calls)
                launches[name] = worker.stats().launches
    columns["host alone"] = times_of(spinning(float(np.median(columns["never"]))), options.calls)
    print(f"{'microseconds':>16}" + "".join(f"{name:>14}" for name in columns))
    for low, high in zip((0, *EDGES), (*EDGES, np.inf), strict=True):
        counts = (np.searchsorted(v, high) - np.searchsorted(v, low) for v in columns.values())
        print(f"{low:>8} to {high:<5}" + "".join(f"{count:>14}" for count in counts))
    for share in SHARES:
        values = (v[min(int(v.size * share), v.size - 1)] for v in columns.values())
        print(f"{100 * share:>14.2f} %" + "".join(f"{value:>14.3f}" for value in values))
    print(f"{'launches':>16}" + "".join(f"{launches.get(name, 0):>14}" for name in columns))


if __name__ == "__main__":
    main()
