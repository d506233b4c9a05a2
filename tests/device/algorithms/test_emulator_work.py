"""How much the emulator has to do: people test with it, so a sum of 10^6 elements takes tenths of a second there, and a
sort less than two. What it executes is counted, as times depend on what else the machine does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.testing.emulator import Emulator

pytestmark = pytest.mark.emulator
N = 100_000


@pytest.mark.thin
@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda x, _: algorithms.sum(x), 6),
        (lambda x, _: algorithms.cumsum(x), 25),
        (lambda x, _: algorithms.sort(x), 400),
        (lambda x, condition: algorithms.compress(condition, x), 50),
        (lambda _, condition: algorithms.bincount(condition, 256), 25),
    ],
    ids=["sum", "cumsum", "sort", "compress", "bincount"],
)
def test_instructions_for_each_element(
    device: vc.Device, function: Callable[[vc.DeviceArray, vc.DeviceArray], Any], most: int
) -> None:
    rng = np.random.default_rng(1)
    x, condition = device.array(rng.random(N, np.float32)), device.array(rng.integers(0, 2, N, np.uint8))
    function(x, condition)
    device.synchronize()
    emulator = Emulator()
    before = emulator.count("instructions")
    function(x, condition)
    device.synchronize()
    assert N < emulator.count("instructions") - before <= most * N
