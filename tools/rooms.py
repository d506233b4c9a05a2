"""The rooms of csrc: a folder is one, and calls and includes go downward only.

    python tools/rooms.py OBJECTS...    # the built objects of libvyre_cuda and of the emulator, or folders of them

Calls are those of `nm`. Another room is entered by its room.h, but for base, whose headers may be taken one by one.
Within a room no more than four files may call each other in a circle, but in the driver of the emulator, whose
functions share one state under one lock.
The emulator is a library of its own, whose rooms use each other's headers; it shares base alone with the other one.
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
EMULATOR = (
    "emulator",
    "emulator/ptx",
    "emulator/ptx/unwritten",
    "emulator/ptx/races",
    "emulator/ptx/forms",
    "emulator/ptx/machine",
    "emulator/ptx/text",
    "emulator/driver",
)
MOST_IN_A_CIRCLE = 4

_LEVEL = {room: level for level, room in enumerate((*ORDER, *EMULATOR))}
_NO_SOURCES = (".md", ".txt", ".map")

Calls = dict[str, dict[str, set[str]]]  # file -> file -> names


def room_of(file: str) -> str:
    return file.rpartition("/")[0]


def is_upward(file: str, other: str) -> bool:
    return _LEVEL[room_of(other)] > _LEVEL[room_of(file)]


def is_open_to(file: str, other: str) -> bool:
    """Whether a file may include a header of a lower room."""
    if room_of(other) in ("base", room_of(file)):
        return True
    if room_of(file) in EMULATOR:
        boundary = room_of(file) == "emulator/driver" and other.startswith("emulator/ptx/")
        return other == "emulator/ptx/ptx.h" if boundary else room_of(other) in EMULATOR
    return other.endswith("/room.h")


def sources(csrc: Path = CSRC) -> list[Path]:
    """Every file but the public headers."""
    files = (path for path in sorted(csrc.rglob("*")) if path.is_file() and path.suffix not in _NO_SOURCES)
    return [path for path in files if not path.is_relative_to(csrc / "include")]


def wrong_places(csrc: Path = CSRC) -> Iterator[str]:
    for file in (path.relative_to(csrc).as_posix() for path in sources(csrc)):
        if room_of(file) not in _LEVEL:
            yield f"{file} is in no room of the order"


def included(path: Path, csrc: Path = CSRC) -> Iterator[str]:
    """What a file includes of csrc but the public headers, however it names it; as paths from csrc."""
    csrc = csrc.resolve()
    for name in re.findall(r"^[ \t]*#[ \t]*include[ \t]*(.*)", path.read_text(encoding="utf-8"), re.MULTILINE):
        quoted = re.match(r'["<]([^">]+)[">]', name)
        if not quoted:
            raise SystemExit(f"{path.relative_to(csrc)} includes {name}, which is not the name of a file")
        places = (path.parent, csrc, csrc / "include")
        found = next((f for f in ((place / quoted[1]).resolve() for place in places) if f.is_file()), None)
        if found and found.is_relative_to(csrc) and not found.is_relative_to(csrc / "include"):
            yield found.relative_to(csrc).as_posix()


def wrong_includes(csrc: Path = CSRC) -> Iterator[str]:
    """What files include that they may not."""
    for path in sources(csrc):
        file = path.relative_to(csrc).as_posix()
        if room_of(file) not in _LEVEL:
            continue
        for other in included(path, csrc):
            if room_of(other) not in _LEVEL:
                yield f"{file} includes {other}, which is in no room"
            elif is_upward(file, other):
                yield f"{file} includes {other}, of an upper room"
            elif not is_open_to(file, other):
                boundary = "ptx.h" if room_of(file) == "emulator/driver" else "room.h"
                yield f"{file} includes {other}, not the {boundary}"


def wrong_declarations(csrc: Path = CSRC) -> Iterator[str]:
    """Functions and variables of other files that a file declares by itself, which needs no header of theirs."""
    for path in (path for path in sources(csrc) if path.suffix == ".c"):
        for line in re.findall(
            r"^(?!static|typedef)[a-z].*\bvyc_\w+\([^{}]*?\);$|^extern .*", path.read_text(), re.MULTILINE
        ):
            yield f"{path.relative_to(csrc).as_posix()} declares by itself: {line}"


def object_files(places: Iterable[Path], csrc: Path = CSRC) -> dict[str, Path]:
    """The object of each file of C, and of each of C++ if one of these has one.

    Objects have its path at the end of theirs, as CMake makes them.
    """
    objects = [o for place in places for o in (sorted(place.rglob("*.o")) if place.is_dir() else [place])]
    files = [path.relative_to(csrc).as_posix() for path in sources(csrc) if path.suffix in (".c", ".cpp")]
    found = {file: next((o for o in objects if o.as_posix().endswith(f"/{file}.o")), None) for file in files}
    if not any(path for file, path in found.items() if room_of(file) in EMULATOR):
        found = {file: path for file, path in found.items() if room_of(file) not in EMULATOR}
    missing = [file for file, path in found.items() if path is None]
    if missing:
        raise SystemExit(f"no object of {', '.join(missing)}")
    return {file: path for file, path in found.items() if path}


def calls_of(objects: dict[str, Path]) -> Calls:
    """Which file uses which names of which others."""
    defined: dict[str, str] = {}
    wanted: dict[str, list[str]] = {}
    files = {str(path): file for file, path in objects.items()}
    printed = subprocess.run(["nm", "-A", "-P", *files], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        path, name, kind = line.rsplit(": ", 1)[0], *line.rsplit(": ", 1)[1].split()[:2]
        if kind in ("U", "w", "v"):  # the last two if it is weak
            wanted.setdefault(files[path], []).append(name)
        elif kind.isupper() or kind in ("u", "i"):
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
        rooms = {room_of(file) for file in circle}
        if len(rooms) > 1 or (len(circle) > MOST_IN_A_CIRCLE and rooms != {"emulator/driver"}):
            yield f"{', '.join(sorted(circle))} call each other"


def main(places: list[str]) -> int:
    calls = calls_of(object_files(map(Path, places)))
    sources_wrong = [*wrong_places(), *wrong_includes(), *wrong_declarations()]
    wrong = [*sources_wrong, *wrong_calls(calls), *wrong_circles(calls)]
    rooms = {room_of(file) for file in calls}
    print("\n".join(wrong) or f"{len(calls)} files in {len(rooms)} rooms: includes and calls go downward")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
