"""Other libraries beside a busy worker: how long their calls take that wait for the whole device.

    python benchmarks/worker_beside.py [--busy 0.01]

Eight threads call a worker while PyTorch synchronizes, starts its first kernels, allocates and frees, and CuPy compiles
and starts its first kernel, each in a process of its own; and the same without calls. Prints milliseconds: the first of
each kind, the median and the worst of the others. `--busy`: seconds after which the worker leaves the device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

import vyre_cuda as vc

THREADS = 8
TURNS = 20


@contextmanager
def callers(device: vc.Device, busy: float, blocks: int) -> Any:
    """Eight threads that call a worker."""
    from bench_worker import saxpy

    from vyre_cuda.runtime.worker.worker import Worker

    kernel = device.compile(saxpy())
    over = threading.Event()
    with Worker(device, [kernel], busy=busy, blocks=blocks) as worker:

        def work() -> None:
            arrays = [device.array(np.zeros(1024, np.float32)) for _ in range(3)]
            call = worker.bind(kernel, *arrays, 2.0)
            while not over.is_set():
                call()

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        try:
            yield worker
        finally:
            over.set()
            for thread in threads:
                thread.join()


def times(call: Callable[[], object]) -> list[float]:
    found = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        call()
        found.append((time.perf_counter() - begin) * 1e3)
    return found


def of_torch() -> dict[str, list[float]]:
    import torch

    torch.cuda.init()
    torch.empty(1, device="cuda")

    def first() -> None:
        (torch.arange(1000, device="cuda", dtype=torch.float32) * 2).sum()

    def allocates() -> None:
        torch.empty(1 << 26, device="cuda")
        torch.cuda.empty_cache()

    return {
        "synchronize": times(torch.cuda.synchronize),
        "kernels": times(lambda: (first(), torch.cuda.synchronize())),
        "others": times(lambda: (torch.rand(1000, device="cuda").sort(), torch.cuda.synchronize())),
        "allocate and free": times(allocates),
    }


def of_cupy() -> dict[str, list[float]]:
    import cupy

    x = cupy.empty(1000, cupy.float32)
    return {
        "synchronize": times(cupy.cuda.Device().synchronize),
        "kernels": times(lambda: ((x * 2 + 1).sum(), cupy.cuda.Device().synchronize())),
    }


LIBRARIES: dict[str, Callable[[], dict[str, list[float]]]] = {"torch": of_torch, "cupy": of_cupy}


def alone(library: str, busy: float, blocks: int) -> None:
    """In this process, with a worker unless `busy` is 0."""
    with vc.Device("auto") as device:
        if busy == 0:
            found = LIBRARIES[library]()
            print(json.dumps(found))
            return
        with callers(device, busy, blocks) as worker:
            found = LIBRARIES[library]()
            stats = worker.stats()
        print(json.dumps({**found, "launches, calls": [stats.launches, stats.calls]}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=float, default=0.01)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--alone", choices=list(LIBRARIES))
    options = parser.parse_args()
    if options.alone:
        alone(options.alone, options.busy, options.blocks)
        return
    print(f"{'milliseconds':34}{'first':>10}{'median':>10}{'worst':>10}")
    for library in LIBRARIES:
        if find_spec(library) is None:
            print(f"{library} is not installed")
            continue
        for busy in (0.0, options.busy):
            words = ["--alone", library, "--busy", str(busy), "--blocks", str(options.blocks)]
            done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True)
            if done.returncode:
                print(f"{library}: {done.stderr.strip().splitlines()[-1]}")
                continue
            for name, values in json.loads(done.stdout.splitlines()[-1]).items():
                way = f"{library}, {name}{', beside a worker' if busy else ''}"
                if name == "launches, calls":
                    print(f"{way}: {values}")
                    continue
                rest = sorted(values[1:])
                print(f"{way:44}{values[0]:10.2f}{rest[len(rest) // 2]:10.2f}{rest[-1]:10.2f}")


if __name__ == "__main__":
    main()
