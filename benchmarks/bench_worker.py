"""Calls of a worker, beside the same calls as launches and a mailbox in C without a library (probes/mailbox.c).

    python benchmarks/bench_worker.py [--calls 100000] [--c-calls 1000000]

Prints a line for each way: median, 99th and 99.9th percentile and the worst, in microseconds; then calls a second: from
C with several in flight (probes/worker_calls.c), and from eight Python threads; then what must be reached. The C
programs are built with the system's compiler; without it or the CUDA header, their lines are missing.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

import numpy as np

import vyre_cuda as vc
from vyre_cuda.testing.compilers import c_compiler

PROBES = Path(__file__).parent / "probes"
N = 1024
THREADS = 8
BESIDE = 64  # launches beside calls, of which a thread waits for the last
LARGER = (64, 256, 1024)  # KiB of each array
HOST_BYTES = 1 << 20  # of all host arrays of a worker's call


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


def times_of(call: Callable[[], object], calls: int) -> np.ndarray:
    """Microseconds, sorted."""
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
    return times / 1000


def measured(call: Callable[[], object], calls: int) -> tuple[float, ...]:
    times = times_of(call, calls)
    return *(float(times[int(calls * share)]) for share in (0.5, 0.99, 0.999)), float(times[-1])


def show(name: str, values: tuple[float, ...]) -> None:
    print(f"{name:48}" + "".join(f"{value:10.3f}" for value in values), flush=True)


def built(folder: Path, probe: Path, *words: str) -> Path | None:
    """A C program of probes, with the CUDA header of the system."""
    program = folder / probe.stem
    includes = [f"-I{path}" for path in Path("/usr/local").glob("cuda*/include")]
    done = subprocess.run(
        [*c_compiler(), "-O2", str(probe), "-o", str(program), *includes, *words], capture_output=True, text=True
    )
    if done.returncode:
        print(f"no {probe.name}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        return None
    return program


def lines_of(program: Path, *words: str) -> dict[str, tuple[float, ...]]:
    """What a C program prints: names and numbers."""
    done = subprocess.run([str(program), *words], capture_output=True, text=True)
    if done.returncode:
        print(f"{program.name}: {done.stderr.strip()}")
    return {name: tuple(map(float, values)) for name, *values in map(str.split, done.stdout.splitlines())}


def from_c(calls: int, driver: list[str]) -> dict[str, tuple[float, ...]]:
    """The mailbox and the worker in C."""
    found: dict[str, tuple[float, ...]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mailbox = built(folder, PROBES / "mailbox.c", "-lcuda") if not driver else None
        if mailbox is not None:
            found |= {f"C mailbox, {name}": line for name, line in lines_of(mailbox, str(calls)).items()}
        at = vc.get_library_dir()
        library = next(Path(at).glob("libvyre_cuda.so.*"))
        words = [f"-I{vc.get_include()}", str(library), f"-Wl,-rpath,{at}", "-lpthread"]
        program = built(folder, PROBES / "worker_calls.c", *words)
        if program is not None:
            bundle = folder / "bench.vyre"
            vc.bundle([bare(), saxpy()], bundle, workers={"bench": ["bare", "saxpy"]})
            found |= {
                f"C worker, {name}": line for name, line in lines_of(program, str(bundle), str(calls), *driver).items()
            }
    for name, line in found.items():
        show(name.replace("-", " "), line)
    return found


def threads_per_second(make: Callable[[], Callable[[], object]], calls: int) -> float:
    """From eight threads, each with a call of its own."""
    ready = threading.Barrier(THREADS + 1)
    made = [make() for _ in range(THREADS)]

    def work(call: Callable[[], object]) -> None:
        for _ in range(100):
            call()
        ready.wait()
        for _ in range(calls // THREADS):
            call()

    threads = [threading.Thread(target=work, args=(call,)) for call in made]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = perf_counter_ns()
    for thread in threads:
        thread.join()
    return calls // THREADS * THREADS / ((perf_counter_ns() - begin) / 1e9)


def judge(found: dict[str, tuple[float, ...]]) -> None:
    """The table of what must be reached, with what this run gave."""
    mailbox, c_empty = found.get("C mailbox, empty"), found.get("C worker, no-array")
    empty = found["worker, bound, no array"]
    rows: list[tuple[str, float, float]] = [
        ("Python, arrays of 4 KiB, at most us", found["worker, arrays of 4 KiB"][0], 7.0),
        ("Python, device arrays, at most us", found["worker, device arrays"][0], 4.0),
        ("Python, bound device arrays, at most us", found["worker, bound, device arrays"][0], 4.0),
        ("p99.9 of an empty call / median, at most", empty[2] / empty[0], 2.0),
        ("... beside a saxpy of 2^28, at most", found["beside a saxpy"][2] / empty[0], 3.0),
    ]
    spread = found.get("64 KiB, worker, 8 blocks")
    if spread is not None:
        whole, small = found["64 KiB, worker, 1 blocks"][0], found["worker, bound, device arrays"][0]
        rows.append(("64 KiB over 8 blocks, beyond a small call, at most us", spread[0] - small, 1.4))
        rows.append(("... / in one block, at most", spread[0] / whole, 1.0))
    if mailbox is not None:
        print(f"the host: p99.9 of the mailbox / median: {mailbox[2] / mailbox[0]:.3f}; 2 or less where it is quiet")
        rows.insert(0, ("Python, empty call, at most us", empty[0], mailbox[0] + 0.8))
        if c_empty is not None:
            rows.insert(1, ("C, empty call, at most us", c_empty[0], mailbox[0] + 0.3))
    for name, least in (("8-blocks,-4-threads", 1.0e6), ("1-block,-1-thread", 0.3e6)):
        line = found.get(f"C worker, per-second,-{name}")
        if line is not None:
            mark = "ok  " if line[0] >= least else "MISS"
            print(f"{mark} {name.replace('-', ' ')}, at least: {line[0]:.0f} of {least:.0f}")
    for name, value, most in rows:
        print(f"{'ok  ' if value <= most else 'MISS'} {name}: {value:.3f} of {most:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--c-calls", type=int, default=1_000_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--large", type=int, default=1 << 28, help="elements of the saxpy beside which calls are made")
    options = parser.parse_args()
    calls = options.calls
    found: dict[str, tuple[float, ...]] = {}

    def row(name: str, call: Callable[[], object], count: int = calls) -> None:
        found[name] = measured(call, count)
        show(name, found[name])

    show("microseconds: median, 99, 99.9, worst", ())
    with vc.Device(options.device) as device:
        emulated = device.properties.is_emulator
        found |= from_c(options.c_calls, [f"{vc.get_library_dir()}/libvyre_cuda_emulator.so"] if emulated else [])
        kernel, nothing, without = (device.compile(each()) for each in (saxpy, empty, bare))
        x, y, out = (np.arange(N, dtype=np.float32) for _ in range(3))
        dx, dy, dout = device.array(x), device.array(y), device.array(out)
        one = device.zeros(1, vc.u32)

        def launched() -> None:
            kernel.launch(dx, dy, dout, 2.0)
            device.synchronize()

        row("call, arrays of 4 KiB", lambda: kernel(x, y, 2.0, out=out))
        row("launch and synchronize", launched)
        with device.worker([kernel, nothing, without]) as worker:
            row("worker, bound, no array", worker.bind(without, 0, grid=1), options.c_calls)
            row("worker, bound, one array", worker.bind(nothing, one, 0))
            row("worker, bound, device arrays", worker.bind(kernel, dx, dy, dout, 2.0))
            row("worker, device arrays", lambda: worker.call(kernel, dx, dy, dout, 2.0))
            row("worker, arrays of 4 KiB", lambda: worker.call(kernel, x, y, 2.0, out=out))
            print(worker.stats())
            with beside_a_saxpy(device, kernel, options.large):
                row("beside a saxpy", worker.bind(without, 0, grid=1))
        larger(device, kernel, row, max(calls // 10, 1))
        rates(device, kernel, x, calls)
    judge(found)


@contextmanager
def beside_a_saxpy(device: vc.Device, kernel: vc.Kernel, elements: int) -> Iterator[None]:
    """A thread that keeps the device busy. It needs the interpreter rarely, so that calls do not wait for that."""
    large = [device.zeros(elements, vc.f32) for _ in range(3)]
    with device.record(fuse=False) as graph, graph.repeat(BESIDE):
        kernel.launch(*large, 2.0)
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            graph.replay()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def larger(device: vc.Device, kernel: vc.Kernel, row: Callable[..., None], calls: int) -> None:
    """Calls with many blocks: launched, in one block of a worker, and spread over eight."""
    for kib in LARGER:
        x = np.arange(kib * 256, dtype=np.float32)
        out = np.empty_like(x)
        dx, dy, dout = (device.array(x) for _ in range(3))

        def launched(arrays: tuple[vc.DeviceArray, ...] = (dx, dy, dout)) -> None:
            kernel.launch(*arrays, 2.0)
            device.synchronize()

        row(f"{kib} KiB, launch and synchronize", launched, calls)
        for blocks in (1, min(8, device.properties.multiprocessor_count)):
            with device.worker([kernel], blocks=blocks) as worker:
                row(f"{kib} KiB, worker, {blocks} blocks", worker.bind(kernel, dx, dy, dout, 2.0), calls)
                if 3 * x.nbytes <= HOST_BYTES:

                    def called(worker: vc.Worker = worker, x: np.ndarray = x, out: np.ndarray = out) -> None:
                        worker.call(kernel, x, x, 2.0, out=out)

                    row(f"{kib} KiB of the host, worker, {blocks} blocks", called, calls)
        if 3 * x.nbytes <= HOST_BYTES:
            row(f"{kib} KiB of the host, call", lambda x=x, out=out: kernel(x, x, 2.0, out=out), calls)


def rates(device: vc.Device, kernel: vc.Kernel, x: np.ndarray, calls: int) -> None:
    """Calls a second from eight threads: on the worker, and as bound launches that are waited for."""

    def arrays() -> tuple[vc.DeviceArray, vc.DeviceArray, vc.DeviceArray]:
        return device.array(x), device.array(x), device.array(x)

    def launches() -> Callable[[], object]:
        stream = device.stream()
        bound = kernel.bind(*arrays(), 2.0, stream=stream)

        def call() -> None:
            bound()
            stream.synchronize()

        return call

    show("bound launch, 8 threads, a second", (threads_per_second(launches, calls),))
    for blocks in (1, 8):
        with device.worker([kernel], blocks=min(blocks, device.properties.multiprocessor_count)) as worker:

            def bound(worker: vc.Worker = worker) -> Callable[[], object]:
                return worker.bind(kernel, *arrays(), 2.0)

            show(f"worker, {blocks} blocks, 8 threads, a second", (threads_per_second(bound, calls),))


if __name__ == "__main__":
    main()
