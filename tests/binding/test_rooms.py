"""The rooms of csrc: calls and includes go downward only, and the tool that says so finds what does not."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
from installed import PLACES, program

from vyre_cuda.testing.compilers import c_compiler

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow  # compiles the library


def compile_file(source: Path, made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    includes = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}"]
    flags = ["-std=c11", "-O0", "-fPIC", "-c", *includes]
    subprocess.run([*c_compiler(), *flags, str(source), "-o", str(made)], check=True)


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        module = importlib.import_module("rooms")
    sys.modules.pop("rooms", None)
    return module


@pytest.fixture(scope="module")
def objects(rooms: ModuleType, native_build: Path) -> Mapping[str, Path]:
    """Of each C file, compiled without inlining, so that no call is hidden."""
    subprocess.run(
        [program("cmake"), "--build", native_build, "--target", "vyre_cuda"],
        env={**os.environ, "PATH": PLACES},
        check=True,
    )
    found: Mapping[str, Path] = rooms.object_files([native_build / "CMakeFiles" / "vyre_cuda.dir"])
    return found


def test_every_folder_with_c_files_is_in_the_order(rooms: ModuleType) -> None:
    folders = {path.parent.name for path in (ROOT / "csrc").glob("*/*.c")}

    assert folders == set(rooms.ORDER)
    assert not list((ROOT / "csrc").glob("*.[ch]"))


def test_every_room_has_its_header_and_says_what_it_is(rooms: ModuleType) -> None:
    assert [room for room in rooms.ORDER if not (ROOT / "csrc" / room / "room.h").exists()] == []
    assert [room for room in rooms.ORDER if not (ROOT / "csrc" / room / "README.md").exists()] == []


def test_includes_go_downward(rooms: ModuleType) -> None:
    assert list(rooms.wrong_includes()) == []


def test_calls_go_downward(rooms: ModuleType, objects: Mapping[str, Path]) -> None:
    calls = rooms.calls_of(objects)

    assert sum(len(others) for others in calls.values()) > 200
    assert list(rooms.wrong_calls(calls)) == []
    assert list(rooms.wrong_circles(calls)) == []


def test_a_planted_upward_call_is_found(rooms: ModuleType, objects: Mapping[str, Path], tmp_path: Path) -> None:
    source = tmp_path / "clock.c"
    text = (ROOT / "csrc" / "base" / "clock.c").read_text()
    source.write_text(
        text.replace('"clock.h"', '"base/clock.h"\n#include "context/room.h"')
        + "vyc_status planted(vyc_context *context);\n"
        "vyc_status planted(vyc_context *context) { return vyc__check_usable(context); }\n"
    )
    compile_file(source, tmp_path / "clock.c.o")

    wrong = list(rooms.wrong_calls(rooms.calls_of({**objects, "base/clock.c": tmp_path / "clock.c.o"})))

    assert wrong == ["base/clock.c calls vyc__check_usable of context/context.c, of an upper room"]


def test_a_planted_circle_of_five_files_is_found(rooms: ModuleType) -> None:
    files = [f"memory/{name}.c" for name in "abcde"]
    calls = {file: {other: {"f"}} for file, other in zip(files, [*files[1:], files[0]], strict=True)}

    assert list(rooms.wrong_circles(calls)) == [f"{', '.join(files)} call each other"]
    assert list(rooms.wrong_circles({**calls, "memory/d.c": {"memory/a.c": {"f"}}, "memory/e.c": {}})) == []


@pytest.mark.parametrize("written", ['"{}"', "<{}>", '"../{}"'])
def test_planted_includes_are_found_however_they_are_written(rooms: ModuleType, tmp_path: Path, written: str) -> None:
    csrc = tmp_path / "csrc"
    shutil.copytree(ROOT / "csrc", csrc, ignore=shutil.ignore_patterns("emulator"))
    planted = ("kernel/room.h", "context/child.h", "base/clock.h", "include/vyre_cuda.h")
    with (csrc / "memory" / "fill.c").open("a") as file:
        file.writelines(f"# include {written.format(name)}\n" for name in planted)

    assert list(rooms.wrong_includes(csrc)) == [
        "memory/fill.c includes kernel/room.h, of an upper room",
        "memory/fill.c includes context/child.h, not the room.h",
    ]
