"""The package and what its users write type-check in strict mode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from background_work import Done


@pytest.mark.slow
def test_package_and_user_code_are_strictly_typed(typed_package: Done) -> None:
    assert typed_package.returncode == 0, typed_package.stdout + typed_package.stderr


@pytest.mark.thin
@pytest.mark.slow
def test_a_name_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("import vyre_cuda as vc\nvc.ptx\nvc.Builder\nvc.nosuch\n")

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "user.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert 'Module has no attribute "nosuch"' in done.stdout
    assert "Found 1 error" in done.stdout


@pytest.mark.thin
@pytest.mark.slow
def test_a_name_that_is_none_is_an_error_in_a_kernel(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(
        "import vyre_cuda as vc\n\n\n@vc.kernel\ndef f(x: vc.In[vc.f32], y: vc.InOut[vc.f32]) -> None:\n"
        "    x[0] = 1\n    y[0] = vc.nosuch(x[0])\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert 'Module has no attribute "nosuch"' in done.stdout
    assert 'Unsupported target for indexed assignment ("In[f32]")' in done.stdout
    assert "Found 2 errors" in done.stdout
