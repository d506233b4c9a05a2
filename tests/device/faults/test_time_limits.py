"""Limits of time that waits take: which numbers they are, and what a wait does within them."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(100, dtype=np.float32)


@pytest.mark.parametrize("timeout", [None, 0, 1.5, -1, float("inf"), 1e300])
def test_a_wait_for_no_work_ends_at_once(device: vc.Device, timeout) -> None:
    device.synchronize()

    device.synchronize(timeout=timeout)
    device.stream().synchronize(timeout=timeout)
    device.stream().record().synchronize(timeout=timeout)
    pending = device.compile(programs.saxpy()).submit(X, X, 1.0)
    pending.result()
    np.testing.assert_array_equal(X + X, pending.result(timeout=timeout))


@pytest.mark.emulator
def test_a_timed_call_that_outlasts_the_first_wait_has_its_times(device: vc.Device, emulator: Emulator) -> None:
    kernel = device.compile(programs.saxpy())
    emulator.set("delay_us", 40_000)

    times = kernel.timed(X, X, 2.0)

    np.testing.assert_array_equal(3 * X, times.outputs)
    assert times.wall_ns >= 80_000_000
    assert times.enqueue_ns + times.wait_ns == times.wall_ns
    assert 0 < times.device_ns < times.wall_ns


@pytest.mark.emulator
def test_a_wait_ends_with_what_was_given_before_it(own_device: vc.Device, emulator: Emulator) -> None:
    """Another thread keeps the stream busy for as long as the wait lasts: an idle moment never comes."""
    kernel, out, x = own_device.compile(programs.saxpy()), own_device.zeros(100, vc.f32), own_device.array(X)
    enough = threading.Event()
    emulator.set("delay_us", 1000)

    def feed() -> None:
        while not enough.is_set():
            kernel.launch(x, x, out, 1.0)
            time.sleep(0.0005)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        own_device.synchronize(timeout=60)
        own_device.stream().synchronize(timeout=60)
    finally:
        enough.set()
        thread.join()
        emulator.set("delay_us", 0)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (float("nan"), ValueError, "timeout= is NaN; it must be a number of seconds, or None"),
        ("1", TypeError, "timeout= is a str; it must be a number of seconds, or None"),
    ],
    ids=["nan", "text"],
)
def test_a_timeout_that_is_not_a_number_is_refused_before_anything_is_started(
    device: vc.Device, wrong: Any, kind: type[Exception], message: str
) -> None:
    saxpy, x = device.compile(programs.saxpy()), np.ones(8, np.float32)
    stream, pending = device.stream(), saxpy.submit(x, x, 2.0)
    event, worker = stream.record(), device.worker([saxpy])
    waits = [
        lambda: pending.result(wrong),
        lambda: device.synchronize(wrong),
        lambda: stream.synchronize(timeout=wrong),
        lambda: event.synchronize(timeout=wrong),
        lambda: saxpy(x, x, 2.0, timeout=wrong),
        lambda: worker.call(saxpy, x, x, 2.0, timeout=wrong),
        lambda: worker.pause(wrong),
        lambda: worker.close(wrong),
        lambda: device.close(wrong),
    ]
    device.synchronize()
    before = device.stats()

    for wait in waits:
        with pytest.raises(kind, match=message):
            wait()

    after = device.stats()
    assert (after.host_dispatches, after.worker_calls) == (before.host_dispatches, before.worker_calls)
    np.testing.assert_array_equal(worker.call(saxpy, x, x, 2.0), pending.result(0))  # none is paused or closed
    worker.close()


@pytest.mark.emulator
def test_a_limit_that_is_over_lets_a_wait_look_once(own_device: vc.Device, emulator: Emulator) -> None:
    saxpy, x = own_device.compile(programs.saxpy()), np.ones(8, np.float32)
    emulator.set("held", 1)
    pending = saxpy.submit(x, x, 2.0)
    for wait in (pending.result, own_device.synchronize):
        for over in (0, -0.5, float("-inf")):
            with pytest.raises(vc.KernelTimeoutError):
                wait(timeout=over)
    emulator.set("held", 0)

    own_device.synchronize()
    np.testing.assert_array_equal(np.full(8, 3, np.float32), pending.result(timeout=-0.5))
