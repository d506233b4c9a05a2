"""Writes the tables of docs/performance.md, and its pictures, from the newest result files of a GPU.

python page.py              after a run on a GPU; the pictures need matplotlib
python page.py --check      writes nothing; exit code 1 when page or pictures are of another file

When the newest file has no peers, the comparison with those, and the picture, are of the newest that has some.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.curves.report import rows as curve_rows
from harness.curves.report import told
from harness.curves.resultfile import CurveResult, load_curves
from harness.curves.table import CURVES
from harness.processes import BENCHMARKS
from harness.report import SIDES, us
from harness.resultfile import Figure, PeerFigure, Result, load
from harness.rows import ROWS, TASKS

PAGE = BENCHMARKS.parent / "docs" / "performance.md"
PICTURE = PAGE.with_suffix(".svg")
CURVE_PICTURE = PAGE.with_name("performance-curves.svg")
RESULTS = BENCHMARKS / "results"
BEGIN = "<!-- figures: begin; written by benchmarks/page.py -->\n"
_FROM_PYTHON = {row.id for row in ROWS if row.side == "python"}
END = "<!-- figures: end -->\n"
BEGIN_CURVES = "<!-- curves: begin; written by benchmarks/page.py -->\n"
END_CURVES = "<!-- curves: end -->\n"


class NoResults(Exception):
    """There is no result file of a GPU."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The newest result, the newest one with peers (else the same), and the names of their files."""

    result: Result
    name: str
    compared: Result
    compared_name: str


def newest(folder: Path) -> Shown:
    """What the page shows."""
    found = [(load(path), path.name) for path in folder.glob("*-dispatch.json")]
    files = sorted((f for f in found if not f[0].environment.emulator), key=lambda f: f[0].environment.date)
    if not files:
        raise NoResults(f"no result file of a GPU in {folder}")
    return Shown(*files[-1], *next((f for f in reversed(files) if f[0].peers), files[-1]))


def newest_curves(folder: Path) -> tuple[CurveResult, str] | None:
    """The newest result of the curves and the name of its file; None before the first run on a GPU."""
    found = [(load_curves(path), path.name) for path in folder.glob("*-curves.json")]
    files = sorted((f for f in found if not f[0].environment.emulator), key=lambda f: f[0].environment.date)
    return files[-1] if files else None


def curves(found: tuple[CurveResult, str] | None) -> str:
    """The generated part about curves, in Markdown."""
    if found is None:
        return "Not measured on a GPU yet: `python benchmarks/curves.py`.\n"
    result, name = found
    e = result.environment
    machine = f"{e.device}, driver {e.driver} (API {e.driver_api}), commit `{e.commit}`, {e.date}."
    parts = [
        f"Measured on: {machine}\nFrom `{name}`.",
        f"![Cost of a call over what is counted]({CURVE_PICTURE.name})",
        "Best times of a call, in microseconds.",
    ]
    for curve in CURVES:
        header, lines = curve_rows(curve, result)
        if lines:
            parts.append(f"### {curve.title[0].upper()}{curve.title[1:]}\n\n{_table(header, lines)}")
    steps = [f"- {told(step)}" for step in result.steps] or ["- none"]
    parts.append("### Steps\n\n" + "\n".join(steps))
    for title, reasons in (("Not measured", result.absent), ("Failed", result.failed)):
        if reasons:
            parts.append(f"{title}:\n\n" + "\n".join(f"- {each.id}: {each.reason}" for each in reasons))
    return "\n\n".join(parts) + "\n"


def figures(shown: Shown) -> str:
    """The generated part of the page, in Markdown."""
    result, compared = shown.result, shown.compared
    e = result.environment
    machine = (
        f"{e.device}, driver {e.driver} (API {e.driver_api}), {e.cores} cores ({e.cpu}), Python {e.python}, "
        f"NumPy {e.numpy}, commit `{e.commit}`, {e.date}."
    )
    parts = [
        f"Measured on: {machine}\nFrom `{shown.name}`.",
        "### Beside the twins\n\nMedians in microseconds.",
        _table(
            ("task", "vyre_cuda", "best", "median", "p99", "in C", "best", "median", "ratio", "target", "verdict"),
            [_figure(figure, result) for figure in result.figures],
        ),
    ]
    moving = [figure for figure in result.figures if figure.bytes_moved]
    if moving:
        parts += ["### Across the link\n\nGigabytes per second, from the medians.", _bandwidths(moving)]
    without = [row for row in ROWS if row.id not in {figure.id for figure in result.figures}]
    if without:
        reasons = {each.id: each.reason for each in (*result.absent, *result.failed)}
        lines = (f"- {TASKS[row.task]}, {row.what}: {reasons.get(row.id, 'not in this run')}" for row in without)
        parts.append("Not in this table:\n\n" + "\n".join(lines))
    if result.rates:
        parts += ["### Over threads\n\nThousands of launches per second.", _rates(result)]
    if result.layer:
        rows = [(f"`{t.id}`", us(t.series.best_us), us(t.series.median_us), us(t.series.p99_us)) for t in result.layer]
        parts += ["### libvyre_cuda from C", _table(("call", "best", "median", "p99"), rows)]
    if compared.peers:
        parts += [
            f"### Beside other packages\n\nMedians in microseconds, fastest first.\nFrom `{shown.compared_name}`.",
            _table(("task", "package", "how", "median", "p99"), _peers(compared)),
        ]
    return "\n\n".join(parts) + "\n"


