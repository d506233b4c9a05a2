"""Counts of a run by kind of program, as lines, a table and JSON."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

from worker import Report

_COLUMNS = ("programs", "compared", "wrong", "refused", "known", "skipped", "bundled")


class Summary:
    """What the reports of a run come to."""

    def __init__(self, profile: str, seed: int, first: int, commit: str) -> None:
        self.profile, self.seed, self.first, self.commit = profile, seed, first, commit
        self.begin = time.monotonic()
        self.kinds: dict[str, Counter[str]] = {}
        self.discarded = 0
        self.last = first - 1
        self.seconds = [0.0, 0.0]
        self.described: dict[str, Any] = {}
        self.problems: list[str] = []

    def add(self, report: Report) -> None:
        self.last = max(self.last, report.number)
        if report.kind == "discarded":
            self.discarded += 1
            return
        row = self.kinds.setdefault(report.kind, Counter())
        row["programs"] += 1
        row["compared"] += report.compared
        row["bundled"] += report.bundled
        row[report.state] += 1
        self.seconds[0] += report.seconds[0]
        self.seconds[1] += report.seconds[1]

    def total(self, column: str) -> int:
        return sum(row[column] for row in self.kinds.values())

    @property
    def is_good(self) -> bool:
        return self.total("programs") > 0 and not self.total("wrong") and not self.total("refused")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begin

    def progress(self) -> str:
        programs, wrong, refused = map(self.total, ("programs", "wrong", "refused"))
        rate = programs / self.elapsed
        return f"{self.elapsed:5.0f} s: {programs} programs, {wrong} wrong, {refused} refused, {rate:.0f} per second"

    def table(self) -> str:
        lines = [f"{'kind':<12}" + "".join(f"{column:>12}" for column in _COLUMNS)]
        for kind, row in sorted(self.kinds.items()):
            lines.append(f"{kind:<12}" + "".join(f"{row[column]:>12}" for column in _COLUMNS))
        lines.append(f"{'all':<12}" + "".join(f"{self.total(column):>12}" for column in _COLUMNS))
        programs = max(self.total("programs"), 1)
        drawing, running = (1000 * seconds / programs for seconds in self.seconds)
        lines.append(
            f"{self.elapsed:.0f} s, {programs / self.elapsed:.0f} programs per second; each {drawing:.1f} ms to draw, "
            f"{running:.1f} ms to run; {self.discarded} that run too long were left out"
        )
        lines.append(f"seed {self.seed}, numbers {self.first} to {self.last}, commit {self.commit}")
        lines.append(", ".join(f"{name} {value}" for name, value in self.described.items()))
        lines += self.problems
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        data = {
            "profile": self.profile,
            "seed": self.seed,
            "first": self.first,
            "last": self.last,
            "commit": self.commit,
            **self.described,
            "seconds": round(self.elapsed, 1),
            "programs": self.total("programs"),
            "discarded": self.discarded,
            "wrong": self.total("wrong"),
            "refused": self.total("refused"),
            "kinds": {kind: {column: row[column] for column in _COLUMNS} for kind, row in sorted(self.kinds.items())},
            "problems": self.problems,
        }
        path.write_text(json.dumps(data, indent=1) + "\n")


def commit() -> str:
    """Of the tree that this file is in; VYRE_CUDA_COMMIT where git is not."""
    named = os.environ.get("VYRE_CUDA_COMMIT")
    if named:
        return named
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12", "--dirty=-modified"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
