"""A device that nothing else counts on, and a kernel that is warm there."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs
from .delta import N


@pytest.fixture
def device(own_device: vc.Device) -> vc.Device:
    """A device of the test's own: other tests neither count nor warm it."""
    return own_device


@pytest.fixture
def warm(device: vc.Device) -> vc.Kernel:
    """saxpy, compiled and called before."""
    kernel = device.compile(programs.saxpy())
    x = np.ones(N, np.float32)
    kernel(x, x, 2.0)
    kernel(x, x, 2.0)
    return kernel
