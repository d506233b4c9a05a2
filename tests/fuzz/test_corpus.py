"""Every input that fuzzing kept: accepted or an error of its kind, and canonical where accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.read.parse import parse

CORPUS = Path(__file__).with_name("corpus")


def files(kind: str) -> list[Path]:
    return sorted((CORPUS / kind).iterdir())


@pytest.mark.thin(4)
@pytest.mark.parametrize("path", files("text"), ids=lambda path: path.name[:12])
def test_text_is_refused_or_round_trips(path: Path) -> None:
    try:
        program = parse(path.read_bytes().decode("utf-8", "replace"))
    except ProgramError:
        return
    assert parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program


@pytest.mark.thin(4)
@pytest.mark.parametrize("path", files("wire"), ids=lambda path: path.name[:12])
def test_bytes_are_refused_or_canonical(path: Path) -> None:
    data = path.read_bytes()
    try:
        program = Program.from_bytes(data)
    except ProgramError:
        return
    assert program.to_bytes() == data


@pytest.mark.parametrize("path", files("bundle"), ids=lambda path: path.name[:12])
def test_a_bundle_is_refused_or_can_be_looked_at(path: Path) -> None:
    try:
        bundle = vc.load_bundle(path)
    except vc.BundleError:
        return
    for kernel in bundle.kernels.values():
        assert kernel.targets
    for graph in bundle.graphs.values():
        assert graph.nbytes >= 0
