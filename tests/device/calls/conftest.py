"""Kernels that the emulator holds up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(50, dtype=np.float32)


@pytest.fixture
def slow_kernel(own_device: vc.Device, emulator: Emulator) -> Iterator[vc.Kernel]:
    """saxpy that takes 20 ms, so that an event loop does not see its end by itself."""
    kernel = own_device.compile(programs.saxpy())
    kernel(X, X, 1.0)
    emulator.set("delay_us", 20_000)
    yield kernel
    emulator.set("delay_us", 0)


@pytest.fixture
def held_kernel(own_device: vc.Device, emulator: Emulator) -> Iterator[vc.Kernel]:
    """saxpy that does not begin until the emulator is told to go on."""
    kernel = own_device.compile(programs.saxpy())
    kernel(X, X, 1.0)
    emulator.set("held", 1)
    yield kernel
    emulator.set("held", 0)
