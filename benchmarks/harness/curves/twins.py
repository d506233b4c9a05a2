"""The floors of the curves, by raw/curve_driver.c: one process for each curve and way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import vyre_cuda as vc
from harness.curves.programs import spin, sum_of
from harness.curves.resultfile import Point
from harness.curves.table import MOST_PARAMETERS, Curve
from harness.processes import ChildFailed, run_lines
from harness.programs import lowered_for, write_kernel
from harness.resultfile import Absence
from harness.twins import build_curves

_LIMIT_S = 60.0


class Floors:
    """The points of the twins. `counts`: the items at which each curve is measured."""

    def __init__(self, folder: Path, device: vc.Device, counts: Mapping[str, Sequence[int]], driver: str) -> None:
        self.folder, self.driver = folder, driver
        programs = {"spin": spin(), "buffers_1": sum_of(1, 0)}
        programs |= {f"buffers_{n}": sum_of(n, 0) for n in counts.get("buffers", ())}
        programs |= {f"scalars_{n}": sum_of(1, n) for n in counts.get("scalars", ()) if n + 2 <= MOST_PARAMETERS}
        for name, program in programs.items():
            write_kernel(folder, name, program, lowered_for(device, program))
        self.program = build_curves(folder)

    def measure(
        self, curve: Curve, items: Sequence[int], seconds: float
    ) -> tuple[list[Point], list[Absence], list[Absence]]:
        """The points of a curve, what the driver lacks for others, and what went wrong."""
        points: list[Point] = []
        absent: list[Absence] = []
        failed: list[Absence] = []
        words = ["--driver", self.driver, "--folder", str(self.folder), "--seconds", str(seconds)]
        for way in curve.twins:
            wanted = [f"{curve.id}:{way}:{n}" for n in items if curve.id != "scalars" or n + 2 <= MOST_PARAMETERS]
            try:
                rows = run_lines([self.program, *words, *wanted], limit_s=_LIMIT_S)
            except ChildFailed as failure:
                rows = failure.rows
                failed.append(Absence(f"twin {curve.id}/{way}", str(failure)))
            found = {row["items"]: row for row in rows if "best_us" in row}
            points += [Point(**row) for row in found.values()]
            without = {row["absent"] for row in rows if "absent" in row}
            absent += [Absence(f"twin {curve.id}/{way}", f"the driver lacks {name}") for name in sorted(without)]
        return points, absent, failed
