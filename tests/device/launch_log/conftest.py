"""A device of a test's own, which may be lost, and what most of these tests launch on it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

N = 256


@pytest.fixture
def device(emulator: Emulator) -> Iterator[vc.Device]:
    """One that the test may lose."""
    device = vc.Device("emulator")
    yield device
    emulator.reset()
    device.close()


@pytest.fixture
def saxpy(device: vc.Device) -> vc.Kernel:
    return device.compile(programs.saxpy())


@pytest.fixture
def arrays(device: vc.Device) -> tuple[vc.DeviceArray, ...]:
    """For saxpy, of N elements."""
    x = np.ones(N, np.float32)
    return device.array(x), device.array(x), device.empty(N, vc.f32)
