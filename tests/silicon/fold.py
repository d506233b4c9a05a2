"""Ask a driver what its compiler makes of operands that it can fold: `python tests/silicon/fold.py libcuda.so.1`.

Groups: 1 the forms that the lowering emits, pairs of instructions, loops, 2 the other forms. A difference is a line of
the output file with a program that shows it. Exit status 1 when something differs that no known defect explains.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from known_defects import known_as
from silicon_ask import Outcome
from silicon_pool import Pool
from silicon_units import GROUPS, units

from vyre_cuda.locations import EMULATOR_LIBRARY, get_library_dir

_SHOWN_GROUPS = 60
_KEPT_OF_A_GROUP = 200
_PROGRESS_SECONDS = 5.0


@dataclass(slots=True)
class Report:
    """What a run has found so far; differences go to the file as they come."""

    file: TextIO
    total: Outcome = field(default_factory=Outcome)
    found: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    least: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    patterns: dict[tuple[str, str, str], Counter[str]] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    _told: float = 0.0

    def hear(self, outcome: Outcome, refused: list[dict[str, Any]]) -> None:
        """Take in what a process says."""
        for found in outcome.differences:
            self._keep(found)
        outcome.differences = []
        self.total.add(outcome)
        for each in refused:
            self.refused.append(each)
            self._write(each)
        if time.monotonic() - self._told > _PROGRESS_SECONDS:
            self.progress()

    def _write(self, record: dict[str, Any]) -> None:
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def _keep(self, found: dict[str, Any]) -> None:
        found["known"] = known_as(found) if found["kind"] == "wrong" else None
        cause = found["known"] or ("" if found["kind"] == "wrong" else "ORACLE")
        key = (cause, found["form"], found["way"])
        self.found[key] += 1
        self.patterns.setdefault(key, Counter())[found["pattern"]] += 1
        if key not in self.least or len(found["ptx"]) < len(self.least[key]["ptx"]):
            self.least[key] = found
        if self.found[key] <= _KEPT_OF_A_GROUP:
            self._write(found)

    @property
    def new(self) -> int:
        """Differences that no known defect explains."""
        return sum(count for (cause, _, _), count in self.found.items() if cause in ("", "ORACLE"))

    def progress(self) -> None:
        """One line."""
        self._told = time.monotonic()
        known = sum(self.found.values()) - self.new
        print(
            f"{self._told - self.started:6.0f} s: {self.total.asked.total():,} questions, {self.total.words:,} words, "
            f"{self.new} differ, {known} of known defects, {len(self.refused)} refused",
            flush=True,
        )

    def summary(self) -> None:
        """By group, then by cause with the least program of each."""
        by_group: Counter[str] = Counter()
        forms = {(group, form) for group, form, _ in self.total.asked}
        for (group, _, _), count in self.total.asked.items():
            by_group[group] += count
        for group, count in by_group.items():
            print(f"group {group}: {count:,} questions of {sum(1 for g, _ in forms if g == group):,} forms")
        self._loops()
        for cause in sorted({cause for cause, _, _ in self.found}, reverse=True):
            keys = [key for key, _ in self.found.most_common() if key[0] == cause]
            print(f"\n==== {cause or 'NEW'}: {sum(self.found[key] for key in keys)} in {len(keys)} groups")
            keys.sort(key=lambda key: len(self.least[key]["ptx"]))
            for key in keys[: _SHOWN_GROUPS if cause in ("", "ORACLE") else 5]:
                self._show(key)
        for each in self.refused[:_SHOWN_GROUPS]:
            print(
                f"refused: {each['unit']} question {each['question']}: {each['reason'].strip()[:300]} | "
                f"{each['ptx'][:400]}"
            )

    def _loops(self) -> None:
        """Which kinds of loop are right."""
        wrong: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        for (_, form, _), count in self.found.items():
            wrong[form] += count
        for (group, form, _), count in self.total.asked.items():
            if group == "loops":
                asked[form] += count
        for form, count in sorted(asked.items()):
            print(f"  loop {form}: {count} asked, {wrong[form]} results wrong")

    def _show(self, key: tuple[str, str, str]) -> None:
        found = self.least[key]
        patterns = ", ".join(f"({pattern}) x{count}" for pattern, count in self.patterns[key].most_common(4))
        print(f"-- {key[1]} [{key[2]}] {self.found[key]} results: {patterns}")
        print(f"   {found['ptx']}")
        given = " ".join(f"{name}={value}" for name, value in found["inputs"].items())
        print(
            f"   %p={str(found['predicate']).lower()} {given} {found['register']} of {found['type']}: "
            f"expected {found['expected']}, got {found['got']}"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="libcuda.so.1, or the emulator's library")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--groups", default=",".join(GROUPS), help="of 1, 2, pairs and loops, in the order to ask")
    parser.add_argument("--output", type=Path, default=Path("fold.jsonl"))
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds")
    parser.add_argument("--sample", type=int, default=1, help="ask only every so many questions of a unit")
    parser.add_argument("--only", default="", help="units whose name contains this")
    parser.add_argument("--emulator", default=str(Path(get_library_dir()) / EMULATOR_LIBRARY))
    return parser.parse_args()


def main() -> int:
    """Command line; the exit status."""
    options = _arguments()
    chosen = [unit for unit in units(options.groups.split(",")) if options.only in unit]
    with options.output.open("w") as file:
        report = Report(file=file)
        pool = Pool(options.library, options.emulator, options.jobs, options.sample, report.hear)
        print(f"{len(chosen)} units, {options.jobs} processes", flush=True)
        left = pool.run(chosen, options.limit)
    report.progress()
    report.summary()
    if left:
        print(f"not asked in the time: {len(left)} jobs, from {left[0].unit}")
    return 1 if report.new or report.refused else 0


if __name__ == "__main__":
    sys.exit(main())