def current(page: str, folder: Path) -> str:
    """The page with the figures of today. ValueError when the page has no place for them."""
    with_figures = _replaced(page, BEGIN, END, figures(newest(folder)))
    return _replaced(with_figures, BEGIN_CURVES, END_CURVES, curves(newest_curves(folder)))


def _replaced(page: str, first: str, last: str, text: str) -> str:
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"the page has no figures: the lines {first.strip()} and {last.strip()} are missing")
    return f"{head}{first}\n{text}\n{last}{tail}"


def _figure(figure: Figure, result: Result) -> tuple[str, ...]:
    best = {twin.id: twin.series.best_us for twin in result.twins}
    series = figure.series
    return (
        TASKS[figure.task],
        figure.what,
        *(us(series.best_us), us(series.median_us), us(series.p99_us)),
        f"`{figure.twin}`",
        *(us(best.get(figure.twin)), us(figure.twin_median_us)),
        "-" if figure.ratio is None else f"{figure.ratio:.2f}",
        figure.target or "-",
        _verdict(figure),
    )


def _verdict(figure: Figure) -> str:
    if figure.verdict != "missed" or figure.limit_us is None:
        return figure.verdict or "-"
    return f"missed by {us(figure.series.best_us - figure.limit_us)}"


def _bandwidths(moving: Sequence[Figure]) -> str:
    rows = [
        (
            *(TASKS[figure.task], figure.what, f"{figure.bytes_moved / figure.series.median_us / 1e3:.1f}"),
            f"`{figure.twin}`",
            "-" if figure.twin_median_us is None else f"{figure.bytes_moved / figure.twin_median_us / 1e3:.1f}",
            "-" if figure.ratio is None else f"{1 / figure.ratio:.0%}",
        )
        for figure in moving
    ]
    return _table(("task", "from Python", "GB/s", "in C", "GB/s", "share"), rows)


def _rates(result: Result) -> str:
    counts = sorted({rate.threads for rate in result.rates})
    by_side = {(rate.side, rate.threads): rate.launches_per_second for rate in result.rates}
    rows = [
        (name, *(f"{by_side[side, n] / 1e3:.0f}" if (side, n) in by_side else "-" for n in counts))
        for side, name in SIDES.items()
    ]
    return _table(("from", *(f"{n} thread{'s' if n > 1 else ''}" for n in counts)), rows)


def _peers(result: Result) -> list[tuple[str, ...]]:
    """Every peer of a task, and the best of ours among them."""
    rows: list[tuple[str, ...]] = []
    for task, name in TASKS.items():
        peers: list[PeerFigure] = [peer for peer in result.peers if peer.task == task]
        ours = min(
            (f for f in result.figures if f.task == task and f.id in _FROM_PYTHON),
            key=lambda f: f.series.median_us,
            default=None,
        )
        if not peers:
            continue
        lines = [(p.series.median_us, p.series.p99_us, f"{p.peer} {p.version}", p.what) for p in peers]
        if ours is not None:
            lines.append((ours.series.median_us, ours.series.p99_us, "**vyre_cuda**", ours.what))
        rows += [(name, package, what, us(median), us(p99)) for median, p99, package, what in sorted(lines)]
    return rows


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def picture_is_of(source: str, picture: Path = PICTURE) -> bool:
    """Whether the picture says that it was made from this file."""
    return picture.is_file() and f">{source}<" in picture.read_text(encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """0 when page and pictures are (now) of the newest files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(words)
    shown = newest(RESULTS)
    source = shown.compared_name
    found = newest_curves(RESULTS)
    before = PAGE.read_text(encoding="utf-8")
    after = current(before, RESULTS)
    if options.check:
        good = {PAGE: before == after, PICTURE: picture_is_of(source)}
        if found is not None:
            good[CURVE_PICTURE] = picture_is_of(found[1], CURVE_PICTURE)
        stale = [path.name for path, is_good in good.items() if not is_good]
        if stale:
            print(f"{', '.join(stale)}: not of the newest results; run python benchmarks/page.py", file=sys.stderr)
        return 1 if stale else 0
    PAGE.write_text(after, encoding="utf-8")
    plot = importlib.import_module("plot")
    plot.draw(shown.compared, PICTURE, source=source)
    if found is not None:
        plot.draw_curves(found[0], CURVE_PICTURE, source=found[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
