"""docs/cpp-service.md does what it says: its Python, files and commands run in order, and print what stands below them.

On a GPU: `python -m pytest tests/downstream/test_cpp_service.py --device=cuda`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from installed import PLACES

import vyre_cuda as vc

from .tools import EMULATOR, ROOT, attempt

PAGE = ROOT / "docs" / "cpp-service.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path, device: vc.Device) -> dict[str, str]:
    """The environment of the page's commands: vyre-cuda is this package's, and the driver that of the device."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    command = bin_ / "vyre-cuda"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vyre_cuda "$@"\n')
    command.chmod(0o755)
    places = [str(bin_), PLACES]
    driver = {"VYRE_CUDA_DRIVER": str(EMULATOR)} if device.properties.is_emulator else {}
    return {
        "PATH": os.pathsep.join(places),
        "PYTHONPATH": str(Path(vc.__file__).parents[1]),
        "CMAKE_GENERATOR": "Ninja",
        **driver,
    }


def in_sh(text: str, folder: Path, environment: dict[str, str]) -> str:
    done = attempt(["sh", "-eu", "-c", text], folder=folder, environment=environment)
    assert done.returncode == 0, f"{text}{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.device
def test_the_page_does_what_it_says(
    tmp_path: Path, shell: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = [match.groups() for match in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    names: dict[str, object] = {}
    ran = []
    printed = ""
    for number, (language, text) in enumerate(found):
        match language:
            case "python":
                source = tmp_path / f"block{number}.py"
                source.write_text(text, encoding="utf-8")
                exec(compile(text, str(source), "exec"), names)
                printed = capsys.readouterr().out
            case "cpp" | "cmake":
                (tmp_path / text.split("\n")[0].lstrip("/# ")).write_text(text, encoding="utf-8")
            case "sh":
                printed = in_sh(text, tmp_path, shell)
            case "text":
                assert printed == text
        ran.append(language)

    assert {language: ran.count(language) for language in set(ran)} == {
        "python": 2,
        "cpp": 1,
        "cmake": 1,
        "sh": 7,
        "text": 6,
    }
