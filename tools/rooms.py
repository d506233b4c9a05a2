"""The rooms of csrc: a folder is one, and calls and includes go downward only.

    python tools/rooms.py OBJECTS...    # the built objects of libvyre_cuda, or folders of them

Calls are those of `nm`. Another room is entered by its room.h, but for base, whose headers may be taken one by one.
Within a room no more than four files may call each other in a circle.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

CSRC = Path(__file__).resolve().parents[1] / "csrc"

# From the bottom up.
ORDER = (
    "base",
    "telemetry",
    "context",
    "memory",
    "kernel",
    "collective",
    "launch",
    "submission",
    "completion",
    "worker",
    "graph",
    "bundle",
    "bundle_device",
    "device",
)
MOST_IN_A_CIRCLE = 4

Calls = dict[str, dict[str, set[str]]]  # file -> file -> names


def room_of(file: str) -> str:
    return file.split("/")[0]


def is_upward(file: str, other: str) -> bool:
    return ORDER.index(room_of(other)) > ORDER.index(room_of(file))


def sources(csrc: Path = CSRC) -> list[Path]:
    return [path for room in ORDER for path in sorted((csrc / room).iterdir()) if path.suffix in (".c", ".h")]


def included(path: Path, csrc: Path = CSRC) -> Iterator[str]:
    """What a file includes of csrc but the public headers, however it names it; as paths from csrc."""
    csrc = csrc.resolve()
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', text, re.MULTILINE):
        found = next((f for f in ((path.parent / name).resolve(), (csrc / name).resolve()) if f.exists()), None)
        if found and found.is_relative_to(csrc) and not found.is_relative_to(csrc / "include"):
            yield found.relative_to(csrc).as_posix()


def wrong_includes(csrc: Path = CSRC) -> Iterator[str]:
    """What files include that they may not."""
    for path in sources(csrc):
        file = path.relative_to(csrc).as_posix()
        for other in included(path, csrc):
            if room_of(other) not in ORDER:
                yield f"{file} includes {other}, which is in no room"
            elif is_upward(file, other):
                yield f"{file} includes {other}, of an upper room"
            elif room_of(other) not in ("base", room_of(file)) and not other.endswith("/room.h"):
                yield f"{file} includes {other}, not the room.h"


def object_files(places: Iterable[Path], csrc: Path = CSRC) -> dict[str, Path]:
    """The object of each C file; objects have its path at the end of theirs, as CMake makes them."""
    objects = [o for place in places for o in (sorted(place.rglob("*.o")) if place.is_dir() else [place])]
    found: dict[str, Path] = {}
    for source in (path.relative_to(csrc).as_posix() for path in sources(csrc) if path.suffix == ".c"):
        of_source = [o for o in objects if o.as_posix().endswith(f"/{source}.o")]
        if not of_source:
            raise SystemExit(f"no object of {source}")
        found[source] = of_source[0]
    return found


def calls_of(objects: dict[str, Path]) -> Calls:
    """Which file uses which names of which others."""
    defined: dict[str, str] = {}
    wanted: dict[str, list[str]] = {}
    files = {str(path): file for file, path in objects.items()}
    printed = subprocess.run(["nm", "-A", "-P", *files], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        path, name, kind = line.rsplit(": ", 1)[0], *line.rsplit(": ", 1)[1].split()[:2]
        if kind == "U":
            wanted.setdefault(files[path], []).append(name)
        elif kind.isupper():
            defined[name] = files[path]
    calls: Calls = {file: {} for file in objects}
    for file, names in wanted.items():
        for name in names:
            if defined.get(name, file) != file:
                calls[file].setdefault(defined[name], set()).add(name)
    return calls


def wrong_calls(calls: Calls) -> Iterator[str]:
    for file, others in calls.items():
        for other, names in others.items():
            if is_upward(file, other):
                yield f"{file} calls {', '.join(sorted(names))} of {other}, of an upper room"


def circles(calls: Calls) -> list[set[str]]:
    """Files that call each other, in whatever steps."""

    def reached(file: str) -> set[str]:
        seen, left = set[str](), [file]
        while left:
            for other in calls[left.pop()]:
                if other not in seen:
                    seen.add(other)
                    left.append(other)
        return seen

    reach = {file: reached(file) for file in calls}
    found: list[set[str]] = []
    for file in calls:
        circle = {other for other in reach[file] if file in reach[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def wrong_circles(calls: Calls) -> Iterator[str]:
    for circle in circles(calls):
        if len(circle) > MOST_IN_A_CIRCLE or len({room_of(file) for file in circle}) > 1:
            yield f"{', '.join(sorted(circle))} call each other"


def main(places: list[str]) -> int:
    calls = calls_of(object_files(map(Path, places)))
    wrong = [*wrong_includes(), *wrong_calls(calls), *wrong_circles(calls)]
    print("\n".join(wrong) or f"{len(calls)} files in {len(ORDER)} rooms: includes and calls go downward")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
