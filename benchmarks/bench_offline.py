"""What can be measured without a GPU: the emulator's speed, passes and lowering per op, and import time.

    python benchmarks/bench_offline.py [--output DIR] [--quick]

Each figure stands beside a calibration loop of the same run (an empty Python loop), because machines differ: compare
the ratios. Time per op is that of programs from 50 to 4000 ops, each with a calibration of its own right before and
after, so that it shows whether it is linear. Writes one JSON file and prints a table.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from harness.environment import commit_name

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.core.types import INTEGERS, NUMBERS
from vyre_cuda.passes.pipeline import optimize, prepared
from vyre_cuda.testing.emulator import Emulator

CALIBRATION_STEPS = 1_000_000
OPS = (50, 200, 1000, 4000)


def seconds(action: Callable[[], Any], repeats: int) -> float:
    """The median of so many runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def calibration_ns(repeats: int) -> float:
    """Nanoseconds of one step of an empty Python loop."""

    def loop() -> None:
        for _ in range(CALIBRATION_STEPS):
            pass

    return seconds(loop, repeats) / CALIBRATION_STEPS * 1e9


def integer_loop(steps: int) -> vc.Program:
    """A dependent chain of integer steps in every thread."""
    b = vc.Builder("integer_loop", block=32)
    out = b.output("out", vc.u32, size=32)
    value = b.var("value", vc.u32(1))
    with b.for_(0, steps):
        value.set(value * 1664525 + 1013904223)
    out[vc.global_id.x] = value
    return b.build()


def chain(ops: int, type_: vc.Type = vc.f32) -> vc.Program:
    """A kernel of about this many arithmetic ops and two guarded memory accesses."""
    b = vc.Builder("chain")
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        value = b.let("value", x[i])
        for step in range(ops // 2):
            value = b.let(f"v{step}", value * type_(step % 100 + 2) + x[i])
        out[i] = value
    return b.build()


def with_xor(ops: int, type_: vc.Type) -> vc.Program:
    """About this many ops of an integer type: sums and products, and ops that are not linear."""
    b = vc.Builder("with_xor")
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        value, other = b.let("value", x[i]), b.let("other", y[i])
        for step in range(ops // 3):
            value = b.let(f"v{step}", value * type_(step % 100 + 2) + (other ^ value))
        out[i] = value
    return b.build()


def mixed(ops: int) -> vc.Program:
    """About this many ops on i32 and f32, with conversions between them."""
    b = vc.Builder("mixed")
    x, y = b.input("x", vc.i32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        number, value = b.let("number", x[i]), b.let("value", y[i])
        for step in range(ops // 8):
            both = b.let(f"b{step}", number * 3 + (number ^ (step + 1)))
            value = b.let(f"v{step}", value * 1.5 + vc.f32(both))
            number = b.let(f"n{step}", vc.i32(vc.minimum(value, 1e6)))
        out[i] = value
    return b.build()


def emulator_rate(quick: bool, repeats: int) -> float:
    """PTX instructions a second, of one kernel of one block."""
    control, steps = Emulator(), 10_000 if quick else 200_000
    with vc.Device("emulator") as device, control.steered():
        control.stream_mode("eager")
        kernel = device.compile(integer_loop(steps))
        kernel()
        before = control.count("instructions")
        kernel()
        executed = control.count("instructions") - before
        return executed / seconds(kernel, repeats)


def least_ms(action: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of so many runs, which other work of the machine adds least to."""
    times = []
    for _ in range(repeats):
        begin = time.process_time_ns()
        action()
        times.append(time.process_time_ns() - begin)
    return round(min(times) / 1e6, 3)


def per_op(action: Callable[[], Any], ops: int, repeats: int) -> dict[str, float]:
    """The time of an action on a program of so many ops, in ms, in ns per op, and in steps of the calibration loop."""
    before = calibration_ns(1)
    taken = seconds(action, repeats)
    step_ns = (before + calibration_ns(1)) / 2
    return {
        "ms": round(taken * 1e3, 3),
        "ns_per_op": round(taken * 1e9 / ops),
        "calibration_step_ns": round(step_ns, 2),
        "steps_per_op": round(taken * 1e9 / ops / step_ns),
    }


def translation(repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Passes and lowering of programs of each size."""
    target = Target.parse("sm_90")
    programs = {ops: chain(ops) for ops in OPS}
    integers = {ops: chain(ops, vc.i32) for ops in OPS}
    return {
        "passes_by_ops": {str(n): per_op(lambda p=p: optimize(p), n, repeats) for n, p in programs.items()},
        "lowering_by_ops": {str(n): per_op(lambda p=p: lower(p, target), n, repeats) for n, p in programs.items()},
        "compilation_of_integers_by_ops": {
            str(n): per_op(lambda p=p: lower(prepared(p), target), n, repeats) for n, p in integers.items()
        },
    }


def translation_by_type(repeats: int) -> dict[str, float]:
    """Passes and lowering of 200 ops of each type, in ms: the least of three times as many runs."""
    target = Target.parse("sm_90")
    programs = {str(type_): chain(200, type_) for type_ in NUMBERS}
    programs |= {f"{type_} with xor": with_xor(200, type_) for type_ in INTEGERS}
    programs["mixed"] = mixed(200)
    return {name: least_ms(lambda p=p: lower(prepared(p), target), 3 * repeats) for name, p in programs.items()}


def import_ms(repeats: int) -> float:
    """Wall time that `import vyre_cuda` adds to a process that has imported NumPy."""
    code = "import time, numpy; t = time.perf_counter(); import vyre_cuda; print((time.perf_counter() - t) * 1e3)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(repeats)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def first_function_ms(repeats: int) -> dict[str, float]:
    """What a process spends on its first kernel function (`harness/first_function.py`): the medians of many."""
    script = Path(__file__).with_name("harness") / "first_function.py"
    command = [sys.executable, str(script)]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(3 * repeats)
    ]
    return {step: round(statistics.median(run[step] for run in runs), 2) for step in runs[0]}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--quick", action="store_true", help="once each, to see that it works")
    options = parser.parse_args(arguments)
    repeats = 1 if options.quick else 9
    step_ns = calibration_ns(repeats)
    rate = emulator_rate(options.quick, repeats)
    figures = {
        "python_step_ns": round(step_ns, 2),
        "emulator_instructions_per_second": round(rate),
        "emulator_instructions_per_python_step": round(rate * step_ns / 1e9, 2),
        **translation(repeats),
        "compilation_of_200_ops_ms": translation_by_type(repeats),
        "import_ms_beyond_numpy": round(import_ms(repeats), 2),
        "first_function_ms": first_function_ms(repeats),
    }
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    document = {
        "schema": 2,
        "date": now,
        "commit": commit_name(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "figures": figures,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{now}-offline.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"written: {path}\n")
    for name, value in figures.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for row, figure in rows:
            print(f"{name:40} {row:>12} {figure}")


if __name__ == "__main__":
    main(sys.argv[1:])
