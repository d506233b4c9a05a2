"""tools/prose.py finds the forms that the house does not use, in pages and messages, and nothing else."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "tools" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name, source, words",
    [
        ("docs/a.md", "That is no number.\n", "is no number"),
        ("docs/a.md", "It has another than that.\n", "another than"),
        ("docs/a.md", "The page tells how to do it.\n", "tells how to"),
        ("src/a.py", 'raise ValueError(f"{x!r} is no number")\n', "is no number"),
        ("src/a.py", 'raise vc.Error(\n    "these are no whole "\n    "header")\n', "are no whole"),
        ("src/a.py", '"""It is no number."""\n', "is no number"),
        ("src/a.py", 'words = {"a": "x is no number", "b": f"{x} is no list"}\n', "is no list"),
        ("csrc/a.c", 'fail("%p is "\n     "no CUcontext", p);\n', "is no CUcontext"),
    ],
)
def test_a_form_of_the_list_is_found(prose: ModuleType, name: str, source: str, words: str) -> None:
    assert words in [finding.words for finding in prose.find(name, source)]


@pytest.mark.parametrize(
    "name, source",
    [
        ("docs/a.md", "There is no number, and it is no longer there.\n"),
        ("docs/a.md", "```\nx is no number\n```\n"),
        ("src/a.py", '"""It is not a number."""  # is no docstring\n'),
        ("csrc/a.c", "/* It is no number. */\nint a; // is no number\n"),
        ("tests/a.py", 'raise ValueError("is no number")\n'),
    ],
)
def test_what_is_fine_or_not_a_message_is_left_alone(prose: ModuleType, name: str, source: str) -> None:
    assert list(prose.find(name, source)) == []


@pytest.mark.thin
def test_there_are_no_more_of_them_than_recorded(prose: ModuleType) -> None:
    """The record is for what is still to be reworded: it only becomes shorter."""
    record = json.loads((ROOT / "tools" / "prose.json").read_text(encoding="utf-8"))

    assert [str(finding) for finding in prose.beyond(prose.find_all(), record)] == []


def test_a_form_more_than_recorded_is_told(prose: ModuleType) -> None:
    findings = list(prose.find("docs/a.md", "This is no page.\nThat is no page.\n"))

    assert prose.beyond(findings, {"is no page": 2}) == []
    assert prose.beyond(findings, {"is no page": 1}) == findings
