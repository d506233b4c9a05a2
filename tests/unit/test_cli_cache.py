"""`vyre-cuda cache`: what it shows, what it finds, what it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vyre_cuda.cache.store import MAX_BYTES, Store
from vyre_cuda.cli import main

KEYS = ("a" * 64, "b" * 64)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", str(root))
    return root


@pytest.fixture
def filled(root: Path) -> Path:
    for key in KEYS:
        Store(str(root), lambda name, n: None).write(key, [b"section"])
    return root


def data(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> dict[str, Any]:
    assert main(["cache", *argv, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_info_of_no_cache_makes_none(root, capsys):
    found = data(capsys, "info")

    assert found == {
        "action": "info", "directory": str(root), "entries": 0, "bytes": 0, "max_bytes": MAX_BYTES, "unfinished": 0
    }  # fmt: skip
    assert not root.exists()


def test_info_counts_files_and_bytes(filled, capsys):
    (filled / "kernels" / ".partial-1-x").write_bytes(b"half")
    found = data(capsys, "info")
    size = sum((filled / "kernels" / f"{key}.kernel").stat().st_size for key in KEYS)

    assert (found["entries"], found["bytes"], found["unfinished"]) == (2, size, 1)


def test_verify_of_good_files_is_good(filled, capsys):
    assert data(capsys, "verify")["damaged"] == {}
    assert main(["cache", "verify"]) == 0
    assert capsys.readouterr().out == f"2 files in {filled}, 0 damaged\n"


def test_verify_names_the_damaged_files(filled, capsys):
    path = filled / "kernels" / f"{KEYS[0]}.kernel"
    path.write_bytes(path.read_bytes()[:-1])
    found = data(capsys, "verify", code=1)

    assert list(found["damaged"]) == [path.name]
    assert main(["cache", "verify"]) == 1
    assert path.name in capsys.readouterr().out
    assert path.exists()


def test_clear_removes_every_file(filled, capsys):
    assert data(capsys, "clear")["removed"] == 2
    assert list((filled / "kernels").iterdir()) == []
    assert data(capsys, "clear")["removed"] == 0


@pytest.mark.parametrize("action", ["info", "verify", "clear"])
def test_a_cache_that_is_off_is_said(action, root, capsys, monkeypatch):
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")

    assert data(capsys, action) == {"action": action, "directory": None}
    assert main(["cache", action]) == 0
    assert "off" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["info", "verify", "clear"])
def test_a_directory_that_is_none_is_told_without_a_traceback(action, root, capsys):
    root.write_text("a file in its place")

    assert main(["cache", action]) == 1
    assert str(root) in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("purge",), ("info", "more"), ("info", "--device", "emulator")])
def test_other_words_are_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["cache", *words])
    assert caught.value.code == 2
