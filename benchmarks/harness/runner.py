"""One run: rounds of passes, Python's and the other programs' in turn, then the start-up rows and the peers; all in
processes of their own.

The order alternates from round to round (Python, C; C, Python; ...), so that drift of the host meets both sides.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import peers

import vyre_cuda as vc
from harness import starts
from harness.counts import FULL, QUICK, Counts
from harness.environment import describe
from harness.processes import BENCHMARKS, ChildFailed, Pass, collect
from harness.resultfile import SCHEMA, Absence, Figure, Rate, Result, Series, TwinFigure
from harness.rows import CPP_TWINS, LAYER_ROWS, START_TWINS, Choice, Row, choose
from harness.timing import Line
from harness.twins import Twins, driver_path, prepare

# Of one process; a row that hangs costs this much.
_PROCESS_LIMIT_S = 90.0


@dataclass(slots=True)
class Passes:
    """All passes of all sides."""

    python: list[Pass] = field(default_factory=list)
    raw: list[Pass] = field(default_factory=list)
    layer: list[Pass] = field(default_factory=list)
    cpp: list[Pass] = field(default_factory=list)
    start: Pass = field(default_factory=Pass)

    @property
    def all(self) -> list[Pass]:
        return [*self.python, *self.raw, *self.layer, *self.cpp, self.start]


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The options of a run."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "emulator"], help="cuda: the first device")
    parser.add_argument("--quick", action="store_true", help="a handful of calls of each: no measurement")
    parser.add_argument("--rows", help="ids and tasks of the table, with commas; scaling and layer; all without it")
    parser.add_argument("--rounds", type=int, help="passes of each side; 5, or 1 with --quick")
    parser.add_argument("--core", default="auto", help="core for single-threaded rows: auto (the last), none, number")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results", help="folder of the result file")
    names = f"all, none, or some of {','.join(peers.NAMES)}"
    parser.add_argument("--peers", default="none", type=peers.chosen, help=names)
    parser.add_argument("--limit", type=float, default=480, help="seconds after which no new pass or peer begins")
    parser.add_argument("--commit", help="state of the project, where there is no git")
    parser.add_argument("--seed", type=int, help="of the inputs; a fresh one without it")
    return parser


def run(benchmark: str, options: argparse.Namespace) -> Result:
    """All passes. ChildFailed when a side does not get as far as its first row; a row that fails is in the result."""
    choice = choose(options.rows.split(",") if options.rows else None)
    seed = secrets.randbits(32) if options.seed is None else int(options.seed)
    deadline = time.monotonic() + options.limit
    counts = QUICK if options.quick else FULL
    driver = driver_path(emulator=options.device == "emulator")
    with tempfile.TemporaryDirectory() as name:
        with vc.Device(options.device) as device:
            properties = device.properties
            twins = prepare(Path(name), device, ids=choice.raw, seed=seed, counts=counts, driver=driver)
        passes = _passes(choice, twins, options, seed, deadline)
    if choice.start:
        _start(passes.start, options.device, driver, counts.starts)
    peer_figures, peer_failures = peers.run(options.peers, seed=seed, quick=options.quick, deadline=deadline)
    if choice.start:
        figures, failures = starts.measure_peers(options.peers, quick=options.quick, deadline=deadline)
        peer_figures, peer_failures = [*peer_figures, *figures], [*peer_failures, *failures]
    ours = _merge([*passes.python, *passes.cpp, passes.start])
    twin_series = _merge([*passes.raw, *passes.cpp, passes.start])
    headers = [passes.python[0].header if passes.python else {}, passes.raw[0].header if passes.raw else {}]
    return Result(
        schema=SCHEMA,
        benchmark=benchmark,
        seed=seed,
        environment=describe(
            commit=options.commit,
            emulator=properties.is_emulator,
            device=properties.name,
            driver_version=properties.driver_version,
            python_timer_ns=headers[0].get("timer_ns", 0.0),
            c_timer_ns=headers[1].get("timer_ns", 0.0),
        ),
        figures=[
            figure(row, ours[row.id], twin_series.get(row.twin), counts, is_emulator=properties.is_emulator)
            for row in (with_fastest_twin(row, twin_series) for row in choice.rows)
            if row.id in ours
        ],
        twins=[TwinFigure(id, s) for id, s in twin_series.items() if id in (*choice.raw, *CPP_TWINS, *START_TWINS)],
        layer=[TwinFigure(id, s) for id, s in _merge(passes.layer).items() if id in LAYER_ROWS],
        rates=_rates(passes),
        absent=_absences([each.absent for each in passes.all]),
        failed=_absences([each.failed for each in passes.all]),
        peers=peer_figures,
        peer_failures=peer_failures,
    )


def _passes(choice: Choice, twins: Twins, options: argparse.Namespace, seed: int, deadline: float) -> Passes:
    worker: list[str | Path] = [sys.executable, "-m", "harness.worker", "--device", options.device, "--seed", str(seed)]
    if options.quick:
        worker.append("--quick")
    core = ["--core", str(_core(options.core, options.device))]
    passes = Passes()
    python: tuple[list[Pass], Sequence[str | Path], Sequence[str]] = (passes.python, worker, choice.python)
    # The C++ host next to its twins.
    c = [
        (passes.raw, twins.raw, choice.raw),
        (passes.cpp, twins.host, choice.cpp),
        (passes.layer, twins.layer, choice.layer),
    ]
    rounds = options.rounds or (1 if options.quick else 5)
    for number in range(rounds):
        for into, command, ids in [python, *c] if number % 2 == 0 else [*c, python]:
            if not ids:
                continue
            if time.monotonic() > deadline:
                if not into:
                    into.append(Pass(failed=dict.fromkeys(ids, "no time left")))
                continue
            into.append(collect([*command, *core], ids, limit_s=_PROCESS_LIMIT_S))
    return passes


def _start(into: Pass, device: str, driver: str, starts_: int) -> None:
    try:
        into.lines.update(starts.measure(device, driver, starts_))
    except ChildFailed as error:
        into.failed["first_result"] = str(error)


def _core(word: str, device: str) -> int:
    """The core, or -1. The emulator's threads would share it, so there is none there."""
    if word == "none" or device == "emulator":
        return -1
    return max(os.sched_getaffinity(0)) if word == "auto" else int(word)


