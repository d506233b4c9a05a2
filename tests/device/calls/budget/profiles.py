"""Reading callgrind's files: instructions of each object, and what it calls.

Format: https://valgrind.org/docs/manual/cl-format.html. Names are given once and then by number; a cost line holds a
position and the instructions of the current function; the line after `calls=` is what the called one took.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_NAME = re.compile(r"(c?)(ob|fn|fi|fe|fl)=\((\d+)\)(?: (.*))?")
_COST = re.compile(r"(?:[+-]?\d+|\*) (\d+)")


@dataclass(frozen=True, slots=True)
class Profile:
    """`instructions` by path of the object and name of the function; `calls` by the path of the caller's object, the
    name of the function that it called and the path of that one's object.
    """

    instructions: Counter[tuple[str, str]] = field(default_factory=Counter)
    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def read(path: Path) -> Profile:
    """One dump. ValueError for a line that is not understood, so that nothing goes uncounted."""
    profile = Profile()
    names: dict[tuple[str, str], str] = {}
    here = {"ob": "", "fn": ""}
    there = {"ob": "", "fn": ""}
    inclusive_follows = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := _NAME.fullmatch(line):
            called, kind, number, text = match.groups()
            kind = "fl" if kind in ("fi", "fe") else kind
            if text is not None:
                names[kind, number] = text
            (there if called else here)[kind] = names[kind, number]
        elif line.startswith("calls="):
            count = int(line.removeprefix("calls=").split()[0])
            profile.calls[here["ob"], there["fn"], there["ob"] or here["ob"]] += count
            there["ob"] = ""
            inclusive_follows = True
        elif match := _COST.fullmatch(line):
            if not inclusive_follows:
                profile.instructions[here["ob"], here["fn"]] += int(match[1])
            inclusive_follows = False
        elif line and not re.match(r"#|cfi=|cfl=|[a-z]+ ?[A-Z0-9a-z ]*:", line):
            raise ValueError(f"{path}: {line!r}")
    return profile
