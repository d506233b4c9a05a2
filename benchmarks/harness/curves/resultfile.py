"""The result file of curves: points of the package, those of the twins, and the steps that were found.

Times are microseconds of one call. A file made on the emulator says so, as those of other benchmarks do.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.curves.steps import steps
from harness.curves.table import CURVES
from harness.resultfile import Absence, BadResultFile, Environment

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Point:
    """`best_us` and `median_us` are of `samples` blocks of calls."""

    curve: str
    way: str
    items: int
    best_us: float
    median_us: float
    samples: int


@dataclass(frozen=True, slots=True)
class CurveStep:
    """A step (see `steps`) of the best times of one way."""

    curve: str
    way: str
    before: int
    items: int
    ratio: float


@dataclass(frozen=True, slots=True)
class CurveResult:
    """One run. `absent` points could not be tried, `failed` ones went wrong; ids are curve/way/items."""

    schema: int
    benchmark: str
    environment: Environment
    points: list[Point]
    twins: list[Point]
    steps: list[CurveStep]
    twin_steps: list[CurveStep]
    absent: list[Absence]
    failed: list[Absence]


def steps_of(points: list[Point]) -> list[CurveStep]:
    """The steps of every curve and way, by its best times, which the host disturbed least."""
    found = []
    for curve in CURVES:
        for way in dict.fromkeys(point.way for point in points if point.curve == curve.id):
            costs = {p.items: p.best_us for p in points if (p.curve, p.way) == (curve.id, way)}
            found += [CurveStep(curve.id, way, s.before, s.items, s.ratio) for s in steps(costs, each=curve.each)]
    return found


def load_curves(path: Path) -> CurveResult:
    """Read a result; BadResultFile when it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise BadResultFile(f"{path}: schema {data['schema']}; this version reads {SCHEMA}")
        lists = {"points": Point, "twins": Point, "steps": CurveStep, "twin_steps": CurveStep}
        lists |= {"absent": Absence, "failed": Absence}
        read = {name: [kind(**row) for row in data[name]] for name, kind in lists.items()}
        return CurveResult(**{**data, **read, "environment": Environment(**data["environment"])})
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadResultFile(f"{path} is no result file of curves: {error}") from None


def as_json(result: CurveResult) -> str:
    """A point a line, which keeps the file short."""
    rows = []
    for name, value in asdict(result).items():
        if isinstance(value, list):
            lines = ",\n".join("  " + json.dumps(row) for row in value)
            rows.append(f' "{name}": [\n{lines}\n ]' if value else f' "{name}": []')
        else:
            rows.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(rows) + "\n}\n"
