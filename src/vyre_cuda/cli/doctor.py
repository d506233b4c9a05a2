"""`vyre-cuda doctor`: checks the driver, devices, caches and permissions for problems, and whether a
kernel gives correct results in the time to expect on this machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cli import findings, sharing
from vyre_cuda.cli.console import Console
from vyre_cuda.cli.demo import saxpy
from vyre_cuda.cli.devices import describe, opened
from vyre_cuda.cli.failures import UsageError
from vyre_cuda.cli.findings import Finding
from vyre_cuda.cli.measurements import EMULATED, QUICK, Measured, floors, measured, table_of_floors, table_of_ways
from vyre_cuda.cli.progress import Progress
from vyre_cuda.cli.timing import EMULATED as EMULATED_NOTE
from vyre_cuda.cli.timing import Timing, duration
from vyre_cuda.errors import Error
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.cli import steps
else:
    steps = later("vyre_cuda.cli.steps")  # it loads the extension

# Nanoseconds above its floor that a bound call may take before this is reported.
_CALL_ABOVE_NS = 2_000.0
# The ratio of the 99th percentile of round trips to the median above which this is reported as jitter.
_JITTER_TIMES = 10.0
_STEP_REPLAYS = 500
_MARKS = {"ok": "ok  ", "note": "note", "warning": "WARN", "failure": "FAIL"}


def doctor(console: Console, *, device: str, measures: bool) -> int:
    """Inspect, try and measure; 1 if something that a call needs fails."""
    progress = Progress(console)
    found = [*findings.environment(), *findings.driver(wanted=device), *findings.caches()]
    known: dict[str, Timing] = {}
    ways: list[Measured] = []
    where = None
    emulated = False
    try:
        with opened(device, console) as on:
            where, emulated = describe(on), on.properties.is_emulator
            found += [*findings.device(on), *sharing.workers(on.properties), _trial(on)]
            if measures:
                effort = EMULATED if emulated else QUICK
                known = floors(on, effort, progress)
                ways = list(measured(on, effort, known, progress, more=False))
                steps_us = steps.measured(on, effort.large_calls if emulated else _STEP_REPLAYS)
                if not emulated:
                    found += [*_judged(known, ways), *steps.judged(on.properties.compute_capability, steps_us)]
    except (Error, UsageError) as error:
        found.append(Finding("device", "failure", str(error)))
    failed = any(each.status == "failure" for each in found)
    if console.json:
        console.data(_document(where, emulated, found, known, ways, failed))
    else:
        _print(console, where, emulated, found, known, ways, failed)
    return int(failed)


def _trial(device: vc.Device) -> Finding:
    """One kernel from its program to its result, against the reference interpreter."""
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    program = saxpy()
    got, expected = (np.asarray(run(x, y, 2.5)) for run in (device.compile(program), partial(vc.evaluate, program)))
    differing = int(np.count_nonzero(got.view(np.uint32) != expected.view(np.uint32)))
    if differing:
        return Finding("trial", "failure", f"{differing} of {x.size} elements differ from the reference interpreter")
    return Finding("trial", "ok", f"a kernel of {x.size} elements matches the reference interpreter")


def _judged(known: dict[str, Timing], ways: list[Measured]) -> list[Finding]:
    """What the measurements say about the machine."""
    found = []
    call = next(each for each in ways if each.id == "call")
    if call.above_ns is not None and call.above_ns > _CALL_ABOVE_NS:
        advice = "look for a busy or slow core: another process, a power-saving governor, CUDA_LAUNCH_BLOCKING"
        text = f"a bound call takes {duration(call.above_ns)} longer than the driver call it makes"
        found.append(Finding("overhead", "warning", text, advice))
    trip = known["graph_round_trip"]
    if trip.p99_ns > _JITTER_TIMES * trip.median_ns:
        text = (
            f"the slowest 1% of round trips take {duration(trip.p99_ns)} or more; the "
            f"median is {duration(trip.median_ns)}"
        )
        found.append(Finding("jitter", "warning", text, "give the process a core of its own (taskset, cgroups)"))
    return found or [Finding("figures", "ok", "the overhead of calls is as low as it should be")]


def _document(
    where: str | None,
    emulated: bool,
    found: list[Finding],
    known: dict[str, Timing],
    ways: list[Measured],
    failed: bool,
) -> dict[str, Any]:
    return {
        "version": vc.__version__,
        "device": where,
        "is_emulator": emulated,
        "healthy": not failed,
        "findings": [each.as_json() for each in found],
        "floors_ns": {name: timing.as_json() for name, timing in known.items()},
        "rows": {each.id: each.as_json() for each in ways},
    }


def _print(
    console: Console,
    where: str | None,
    emulated: bool,
    found: list[Finding],
    known: dict[str, Timing],
    ways: list[Measured],
    failed: bool,
) -> None:
    console.heading(f"vyre_cuda {vc.__version__}")
    width = max(len(each.subject) for each in found)
    for each in found:
        console.line(f"  {_MARKS[each.status]}  {each.subject.ljust(width)}  {each.text}")
        if each.advice:
            console.line(f"        {' ' * width}  -> {each.advice}")
    if known:
        console.heading(f"{where}: driver calls alone")
        console.line("\n".join(table_of_floors(known)))
        console.heading("vyre_cuda from Python, compared with them")
        console.line("\n".join(table_of_ways(ways)))
        if emulated:
            console.line(f"  {EMULATED_NOTE}")
    console.line("problems were found: see FAIL above" if failed else "no problems that affect calls")
