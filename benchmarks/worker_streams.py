"""Streams beside a worker whose blocks wait on the device for calls: does one of them wait for the worker?

    python benchmarks/worker_streams.py [--blocks 8] [--streams 24] [--idle 1.0] [--device auto]

The driver has a few queues for all streams of a process (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default), and work in one
queue can wait for that of another stream. Each block of the worker has had a call, and stays up to `--idle` seconds.
Then each stream in turn runs a kernel that is waited for, waits for an event of the next stream, and reads with a call
of the worker what a launch on it writes. Prints the median and the worst of each, in milliseconds, and how many took
more than a tenth of `--idle`, without the worker and beside it: none should.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np
from bench_worker import saxpy

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker

N = 1024


def timed(use: Callable[[], object]) -> float:
    begin = perf_counter()
    use()
    return (perf_counter() - begin) * 1000


def show(name: str, times: list[float], limit: float) -> None:
    late = sum(time > limit for time in times)
    print(f"{name:44}{np.median(times):10.3f}{max(times):10.3f}{late:6} of {len(times)}", flush=True)


def spread(worker: Worker, kernel: vc.Kernel) -> None:
    """Each block of the worker has had a call."""
    x = np.zeros(N, np.float32)
    while worker.stats().running < worker.blocks:
        for pending in [worker.submit(kernel, x, x, 1.0) for _ in range(4 * worker.blocks)]:
            pending.result()


def measure(device: vc.Device, kernel: vc.Kernel, streams: list[vc.Stream], worker: Worker | None, idle: float) -> None:
    x, y, out = (device.array(np.ones(N, np.float32)) for _ in range(3))
    words = "without a worker" if worker is None else f"beside {worker.blocks} blocks"
    limit = idle * 100

    def launch(stream: vc.Stream) -> None:
        kernel.launch(x, x, y, 2.0, stream=stream)
        stream.synchronize()

    def follow(stream: vc.Stream, other: vc.Stream) -> None:
        kernel.launch(x, x, y, 2.0, stream=other)
        stream.wait(other.record())
        kernel.launch(y, x, out, 2.0, stream=stream)
        stream.synchronize()

    def call_behind(stream: vc.Stream) -> None:
        kernel.launch(x, x, y, 2.0, stream=stream)
        assert worker is not None
        worker.call(kernel, y, x, out, 2.0)

    def each(name: str, use: Callable[[int], object]) -> None:
        times = []
        for i in range(len(streams)):
            if worker is not None:
                spread(worker, kernel)
            times.append(timed(lambda i=i: use(i)))  # type: ignore[misc]
        show(f"{name}, {words}", times, limit)

    each("launch and wait", lambda i: launch(streams[i]))
    each("behind an event", lambda i: follow(streams[i], streams[i - 1]))
    if worker is not None:
        each("call behind a launch", lambda i: call_behind(streams[i]))
    np.testing.assert_array_equal(np.full(N, 7, np.float32), out.numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--idle", type=float, default=1.0)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    print(f"{'milliseconds: median, worst, late':44}")
    with vc.Device(options.device) as device:
        kernel = device.compile(saxpy())
        streams = [device.stream() for _ in range(options.streams)]
        measure(device, kernel, streams, None, options.idle)
        with Worker(device, [kernel], blocks=options.blocks, idle=options.idle) as worker:
            measure(device, kernel, streams, worker, options.idle)


if __name__ == "__main__":
    main()
