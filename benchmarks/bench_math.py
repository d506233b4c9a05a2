"""Throughput of the mathematical functions of f32 on 2^28 elements, beside CUDA's own in the same run.

    OUT=folder python benchmarks/bench_math.py [--functions exp,sin] [--elements 28] [--repeats 20]
    python benchmarks/bench_math.py --device emulator --output somewhere      # shows that it works, measures nothing

Ours in "ieee" and in "fast"; CUDA's through CuPy's ElementwiseKernel and through a plain kernel of our launch shape,
both with and without --use_fast_math. Device arrays of random arguments, times by events around each launch, the
median of them; the passes take turns. Results are compared with NumPy on a part before they are timed. Writes one JSON
file and prints a table: microseconds, and at the end ours over CUDA's accurate form. The exit code is 1 where "ieee"
takes more than 1.3 times as long as the plain kernel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mathematics.functions import Subject, chosen, program
from mathematics.peers import elementwise, plain
from mathematics.results import write

import vyre_cuda as vc
from vyre_cuda.functions import table
from vyre_cuda.ir.core.types import f32
from vyre_cuda.testing.accuracy import errors, exact

LIMIT = 1.3
CHECKED = 4096
ROUNDS = 3

Launch = Callable[[], None]


def arguments(subject: Subject, count: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(11)
    return [rng.uniform(subject.low, subject.high, count).astype(np.float32) for _ in range(subject.arity)]


def check(subject: Subject, inputs: list[np.ndarray[Any, Any]], found: np.ndarray[Any, Any], bound: float) -> None:
    """ValueError for a result that is beyond the bound."""
    off = errors(f32, exact(subject.name, f32, inputs), found)
    if not off.max() <= bound:
        raise ValueError(f"{subject.name} is off by {off.max()} ULP at {[x[off.argmax()] for x in inputs]}")


class Gpu:
    """Times launches on a CUDA device by events, on CuPy arrays."""

    def __init__(self, device: vc.Device) -> None:
        import cupy

        self._cupy: Any = cupy
        self._device = device

    def rows(self, subject: Subject, count: int, repeats: int) -> dict[str, float]:
        cp = self._cupy
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            part = arguments(subject, CHECKED)
            inputs = [cp.random.uniform(subject.low, subject.high, count, dtype=cp.float32) for _ in part]
            for array, known in zip(inputs, part, strict=True):
                array[:CHECKED] = cp.asarray(known)
            out = cp.empty(count, cp.float32)
            stream.synchronize()
            launches: dict[str, Launch] = {}
            for precision in ("ieee", "fast"):
                launches[precision] = self._ours(subject, precision, inputs, out, stream)
            for fast in (False, True):
                suffix = "_fast" * fast
                launches[f"cuda{suffix}"] = plain(cp, subject, inputs, out, fast=fast)
                launches[f"cupy{suffix}"] = elementwise(cp, subject, inputs, out, fast=fast)
            for name in ("ieee", "fast", "cuda"):
                out.fill(np.nan)
                launches[name]()
                stream.synchronize()
                bound = 16.0 if name == "cuda" else max(table.FAST_ULP, table.exact_form(subject.name, "f32").ulp)
                check(subject, part, out[:CHECKED].get(), bound)
            return self._medians(launches, stream, repeats)

    def _ours(self, subject: Subject, precision: str, inputs: list[Any], out: Any, stream: Any) -> Launch:
        kernel = self._device.compile(program(subject.name, f32), precision=precision)
        call = kernel.bind(*inputs, out, stream=stream.ptr)
        return lambda: call()

    def _medians(self, launches: dict[str, Launch], stream: Any, repeats: int) -> dict[str, float]:
        """Microseconds of a launch; rounds in turns, so that a change of clocks meets all."""
        cp = self._cupy
        times: dict[str, list[float]] = {name: [] for name in launches}
        for _ in range(ROUNDS):
            for name, launch in launches.items():
                launch()
                for _ in range(repeats):
                    begin, end = cp.cuda.Event(), cp.cuda.Event()
                    begin.record(stream)
                    launch()
                    end.record(stream)
                    end.synchronize()
                    times[name].append(cp.cuda.get_elapsed_time(begin, end) * 1e3)
        return {name: statistics.median(each) for name, each in times.items()}


class Host:
    """Times calls on the emulator: no figure of anything, but every step of ours happens."""

    def __init__(self, device: vc.Device) -> None:
        self._device = device

    def rows(self, subject: Subject, count: int, repeats: int) -> dict[str, float]:
        inputs = arguments(subject, count)
        found = {}
        for precision in ("ieee", "fast"):
            kernel = self._device.compile(program(subject.name, f32), precision=precision)
            check(subject, inputs, np.asarray(kernel(*inputs)), table.FAST_ULP)
            times = []
            for _ in range(repeats):
                begin = time.perf_counter_ns()
                kernel(*inputs)
                times.append((time.perf_counter_ns() - begin) / 1e3)
            found[precision] = statistics.median(times)
        return found


def line(subject: Subject, row: dict[str, float], count: int) -> str:
    """Times, the rate of ours, and the ratio to the plain kernel and to CuPy's."""
    rate = 4 * count * (subject.arity + 1) / row["ieee"] / 1e3  # GB/s
    names = ("ieee", "fast", "cuda", "cuda_fast", "cupy", "cupy_fast")
    times = " ".join(f"{row[name]:>9.1f}" if name in row else f"{'-':>9}" for name in names)
    ratios = [f"{row['ieee'] / row[name]:>6.2f}" if name in row else f"{'-':>6}" for name in ("cupy", "cuda")]
    return f"{subject.name:<9} {times} {rate:>8.0f} {' '.join(ratios)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="0", help="ordinal, or emulator")
    parser.add_argument("--functions", help="names, separated by commas; default: all")
    parser.add_argument("--elements", type=int, default=28, help="binary logarithm of their number (default: 28)")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for the result")
    options = parser.parse_args()
    try:
        subjects = chosen(options.functions)
    except ValueError as error:
        parser.error(str(error))
    emulated = options.device == "emulator"
    device = vc.Device("emulator" if emulated else int(options.device))
    count = 1 << (12 if emulated else options.elements)
    bench: Gpu | Host = Host(device) if emulated else Gpu(device)
    names = ("ieee", "fast", "cuda", "cuda_fast", "cupy", "cupy_fast", "GB/s", "/cupy", "/cuda")
    print(f"{'us':<9} " + " ".join(f"{name:>{w}}" for name, w in zip(names, (9,) * 6 + (8, 6, 6), strict=True)))
    rows: dict[str, dict[str, float]] = {}
    for subject in subjects:
        rows[subject.name] = bench.rows(subject, count, options.repeats)
        print(line(subject, rows[subject.name], count), flush=True)
    content = {"elements": count, "unit": "us", "rows": rows}
    path = write(options.output, "math-throughput", device, emulated, content)
    print(path)
    return int(any("cuda" in row and row["ieee"] > LIMIT * row["cuda"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
