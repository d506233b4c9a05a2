"""Tables of curves: a line for each number of items, a column for each way."""

from __future__ import annotations

from collections.abc import Sequence

from harness.curves.resultfile import CurveResult, CurveStep, Point
from harness.curves.table import CURVES, Curve
from harness.report import EMULATOR_NOTE, table, us


def columns(curve: Curve, result: CurveResult) -> list[tuple[str, dict[int, float]]]:
    """The ways that were measured, then the twins: what each is, and best microseconds by items."""

    def of(points: Sequence[Point], names: dict[str, str], prefix: str) -> list[tuple[str, dict[int, float]]]:
        found = []
        for way, what in names.items():
            costs = {p.items: p.best_us for p in points if (p.curve, p.way) == (curve.id, way)}
            if costs:
                found.append((f"{prefix}{what}", costs))
        return found

    return [*of(result.points, curve.ways, ""), *of(result.twins, curve.twins, "C: ")]


def rows(curve: Curve, result: CurveResult) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table of a curve."""
    found = columns(curve, result)
    items = sorted({n for _, costs in found for n in costs})
    header = [curve.counted, *(what for what, _ in found)]
    return header, [[f"{n:,}", *(us(costs.get(n)) for _, costs in found)] for n in items]


def told(step: CurveStep) -> str:
    """One step in words."""
    curve = next(curve for curve in CURVES if curve.id == step.curve)
    what = {**curve.twins, **curve.ways}[step.way]
    return f"{curve.title}, {what}: from {step.before:,} to {step.items:,} {curve.counted} {step.ratio:.2f} x"


def summary(result: CurveResult) -> str:
    """All of a result, for people."""
    e = result.environment
    parts = [f"curves: {e.device}, driver {e.driver or e.driver_api}, commit {e.commit}, {e.date}"]
    if e.emulator:
        parts.append(EMULATOR_NOTE)
    for curve in CURVES:
        header, lines = rows(curve, result)
        if lines:
            parts.append(f"{curve.title}, best us\n{table(header, lines)}")
    parts.append("steps:\n" + ("\n".join(map(told, result.steps)) or "none"))
    for title, found in (("not measured", result.absent), ("FAILED", result.failed)):
        if found:
            parts.append(f"{title}:\n" + "\n".join(f"{each.id}: {each.reason}" for each in found))
    return "\n\n".join(parts)
