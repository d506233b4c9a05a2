"""Device arrays of a call: work on them that was submitted before is waited for, and the driver is asked no more often
than something else has used them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

pytestmark = [pytest.mark.device, pytest.mark.emulator]

X = np.arange(40, dtype=np.float32)
PATIENCE = 120.0  # seconds


@pytest.fixture
def device() -> Iterator[vc.Device]:
    with vc.Device("emulator") as made:
        yield made


@pytest.fixture
def saxpy(device: vc.Device) -> vc.Kernel:
    return device.compile(programs.saxpy(), block=32)  # a short call on the emulator, too


@pytest.fixture
def worker(device: vc.Device, saxpy: vc.Kernel) -> Iterator[vc.Worker]:
    from vyre_cuda.runtime.worker.worker import Worker

    with Worker(device, [saxpy], idle=30.0, busy=30.0) as made:  # it ends at no time of its own
        yield made


def fewest(emulator: Emulator, call: Callable[[], object]) -> int:
    """The driver calls of the call that needs fewest. A call that takes long, because other work has the cores, is
    awaited without the GIL, and the driver is asked for faults meanwhile."""
    fewest = 1000
    end = time.monotonic() + PATIENCE
    while fewest > 0 and time.monotonic() < end:
        before = emulator.count("calls")
        call()
        fewest = min(fewest, emulator.count("calls") - before)
    return fewest


@pytest.mark.thin
@pytest.mark.parametrize("way", ["bound", "called", "host"])
def test_a_warm_call_makes_no_driver_call(
    device: vc.Device, emulator: Emulator, worker: vc.Worker, saxpy: vc.Kernel, way: str
) -> None:
    out = np.empty_like(X)
    dropped = [device.array(X) for _ in range(3)]  # so that blocks are used again
    del dropped
    dx, dout = device.array(X), device.array(X)
    bound = worker.bind(saxpy, dx, dx, dout, 2.0)
    ways: dict[str, Callable[[], object]] = {
        "bound": bound,
        "called": lambda: worker.call(saxpy, dx, dx, dout, 2.0),
        "host": lambda: worker.call(saxpy, X, X, 2.0, out=out),
    }
    ways[way]()

    assert fewest(emulator, ways[way]) == 0
    np.testing.assert_array_equal(3 * X, out if way == "host" else dout.numpy())


@pytest.mark.thin(4)
@pytest.mark.parametrize("between", ["launch", "bound launch", "fill", "copy", "stream", "graph"])
def test_what_others_do_between_calls_is_waited_for_each_time(
    device: vc.Device, emulator: Emulator, worker: vc.Worker, saxpy: vc.Kernel, between: str
) -> None:
    """In the emulator's lazy mode nothing runs before somebody waits for it."""
    dx, dy, dout = (device.array(X) for _ in range(3))
    stream = device.stream()
    call = worker.bind(saxpy, dx, dy, dout, 2.0)
    bound = saxpy.bind(dy, dy, dx, 1.0)
    with device.record() as graph:
        saxpy.launch(dy, dy, dx, 1.0)
    call()
    emulator.stream_mode("lazy")
    for turn in range(6):
        y = X + turn
        dy.copy_from(y)
        if between == "launch":
            saxpy.launch(dy, dy, dx, 1.0)
        elif between == "bound launch":
            bound()
        elif between == "stream":
            saxpy.launch(dy, dy, dx, 1.0, stream=stream)
        elif between == "graph":
            graph.replay()
        elif between == "copy":
            dx.copy_from(2 * y)
        else:
            dx.fill(float(turn))
        expected = np.full_like(y, turn) if between == "fill" else 2 * y
        call()
        np.testing.assert_array_equal(2 * expected + y, dout.numpy())


def test_threads_that_launch_copy_and_call(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    """Each with arrays of its own beside one that all read: marks are taken while others launch."""
    shared = device.array(X)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            between, out = device.array(X), device.zeros(40, vc.f32)
            for turn in range(60):
                a = np.float32(number * 100 + turn)
                if turn % 3 == 0:
                    saxpy.launch(shared, shared, between, a)
                elif turn % 3 == 1:
                    between.copy_from((a + 1) * X)
                else:
                    worker.call(saxpy, shared, shared, between, a)
                worker.call(saxpy, between, shared, out, 1.0)
                np.testing.assert_array_equal((a + 2) * X, out.numpy())
                saxpy.launch(out, shared, between, 1.0)
                np.testing.assert_array_equal((a + 3) * X, between.numpy())
        except BaseException as error:
            failures.append(error)

    side_by_side([partial(work, number) for number in range(4)])
    assert failures == []
