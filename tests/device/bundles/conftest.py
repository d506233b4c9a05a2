"""A bundle of two programs, and where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import vyre_cuda as vc

from ..bundle_programs import TARGETS, checked, saxpy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.vyre"


@pytest.fixture
def bundle(path: Path) -> vc.Bundle:
    vc.bundle([saxpy(), checked()], path, targets=TARGETS, cubins=False)
    return vc.load_bundle(path)
