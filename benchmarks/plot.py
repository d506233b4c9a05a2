"""A result file as a picture: for each task, bars of this package, the C twins and the peers. Needs matplotlib.

python plot.py RESULT.json PICTURE.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.report import EMULATOR_NOTE
from harness.resultfile import BadResultFile, Result, load
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

TITLES = {
    "replay_enqueue": "enqueue, nothing changed",
    "launch_enqueue": "enqueue, arguments changed",
    "launch_sync": "launch and synchronize",
    "host_dispatch": "host arrays in and out, 3 x 4 KiB",
}
COLORS = {"twin": "#7f7f7f", "ours": "#2a7f3f", "peer": "#4c78a8"}
_INCH_PER_BAR = 0.28


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
        [Bar(f"C: {id}", "twin", median_us) for id, median_us in twins.items()],
        [Bar(f"vyre_cuda: {figure.what}", "ours", figure.series.median_us) for figure in figures],
        [Bar(f"{p.peer}: {p.what}", "peer", p.series.median_us) for p in result.peers if p.task == task],
    ]
    return [bar for group in groups for bar in sorted(group, key=lambda bar: bar.median_us)]


def draw(result: Result, path: Path) -> None:
    """Write the picture; its format follows the file name."""
    tasks = list(dict.fromkeys(figure.task for figure in result.figures))
    rows = [bars(result, task) for task in tasks]
    height = sum(len(row) * _INCH_PER_BAR + 0.8 for row in rows) + 0.6
    picture = Picture(figsize=(9, height), layout="constrained")
    axes = picture.subplots(len(tasks), 1, squeeze=False, height_ratios=[len(row) + 2 for row in rows])
    for axis, task, row in zip(axes[:, 0], tasks, rows, strict=True):
        _draw_task(axis, TITLES.get(task, task), row)
    title = f"{result.title}\n{EMULATOR_NOTE}" if result.environment.emulator else result.title
    picture.suptitle(title, fontsize=9)
    picture.savefig(path, dpi=150)


def _draw_task(axis: Axes, title: str, row: Sequence[Bar]) -> None:
    container = axis.barh(
        [bar.label for bar in row], [bar.median_us for bar in row], color=[COLORS[bar.kind] for bar in row]
    )
    axis.bar_label(container, fmt="%.2f", padding=3, fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel("median, µs", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def main(words: Sequence[str] | None = None) -> int:
    """0 when the picture was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args(words)
    try:
        draw(load(options.result), options.picture)
    except (OSError, BadResultFile) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
