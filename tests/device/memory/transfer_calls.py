"""Counts of the driver's calls for transfers, and what it answers where they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vyre_cuda.testing.emulator import Emulator

CUDA_ERROR_UNKNOWN = 999


@contextmanager
def calls(emulator: Emulator, **expected: int) -> Iterator[None]:
    """The driver functions named are called exactly so often."""
    before = {name: emulator.count(name) for name in expected}
    yield
    assert {name: emulator.count(name) - before[name] for name in expected} == expected
