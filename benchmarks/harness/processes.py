"""Child processes that print one JSON object per line.

Every side of a comparison runs in a process of its own, with nothing else of the run on the device. A child names each
row before it begins it; when a row ends or hangs the process, that row fails and a new process goes on with the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.timing import Line

BENCHMARKS = Path(__file__).resolve().parents[1]

_ERROR_LINES = 6


class ChildFailed(Exception):
    """A child process failed, ran too long or printed something else; says what it said last.

    `rows` is what it had printed by then.
    """

    def __init__(self, reason: str, rows: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(reason)
        self.rows = list(rows)


@dataclass(frozen=True, slots=True)
class Pass:
    """What one side gave in one pass: figures by id, launches per second by (id, threads), and why rows have none.

    `absent` rows could not be tried, because something they need is not there; `failed` ones went wrong.
    """

    header: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    rates: dict[tuple[str, int], float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def run_lines(
    command: Sequence[str | Path], *, limit_s: float, environment: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """What the command prints. It can import from the benchmarks folder and gets `environment` on top of our own."""
    path = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
    try:
        child = subprocess.run(
            [str(word) for word in command],
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        text = said.decode() if isinstance(said, bytes) else said
        raise ChildFailed(f"not finished after {limit_s:.0f} s", _objects(text)) from None
    rows = _objects(child.stdout)
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-_ERROR_LINES:]
        raise ChildFailed(f"exit status {child.returncode}: " + "\n".join(last), rows)
    return rows


def collect(command: Sequence[str | Path], ids: Sequence[str], *, limit_s: float) -> Pass:
    """One pass over these rows. ChildFailed when the child does not get as far as the first row."""
    found = Pass()
    left = list(ids)
    while left:
        reason = ""
        try:
            rows = run_lines([*command, "--rows", ",".join(left)], limit_s=limit_s)
        except ChildFailed as error:
            rows, reason = error.rows, str(error)
        begun = [row["begin"] for row in rows if "begin" in row]
        _sort(rows, found)
        if not reason:
            break
        if not begun:
            raise ChildFailed(reason)
        found.failed[begun[-1]] = reason
        left = [id for id in left if id not in begun]
    told = found.lines.keys() | found.absent.keys() | found.failed.keys() | {id for id, _ in found.rates}
    found.failed.update({id: "the child knows no such row" for id in ids if id not in told})
    return found


def _sort(rows: Sequence[dict[str, Any]], into: Pass) -> None:
    for row in rows:
        if "rate" in row:
            into.rates[row["rate"], row["threads"]] = row["launches_per_second"]
        elif "absent" in row:
            into.absent[row["id"]] = row["absent"]
        elif "failed" in row:
            into.failed[row["id"]] = row["failed"]
        elif "id" in row:
            into.lines[row["id"]] = Line(**row)
        elif "begin" not in row:
            into.header.update(row)


def _objects(text: str) -> list[dict[str, Any]]:
    """The lines that are JSON objects; a last line that was cut off is not."""
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise ChildFailed(f"printed something that is not JSON: {error}") from None
