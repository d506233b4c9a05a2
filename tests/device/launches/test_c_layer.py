"""What the C layer promises to the runtime, seen from Python: order across streams, reuse, timeouts, assertions."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda._native.call.prepared import Arguments
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(300, dtype=np.float32)
CUDA_ERROR_NOT_READY = 600
CUDA_ERROR_UNKNOWN = 999


def test_zeros_come_before_a_launch_on_a_stream(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x, stream = device.array(X), device.stream()
    for _ in range(20):
        out = device.zeros(300, vc.f32)
        kernel.launch(x, x, out, 2.0, stream=stream)
        np.testing.assert_array_equal(np.float32(2) * X + X, out.numpy())


@pytest.mark.emulator
def test_zeros_come_before_a_launch_on_a_stream_that_runs_late(own_device: vc.Device, emulator: Emulator) -> None:
    emulator.stream_mode("lazy")
    kernel = own_device.compile(programs.saxpy())
    x, out = own_device.array(X), own_device.zeros(300, vc.f32)

    kernel.launch(x, x, out, 2.0, stream=own_device.stream())

    np.testing.assert_array_equal(np.float32(2) * X + X, out.numpy())


@pytest.mark.emulator
def test_calls_with_a_device_array_end_where_nothing_runs_unasked(own_device: vc.Device, emulator: Emulator) -> None:
    kernel, x = own_device.compile(programs.saxpy()), own_device.array(X)
    emulator.stream_mode("lazy")

    np.testing.assert_array_equal(np.float32(2) * X + X, kernel(x, X, 2.0))
    pending = kernel.submit(x, X, 3.0)
    while not pending.done():
        pass
    np.testing.assert_array_equal(np.float32(3) * X + X, pending.result())


def queries_of_three_waits(device: vc.Device, emulator: Emulator) -> list[int]:
    queries = []
    for _ in range(3):
        before = emulator.count("cuStreamQuery")
        device.synchronize()
        queries.append(emulator.count("cuStreamQuery") - before)
    return queries


@pytest.mark.emulator
def test_a_wait_queries_the_stream_of_an_ended_call_once(own_device: vc.Device, emulator: Emulator) -> None:
    emulator.stream_mode("eager")
    kernel = own_device.compile(programs.saxpy())
    for _ in range(2):
        kernel(X, X, 2.0)
        assert queries_of_three_waits(own_device, emulator) == [2, 1, 1]


@pytest.mark.emulator
@pytest.mark.parametrize("result", [CUDA_ERROR_NOT_READY, CUDA_ERROR_UNKNOWN])
def test_a_wait_queries_the_stream_of_an_ended_call_again_if_that_failed(
    own_device: vc.Device, emulator: Emulator, result: int
) -> None:
    emulator.stream_mode("eager")
    kernel = own_device.compile(programs.saxpy())
    kernel(X, X, 2.0)
    emulator.fail("cuStreamQuery", result=result)
    assert queries_of_three_waits(own_device, emulator) == [2, 2, 1]


@pytest.mark.emulator
def test_a_wait_queries_the_stream_of_an_ended_call_after_one_beside_it(
    own_device: vc.Device, emulator: Emulator
) -> None:
    kernel = own_device.compile(programs.saxpy())
    emulator.stream_mode("lazy")
    pending = kernel.submit(X, X, 2.0)
    own_device.synchronize()
    pending.result()
    assert queries_of_three_waits(own_device, emulator) == [2, 1, 1]


@pytest.mark.emulator
def test_threads_that_read_one_array_both_wait_for_its_stream(own_device: vc.Device, emulator: Emulator) -> None:
    kernel = own_device.compile(programs.saxpy())
    x, out, stream = own_device.array(X), own_device.zeros(300, vc.f32), own_device.stream()
    emulator.set("delay_us", 3000)
    for turn in range(1, 9):
        found: list[np.ndarray] = []
        kernel.launch(x, x, out, float(turn), stream=stream)
        threads = [threading.Thread(target=lambda to=found: to.append(out.numpy())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for values in found:
            np.testing.assert_array_equal(np.float32(turn) * X + X, values)


@pytest.mark.emulator
def test_a_call_that_could_not_be_waited_for_leaves_the_next_alone(own_device: vc.Device, emulator: Emulator) -> None:
    emulator.stream_mode("lazy")
    kernel = own_device.compile(programs.guarded())
    good, bad = np.zeros(100, np.uint32), np.full(100, 5000, np.uint32)
    emulator.fail("cuStreamQuery", result=CUDA_ERROR_UNKNOWN)

    with pytest.raises(vc.DriverError):
        kernel(bad)

    np.testing.assert_array_equal(good, kernel(good))


@pytest.mark.emulator
def test_a_time_limit_shorter_than_a_slice_ends_the_wait(own_device: vc.Device, emulator: Emulator) -> None:
    kernel = own_device.compile(programs.saxpy())
    out = np.empty(300, np.float32)
    bits = [int(np.float32(2).view(np.uint32))]
    arguments = Arguments([(300, X, None), (300, X, None), (300, None, out)], bits, (2, 1, 1))
    emulator.set("held", 1)

    with pytest.raises(vc.Error, match="time allowed"):
        kernel.prepared.run(arguments, timeout_ns=1_000_000)
    emulator.set("held", 0)
    kernel.prepared.run(arguments, timeout_ns=-1)

    np.testing.assert_array_equal(np.float32(2) * X + X, out)


def test_a_dropped_kernel_still_reports(own_device: vc.Device) -> None:
    kernel = own_device.compile(programs.guarded())
    kernel.launch(own_device.array(np.full(100, 5000, np.uint32)), own_device.zeros(100, vc.u32))
    own_device._kernels.clear()
    del kernel
    gc.collect()

    with pytest.raises(vc.Error, match="guarded"):
        own_device.synchronize()
    own_device.synchronize()


def test_each_kernel_reports_its_own_assertion(own_device: vc.Device) -> None:
    first, second = own_device.compile(programs.guarded()), own_device.compile(programs.guarded(), bounds="off")
    x, out = own_device.array(np.full(100, 5000, np.uint32)), own_device.zeros(100, vc.u32)
    first.launch(x, out)
    second.launch(x, out)

    for _ in range(2):
        with pytest.raises(vc.KernelAssertionError):
            own_device.synchronize()
    own_device.synchronize()


def test_many_threads_rebind_one_call(own_device: vc.Device) -> None:
    h = own_device.zeros(500, vc.i32)
    ones = [own_device.array(np.ones(500, np.int32)) for _ in range(2)]
    call = own_device.compile(programs.add_to()).bind(h, ones[0])

    def work() -> None:
        for turn in range(40):
            call(h, ones[turn % 2])

    side_by_side([work] * 4)

    np.testing.assert_array_equal(np.full(500, 160), h.numpy())


@pytest.mark.emulator
def test_two_threads_close_a_device_and_both_find_it_closed(
    leak_check, device_name: int | str, emulator: Emulator
) -> None:
    device = vc.Device(device_name)
    kernel = device.compile(programs.saxpy())
    emulator.set("delay_us", 20_000)
    pending = kernel.submit(X, X, 1.0)
    left: list[dict[str, int]] = []

    def close() -> None:
        device.context.close()
        left.append(leak_check.new())

    side_by_side([close] * 2)

    assert left == [{}, {}]
    assert pending is not None
