"""The algorithms beside CUB, CuPy and PyTorch in the same run.

    OUT=folder python benchmarks/bench_algorithms.py [--elements 28] [--limit 80] [--cub PROGRAM]
    python benchmarks/bench_algorithms.py --device emulator --output somewhere  # shows that it works, measures nothing

A figure is the median time between two events around one call: ours is the replay of a plan, CUB's and the libraries'
their call. Large arrays are measured at 2^28 elements, then all sizes from 2^10 on in steps of 2^3. Rows "to
completion" are what the host waits for a plan of 1,024 elements, beside an empty launch, and CUB's call beside CUDA's
empty launch. CUB's `compress` selects by a function of the element and reads no conditions; that "by flags" does what
ours does; its program is built where nvcc is, which takes half a minute, or given. Every result is compared with that
of NumPy arrays, on 2^16 elements, before anything is measured. Writes one JSON file and prints the table, with what
each row is to reach. The exit code is 1 where a row misses that.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from algorithms import peers
from mathematics.results import write

import vyre_cuda as vc
from vyre_cuda import algorithms as va

ROUNDS, WARM = 15, 3
WAITS = 3000
CHECKED = 1 << 16
Array = Any


@dataclass(frozen=True)
class Task:
    """A task: what it runs, the bytes that it must move for each element, and what to reach as a share of CUB."""

    name: str
    inputs: Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]
    call: Callable[..., Any]
    bytes: float
    share: float


@dataclass(frozen=True)
class Row:
    """Milliseconds of a task and of its peers, and its speed. `to_reach` is None where a peer is missing."""

    task: str
    elements: int
    ms: float
    gb_s: float
    elements_per_ns: float
    peers: dict[str, float]
    to_reach: float | None
    verdict: str

    def line(self) -> str:
        aim = "-" if self.to_reach is None else f"{self.to_reach:.4f} {self.verdict}"
        others = ", ".join(f"{name} {ms:.4f}" for name, ms in self.peers.items())
        speed = f"{self.gb_s:8.1f} GB/s {self.elements_per_ns:7.2f} /ns"
        return f"{self.task:31} {self.elements:>10} {self.ms:9.4f} ms {speed}  {aim:>16}  {others}"


def _floats(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (rng.random(n, np.float32),)


def _words(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (rng.integers(0, 1 << 32, n, dtype=np.uint32),)


def _with_values(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (*_words(rng, n), np.arange(n, dtype=np.uint32))


def _wide(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (rng.integers(0, 1 << 64, n, dtype=np.uint64), np.arange(n, dtype=np.uint32))


def _bytes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (rng.integers(0, 256, n, dtype=np.uint8),)


def _halves(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    return (*_words(rng, n), rng.integers(0, 2, n, dtype=np.uint8))


def _compressed(x: Array, condition: Array) -> Any:
    """Without a wait: the result begins in an array of the largest size."""
    if isinstance(x, np.ndarray):
        return va.compress(condition, x)
    out, count = x.device.empty(x.size, x.type), x.device.empty(1, vc.u64)
    return va.compress(condition, x, out=out, count=count)


TASKS = (
    Task("sum f32", _floats, va.sum, 4, 0.969),
    Task("cumsum f32", _floats, va.cumsum, 8, 0.9),
    Task("cumsum u32", _words, lambda x: va.cumsum(x, dtype=vc.u32), 8, 1.0),
    Task("sort u32", _words, va.sort, 8, 0.9),
    Task("sort u32 with u32", _with_values, va.sort, 16, 0.9),
    Task("sort u64 with u32", _wide, va.sort, 24, 0.9),
    Task("bincount u8", _bytes, lambda x: va.bincount(x, 256), 1, 0.999),
    Task("compress u32", _halves, _compressed, 6, 0.997),
)


class Bench:
    """Measures rows on one device; `absent` says what could not be measured."""

    def __init__(self, device: vc.Device, emulated: bool, limit: float) -> None:
        self.device, self.emulated = device, emulated
        self.rows: list[Row] = []
        self.absent: dict[str, str] = {}
        self.cub: dict[tuple[str, int], float] = {}
        self.libraries: dict[str, Any] = {}
        self._until = time.monotonic() + limit
        for name in ("cupy", "torch"):
            module = None if emulated else peers.found(name)
            if module is None:
                self.absent[name] = "the emulator has no peers" if emulated else "not installed"
            else:
                self.libraries[name] = module

    def compare_with_cub(self, sizes: Sequence[int], program: Path | None) -> None:
        found = "the emulator has no peers" if self.emulated else peers.cub(sizes, program)
        if isinstance(found, str):
            self.absent["cub"] = found
        else:
            self.cub = found

    def has_time(self, what: str) -> bool:
        if time.monotonic() < self._until:
            return True
        self.absent[what] = "the time limit was reached"
        return False

    def ms(self, launch: Callable[[Any], Any]) -> float:
        """The median between events on the stream of the device."""
        stream, times = self.device.stream(), []
        for turn in range(1 if self.emulated else WARM + ROUNDS):
            begin = stream.record()
            launch(stream)
            end = stream.record()
            end.synchronize()
            if self.emulated or turn >= WARM:
                times.append(max(end.elapsed_ms(begin), 1e-6))
        return statistics.median(times)

    def library_ms(self, task: str, x: Any, y: Any) -> dict[str, float]:
        """The same of each library, on its own stream."""
        times = {}
        for name, measured in (("cupy", self._cupy_ms), ("torch", self._torch_ms)):
            if name not in self.libraries:
                continue
            try:
                ms = measured(self.libraries[name], task, x, y)
            except peers.FAILURES as error:
                self.absent[f"{name}, {task}, {x.size}"] = f"{type(error).__name__}: {error}"
                continue
            if ms is not None:
                times[{"cupy": "CuPy", "torch": "PyTorch"}[name]] = ms
        return times

    def _cupy_ms(self, cp: Any, task: str, x: Any, y: Any) -> float | None:
        stream = self.device.stream()  # held: CuPy does not hold it, and it is destroyed with its last reference
        with cp.cuda.ExternalStream(stream.handle):
            launch = peers.cupy(cp, task, x, y)
            return None if launch is None else _library(launch, cp.cuda.Event, cp.cuda.get_elapsed_time)

    @staticmethod
    def _torch_ms(torch: Any, task: str, x: Any, y: Any) -> float | None:
        launch = peers.torch(torch, task, x, y)
        if launch is None:
            return None
        return _library(
            launch, lambda: torch.cuda.Event(enable_timing=True), lambda begin, end: begin.elapsed_time(end)
        )


def _library(launch: Callable[[], Any], event: Callable[[], Any], elapsed: Callable[[Any, Any], float]) -> float:
    times = []
    for turn in range(WARM + ROUNDS):
        begin, end = event(), event()
        begin.record()
        launch()
        end.record()
        end.synchronize()
        if turn >= WARM:
            times.append(float(elapsed(begin, end)))
    return statistics.median(times)


def check(device: vc.Device, task: Task) -> None:
    """ValueError where device and NumPy arrays do not give the same bits."""
    inputs = task.inputs(np.random.default_rng(3), CHECKED)
    wanted, got = task.call(*inputs), task.call(*(device.array(each) for each in inputs))
    for want, have in zip(_each(wanted), _each(got), strict=True):
        if have.numpy().ravel()[: want.size].tobytes() != want.tobytes():
            raise ValueError(f"{task.name} is wrong")


def _each(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def measure(bench: Bench, task: Task, n: int) -> None:
    """A row for a task and a number of elements."""
    if not bench.has_time(f"{task.name}, {n}"):
        return
    arrays = [bench.device.array(each) for each in task.inputs(np.random.default_rng(1), n)]
    with bench.device.record() as graph:
        task.call(*arrays)
    graph.compile()
    bench.device.synchronize()
    ms = bench.ms(lambda stream: graph.replay(stream=stream))
    ways = {"CUB": task.name, "CUB by flags": f"{task.name} by flags"}
    others = {way: bench.cub[name, n] for way, name in ways.items() if (name, n) in bench.cub}
    others |= bench.library_ms(task.name, arrays[0], arrays[-1])
    aim = others["CUB"] / task.share if "CUB" in others and n >= 1 << 26 else None
    verdict = "" if aim is None or bench.emulated else "met" if ms <= aim else "missed"
    row = Row(task.name, n, ms, task.bytes * n / ms / 1e6, n / ms / 1e6, others, aim, verdict)
    bench.rows.append(row)
    print(row.line(), flush=True)


def completions(bench: Bench, n: int) -> None:
    """What the host waits for plans of few elements; to reach is an empty launch and some microseconds."""
    b = vc.Builder("empty", block=32)
    b.input("x", vc.f32)
    b.work(1)
    floats, words, places = (
        bench.device.array(np.arange(n, dtype=type_)) for type_ in (np.float32, np.uint32, np.uint32)
    )
    empty = _waited(bench, bench.device.compile(b.build()).bind(floats, grid=1))
    plans = {
        "sum f32": (va.plan(va.sum, floats), 0.8e-3),
        "cumsum f32": (va.plan(va.cumsum, floats), 1.5e-3),
        "sort u32 with u32": (va.plan(va.sort, words, places), 6e-3),
    }
    for name, (plan, more) in plans.items():
        ms, aim = _waited(bench, plan), empty + more
        verdict = "" if bench.emulated else "met" if ms <= aim else "missed"
        row = f"{name} to completion"
        ways = {"CUB": (row, n), "CUDA's empty": ("empty to completion", n)}
        others = {"empty": empty} | {way: bench.cub[key] for way, key in ways.items() if key in bench.cub}
        bench.rows.append(Row(row, n, ms, 0.0, n / ms / 1e6, others, aim, verdict))
        print(bench.rows[-1].line(), flush=True)


def _waited(bench: Bench, run: Callable[[], Any]) -> float:
    """The median milliseconds until the host knows that it is done."""
    times = []
    for _ in range(1 if bench.emulated else WAITS):
        begin = time.perf_counter_ns()
        run()
        bench.device.synchronize()
        times.append((time.perf_counter_ns() - begin) / 1e6)
    return statistics.median(times)


def product(bench: Bench, side: int) -> None:
    """A product of square matrices of f32; the figure is in TFLOP/s."""
    if not bench.has_time("matmul f32"):
        return
    rng = np.random.default_rng(1)
    x, y = (bench.device.array(rng.standard_normal((side, side), dtype=np.float32)) for _ in range(2))
    plan = va.plan(va.matmul, x, y)
    few = slice(0, 2)
    if plan().numpy()[few].tobytes() != va.matmul(x.numpy()[few], y.numpy()).tobytes():
        raise ValueError("matmul f32 is wrong")
    with bench.device.record() as graph:
        va.matmul(x, y)
    ms = bench.ms(lambda stream: graph.replay(stream=stream))
    others = bench.library_ms("matmul f32", x, y)
    tera = 2 * side**3 / ms / 1e9
    aim = 2 * side**3 / 40e9 if "H200" in bench.device.properties.name and side == 4096 else None
    verdict = "" if aim is None else "met" if ms <= aim else "missed"
    bench.rows.append(Row("matmul f32", side, ms, 0.0, tera, others, aim, verdict))
    print(bench.rows[-1].line(), f"({tera:.1f} TFLOP/s)", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="0", help="ordinal, or emulator")
    parser.add_argument("--elements", type=int, default=28, help="binary logarithm of their number (default: 28)")
    parser.add_argument("--limit", type=float, default=80, help="seconds, after which no row is begun (default: 80)")
    parser.add_argument("--cub", type=Path, help="algorithms/cub.cu, built; without it, nvcc builds it")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for the result")
    options = parser.parse_args()
    emulated = options.device == "emulator"
    large = 1 << (12 if emulated else options.elements)
    sizes = [1 << 10] if emulated else [1 << power for power in range(10, options.elements, 3)]
    with vc.Device("emulator" if emulated else int(options.device)) as device:
        bench = Bench(device, emulated, options.limit)
        bench.compare_with_cub([large, *sizes], options.cub)
        for task in TASKS:
            check(device, task)
        for n in (large, *sizes):
            for task in TASKS:
                measure(bench, task, n // 2 if task.name.startswith("sort u64") else n)
        completions(bench, 1 << 10)
        product(bench, 96 if emulated else 4096)
        for what, reason in bench.absent.items():
            print(f"not measured: {what}: {reason}")
        content = {"unit": "ms", "rows": [asdict(row) for row in bench.rows], "absent": bench.absent}
        print(write(options.output, "algorithms", device, emulated, content))
    return int(any(row.verdict == "missed" for row in bench.rows))


if __name__ == "__main__":
    sys.exit(main())