def _merge(passes: Sequence[Pass]) -> dict[str, Series]:
    """The passes' lines, by id, in the order of the first pass that has them."""
    ids = dict.fromkeys(id for each in passes for id in each.lines)
    return {id: merge_series([each.lines[id] for each in passes if id in each.lines]) for id in ids}


def merge_series(lines: Sequence[Line]) -> Series:
    """One series from the same one of each pass."""
    medians = [line.median_ns / 1e3 for line in lines]
    return Series(
        median_us=round(statistics.median(medians), 4),
        p99_us=round(max(line.p99_ns for line in lines) / 1e3, 4),
        passes=[round(median, 4) for median in medians],
        samples=sum(line.n for line in lines),
        calls_per_sample=lines[0].calls,
    )


def with_fastest_twin(row: Row, twins: Mapping[str, Series]) -> Row:
    """The row with the one of its twins whose best pass is the least; the first where none was measured."""
    measured = [name for name in row.twins if name in twins]
    return replace(row, twin=min(measured, key=lambda name: twins[name].best_us), others=()) if measured else row


def figure(row: Row, series: Series, twin: Series | None, counts: Counts, *, is_emulator: bool) -> Figure:
    """A row with its twin and what its target says of both."""
    limit_us = row.target.limit_us(twin.best_us if twin else None) if row.target else None
    has_verdict = limit_us is not None and not is_emulator
    return Figure(
        id=row.id,
        task=row.task,
        what=row.what,
        series=series,
        twin=row.twin,
        twin_median_us=twin.median_us if twin else None,
        twin_p99_us=twin.p99_us if twin else None,
        ratio=round(series.median_us / twin.median_us, 4) if twin else None,
        difference_us=round(series.median_us - twin.median_us, 4) if twin else None,
        target=str(row.target or ""),
        limit_us=None if limit_us is None else round(limit_us, 4),
        verdict=("met" if series.best_us <= (limit_us or 0.0) else "missed") if has_verdict else "",
        bytes_moved=sum(4 * int(getattr(counts, name)) for name in row.moves),
    )


def _rates(passes: Passes) -> list[Rate]:
    found = []
    for side, ours in (("python", passes.python), ("layer", passes.layer), ("raw", passes.raw)):
        key = f"scaling_{side}"
        for threads in sorted({n for each in ours for id, n in each.rates if id == key}):
            rates = [each.rates[key, threads] for each in ours if (key, threads) in each.rates]
            found.append(Rate(side, threads, round(statistics.median(rates), 1), rates))
    return found


def _absences(found: Sequence[dict[str, str]]) -> list[Absence]:
    return [Absence(id, reason) for id, reason in {id: why for each in found for id, why in each.items()}.items()]
