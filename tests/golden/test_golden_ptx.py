"""The PTX of a few programs, character by character: a change of the code generator shows in a diff.

After a wanted change run `pytest tests/golden --update-golden` and read the diff.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.codegen import several
from vyre_cuda.codegen.core.target import KNOWN_SM, Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.kernel.large_lowering import wide_of
from vyre_cuda.testing.assembler import assemble

HERE = Path(__file__).parent
# What once went wrong on a device is right by its text: see docs/compiler-defects.md.
REGRESSIONS = (HERE.parent / "device" / "regressions").glob("*.vir")
PROGRAMS = sorted([*(HERE / "programs").glob("*.vir"), *(p for p in REGRESSIONS if not p.stem.startswith("found_"))])


@pytest.mark.thin(10)
@pytest.mark.parametrize(
    ("path", "sm"),
    [
        pytest.param(path, sm, id=f"{path.stem}-{sm}")
        for path in PROGRAMS
        for sm in (KNOWN_SM if path.stem == "vectors" else (75, 90))
    ],
)
def test_ptx_is_as_kept(path: Path, sm: int, golden: Callable[[str, str], None]) -> None:
    program = vc.parse(path.read_text(encoding="utf-8"))
    ptx = lower(program, Target.parse(f"sm_{sm}"), debug=True).ptx
    plain = lower(program, Target.parse(f"sm_{sm}")).ptx

    assemble(ptx, sm)
    golden(f"ptx/{path.stem}.sm_{sm}.ptx", plain)


@pytest.mark.thin(6)
@pytest.mark.parametrize("sm", KNOWN_SM)
@pytest.mark.parametrize("path", sorted((HERE / "prepared").glob("*.vir")), ids=lambda path: path.stem)
def test_ptx_after_the_passes_is_as_kept(path: Path, sm: int, golden: Callable[[str, str], None]) -> None:
    """The texts of a kernel: loops that read ahead, and the entry with several elements a thread."""
    program, target = prepared(vc.parse(path.read_text(encoding="utf-8"))), Target.parse(f"sm_{sm}")
    kernel, wide = lower(program, target, large=True), wide_of(program)
    texts = [kernel.ptx] if wide is None else [kernel.ptx, several.lowered(wide, kernel, target).ptx]

    for text in texts:
        assemble(text, sm)
    golden(f"ptx/prepared_{path.stem}.sm_{sm}.ptx", "\n".join(texts))
