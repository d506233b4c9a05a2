"""One run of a benchmark: passes in the order Python, C, C, Python, then the peers; all in processes of their own.

A benchmark is a list of cases and a script that prints the lines of its Python side when called with --worker.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers

import vyre_cuda as vc
from harness.environment import describe
from harness.inputs import input_sets
from harness.processes import BENCHMARKS, run_lines
from harness.resultfile import SCHEMA, Figure, Result, Series, TwinFigure
from harness.saxpy import lowered_for
from harness.timing import Line
from harness.twins import prepare
from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

_PYTHON_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One way of doing a task from Python, and the twin that does the same in C."""

    id: str
    task: str
    twin: str
    what: str


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "emulator"], help="cuda: the first device")
    parser.add_argument("--quick", action="store_true", help="a handful of calls of each: no measurement")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results", help="folder of the result file")
    names = f"all, none, or some of {','.join(peers.NAMES)}"
    parser.add_argument("--peers", default="none", type=peers.chosen, help=names)
    parser.add_argument("--commit", help="state of the project, where there is no git")
    parser.add_argument("--raw", type=Path, help="a built raw_driver; without it, one is built")
    parser.add_argument("--seed", type=int, help="of the inputs; a fresh one without it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def run(benchmark: str, script: Path, cases: Sequence[Case], options: argparse.Namespace) -> Result:
    """All passes. ChildFailed when the Python or the C side fails; a peer that fails is noted in the result."""
    seed = secrets.randbits(32) if options.seed is None else int(options.seed)
    with vc.Device(options.device) as device:
        properties, lowered = device.properties, lowered_for(device)
    worker: list[str | Path] = [sys.executable, script, "--worker", "--device", options.device, "--seed", str(seed)]
    if options.quick:
        worker.append("--quick")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        twins = prepare(
            folder,
            lowered,
            input_sets(seed),
            driver=_driver_library(options.device),
            binary=options.raw.resolve() if options.raw else None,
            quick=options.quick,
        )
        python, c = [run_lines(worker, limit_s=_PYTHON_LIMIT_S)], [twins.run()]
        c.append(twins.run())
        python.append(run_lines(worker, limit_s=_PYTHON_LIMIT_S))
    peer_figures, peer_failures = peers.run(options.peers, seed=seed, quick=options.quick)
    series, twin_series = _merge(python), _merge(c)
    return Result(
        schema=SCHEMA,
        benchmark=benchmark,
        seed=seed,
        environment=describe(
            commit=options.commit,
            emulator=properties.is_emulator,
            device=properties.name,
            driver_version=properties.driver_version,
            python_timer_ns=python[0][0]["timer_ns"],
            c_timer_ns=c[0][0]["timer_ns"],
        ),
        figures=[_figure(case, series, twin_series) for case in cases],
        twins=[TwinFigure(id, series) for id, series in twin_series.items()],
        peers=peer_figures,
        peer_failures=peer_failures,
    )


def emit_header(device: vc.Device, timer_ns: float) -> None:
    """The first line of a worker."""
    properties = device.properties
    header = {"device": properties.name, "driver_version": properties.driver_version, "timer_ns": timer_ns}
    print(json.dumps(header), flush=True)


def _driver_library(device: str) -> str:
    if device == "emulator":
        return str(Path(get_library_dir()) / EMULATOR_LIBRARY)
    return os.environ.get("VYRE_CUDA_DRIVER") or "libcuda.so.1"


def _merge(passes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Series]:
    """The passes' lines, by id, in the order of the first pass."""
    lines = [{row["id"]: Line(**row) for row in rows if "id" in row} for rows in passes]
    return {id: merge_series([each[id] for each in lines]) for id in lines[0]}


def merge_series(lines: Sequence[Line]) -> Series:
    """One series from the same one of each pass."""
    medians = [line.median_ns / 1e3 for line in lines]
    return Series(
        median_us=round(sum(medians) / len(medians), 4),
        p99_us=round(max(line.p99_ns for line in lines) / 1e3, 4),
        passes=[round(median, 4) for median in medians],
        samples=sum(line.n for line in lines),
        calls_per_sample=lines[0].calls,
    )


def _figure(case: Case, ours: Mapping[str, Series], twins: Mapping[str, Series]) -> Figure:
    series, twin = ours[case.id], twins[case.twin]
    return Figure(
        id=case.id,
        task=case.task,
        what=case.what,
        series=series,
        twin=case.twin,
        twin_median_us=twin.median_us,
        twin_p99_us=twin.p99_us,
        ratio=round(series.median_us / twin.median_us, 4),
        difference_us=round(series.median_us - twin.median_us, 4),
    )
