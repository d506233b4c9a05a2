"""The host in Rust builds with cargo alone, runs a bundle, and says what the library says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import vyre_cuda as vc

from .test_cpp_header import bundle  # noqa: F401
from .tools import EMULATOR, ROOT, attempt, call


@pytest.mark.cargo
@pytest.mark.slow
def test_a_host_in_rust_builds_and_runs(tmp_path: Path, bundle: Path) -> None:  # noqa: F811
    host = tmp_path / "rust_host"
    shutil.copytree(ROOT / "examples" / "rust_host", host)
    words = {"VYRE_CUDA_LIBRARY_DIR": vc.get_library_dir(), "RUSTFLAGS": "-D warnings"}
    call(["cargo", "build", "--offline", "--quiet"], folder=host, environment=words)
    program = host / "target" / "debug" / "rust_host"

    assert call([program, bundle, EMULATOR]) == "1000\n1999\n2998\n3997\n"
    done = attempt([program, "/nowhere.vyre", EMULATOR])
    assert done.returncode == 1
    assert "/nowhere.vyre cannot be opened" in done.stderr
