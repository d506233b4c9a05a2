"""Instantiated graphs are bounded: past the budget launches are plain ones, and what is used again gets a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

pytestmark = pytest.mark.emulator
BUDGET = 512  # VYC_LAUNCH_GRAPH_BUDGET
EXTRA = 40


def test_the_number_of_graphs_is_bounded_and_calls_keep_working(
    device_name: str, emulator: Emulator, leak_check: Any
) -> None:
    emulator.stream_mode("eager")
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.add_to())
        total, one = device.zeros(4, vc.i32), device.array(np.ones(4, np.int32))
        calls = [kernel.bind(total, one) for _ in range(BUDGET + EXTRA)]
        before = emulator.count("execs")  # of tests whose releases were made to fail

        for _ in range(2):
            for call in calls:
                call()

        assert emulator.count("execs") - before == BUDGET
        np.testing.assert_array_equal(np.full(4, 2 * len(calls), np.int32), total.numpy())


@pytest.mark.thin
@pytest.mark.parametrize("extra", [EXTRA, 3 * BUDGET])  # fewer than the budget, and many more
def test_calls_beyond_the_budget_in_turn_keep_the_graphs_that_there_are(
    device_name: str, emulator: Emulator, extra: int
) -> None:
    """Making a graph anew for each launch would cost more than launching without one."""
    emulator.stream_mode("eager")
    rounds = 10
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.add_to())
        total, one = device.zeros(4, vc.i32), device.array(np.ones(4, np.int32))
        calls = [kernel.bind(total, one) for _ in range(BUDGET + extra)]
        for call in calls * 3:
            call()
        made, plain = (emulator.count(name) for name in ("cuGraphInstantiateWithFlags", "cuLaunchKernel"))

        for call in calls * rounds:
            call()

        assert emulator.count("cuGraphInstantiateWithFlags") - made <= 0.01 * len(calls) * rounds
        assert emulator.count("cuLaunchKernel") - plain <= 1.1 * extra * rounds
        np.testing.assert_array_equal(np.full(4, (3 + rounds) * len(calls), np.int32), total.numpy())


def test_graphs_that_are_not_used_make_room_for_those_that_are(
    device_name: str, emulator: Emulator, leak_check: Any
) -> None:
    emulator.stream_mode("eager")
    before = emulator.count("execs")  # of tests whose releases were made to fail
    with vc.Device(device_name) as device:
        kernel = device.compile(programs.add_to())
        total, one = device.zeros(4, vc.i32), device.array(np.ones(4, np.int32))
        calls = [kernel.bind(total, one) for _ in range(BUDGET + EXTRA)]
        for call in calls:
            call()
        newest, count = calls[BUDGET:], len(calls)

        plain = -1
        while emulator.count("cuLaunchKernel") != plain:
            plain = emulator.count("cuLaunchKernel")
            for call in newest:
                call()
            count += len(newest)
            assert count < 10**4

        assert emulator.count("execs") - before == BUDGET
        calls[0]()
        x = np.ones(4, np.float32)
        device.compile(programs.saxpy())(x, x, 2.0)  # a lane counts too
        assert emulator.count("execs") - before <= BUDGET
        np.testing.assert_array_equal(np.full(4, count + 1, np.int32), total.numpy())
