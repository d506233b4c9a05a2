"""Pauses that do not end at once: one stop in the ring, one pause in the counters, and no call is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.emulator import Emulator

from .test_streams import TRIPS, await_, late

__all__ = ["late"]

ROOT = Path(__file__).parents[3]
X = np.arange(300, dtype=np.float32)
LIMIT = 300.0  # seconds

FULL = """
import sys, numpy as np, vyre_cuda as vc
from tests.device import programs
from vyre_cuda.runtime.worker.worker import Worker

name, far = sys.argv[1], np.uint64(int(sys.argv[2]))
device = vc.Device(int(name) if name.isdigit() else name)
reaching, X = device.compile(programs.reach(), bounds="off"), np.arange(100, dtype=np.uint64)
worker = Worker(device, [reaching], idle=60.0, busy=60.0)
worker.pause()
pending = [worker.submit(reaching, X, far) for _ in range(63)]
worker.resume()
try:
    pending[-1].done()  # launches it
    worker.pause(timeout=20.0)
except vc.DeviceLostError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def held(emulator: Emulator) -> Iterator[Emulator]:
    """What is launched from now on does not begin."""
    emulator.set("held", 1)
    yield emulator
    emulator.set("held", 0)


@pytest.mark.emulator
def test_a_long_pause_stops_the_worker_once(device: vc.Device, saxpy: vc.Kernel, held: Emulator) -> None:
    with Worker(device, [saxpy], idle=LIMIT, busy=LIMIT) as worker:
        pending = worker.submit(saxpy, X, X, 2.0)
        with pytest.raises(vc.KernelTimeoutError):
            worker.pause(timeout=1.2)
        with pytest.raises(vc.KernelTimeoutError):
            worker.pause(timeout=0.1)  # another one, which finds it on the device too
        assert worker.stats().pauses == 2
        held.set("held", 0)
        np.testing.assert_array_equal(3 * X, pending.result(LIMIT))
        worker.resume()
        worker.resume()
        np.testing.assert_array_equal(4 * X, worker.call(saxpy, X, X, 3.0, timeout=LIMIT))
        assert worker.stats().launches == 2  # a launch ends at each stop


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_pause_ends_when_all_that_was_submitted_has_ended(
    device: vc.Device, saxpy: vc.Kernel, late: vc.Kernel, blocks: int
) -> None:
    with Worker(
        device, [saxpy, late], blocks=blocks, idle=LIMIT, busy=1e-3
    ) as worker:  # on the emulator, for each call
        before = [worker.submit(late, X, X, float(a), TRIPS // 30) for a in range(20)]
        worker.pause()
        later = worker.submit(saxpy, X, X, 2.0)
        assert [one.done() for one in before] == [True] * 20
        assert not later.done()
        assert worker.stats().running == 0
        worker.resume()
        np.testing.assert_array_equal(3 * X, later.result(LIMIT))
        for a, one in enumerate(before):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())


@pytest.mark.emulator
def test_what_was_submitted_before_a_pause_goes_on_though_nobody_waits_for_that(
    device: vc.Device, late: vc.Kernel, held: Emulator
) -> None:
    with Worker(device, [late], idle=LIMIT, busy=1e-3) as worker:
        before = [worker.submit(late, X, X, float(a), TRIPS // 30) for a in range(5)]
        with pytest.raises(vc.KernelTimeoutError):
            worker.pause(timeout=0.01)
        held.set("held", 0)
        np.testing.assert_array_equal(5 * X, before[-1].result(LIMIT))
        worker.resume()


@pytest.mark.emulator
@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_is_paused_with_no_room_runs_nothing_that_comes_later(
    device: vc.Device, saxpy: vc.Kernel, held: Emulator, times: int
) -> None:
    pending: list[vc.Pending] = []

    def submit() -> None:
        for a in range(100):
            pending.append(worker.submit(saxpy, X, X, float(a)))

    with Worker(device, [saxpy], idle=LIMIT, busy=LIMIT) as worker:
        submitting = threading.Thread(target=submit)
        submitting.start()
        await_(lambda: len(pending) >= 63)
        for time in range(times):  # the first stop is before what is submitted behind it
            with pytest.raises(vc.KernelTimeoutError):
                worker.pause(timeout=0.05)  # nobody waits for the rest of it
            due = worker.stats().calls
            if time + 1 < times:
                worker.resume()
        held.set("held", 0)
        pending[due - 1].result(LIMIT)
        await_(lambda: worker.stats().running == 0)
        found = [one.done() for one in pending]  # to which the thread adds, as there is room again
        assert found == [True] * due + [False] * (len(found) - due)
        worker.resume()
        submitting.join()
        for a, one in enumerate(pending):
            np.testing.assert_array_equal(np.float32(a + 1) * X, one.result(LIMIT))


@pytest.mark.emulator
def test_a_launch_for_what_was_submitted_before_a_pause_does_not_stay(
    device: vc.Device, saxpy: vc.Kernel, held: Emulator
) -> None:
    with Worker(device, [saxpy], idle=10 * LIMIT, busy=LIMIT) as worker:
        worker.submit(saxpy, X, X, 2.0)
        for turn in range(2):
            with pytest.raises(vc.KernelTimeoutError):
                worker.pause(timeout=0.01)  # its stop is before the second call
            if turn == 0:
                worker.resume()
                second = worker.submit(saxpy, X, X, 3.0)
        held.set("held", 0)
        np.testing.assert_array_equal(4 * X, second.result(LIMIT))
        await_(lambda: worker.stats().running == 0)
        worker.resume()


@pytest.mark.emulator
def test_a_stream_gets_past_a_stop_that_was_left(device: vc.Device, saxpy: vc.Kernel, held: Emulator) -> None:
    stream = device.stream()
    with Worker(device, [saxpy], idle=LIMIT, busy=1e-5) as worker:
        first = worker.submit(saxpy, X, X, 2.0)
        with pytest.raises(vc.KernelTimeoutError):
            worker.pause(timeout=0.01)
        worker.resume()
        second = worker.submit(saxpy, X, X, 3.0)
        stream.wait(worker)  # behind the launch that runs, which ends as busy before it comes to the stop
        held.set("held", 0)
        stream.synchronize(timeout=LIMIT)
        assert second.done()
        assert first.done()


@pytest.mark.emulator
@pytest.mark.parametrize("blocks", [1, 3])
def test_waits_in_a_pause_are_for_what_was_submitted_before_it(
    device: vc.Device, saxpy: vc.Kernel, held: Emulator, blocks: int
) -> None:
    stream = device.stream()
    with Worker(device, [saxpy], blocks=blocks, idle=LIMIT, busy=1e-5) as worker:
        before = [worker.submit(saxpy, X, X, float(a)) for a in range(5)]
        with pytest.raises(vc.KernelTimeoutError):
            worker.pause(timeout=0.01)
        with pytest.raises(vc.KernelTimeoutError):
            device.synchronize(timeout=0.01)
        stream.wait(worker)
        with pytest.raises(vc.KernelTimeoutError):
            stream.synchronize(timeout=0.01)
        later = worker.submit(saxpy, X, X, 2.0)
        with pytest.raises(vc.DeviceUnavailableError, match="calls wait for the end of the pause: resume it first"):
            stream.wait(worker)
        held.set("held", 0)
        stream.synchronize(timeout=LIMIT)
        device.synchronize(timeout=LIMIT)
        assert [one.done() for one in before] == [True] * 5
        assert not later.done()
        worker.resume()
        device.synchronize(timeout=LIMIT)
        assert later.done()


def test_a_wait_that_is_over_in_a_pause_names_the_pause(worker: vc.Worker, saxpy: vc.Kernel) -> None:
    worker.pause()
    pending = worker.submit(saxpy, X, X, 2.0)

    with pytest.raises(vc.KernelTimeoutError, match=r"finished after 0.01 s: the worker is paused, so resume it$"):
        pending.result(timeout=0.01)
    worker.resume()

    assert pending.result(timeout=LIMIT).shape == X.shape


@pytest.mark.thin
def test_a_pause_of_a_full_worker_tells_of_a_fault(device_name: int | str) -> None:
    words = [sys.executable, "-c", FULL, str(device_name), str(2**40)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT)
    assert done.stdout == "DeviceLostError\n", done.stderr
