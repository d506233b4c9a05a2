"""A result file as a picture: for each task, bars of this package, the C twins and the peers; then launches over
threads. Needs matplotlib.

python plot.py RESULT.json PICTURE.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from harness.curves.report import columns
from harness.curves.resultfile import CurveResult
from harness.curves.table import CURVES
from harness.report import EMULATOR_NOTE, SIDES, us
from harness.resultfile import BadResultFile, Result, load
from harness.rows import TASKS
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

COLORS = {"twin": "#7f7f7f", "ours": "#2a7f3f", "peer": "#4c78a8"}
SIDE_COLORS = {"python": COLORS["ours"], "layer": "#8fbf6f", "raw": COLORS["twin"]}
_INCH_PER_BAR = 0.26
_INCH_PER_TITLE = 0.62
_CURVE_INCHES = 3.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `kind` is a key of COLORS."""

    label: str
    kind: str
    median_us: float


def bars(result: Result, task: str) -> list[Bar]:
    """The twins of the task, our ways of doing it, then the peers'; each group from fast to slow."""
    figures = [figure for figure in result.figures if figure.task == task]
    twins = {figure.twin: figure.twin_median_us for figure in figures}
    groups = [
        [Bar(f"C: {id}", "twin", median_us) for id, median_us in twins.items() if median_us is not None],
        [Bar(f"vyre_cuda: {figure.what}", "ours", figure.series.median_us) for figure in figures],
        [Bar(f"{p.peer}: {p.what}", "peer", p.series.median_us) for p in result.peers if p.task == task],
    ]
    return [bar for group in groups for bar in sorted(group, key=lambda bar: bar.median_us)]


def draw(result: Result, path: Path, *, source: str) -> None:
    """Write the picture; its format follows the file name, and an SVG says which `source` it was made from."""
    tasks = [task for task in TASKS if any(figure.task == task for figure in result.figures)]
    rows = [bars(result, task) for task in tasks]
    heights = [len(row) * _INCH_PER_BAR + _INCH_PER_TITLE for row in rows]
    if result.rates:
        heights.append(_CURVE_INCHES)
    picture = Picture(figsize=(9, sum(heights) + 0.6), layout="constrained")
    axes = picture.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    for axis, task, row in zip(axes[:, 0], tasks, rows, strict=False):
        _draw_task(axis, TASKS[task], row)
    if result.rates:
        _draw_rates(axes[-1, 0], result)
    title = f"{result.title}\n{EMULATOR_NOTE}" if result.environment.emulator else result.title
    picture.suptitle(title, fontsize=9)
    _write(picture, path, source)


def _write(picture: Picture, path: Path, source: str) -> None:
    metadata = {"Source": source, "Date": None} if path.suffix == ".svg" else None
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "vyre_cuda"}):
        picture.savefig(path, dpi=150, metadata=metadata)


def _draw_task(axis: Axes, title: str, row: Sequence[Bar]) -> None:
    container = axis.barh(
        [bar.label for bar in row], [bar.median_us for bar in row], color=[COLORS[bar.kind] for bar in row]
    )
    axis.bar_label(container, [us(bar.median_us) for bar in row], padding=3, fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_title(f"{title}, µs", fontsize=10, loc="left")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_rates(axis: Axes, result: Result) -> None:
    for side, name in SIDES.items():
        points = [(rate.threads, rate.launches_per_second / 1e3) for rate in result.rates if rate.side == side]
        if points:
            axis.plot(*zip(*points, strict=True), marker="o", label=name, color=SIDE_COLORS[side])
    axis.set_title("launches a second over threads, thousands", fontsize=10, loc="left")
    axis.set_xlabel("threads", fontsize=8)
    axis.set_xticks(sorted({rate.threads for rate in result.rates}))
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def draw_curves(result: CurveResult, path: Path, *, source: str) -> None:
    """Write the picture of the curves, as `draw` does."""
    shown = [curve for curve in CURVES if columns(curve, result)]
    picture = Picture(figsize=(9, _CURVE_INCHES * len(shown) + 0.6), layout="constrained")
    axes = picture.subplots(len(shown), 1, squeeze=False)
    for axis, curve in zip(axes[:, 0], shown, strict=True):
        for what, costs in columns(curve, result):
            style = "--" if what.startswith("C: ") else "-"
            axis.plot(*zip(*sorted(costs.items()), strict=True), style, marker=".", label=what)
        axis.set_title(f"{curve.title}, best µs", fontsize=10, loc="left")
        axis.set_xlabel(curve.counted, fontsize=8)
        axis.set_xscale("symlog", base=2, linthresh=1)
        axis.set_yscale("log")
        axis.legend(fontsize=7)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    e = result.environment
    title = f"{e.device}, commit {e.commit}, {e.date}"
    picture.suptitle(f"{title}\n{EMULATOR_NOTE}" if e.emulator else title, fontsize=9)
    _write(picture, path, source)


def main(words: Sequence[str] | None = None) -> int:
    """0 when the picture was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(words)
    try:
        draw(load(options.result), options.picture, source=options.result.name)
    except (OSError, BadResultFile) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
