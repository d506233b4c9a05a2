"""Where text goes: results to stdout, notes to stderr; colors only on a terminal that supports them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

_BOLD, _RED, _RESET = "\x1b[1m", "\x1b[31m", "\x1b[0m"
_CARET_LINE = re.compile(r"^( *\^ .*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Console:
    """Output of one command. With `json` set, stdout is for `data` alone."""

    json: bool = False

    def line(self, text: str = "") -> None:
        """A line of the result."""
        print(text)

    def heading(self, text: str) -> None:
        """A heading in the result."""
        print(f"{_BOLD}{text}{_RESET}" if _has_color(sys.stdout) else text)

    def findings(self, text: str) -> None:
        """Diagnostics as the result; lines that point at a place in a program are red."""
        print(_red_carets(text) if _has_color(sys.stdout) else text)

    def data(self, value: Mapping[str, Any]) -> None:
        """The result as one JSON document; numbers that JSON cannot represent become the strings nan, inf and -inf."""
        print(json.dumps(value, indent=2, allow_nan=False))

    def note(self, text: str) -> None:
        """A note about the run."""
        print(text, file=sys.stderr)

    def error(self, text: str) -> None:
        """Why the command ends."""
        prefix = "vyre-cuda: error:"
        if _has_color(sys.stderr):
            prefix = f"{_RED}{prefix}{_RESET}"
            text = _red_carets(text)
        print(f"{prefix} {text}", file=sys.stderr)


def _red_carets(text: str) -> str:
    return _CARET_LINE.sub(rf"{_RED}\1{_RESET}", text)


def columns(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """Rows as aligned lines, indented by two; with `numbers` all columns but the first are aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if numbers and position else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def _has_color(stream: TextIO) -> bool:
    """NO_COLOR (set and not empty) turns colors off, and so does any stdout that is not a terminal."""
    return not os.environ.get("NO_COLOR") and sys.stdout.isatty() and stream.isatty()
