"""A directory, a store in it, and what the store told."""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre_cuda.cache.store import Store

from .stores import Counters


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def store(root: Path, counters: Counters) -> Store:
    return Store(str(root), counters)
