"""Work on several streams, ordered by events, waits and call order, gives what some legal order of it gives.

`x = a * x + b` on one element does not commute, so a result tells in which order things ran.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.testing.emulator import STREAM_MODES, Emulator

ARRAYS, STREAMS = 3, 3


def step_program() -> vc.Program:
    b = vc.Builder("affine_step", block=32)
    x = b.inout("x", vc.u32)
    a = b.scalar("a", vc.u32)
    c = b.scalar("c", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        x[i] = a * x[i] + c
    return b.build()


OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, ARRAYS - 1),
        st.integers(0, STREAMS),  # the last number: call order
        st.sampled_from(["event", "synchronize", "device", "numpy"]),
        st.sampled_from(["launch", "bound", "copy", "call"]),
        st.integers(1, 2**32 - 1),
        st.integers(0, 2**32 - 1),
    ),
    max_size=14,
)


@pytest.mark.thin(3)
@pytest.mark.emulator
@pytest.mark.parametrize("mode", STREAM_MODES)
@settings(deadline=None, max_examples=30)
@given(operations=OPERATIONS)
def test_ordered_work_on_streams_runs_in_that_order(shared_device: vc.Device, mode: Any, operations: list[Any]) -> None:
    """Before an array changes streams, the new one is ordered behind the old one, in one of the public ways."""
    with Emulator().steered() as emulator:
        emulator.stream_mode(mode)
        _play(shared_device, operations)


@settings(deadline=None, max_examples=30)
@given(operations=OPERATIONS)
def test_ordered_work_on_streams_runs_in_order(shared_device: vc.Device, operations: list[Any]) -> None:
    _play(shared_device, operations)


def _play(device: vc.Device, operations: list[Any]) -> None:
    kernel = device.compile(step_program())
    streams: list[vc.Stream | None] = [*(device.stream() for _ in range(STREAMS)), None]
    arrays = [device.array(np.full(5, 7, np.uint32)) for _ in range(ARRAYS)]
    expected = [7] * ARRAYS
    last = [STREAMS] * ARRAYS
    for array, where, how, kind, a, c in operations:
        stream = streams[where]
        if kind in ("copy", "call"):  # they wait by themselves for work on the array on any stream
            stream, where = None, STREAMS
        elif last[array] != where:
            _order(device, arrays[array], streams[last[array]], stream, how)
        if kind == "launch":
            kernel.launch(arrays[array], a, c, stream=stream)
        elif kind == "bound":
            kernel.bind(arrays[array], a, c, stream=stream)()
        elif kind == "copy":
            arrays[array].copy_from(np.full(5, c, np.uint32))
        else:
            arrays[array].copy_from(kernel(arrays[array].numpy(), a, c))
        expected[array] = c if kind == "copy" else (a * expected[array] + c) % 2**32
        last[array] = where
    assert expected == [int(array[2]) for array in arrays]


def _order(
    device: vc.Device, array: vc.DeviceArray, earlier: vc.Stream | None, later: vc.Stream | None, how: str
) -> None:
    """Call order has no events of its own: it is waited for, or waits."""
    if how == "numpy":
        array.numpy()
    elif how == "device" or earlier is None:
        device.synchronize()
    elif how == "synchronize" or later is None:
        earlier.synchronize()
    else:
        later.wait(earlier.record())


@pytest.mark.emulator
@pytest.mark.parametrize("mode", ["eager", "lazy"])  # threads would run two launches at a time, which race
@settings(deadline=None, max_examples=25)
@given(first=st.lists(st.integers(0, 9), max_size=4), second=st.lists(st.integers(0, 9), max_size=4))
def test_unordered_streams_interleave_whole_launches(
    shared_device: vc.Device, mode: Any, first: list[int], second: list[int]
) -> None:
    """Each stream keeps its own order; what both did is one of the ways to merge them."""
    with Emulator().steered() as emulator:
        emulator.stream_mode(mode)
        kernel = shared_device.compile(step_program())
        streams = shared_device.stream(), shared_device.stream()
        x = shared_device.array(np.full(1, 3, np.uint32))
        for i in range(max(len(first), len(second))):
            for stream, constants in zip(streams, (first, second), strict=True):
                if i < len(constants):
                    kernel.launch(x, 10, constants[i], stream=stream)

        result = int(x[0])

    steps = len(first) + len(second)
    legal = set()
    for places in combinations(range(steps), len(first)):
        merged, mine, theirs = 3, iter(first), iter(second)
        for i in range(steps):
            merged = (10 * merged + next(mine if i in places else theirs)) % 2**32
        legal.add(merged)
    assert result in legal


def test_many_streams_work_on_shared_arrays(device: vc.Device) -> None:
    """Each of 256 streams works on what call order wrote, and the next write comes behind it."""
    kernel = device.compile(step_program())
    streams = [device.stream() for _ in range(256)]
    start = device.array(np.arange(64, dtype=np.uint32))
    arrays = [device.array(np.arange(64, dtype=np.uint32)) for _ in streams]
    for turn in range(3):
        start.fill(turn)
        for array in arrays:
            array.copy_from(start)
        for number, (stream, array) in enumerate(zip(streams, arrays, strict=True)):
            kernel.launch(array, a=1, c=number, stream=stream)

    assert all((array.numpy() == 2 + number).all() for number, array in enumerate(arrays))
