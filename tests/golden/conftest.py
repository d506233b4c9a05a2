"""Comparison with files that are kept in the repository; `--update-golden` rewrites them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[str, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the file of that name beside the tests, or write it."""
    update: bool = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        if update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="ascii")
            return
        assert path.is_file(), f"{name} is missing; pytest --update-golden writes it"
        assert path.read_text(encoding="ascii") == text

    return compare
