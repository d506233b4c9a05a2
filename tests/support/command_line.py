"""Programs for tests of the command line, and what wrong usage prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre_cuda.cli import main

SAXPY = Path(__file__).parents[2] / "examples" / "saxpy.vir"
TWO_PROGRAMS = """\
import vyre_cuda as vc

def copy(name):
    b = vc.Builder(name)
    x = b.input("x", vc.f32)
    y = b.output("y", vc.f32, size=x.size)
    y[vc.global_id.x] = x[vc.global_id.x]
    return b.build()

FIRST = copy("first")
SECOND = copy("second")
ALIAS = FIRST
"""


def write(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def usage_error(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Expects exit code 2 and nothing on stdout; gives stderr."""
    try:
        code = main(argv)
    except SystemExit as exit_:
        code = exit_.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    return err
