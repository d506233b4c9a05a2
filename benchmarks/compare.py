"""Two result files side by side: what became faster or slower, and by how much beside the twins of each run.

    python compare.py OLD.json NEW.json

A change of a figure means something only as far as its twin stayed where it was: hosts and drivers differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.report import EMULATOR_NOTE, table, us
from harness.resultfile import BadResultFile, Result, Series, TwinFigure, load


def main(words: Sequence[str] | None = None) -> int:
    """0 when both files could be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(words)
    try:
        old, new = load(options.old), load(options.new)
    except (OSError, BadResultFile) as error:
        print(error, file=sys.stderr)
        return 1
    print(comparison(old, new))
    return 0


def comparison(old: Result, new: Result) -> str:
    """Medians in µs: new over old, and how far each is from its own twin."""
    before = {figure.id: figure for figure in old.figures}
    rows = [
        [
            figure.id,
            us(before[figure.id].series.median_us),
            us(figure.series.median_us),
            f"{figure.series.median_us / before[figure.id].series.median_us:.3f}",
            _ratio(before[figure.id].ratio),
            _ratio(figure.ratio),
            figure.verdict or "-",
        ]
        for figure in new.figures
        if figure.id in before
    ]
    header = ["vyre_cuda, us", "old", "new", "new / old", "old / twin", "new / twin", "verdict"]
    parts = [f"old  {old.title}\nnew  {new.title}", table(header, rows)]
    groups = (
        ("in C, us", _twins(old.twins), _twins(new.twins)),
        ("libvyre_cuda from C, us", _twins(old.layer), _twins(new.layer)),
        ("peer, us", _peers(old), _peers(new)),
    )
    for title, left, right in groups:
        group = _series_rows(left, right)
        if group:
            parts.append(table([title, "old", "new", "new / old"], group))
    only = sorted(_names(old) ^ _names(new))
    if only:
        parts.append("in one file only: " + ", ".join(only))
    if old.environment.emulator or new.environment.emulator:
        parts.append(EMULATOR_NOTE)
    return "\n\n".join(parts)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _series_rows(old: Mapping[str, Series], new: Mapping[str, Series]) -> list[list[str]]:
    return [
        [id, us(old[id].median_us), us(series.median_us), f"{series.median_us / old[id].median_us:.3f}"]
        for id, series in new.items()
        if id in old
    ]


def _twins(found: Iterable[TwinFigure]) -> dict[str, Series]:
    return {twin.id: twin.series for twin in found}


def _peers(result: Result) -> dict[str, Series]:
    return {f"{peer.peer}: {peer.task}, {peer.what}": peer.series for peer in result.peers}


def _names(result: Result) -> set[str]:
    series = _twins(result.twins) | _twins(result.layer) | _peers(result)
    return {figure.id for figure in result.figures} | series.keys()


if __name__ == "__main__":
    sys.exit(main())
