"""Tables for people, made from a result."""

from __future__ import annotations

from collections.abc import Sequence

from harness.resultfile import Figure, Result, Series, TwinFigure

EMULATOR_NOTE = "emulator run: these times are no measurements"

SIDES = {"python": "Python", "layer": "libvyre_cuda from C", "raw": "driver from C"}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(w.rjust(n) for w, n in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    )


def summary(result: Result) -> str:
    """All of a result in µs: Python and C++ beside their twins with targets, all of C, the rates, the peers."""
    header = ["vyre_cuda, us", "best", "median", "p99", "twin", "best", "median", "p99", "ratio", "differs", "target"]
    best = {twin.id: twin.series.best_us for twin in result.twins}
    parts = [
        result.title,
        table([*header, "verdict"], [_row(figure, best.get(figure.twin)) for figure in result.figures]),
        _in_c("in C, us", result.twins),
        _in_c("libvyre_cuda from C, us", result.layer),
        rates(result),
    ]
    if result.peers:
        rows = [[f"{p.peer} {p.version}", p.task, p.what, *_times(p.series)[1:3]] for p in result.peers]
        parts.append(table(["peer, us", "task", "how", "median", "p99"], rows))
    for title, found in (("not measured", result.absent), ("FAILED", result.failed)):
        if found:
            parts.append(f"{title}:\n" + "\n".join(f"{each.id}: {each.reason}" for each in found))
    if result.peer_failures:
        lines = (f"{failure.peer}: {failure.reason}" for failure in result.peer_failures)
        parts.append("no figures from:\n" + "\n".join(lines))
    if result.environment.emulator:
        parts.append(EMULATOR_NOTE)
    return "\n\n".join(part for part in parts if part)


def rates(result: Result) -> str:
    """Launches a second over threads."""
    if not result.rates:
        return ""
    counts = sorted({rate.threads for rate in result.rates})
    by_side = {(rate.side, rate.threads): rate.launches_per_second for rate in result.rates}
    rows = [
        [name, *(f"{by_side[side, n] / 1e3:.0f}" if (side, n) in by_side else "-" for n in counts)]
        for side, name in SIDES.items()
        if any(rate.side == side for rate in result.rates)
    ]
    return table(["thousand launches a second", *(f"{n} threads" if n > 1 else "1 thread" for n in counts)], rows)


def us(value: float | None) -> str:
    """Microseconds with two decimals, or with none from a millisecond on."""
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"


def _row(figure: Figure, twin_best_us: float | None) -> list[str]:
    twin = [figure.twin, us(twin_best_us), us(figure.twin_median_us), us(figure.twin_p99_us)]
    ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}"
    return [
        *(figure.id, *_times(figure.series)[:3], *twin),
        *(ratio, us(figure.difference_us), figure.target or "-", figure.verdict or "-"),
    ]


def _in_c(title: str, found: Sequence[TwinFigure]) -> str:
    rows = [[each.id, *_times(each.series)] for each in found]
    return table([title, "best", "median", "p99", "passes"], rows) if rows else ""


def _times(series: Series) -> list[str]:
    return [us(series.best_us), us(series.median_us), us(series.p99_us), " ".join(us(p) for p in series.passes)]
