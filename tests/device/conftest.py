"""What another library does on the device under test (foreign_library), and the benchmarks as modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vyre_cuda as vc

from .benchmark_scripts import BENCHMARKS
from .foreign_library import ForeignStream, Library


@pytest.fixture
def library(device: vc.Device) -> Iterator[Library]:
    with Library(is_emulator=device.properties.is_emulator).current() as opened:
        yield opened


@pytest.fixture
def stream(library: Library) -> Iterator[ForeignStream]:
    opened = library.stream()
    yield opened
    opened.destroy()


@pytest.fixture
def benchmarks_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What benchmark_scripts.harness needs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
