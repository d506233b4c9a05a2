"""The rooms of the extension import downward only; import-linter, which reads Python alone, does not see them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "src" / "vyre_cuda" / "_native"
# From the bottom up.
ROOMS = ("core", "trace", "memory", "call", "collective", "graph", "bundle")

_IMPORT = re.compile(r"^\s*(?:from|c?import) (\.[\w.]*|vyre_cuda[\w.]*)", re.MULTILINE)
_OTHERS = ("vyre_cuda.errors", "vyre_cuda")  # the latter for its folder


def upward(folder: Path) -> list[tuple[str, str]]:
    """(file, module that it imports) each, where that is neither below it nor named in full."""
    found = []
    for path in sorted(path for path in folder.glob("*/*") if path.suffix in (".pyx", ".pxd", ".pyi")):
        below = ROOMS[: ROOMS.index(path.parent.name) + 1]
        found += [
            (path.relative_to(folder).as_posix(), module)
            for module in _IMPORT.findall(path.read_text())
            if module not in _OTHERS and not module.startswith(tuple(f"vyre_cuda._native.{room}." for room in below))
        ]
    return found


def test_rooms_of_the_extension_import_downward_only() -> None:
    assert {path.parent.name for path in NATIVE.glob("*/*.pyx")} == set(ROOMS)
    assert upward(NATIVE) == []


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("from vyre_cuda._native.call.prepared cimport (\n    PreparedKernel,\n)", "vyre_cuda._native.call.prepared"),
        ("cimport vyre_cuda._native.call.prepared", "vyre_cuda._native.call.prepared"),
        ("from vyre_cuda._native import call", "vyre_cuda._native"),
        ("    from vyre_cuda.runtime.device import device", "vyre_cuda.runtime.device"),
        ("from ..call cimport prepared", "..call"),
        ("from . import memory", "."),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, line: str, module: str) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.pyx").write_text(
        f"cimport numpy as cnp\nfrom vyre_cuda._native.core.status cimport check\n{line}\n"
    )

    assert upward(tmp_path) == [("memory/memory.pyx", module)]
