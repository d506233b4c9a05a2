"""What most tests of workers call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vyre_cuda as vc

from .. import programs

IDLE = 0.2  # seconds


@pytest.fixture
def saxpy(device: vc.Device) -> vc.Kernel:
    return device.compile(programs.saxpy())


@pytest.fixture
def worker(device: vc.Device, saxpy: vc.Kernel) -> Iterator[vc.Worker]:
    with device.worker([saxpy, device.compile(programs.add_to())], idle=IDLE) as made:
        yield made
