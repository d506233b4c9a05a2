"""Round trips of a worker, beside those of the same calls as launches and of a mailbox in C (probes/mailbox.c).

    python benchmarks/bench_worker.py [--calls 100000]

Prints a line for each way: median, 99th and 99.9th percentile and the worst, in microseconds. The C program is built
with the system's compiler and linked to libcuda; without either, its lines are missing.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

import numpy as np

import vyre_cuda as vc

PROBE = Path(__file__).parent / "probes" / "mailbox.c"
N = 1024


def saxpy() -> vc.Program:
    b = vc.Builder("saxpy", block=1024)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


def empty() -> vc.Program:
    """A kernel that reads one scalar and writes nothing."""
    b = vc.Builder("empty", block=32)
    x = b.inout("x", vc.u32)
    a = b.scalar("a", vc.u32)
    with b.if_(vc.global_id.x < a):
        x[vc.global_id.x] = a
    return b.build()


def bare() -> vc.Program:
    """A kernel of one scalar, without arrays."""
    b = vc.Builder("bare", block=32)
    a = b.scalar("a", vc.u32)
    with b.if_(vc.global_id.x < a):
        b.let("nothing", a)
    return b.build()


def measured(call: Callable[[], object], calls: int) -> tuple[float, float, float, float]:
    for _ in range(min(calls, 2000)):
        call()
    times = np.empty(calls, np.int64)
    gc.disable()
    for i in range(calls):
        begin = perf_counter_ns()
        call()
        times[i] = perf_counter_ns() - begin
    gc.enable()
    times.sort()
    found = [times[int(calls * share)] / 1000 for share in (0.5, 0.99, 0.999)]
    return found[0], found[1], found[2], times[-1] / 1000


def show(name: str, values: tuple[float, ...]) -> None:
    print(f"{name:34}" + "".join(f"{value:10.3f}" for value in values), flush=True)


def twin(calls: int) -> None:
    """The mailbox in C, with the CUDA header of a toolkit."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "mailbox"
        includes = [f"-I{path}" for path in Path("/usr/local").glob("cuda*/include")]
        built = subprocess.run(
            ["cc", "-O2", str(PROBE), "-o", str(program), *includes, "-lcuda"], capture_output=True, text=True
        )
        if built.returncode:
            print(f"no twin: {built.stderr.strip().splitlines()[-1]}")
            return
        done = subprocess.run([str(program), str(calls)], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, *values = line.split()
            show(f"C mailbox, {name}", tuple(map(float, values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    calls = options.calls
    show("microseconds: median, 99, 99.9, worst", ())
    with vc.Device(options.device) as device:
        if not device.properties.is_emulator:
            twin(calls)
        kernel, nothing, without = (device.compile(each()) for each in (saxpy, empty, bare))
        x, y, out = (np.arange(N, dtype=np.float32) for _ in range(3))
        dx, dy, dout = device.array(x), device.array(y), device.array(out)
        one = device.zeros(1, vc.u32)

        def launched() -> None:
            kernel.launch(dx, dy, dout, 2.0)
            device.synchronize()

        show("call, arrays of 4 KiB", measured(lambda: kernel(x, y, 2.0, out=out), calls))
        show("launch and synchronize", measured(launched, calls))
        with device.worker([kernel, nothing, without]) as worker:
            show("worker, bound, no array", measured(worker.bind(without, 0, grid=1), calls))
            bound = worker.bind(nothing, one, 0)
            bound_arrays = worker.bind(kernel, dx, dy, dout, 2.0)
            show("worker, bound, empty", measured(bound, calls))
            show("worker, bound, device arrays", measured(bound_arrays, calls))
            show("worker, device arrays", measured(lambda: worker.call(kernel, dx, dy, dout, 2.0), calls))
            show("worker, arrays of 4 KiB", measured(lambda: worker.call(kernel, x, y, 2.0, out=out), calls))
            print(worker.stats())


if __name__ == "__main__":
    main()
