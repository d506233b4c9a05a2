"""Programs of algorithms stay in the caches of the package: later searches for garbage need not look at them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def programs_are_kept() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "xdist_group(name): tests that one process of pytest-xdist runs, where it is there"
    )
