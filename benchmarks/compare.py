"""Two result files side by side: what became faster or slower, and by how much beside the twins of each run.

    python compare.py OLD.json NEW.json

A change of a figure means something only as far as its twin stayed where it was: hosts and drivers differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.report import EMULATOR_NOTE, table
from harness.resultfile import BadResultFile, Result, Series, load


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
            f"{before[figure.id].series.median_us:.2f}",
            f"{figure.series.median_us:.2f}",
            f"{figure.series.median_us / before[figure.id].series.median_us:.3f}",
            f"{before[figure.id].ratio:.2f}",
            f"{figure.ratio:.2f}",
        ]
        for figure in new.figures
        if figure.id in before
    ]
    parts = [
        f"old  {old.title}\nnew  {new.title}",
        table(["from Python, us", "old", "new", "new / old", "old / twin", "new / twin"], rows),
        table(["in C, us", "old", "new", "new / old"], _series_rows(_twins(old), _twins(new))),
    ]
    peer_rows = _series_rows(_peers(old), _peers(new))
    if peer_rows:
        parts.append(table(["peer, us", "old", "new", "new / old"], peer_rows))
    only = sorted(_names(old) ^ _names(new))
    if only:
        parts.append("in one file only: " + ", ".join(only))
    if old.environment.emulator or new.environment.emulator:
        parts.append(EMULATOR_NOTE)
    return "\n\n".join(parts)


def _series_rows(old: Mapping[str, Series], new: Mapping[str, Series]) -> list[list[str]]:
    return [
        [id, f"{old[id].median_us:.2f}", f"{series.median_us:.2f}", f"{series.median_us / old[id].median_us:.3f}"]
        for id, series in new.items()
        if id in old
    ]


def _twins(result: Result) -> dict[str, Series]:
    return {twin.id: twin.series for twin in result.twins}


def _peers(result: Result) -> dict[str, Series]:
    return {f"{peer.peer}: {peer.task}, {peer.what}": peer.series for peer in result.peers}


def _names(result: Result) -> set[str]:
    return {figure.id for figure in result.figures} | _twins(result).keys() | _peers(result).keys()


if __name__ == "__main__":
    sys.exit(main())
