#!/usr/bin/env python3
"""Compare the binary interface of two commits: python tools/abi_check.py A [B], B being the files as they are.

Prints what was added and what an old host would trip over. Exit status 1 when there is any of the latter and the SONAME
is the same, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abi_table import Field, NotUnderstood, Struct, Table, of_header

ROOT = Path(__file__).resolve().parents[1]
_HEADERS, _HEADER, _BUILD = "csrc/include", "vyre_cuda.h", "CMakeLists.txt"


@dataclass(slots=True)
class Changes:
    """Lines for people: `breaking` is what a host that was built with the old header must be rebuilt for."""

    added: list[str] = field(default_factory=list)
    breaking: list[str] = field(default_factory=list)


def compare(old: Table, new: Table) -> Changes:
    """What changed from one to the other."""
    found = Changes()
    _compare_functions(found, old.functions, new.functions)
    for name, layout in old.structs.items():
        if name in new.structs:
            _compare_struct(found, name, layout, new.structs[name])
        else:
            found.breaking.append(f"struct {name} is gone")
    found.added += [f"struct {name}" for name in new.structs.keys() - old.structs.keys()]
    for name, value in old.constants.items():
        if name not in new.constants:
            found.breaking.append(f"{name} is gone")
        elif new.constants[name] != value:
            found.breaking.append(f"{name} was {value}, is {new.constants[name]}")
    found.added += [name for name in new.constants if name not in old.constants]
    found.added.sort()
    return found


def _compare_functions(found: Changes, old: dict[str, str], new: dict[str, str]) -> None:
    for name, kind in old.items():
        if name not in new:
            found.breaking.append(f"{name} is gone")
        elif new[name] != kind:
            found.breaking.append(f"{name} was {kind}, is {new[name]}")
    found.added += [name for name in new if name not in old]


def _compare_struct(found: Changes, name: str, old: Struct, new: Struct) -> None:
    for member, facts in old.fields.items():
        if member.startswith("reserved"):
            continue  # 0 until it gets a meaning; the size and the other members say that nothing moved
        if member not in new.fields:
            found.breaking.append(f"{name}.{member} is gone")
        elif new.fields[member] != facts:
            now = new.fields[member]
            found.breaking.append(f"{name}.{member} was {_place(facts)}, is {_place(now)}")
    found.added += [f"{name}.{member}" for member in new.fields if member not in old.fields]
    if new.size < old.size or (new.size > old.size and not old.may_grow):
        found.breaking.append(f"{name} was {old.size} bytes, is {new.size}")


def _place(facts: Field) -> str:
    return f"{facts.type} at {facts.offset}"


def soversion(build: str) -> str:
    """What the SONAME ends in, from the text of CMakeLists.txt; cmake/package.cmake has the same rule."""
    version = next(line for line in build.splitlines() if line.startswith("project(")).split("VERSION ")[1].split()[0]
    major, minor = version.split(".")[:2]
    return f"{major}.{minor}" if major == "0" else major


def _read(commit: str | None, path: str) -> str:
    if commit is None:
        return (ROOT / path).read_text()
    command = ["git", "-C", str(ROOT), "show", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _table(commit: str | None) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        if commit is None:
            return of_header(ROOT / _HEADERS / _HEADER)
        command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, _HEADERS]
        archive = subprocess.run(command, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)
        return of_header(Path(folder, _HEADERS, _HEADER))


def _text(output: str | bytes | None) -> str:
    return (output.decode() if isinstance(output, bytes) else output or "").strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the changes; the exit status says whether old hosts still run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="commit that hosts were built with")
    parser.add_argument("b", nargs="?", help="commit that they run with (default: the files as they are)")
    options = parser.parse_args(argv)
    try:
        changes = compare(_table(options.a), _table(options.b))
        names = [soversion(_read(commit, _BUILD)) for commit in (options.a, options.b)]
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(error.cmd)}: {_text(error.stderr)}", file=sys.stderr)
        return 2
    except NotUnderstood as error:
        print(f"not understood: {error}", file=sys.stderr)
        return 2
    for title, lines in (("added", changes.added), ("breaking", changes.breaking)):
        for line in lines:
            print(f"{title}: {line}")
    print(f"libvyre_cuda.so.{names[0]} to libvyre_cuda.so.{names[1]}")
    return int(bool(changes.breaking) and names[0] == names[1])


if __name__ == "__main__":
    sys.exit(main())
