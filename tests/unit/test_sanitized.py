"""tools/sanitized.py puts what was built with sanitizers into a package like the installed one."""

from __future__ import annotations

import importlib
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = "libvyre_cuda.so.1.2"
BUILT = (f"{LIBRARY}.3", "libvyre_cuda_emulator.so", f"_native/core/status{sysconfig.get_config_var('EXT_SUFFIX')}")


@pytest.fixture
def sanitized(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("sanitized")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A build folder, in which each file contains its name."""
    folder = tmp_path / "built"
    for name in BUILT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    (folder / LIBRARY).symlink_to(f"{LIBRARY}.3")
    (folder / "libvyre_cuda.so").symlink_to(LIBRARY)
    return folder


def test_a_new_build_folder_gets_the_package(sanitized: Any, built: Path) -> None:
    package = sanitized.package(built) / "vyre_cuda"

    source = ROOT / "src" / "vyre_cuda"
    for name in ("records.py", "ir/core/ops.py", "_native/core/status.pyi"):
        assert (package / name).read_bytes() == (source / name).read_bytes()
    assert (package / BUILT[2]).read_text(encoding="utf-8") == BUILT[2]
    assert (package / "include" / "vyre_cuda.h").is_file()


def test_the_library_is_there_once_and_by_its_soname(sanitized: Any, built: Path) -> None:
    library = sanitized.package(built) / "vyre_cuda" / "lib"

    found = {path.name: path.read_text(encoding="utf-8") for path in library.glob("*.so*")}
    assert found == {
        LIBRARY: BUILT[0],
        "libvyre_cuda.so": f"INPUT({LIBRARY})\n",
        "libvyre_cuda_emulator.so": "libvyre_cuda_emulator.so",
    }


def test_modules_that_are_gone_from_the_sources_are_gone_from_the_package(sanitized: Any, built: Path) -> None:
    old = sanitized.package(built) / "vyre_cuda" / "old.py"
    old.touch()

    sanitized.package(built)

    assert not old.exists()
