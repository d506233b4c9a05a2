"""One run: every curve from Python in this process, and its floors in processes of their own right after it."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import vyre_cuda as vc
from harness.curves.arguments import buffers, scalars
from harness.curves.base import Bench, Measures
from harness.curves.blocks import blocks
from harness.curves.calls import calls
from harness.curves.clock import Clock, WrongResult, summary
from harness.curves.resultfile import SCHEMA, CurveResult, Point, steps_of
from harness.curves.streams import streams
from harness.curves.table import CURVES, MORE_ARGUMENTS, Curve
from harness.curves.threads import threads
from harness.curves.twins import Floors
from harness.environment import describe
from harness.resultfile import Absence
from harness.timing import timer_ns
from harness.twins import driver_path

MEASURES: dict[str, Measures] = {
    "buffers": buffers,
    "scalars": scalars,
    "streams": streams,
    "threads": threads,
    "calls": calls,
    "blocks": blocks,
}
# What a way can raise that says something about this point alone.
_FAILURES = (vc.Error, WrongResult, TypeError, ValueError, AttributeError, RuntimeError, OSError, MemoryError)


class _Run:
    def __init__(self, bench: Bench, deadline: float) -> None:
        self.bench, self.deadline = bench, deadline
        self.points: list[Point] = []
        self.twins: list[Point] = []
        self.absent: list[Absence] = []
        self.failed: list[Absence] = []

    def curve(self, curve: Curve, items: Sequence[int]) -> None:
        """All of its points; what fails is said and does not stop others."""
        for n in items:
            if time.monotonic() > self.deadline:
                self.absent.append(Absence(f"{curve.id}/{n}", "no time was left"))
                continue
            try:
                self._point(curve, n)
            except _FAILURES as failure:
                self.failed.append(Absence(f"{curve.id}/{n}", f"{type(failure).__name__}: {failure}"))

    def _point(self, curve: Curve, n: int) -> None:
        for way, measure in MEASURES[curve.id](self.bench, n):
            try:
                self.points.append(Point(curve.id, way, n, **summary(measure())))  # type: ignore[arg-type]
            except _FAILURES as failure:
                self.failed.append(Absence(f"{curve.id}/{way}/{n}", f"{type(failure).__name__}: {failure}"))


def counts_of(curve: Curve, *, quick: bool) -> tuple[int, ...]:
    """The points of a curve. Loaded kernels have more scalars than programs."""
    if quick:
        return curve.quick
    return (*curve.points, *MORE_ARGUMENTS) if curve.id == "scalars" else curve.points


def run(options: argparse.Namespace) -> CurveResult:
    """The curves that `options.curves` names, or all."""
    emulated = options.device == "emulator"
    chosen = [curve for curve in CURVES if not options.curves or curve.id in options.curves]
    counts = {curve.id: counts_of(curve, quick=options.quick) for curve in chosen}
    clock = Clock(0.0, 4) if options.quick else Clock(options.seconds, 100)
    deadline = time.monotonic() + options.limit
    with tempfile.TemporaryDirectory() as folder, vc.Device(options.device) as device:
        properties = device.properties
        floors = Floors(Path(folder), device, counts, driver_path(emulator=emulated))
        made = _Run(Bench(device, clock, 1 << 24 if emulated else 1 << 28), deadline)
        for curve in chosen:
            made.curve(curve, counts[curve.id])
            twins, absent, failed = floors.measure(curve, counts[curve.id], clock.seconds)
            made.twins += twins
            made.absent += absent
            made.failed += failed
    return CurveResult(
        schema=SCHEMA,
        benchmark="curves",
        environment=describe(
            commit=options.commit,
            emulator=properties.is_emulator,
            device=properties.name,
            driver_version=properties.driver_version,
            python_timer_ns=timer_ns(),
            c_timer_ns=0.0,
        ),
        points=made.points,
        twins=made.twins,
        steps=steps_of(made.points),
        twin_steps=steps_of(made.twins),
        absent=made.absent,
        failed=made.failed,
    )
