"""Every input that fuzzing kept: a program or a ProgramError, and canonical where accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.parse import parse
from vyre_cuda.ir.program import Program

CORPUS = Path(__file__).with_name("corpus")


def files(kind: str) -> list[Path]:
    return sorted((CORPUS / kind).iterdir())


@pytest.mark.parametrize("path", files("text"), ids=lambda path: path.name[:12])
def test_text_is_refused_or_round_trips(path: Path) -> None:
    try:
        program = parse(path.read_bytes().decode("utf-8", "replace"))
    except ProgramError:
        return
    assert parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program


@pytest.mark.parametrize("path", files("wire"), ids=lambda path: path.name[:12])
def test_bytes_are_refused_or_canonical(path: Path) -> None:
    data = path.read_bytes()
    try:
        program = Program.from_bytes(data)
    except ProgramError:
        return
    assert program.to_bytes() == data
