"""Numbers of calls that get past 2^31, where their sign changes, and past 2^32: whatever looks at them, in a pause, in
a wait of a stream, in a launch that comes later."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(40, dtype=np.float32)
LIMIT = 300.0  # seconds
WRAPS = [2**31, 2**32]
BEFORE = [1, 2, 63, 64, 65, 100]

pytestmark = [
    pytest.mark.thin(5),
    pytest.mark.parametrize("wrap", WRAPS, ids=["2^31", "2^32"]),
    pytest.mark.parametrize("blocks", [1, 2]),
    pytest.mark.parametrize("before", BEFORE),
]


def check(pending: list[vc.Pending], first: int = 0) -> None:
    for a, one in enumerate(pending):
        np.testing.assert_array_equal(np.float32(first + a + 1) * X, one.result(LIMIT))


def test_calls_pauses_and_launches(device: vc.Device, saxpy: vc.Kernel, wrap: int, blocks: int, before: int) -> None:
    """Each pause has calls before it, and calls that it keeps back; each launch takes few."""
    add, one = device.compile(programs.add_to()), device.array(np.ones(40, np.int32))
    total = device.zeros(40, vc.i32)
    with Worker(device, [saxpy, add], blocks=blocks, idle=0.2, busy=1e-5, first=wrap - before) as worker:
        for turn in range(6):
            early = [worker.submit(saxpy, X, X, float(a)) for a in range(20)]
            worker.call(add, total, one)
            worker.pause(LIMIT)
            assert [one.done() for one in early] == [True] * 20
            late = [worker.submit(saxpy, X, X, float(20 + a)) for a in range(15)]
            assert [one.done() for one in late] == [False] * 15
            with contextlib.suppress(vc.KernelTimeoutError):
                worker.call(add, total, one, timeout=0.0)  # which never runs
            worker.resume()
            check(early)
            check(late, 20)
            np.testing.assert_array_equal(np.full(40, turn + 1), total.numpy())
        assert worker.stats().launches > 6
    assert device.stats().worker_errors == 0


def test_streams_behind_calls(device: vc.Device, saxpy: vc.Kernel, wrap: int, blocks: int, before: int) -> None:
    stream, results = device.stream(), [np.zeros_like(X) for _ in range(30)]
    with Worker(device, [saxpy], blocks=blocks, idle=0.2, busy=1e-5, first=wrap - before) as worker:
        for turn in range(5):
            pending = [worker.submit(saxpy, X, X, float(a), out=out) for a, out in enumerate(results)]
            stream.wait(worker)
            stream.synchronize(timeout=LIMIT)
            assert [one.done() for one in pending] == [True] * 30
            if turn % 2 == 0:
                worker.pause(LIMIT)
                stream.wait(worker)
                worker.resume()
            check(pending)
            device.synchronize(timeout=LIMIT)


@pytest.mark.emulator
def test_a_pause_that_was_given_up(
    device: vc.Device, saxpy: vc.Kernel, emulator: Emulator, wrap: int, blocks: int, before: int
) -> None:
    """Its stop stays in the ring, before calls that are due in the next one."""
    with Worker(device, [saxpy], blocks=blocks, idle=LIMIT, busy=1e-5, first=wrap - before) as worker:
        for _ in range(4):
            emulator.set("held", 1)
            pending = []
            for a in range(2):
                pending += [worker.submit(saxpy, X, X, float(14 * a + b)) for b in range(14)]
                with pytest.raises(vc.KernelTimeoutError):
                    worker.pause(timeout=0.001)
                if a == 0:
                    worker.resume()
            emulator.set("held", 0)
            worker.pause(LIMIT)
            assert worker.stats().running == 0
            check(pending)
            worker.resume()
            worker.resume()
            check([worker.submit(saxpy, X, X, float(a)) for a in range(20)])
