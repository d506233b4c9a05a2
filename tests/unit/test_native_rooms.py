"""The rooms of the extension import downward only; import-linter, which reads Python alone, does not see them."""

from __future__ import annotations

import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "src" / "vyre_cuda" / "_native"
# From the bottom up.
ROOMS = ("core", "trace", "memory", "call", "collective", "graph", "bundle")

_IMPORT = re.compile(r"^\s*(?:from|c?import) vyre_cuda\._native\.(\w+)", re.MULTILINE)


def upward(folder: Path) -> list[tuple[str, str]]:
    """(file, room above it that it imports) each."""
    found = []
    for path in sorted(path for path in folder.glob("*/*") if path.suffix in (".pyx", ".pxd", ".pyi")):
        own = ROOMS.index(path.parent.name)
        rooms = _IMPORT.findall(path.read_text())
        found += [(path.relative_to(folder).as_posix(), room) for room in rooms if ROOMS.index(room) > own]
    return found


def test_rooms_of_the_extension_import_downward_only() -> None:
    assert {path.parent.name for path in NATIVE.glob("*/*.pyx")} == set(ROOMS)
    assert upward(NATIVE) == []


def test_a_planted_upward_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.pyx").write_text(
        "cimport numpy as cnp\nfrom vyre_cuda._native.core.status cimport check\n"
        "from vyre_cuda._native.call.prepared cimport (\n    PreparedKernel,\n)\n"
    )

    assert upward(tmp_path) == [("memory/memory.pyx", "call")]
