"""Submitted calls: results in any order, timeouts, awaiting, dropping."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs

F32 = np.float32


def inputs(seed: int, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n).astype(F32), rng.standard_normal(n).astype(F32)


def test_results_may_be_collected_in_any_order(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    pending = [kernel.submit(*inputs(seed), float(seed)) for seed in range(150)]

    for seed in reversed(range(150)):
        x, y = inputs(seed)
        np.testing.assert_array_equal(F32(seed) * x + y, pending[seed].result())


def test_inputs_may_change_once_submit_returned(device: vc.Device) -> None:
    x, y = inputs(1)
    expected = F32(2) * x + y

    pending = device.compile(programs.saxpy()).submit(x, y, 2.0)
    x[:] = 0
    y[:] = 0

    np.testing.assert_array_equal(expected, pending.result())


def test_result_may_be_asked_twice_and_done_is_true_then(device: vc.Device) -> None:
    x, y = inputs(2)
    pending = device.compile(programs.saxpy()).submit(x, y, 1.0)

    first = pending.result(timeout=60)

    assert pending.done()
    assert pending.result() is first


def test_dropped_results_do_not_hold_up_later_calls(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x, y = inputs(3)

    for _ in range(200):
        kernel.submit(x, y, 1.0)

    np.testing.assert_array_equal(x + y, kernel(x, y, 1.0))


def test_submitted_calls_can_be_awaited(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x, y = inputs(4)

    async def main() -> list[np.ndarray]:
        return await asyncio.gather(*(_await(kernel.submit(x, y, float(a))) for a in range(10)))

    async def _await(pending: vc.Pending) -> np.ndarray:
        return await pending

    for a, result in enumerate(asyncio.run(main())):
        np.testing.assert_array_equal(F32(a) * x + y, result)


def test_out_of_a_submitted_call_is_written(device: vc.Device) -> None:
    x, y = inputs(5)
    out = np.zeros(500, F32)

    result = device.compile(programs.saxpy()).submit(x, y, 3.0, out=out).result()

    assert result is out
    np.testing.assert_array_equal(F32(3) * x + y, out)


@pytest.mark.emulator
def test_a_timeout_is_an_error_and_the_result_can_still_come(device: vc.Device, emulator) -> None:
    kernel = device.compile(programs.saxpy())
    x, y = inputs(6)
    kernel(x, y, 1.0)
    emulator.set("held", 1)
    pending = kernel.submit(x, y, 2.0)

    with pytest.raises(vc.KernelTimeoutError):
        pending.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        pending.result(timeout=0)
    emulator.set("held", 0)

    np.testing.assert_array_equal(F32(2) * x + y, pending.result(timeout=60))


@pytest.mark.emulator
def test_an_abandoned_result_is_never_written(device: vc.Device, emulator) -> None:
    kernel = device.compile(programs.saxpy())
    x, y = inputs(7)
    out = np.full(500, -1, F32)
    emulator.set("held", 1)
    pending = kernel.submit(x, y, 2.0, out=out)

    del pending
    emulator.set("held", 0)
    for _ in range(3):
        kernel(x, y, 1.0)
    device.synchronize()

    np.testing.assert_array_equal(np.full(500, -1, F32), out)


# ---- a call with a limit of time -----------------------------------------------------------------------------------


def test_a_call_that_ends_in_time(device: vc.Device) -> None:
    x = np.arange(100, dtype=np.float32)
    out = np.zeros_like(x)
    kernel = device.compile(programs.saxpy())

    np.testing.assert_array_equal(kernel(x, x, 2.0, timeout=60), 3 * x)
    assert kernel(x, y=x, a=2.0, out=out, timeout=None) is out
    np.testing.assert_array_equal(out, 3 * x)


@pytest.mark.emulator
def test_a_call_that_does_not_end_in_time(device: vc.Device, emulator) -> None:
    kernel = device.compile(programs.saxpy())
    x, y = inputs(8)
    out = np.full(500, -1, F32)
    kernel(x, y, 1.0)
    emulator.set("held", 1)

    with pytest.raises(vc.KernelTimeoutError, match=r"kernel saxpy has not finished after 0\.01 s"):
        kernel(x, y, 2.0, out=out, timeout=0.01)
    emulator.set("held", 0)
    device.synchronize()

    assert (out == -1).all()
    np.testing.assert_array_equal(F32(2) * x + y, kernel(x, y, 2.0, out=out, timeout=60))


def test_a_parameter_that_is_called_timeout_keeps_the_keyword(device: vc.Device) -> None:
    b = vc.Builder("waits")
    x = b.inout("x", vc.f32)
    timeout = b.scalar("timeout", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        x[i] = timeout

    assert device.compile(b.build())(np.zeros(2, np.float32), timeout=2.5).tolist() == [2.5, 2.5]
