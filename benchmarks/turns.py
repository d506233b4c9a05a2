"""Rows of several installations of the package, each in many fresh processes, in turns.

    python benchmarks/turns.py old=FOLDER new= [--processes 20] [--seconds 200] [--device cuda] [--output FILE]

NAME=FOLDER is an installation made by `pip install --target FOLDER`; nothing after the `=` stands for the one that
this Python has. On many hosts a process is fast or slow from its start on, whatever version it runs: with one process
of each side that decides which looks faster. So each process measures every row for a tenth of a second, keeps its
median, and the next one is of the other side. Shown are the least and the quartiles of those medians, in microseconds,
and in how many of all pairs of processes the last side was slower than the first: a half if they are alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter_ns
from typing import Any

ROW_SECONDS = 0.1
CALLS = 100  # of a block that is timed as one


def rows_of(device: Any) -> Iterator[tuple[str, Callable[[], object], Callable[[], object] | None]]:
    """Name, call, and what waits for it outside the time: None for calls that are timed one by one."""
    import numpy as np

    import vyre_cuda as vc

    def saxpy(name: str, *, partly: bool) -> Any:
        b = vc.Builder(name, block=256)
        x, y = b.input("x", vc.f32), b.input("y", vc.f32)
        out = b.output("out", vc.f32, size=x.size)
        a = b.scalar("a", vc.f32)
        i = b.let("i", vc.global_id.x)
        with b.if_(i < out.size):
            if partly:
                with b.if_(x[i] > 0.0):
                    out[i] = a * x[i] + y[i]
            else:
                out[i] = a * x[i] + y[i]
        return device.compile(b.build())

    whole, partly = saxpy("saxpy", partly=False), saxpy("select", partly=True)
    numbers = np.arange(1024, dtype=np.float32)
    stream = device.stream()
    first, second = ([device.array(numbers) for _ in range(3)] for _ in range(2))
    wait = stream.synchronize
    for kernel, name in ((whole, "bound call"), (partly, "bound call that clears")):
        call = kernel.bind(*first, 2.0, stream=stream)
        yield f"{name}, nothing changed", call, wait
        yield f"{name}, all changed", changing(call, first, second), wait
    launch = whole.launch
    yield "launch", lambda: launch(*first, 2.0, stream=stream), wait
    yield "launch, synchronize", lambda: (launch(*first, 2.0, stream=stream), wait()), None
    call = whole.bind(*first, 2.0, stream=stream)
    yield "bound call, synchronize", lambda: (call(), wait()), None
    out = np.empty_like(numbers)
    yield "call with host arrays", lambda: whole(numbers, numbers, 2.0, out=out), None
    pinned = [device.pinned_empty(1024, vc.f32) for _ in range(3)]
    yield "the same, page-locked", lambda: whole(pinned[0], pinned[1], 2.0, out=pinned[2]), None
    yield "small upload", lambda: (first[0].copy_from(numbers), device.synchronize()), None
    yield "stream.record()", stream.record, wait
    yield "dev.empty, dropped", lambda: device.empty(1024, vc.f32), wait
    with device.record() as graph:
        whole.launch(*first, 2.0)
    yield "graph.replay()", lambda: graph.replay(stream=stream), wait


def changing(call: Any, first: list[Any], second: list[Any]) -> Callable[[], object]:
    """A call that gets the other arrays and the other scalar each time."""
    sets = [(*first, 2.0), (*second, 3.0)]
    turn = 0

    def change() -> None:
        nonlocal turn
        turn ^= 1
        call(*sets[turn])

    return change


def measure(device_name: str) -> dict[str, float]:
    """The median of each row in this process, in microseconds."""
    import vyre_cuda as vc

    medians: dict[str, float] = {}
    with vc.Device(device_name) as device:
        for name, call, wait in rows_of(device):
            medians[name] = median_of(call, wait)
    return medians


def median_of(call: Callable[[], object], wait: Callable[[], object] | None) -> float:
    calls = range(1 if wait is None else CALLS)
    times: list[int] = []
    end = perf_counter_ns() + int(ROW_SECONDS * 1e9)
    while perf_counter_ns() < end or len(times) < 3:
        begin = perf_counter_ns()
        for _ in calls:
            call()
        times.append(perf_counter_ns() - begin)
        if wait is not None:
            wait()
    return statistics.median(times) / len(calls) / 1000


def one_process(folder: str, device: str, timeout: float) -> dict[str, float]:
    """What a fresh process measures, away from this source tree."""
    environment = dict(os.environ)
    if folder:
        environment["PYTHONPATH"] = os.path.abspath(folder)
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [sys.executable, os.path.abspath(__file__), "--child", "--device", device]
        done = subprocess.run(
            command, env=environment, cwd=elsewhere, capture_output=True, text=True, check=False, timeout=timeout
        )
    if done.returncode != 0:
        raise SystemExit(f"{folder or 'the installed package'}: {done.stderr}")
    medians: dict[str, float] = json.loads(done.stdout)
    return medians


def in_turns(sides: dict[str, str], options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Side, row, and the median of each process."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in sides}
    end = monotonic() + options.seconds
    for turn in range(options.processes):
        begun = monotonic()
        for name in list(sides) if turn % 2 == 0 else reversed(list(sides)):
            for row, median in one_process(sides[name], options.device, 120.0).items():
                found[name].setdefault(row, []).append(median)
        print(f"turn {turn + 1} of {options.processes}", file=sys.stderr, flush=True)
        if monotonic() + (monotonic() - begun) > end:
            break
    return found


def report(found: dict[str, dict[str, list[float]]]) -> str:
    """A line for each row and side."""
    names = list(found)
    first, last = found[names[0]], found[names[-1]]
    turns = len(next(iter(first.values())))
    lines = [
        f"{turns} processes of each side, medians in us",
        f"{'':46}{'least':>10}{'25 %':>10}{'50 %':>10}{'75 %':>10}",
    ]
    for row in last:
        for name in names:
            values = found[name][row]
            quarters = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
            lines.append(f"{row + ', ' + name:46}" + "".join(f"{v:10.3f}" for v in (min(values), *quarters)))
        slower = [(a < b) + (a == b) / 2 for a in first[row] for b in last[row]]
        lines.append(f"{'':46}{names[-1]} slower than {names[0]} in {statistics.mean(slower):.0%} of pairs")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--processes", type=int, default=20, help="of each side")
    parser.add_argument("--seconds", type=float, default=200.0, help="no new turn begins that would end later")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", help="a JSON file with the median of each process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.device)))
        return
    sides = dict(side.split("=", 1) for side in options.sides if "=" in side)
    if len(sides) < 2 or len(sides) != len(options.sides):
        parser.error("name at least two installations, as old=FOLDER new=")
    found = in_turns(sides, options)
    print(report(found))
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
