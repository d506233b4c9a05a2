"""The binary interface is the recorded one, and tools/abi_check.py tells what would break a host from what would not.

After a wanted change: `python -m pytest tests/binding --update-golden`, then read the diff of abi.json.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vyre_cuda as vc

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_name("abi.json")

pytestmark = pytest.mark.slow  # each compiles a header

HEADER = """
#include <stdint.h>
#define VYC_API __attribute__((visibility("default")))
typedef enum vyc_status { VYC_OK = 0, VYC_E_INVALID = 1 } vyc_status;
typedef struct vyc_driver vyc_driver;
typedef struct vyc_item {
  uint32_t count;
  uint32_t reserved;
  void *data;
} vyc_item;
typedef struct vyc_info {
  uint32_t struct_size;
  uint32_t a, b;
  char name[8];
  void (*drop)(void *owner);
} vyc_info;
enum { VYC_LEFT = 1u, VYC_RIGHT = 1u << 1 };
VYC_API vyc_status vyc_open(vyc_driver **driver_out, const char *path);
VYC_API void vyc_log(void (*sink)(void *owner, const char *text), void *owner);
"""


@pytest.fixture(autouse=True)
def tools_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


def table_of(folder: Path, text: str) -> Any:
    header = folder / "vyre_cuda.h"
    header.write_text(text)
    return importlib.import_module("abi_table").of_header(header)


def changes(folder: Path, old: str, new: str) -> tuple[list[str], list[str]]:
    """(added, breaking) when `old` in the header above becomes `new`."""
    assert old in HEADER
    found = importlib.import_module("abi_check").compare(
        table_of(folder, HEADER), table_of(folder, HEADER.replace(old, new))
    )
    return found.added, found.breaking


# ---- the recorded table --------------------------------------------------------------------------------------------


def test_the_interface_is_the_recorded_one(request: pytest.FixtureRequest) -> None:
    tables = importlib.import_module("abi_table")
    found = tables.of_header(Path(vc.get_include()) / "vyre_cuda.h")
    if request.config.getoption("--update-golden"):
        RECORDED.write_text(found.text())

    assert tables.of_text(RECORDED.read_text()) == found


def test_the_record_has_all_functions_and_every_enumerator_has_its_value() -> None:
    recorded = importlib.import_module("abi_table").of_text(RECORDED.read_text())
    parts = sorted((Path(vc.get_include()) / "vyre_cuda").glob("*.h"))
    text = re.sub(r"/\*.*?\*/", "", "".join(part.read_text() for part in parts), flags=re.DOTALL)
    enumerators = [
        name.strip()
        for body in re.findall(r"enum(?: \w+)? \{(.*?)\}", text, re.DOTALL)
        for name in body.split(",")
        if name.strip()
    ]

    assert list(recorded.functions) == (ROOT / "csrc" / "symbols.txt").read_text().split()
    assert all("=" in text for text in enumerators)
    assert {text.split("=")[0].strip() for text in enumerators} == set(recorded.constants)


def test_structs_that_say_their_size_say_it_first() -> None:
    recorded = importlib.import_module("abi_table").of_text(RECORDED.read_text())

    saying = {name for name, each in recorded.structs.items() if "struct_size" in each.fields}

    assert "vyc_run" in saying
    assert saying == {name for name, each in recorded.structs.items() if each.may_grow}


# ---- what breaks a host --------------------------------------------------------------------------------------------


def test_a_table_has_layouts_types_and_values(tmp_path: Path) -> None:
    tables = importlib.import_module("abi_table")
    found = table_of(tmp_path, HEADER)

    assert found.functions == {
        "vyc_log": "void (void (*)(void *, const char *), void *)",
        "vyc_open": "vyc_status (vyc_driver **, const char *)",
    }
    assert found.constants == {"VYC_OK": 0, "VYC_E_INVALID": 1, "VYC_LEFT": 1, "VYC_RIGHT": 2}
    assert found.structs["vyc_info"] == tables.Struct(
        32,
        {
            "struct_size": tables.Field("uint32_t", 0, 4),
            "a": tables.Field("uint32_t", 4, 4),
            "b": tables.Field("uint32_t", 8, 4),
            "name": tables.Field("char[8]", 12, 8),
            "drop": tables.Field("void (*)(void *)", 24, 8),
        },
    )
    assert tables.of_text(found.text()) == found


@pytest.mark.thin
@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        ("VYC_RIGHT = 1u << 1 }", "VYC_RIGHT = 1u << 1, VYC_BOTH = 3 }", ["VYC_BOTH"]),
        ("  void (*drop)(void *owner);\n", "  void (*drop)(void *owner);\n  uint64_t more;\n", ["vyc_info.more"]),
        ("  uint32_t reserved;", "  uint32_t flags;", ["vyc_item.flags"]),
        ("const char *path);", "const char *file);\nVYC_API void vyc_more(void);", ["vyc_more"]),
    ],
    ids=["enumerator", "appended field", "reserved field", "function"],
)
def test_an_addition_is_none(tmp_path: Path, old: str, new: str, added: list[str]) -> None:
    assert changes(tmp_path, old, new) == (added, [])


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    ("old", "new", "breaking"),
    [
        ("VYC_LEFT = 1u,", "VYC_LEFT = 4u,", "VYC_LEFT was 1, is 4"),
        (", VYC_E_INVALID = 1 }", " }", "VYC_E_INVALID is gone"),
        ("uint32_t a, b;", "uint32_t b, a;", "vyc_info.a was uint32_t at 4, is uint32_t at 8"),
        ("char name[8];", "char name[9];", "vyc_info.name was char[8] at 12, is char[9] at 12"),
        ("uint32_t a, b;", "int32_t a, b;", "vyc_info.b was uint32_t at 8, is int32_t at 8"),
        ("  void *data;", "  void *data;\n  uint64_t more;", "vyc_item was 16 bytes, is 24"),
        ("const char *path);", "const char *path, int flags);", "vyc_open was vyc_status (vyc_driver **, const"),
        ("*text), void *owner);", "*text), int owner);", "vyc_log was void (void (*)(void *, const char *),"),
        ("VYC_API vyc_status vyc_open", "VYC_API vyc_status vyc_begin", "vyc_open is gone"),
        ("vyc_info", "vyc_facts", "struct vyc_info is gone"),
    ],
)
def test_what_an_old_host_trips_over_is_told(tmp_path: Path, old: str, new: str, breaking: str) -> None:
    _, found = changes(tmp_path, old, new)

    assert any(line.startswith(breaking) for line in found), found


def test_a_declaration_that_is_not_understood_is_named(tmp_path: Path) -> None:
    tables = importlib.import_module("abi_table")

    with pytest.raises(tables.NotUnderstood, match="vyc_item"):
        table_of(tmp_path, HEADER.replace("uint32_t count;", "uint32_t count : 3;"))


@pytest.mark.parametrize(
    ("version", "expected"), [("0.1.0", "0.1"), ("0.12.3", "0.12"), ("1.4.0", "1"), ("12.0.1", "12")]
)
def test_the_soname_follows_the_version(version: str, expected: str) -> None:
    build = f"cmake_minimum_required(VERSION 3.22)\nproject(vyre_cuda VERSION {version} LANGUAGES C CXX)\n"

    assert importlib.import_module("abi_check").soversion(build) == expected


# ---- two commits ---------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the tools and the header above, committed."""
    root = tmp_path / "repository"
    for folder in ("tools", "csrc/include"):
        (root / folder).mkdir(parents=True)
    for tool in ("abi_table.py", "abi_check.py"):
        (root / "tools" / tool).write_text((ROOT / "tools" / tool).read_text())
    (root / "csrc" / "include" / "vyre_cuda.h").write_text(HEADER)
    (root / "CMakeLists.txt").write_text("project(vyre_cuda VERSION 0.1.0 LANGUAGES C)\n")
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    return root


def check(root: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, str(root / "tools" / "abi_check.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.thin
def test_a_break_needs_another_soname(repository: Path) -> None:
    (repository / "csrc" / "include" / "vyre_cuda.h").write_text(HEADER.replace("VYC_LEFT = 1u", "VYC_LEFT = 4u"))
    same = check(repository, "HEAD")
    (repository / "CMakeLists.txt").write_text("project(vyre_cuda VERSION 0.2.0 LANGUAGES C)\n")
    other = check(repository, "HEAD")

    expected = "breaking: VYC_LEFT was 1, is 4\nlibvyre_cuda.so.0.1 to libvyre_cuda.so.0."
    assert same == (1, f"{expected}1\n")
    assert other == (0, f"{expected}2\n")


def test_two_commits_alike_have_no_changes(repository: Path) -> None:
    assert check(repository, "HEAD", "HEAD") == (0, "libvyre_cuda.so.0.1 to libvyre_cuda.so.0.1\n")


def test_an_unknown_commit_is_bad_usage(repository: Path) -> None:
    code, output = check(repository, "nowhere")

    assert code == 2
    assert "nowhere" in output
