"""Tables for people, made from a result."""

from __future__ import annotations

from collections.abc import Sequence

from harness.resultfile import Figure, Result, Series

EMULATOR_NOTE = "emulator run: these times are no measurements"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(w.rjust(n) for w, n in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    )


def summary(result: Result) -> str:
    """All of a result in µs: Python beside its twins, all twins, the peers."""
    header = ["from Python, us", "median", "p99", "passes", "twin", "median", "p99", "ratio", "difference"]
    parts = [
        result.title,
        table(header, [_row(figure) for figure in result.figures]),
        table(["in C, us", "median", "p99", "passes"], [[t.id, *_times(t.series)] for t in result.twins]),
    ]
    if result.peers:
        rows = [[f"{p.peer} {p.version}", p.task, p.what, *_times(p.series)[:2]] for p in result.peers]
        parts.append(table(["peer, us", "task", "how", "median", "p99"], rows))
    if result.peer_failures:
        lines = (f"{failure.peer}: {failure.reason}" for failure in result.peer_failures)
        parts.append("no figures from:\n" + "\n".join(lines))
    if result.environment.emulator:
        parts.append(EMULATOR_NOTE)
    return "\n\n".join(parts)


def _row(figure: Figure) -> list[str]:
    twin = [figure.twin, _us(figure.twin_median_us), _us(figure.twin_p99_us)]
    return [figure.id, *_times(figure.series), *twin, f"{figure.ratio:.2f}", _us(figure.difference_us)]


def _us(value: float) -> str:
    return f"{value:.2f}"


def _times(series: Series) -> list[str]:
    return [_us(series.median_us), _us(series.p99_us), " ".join(_us(p) for p in series.passes)]
