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


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A csrc of its own, to be changed."""
    return Path(shutil.copytree(ROOT / "csrc", tmp_path / "csrc"))


def test_every_file_is_in_a_room_and_every_room_has_files(rooms: ModuleType) -> None:
    assert list(rooms.wrong_places()) == []
    folders = {path.parent.relative_to(ROOT / "csrc").as_posix() for path in rooms.sources()}
    assert folders == {*rooms.ORDER, *rooms.EMULATOR}


@pytest.mark.parametrize(
    "place", ["planted.c", "planted/room.h", "memory/planted/fill.c", "emulator/planted/machine.h"]
)
def test_a_planted_file_outside_of_the_rooms_is_found(rooms: ModuleType, copied: Path, place: str) -> None:
    (copied / place).parent.mkdir(exist_ok=True)
    (copied / place).touch()

    assert list(rooms.wrong_places(copied)) == [f"{place} is in no room of the order"]


def test_every_room_has_its_header_and_says_what_it_is(rooms: ModuleType) -> None:
    assert [room for room in rooms.ORDER if not (ROOT / "csrc" / room / "room.h").exists()] == []
    assert [room for room in rooms.ORDER if not (ROOT / "csrc" / room / "README.md").exists()] == []


def test_includes_go_downward(rooms: ModuleType) -> None:
    assert list(rooms.wrong_includes()) == []


def test_no_file_declares_what_another_one_defines(rooms: ModuleType) -> None:
    assert list(rooms.wrong_declarations()) == []


@pytest.mark.parametrize(
    "line", ["vyc_status vyc__check_usable(vyc_context *context);", "extern int planted;", "int *vyc_planted(void);"]
)
def test_a_planted_declaration_is_found(rooms: ModuleType, copied: Path, line: str) -> None:
    with (copied / "memory" / "fill.c").open("a") as file:
        file.write(f"{line}\n")

    assert list(rooms.wrong_declarations(copied)) == [f"memory/fill.c declares by itself: {line}"]


def test_calls_go_downward(rooms: ModuleType, objects: Mapping[str, Path]) -> None:
    calls = rooms.calls_of(objects)

    assert sum(len(others) for others in calls.values()) > 200
    assert list(rooms.wrong_calls(calls)) == []
    assert list(rooms.wrong_circles(calls)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "vyc_status planted(vyc_context *c) { return vyc__check_usable(c); }",
        "vyc_status (*planted)(vyc_context *) = vyc__check_usable;",
        "#pragma weak vyc__check_usable\nvyc_status planted(vyc_context *c) { return vyc__check_usable(c); }",
    ],
    ids=["call", "pointer", "weak"],
)
def test_a_planted_upward_call_is_found(
    rooms: ModuleType, objects: Mapping[str, Path], tmp_path: Path, planted: str
) -> None:
    source = tmp_path / "clock.c"
    text = (ROOT / "csrc" / "base" / "clock.c").read_text()
    source.write_text(text.replace('"clock.h"', '"base/clock.h"\n#include "context/room.h"') + f"{planted}\n")
    compile_file(source, tmp_path / "clock.c.o")

    wrong = list(rooms.wrong_calls(rooms.calls_of({**objects, "base/clock.c": tmp_path / "clock.c.o"})))

    assert wrong == ["base/clock.c calls vyc__check_usable of context/context.c, of an upper room"]


def test_a_planted_circle_of_five_files_is_found(rooms: ModuleType) -> None:
    files = [f"memory/{name}.c" for name in "abcde"]
    calls = {file: {other: {"f"}} for file, other in zip(files, [*files[1:], files[0]], strict=True)}

    assert list(rooms.wrong_circles(calls)) == [f"{', '.join(files)} call each other"]
    assert list(rooms.wrong_circles({**calls, "memory/d.c": {"memory/a.c": {"f"}}, "memory/e.c": {}})) == []


@pytest.mark.parametrize("written", ['"{}"', "<{}>", '"../{}"'])
def test_planted_includes_are_found_however_they_are_written(rooms: ModuleType, copied: Path, written: str) -> None:
    planted = ("kernel/room.h", "context/child.h", "base/clock.h", "include/vyre_cuda.h", "emulator/control.h")
    with (copied / "memory" / "fill.c").open("a") as file:
        file.writelines(f"# include {written.format(name)}\n" for name in planted)

    assert list(rooms.wrong_includes(copied)) == [
        "memory/fill.c includes kernel/room.h, of an upper room",
        "memory/fill.c includes context/child.h, not the room.h",
        "memory/fill.c includes emulator/control.h, of an upper room",
    ]


def test_an_include_of_what_a_macro_names_is_refused(rooms: ModuleType, copied: Path) -> None:
    with (copied / "memory" / "fill.c").open("a") as file:
        file.write('#define PLANTED "kernel/room.h"\n#include PLANTED\n')

    with pytest.raises(SystemExit, match=r"memory/fill\.c includes PLANTED, which is not the name of a file"):
        list(rooms.wrong_includes(copied))


@pytest.mark.parametrize(
    ("file", "header", "wrong"),
    [
        ("driver/print.cpp", "ptx/machine.h", "not the ptx.h"),
        ("ptx/forms/move.cpp", "driver/state.h", "of an upper room"),
        ("ptx/races/races.cpp", "ptx/machine/block.h", "of an upper room"),
        ("ptx/forms/move.cpp", "../context/room.h", "not the room.h"),
    ],
)
def test_a_planted_include_in_the_emulator_is_found(
    rooms: ModuleType, copied: Path, file: str, header: str, wrong: str
) -> None:
    path = f"emulator/{header}" if not header.startswith("..") else header[3:]
    with (copied / "emulator" / file).open("a") as source:
        source.write(f'#include "{path}"\n')

    assert list(rooms.wrong_includes(copied)) == [f"emulator/{file} includes {path}, {wrong}"]
