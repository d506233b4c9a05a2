"""Order between calls of a worker and work in flight on streams, without a wait of the host."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.worker.worker import Worker
from vyre_cuda.testing.emulator import Emulator

from .. import programs

X = np.arange(40, dtype=np.float32)
TRIPS = 30_000  # of a kernel that is in flight for a while
LONG = 20 * TRIPS
LIMIT = 300.0  # seconds


def late_saxpy() -> vc.Program:
    """saxpy, after as many trips as it is told."""
    b = vc.Builder("late_saxpy", block=64)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size, zeroed=False)
    a, trips = b.scalar("a", vc.f32), b.scalar("trips", vc.u32)
    i = b.let("i", vc.global_id.x)
    passed = b.var("passed", vc.u32(1))
    with b.for_(trips) as trip:
        passed.set(passed * vc.u32(1664525) + trip)
    with b.if_((i < out.size) & (passed != vc.u32(12345))):
        out[i] = a * x[i] + y[i]
    return b.build()


@pytest.fixture
def late(device: vc.Device) -> vc.Kernel:
    return device.compile(late_saxpy())


@pytest.fixture
def saxpy(device: vc.Device) -> vc.Kernel:
    return device.compile(programs.saxpy(64))


@pytest.fixture(params=[1, 3], ids=["one block", "three blocks"])
def worker(request: pytest.FixtureRequest, device: vc.Device, saxpy: vc.Kernel, late: vc.Kernel) -> Iterator[vc.Worker]:
    """It leaves the device often, with calls left."""
    with Worker(device, [saxpy, late], blocks=request.param, idle=0.2, busy=1e-4) as made:
        yield made


def await_(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def arrays(device: vc.Device, count: int) -> list[vc.DeviceArray]:
    return [device.array(X) for _ in range(count)]


@pytest.mark.parametrize("where", ["main", "stream", "two streams"])
def test_a_call_reads_what_an_unfinished_launch_writes(
    device: vc.Device, device_name: int | str, worker: vc.Worker, saxpy: vc.Kernel, late: vc.Kernel, where: str
) -> None:
    first, second = device.stream(), device.stream()
    x, y, z, out = arrays(device, 4)
    trips = TRIPS if isinstance(device_name, int) else TRIPS // 5  # 20 ms of the emulator
    for turn in range(5):
        a = float(turn)
        late.launch(x, x, y, a, trips, stream=None if where == "main" else first)
        late.launch(x, x, z, a + 1, trips, stream=second if where == "two streams" else first)
        worker.call(saxpy, y, z, out, 2.0)
        np.testing.assert_array_equal(np.float32(3 * a + 4) * X, out.numpy())


@pytest.mark.thin
@pytest.mark.emulator
@pytest.mark.parametrize("worker", [1], indirect=True, ids=["one block"])  # with several the calling thread waits
def test_such_a_call_is_in_the_ring_before_the_launch_has_ended(
    device: vc.Device, emulator: Emulator, worker: vc.Worker, saxpy: vc.Kernel, late: vc.Kernel
) -> None:
    stream = device.stream()
    x, y, out = arrays(device, 3)
    worker.call(saxpy, x, x, out, 1.0)
    calls = worker.stats().calls
    emulator.set("held", 1)
    late.launch(x, x, y, 2.0, TRIPS, stream=stream)
    caller = threading.Thread(target=worker.call, args=(saxpy, y, x, out, 1.0))
    caller.start()
    try:
        await_(lambda: worker.stats().calls > calls)
    finally:
        emulator.set("held", 0)
        caller.join()
    np.testing.assert_array_equal(4 * X, out.numpy())


@pytest.mark.thin
def test_a_call_that_waits_for_a_launch_does_not_keep_the_worker_on_the_device(
    device: vc.Device, emulator: Emulator, saxpy: vc.Kernel, late: vc.Kernel
) -> None:
    """Others may wait for the whole device, and the launch for the queue in which the worker is."""
    stream = device.stream()
    x, y, out = arrays(device, 3)
    is_emulator = device.properties.is_emulator
    has_left = False
    with Worker(device, [saxpy], idle=60.0, busy=1e-3) as worker:
        while not has_left:
            worker.call(saxpy, x, x, out, 1.0)
            before = worker.stats()
            emulator.set("held", int(is_emulator))
            late.launch(x, x, y, 2.0, TRIPS if is_emulator else LONG, stream=stream)
            caller = threading.Thread(target=worker.call, args=(saxpy, y, x, out, 1.0))
            caller.start()
            try:
                await_(lambda calls=before.calls: worker.stats().calls > calls)
                launches = worker.stats().launches
                if is_emulator and launches > before.launches:
                    continue  # it had ended before the call, and its next launch is held, too
                await_(lambda: not worker.stats().running)
                has_left = True
                assert not stream.query()
                assert worker.stats().launches == launches  # it has not come back meanwhile
            finally:
                emulator.set("held", 0)
                caller.join()
        np.testing.assert_array_equal(4 * X, out.numpy())


def test_arrays_that_other_streams_change_between_calls(
    device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel, late: vc.Kernel
) -> None:
    streams = [device.stream() for _ in range(3)]
    x, y, out = arrays(device, 3)
    for turn in range(12):
        stream = streams[turn % 3]
        late.launch(x, x, y, float(turn), TRIPS // 8, stream=stream)
        worker.call(saxpy, y, x, out, 1.0)
        saxpy.launch(out, x, y, 1.0, stream=stream)
        worker.call(saxpy, y, x, out, 1.0)
        np.testing.assert_array_equal(np.float32(turn + 4) * X, out.numpy())


@pytest.mark.thin
def test_calls_of_several_threads_keep_their_order_with_launches(
    device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel, late: vc.Kernel
) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = device.stream()
            x, y, out = arrays(device, 3)
            for turn in range(15):
                a = np.float32(number * 100 + turn)
                late.launch(x, x, y, a, TRIPS // 8, stream=stream)
                worker.call(saxpy, y, x, out, 1.0)
                np.testing.assert_array_equal((a + 2) * X, out.numpy())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        worker.pause()
        worker.resume()
    for thread in threads:
        thread.join()
    assert failures == []


# ---- streams behind calls --------------------------------------------------------------------------------------------


@pytest.mark.thin
def test_a_launch_reads_what_an_unfinished_call_writes(
    device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel, late: vc.Kernel
) -> None:
    """Nobody looks after the call any more, and the worker has left the device before it began."""
    stream = device.stream()
    x, y, out = arrays(device, 3)
    device.synchronize()  # without time, a call does not begin behind copies
    for turn in range(4):
        with contextlib.suppress(vc.KernelTimeoutError):
            worker.call(late, x, x, y, float(turn + 1), 10 * TRIPS, timeout=0.0)
        stream.wait(worker)
        saxpy.launch(y, x, out, 1.0, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(np.float32(turn + 3) * X, out.numpy())


def test_a_stream_behind_more_calls_than_one_launch_of_the_worker_takes(
    device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel, late: vc.Kernel
) -> None:
    stream = device.stream()
    results = [np.zeros_like(X) for _ in range(20)]
    pending = [worker.submit(late, X, X, float(a), TRIPS // 8, out=out) for a, out in enumerate(results)]
    stream.wait(worker)
    stream.synchronize()
    assert all(one.done() for one in pending)
    for a, one in enumerate(pending):
        np.testing.assert_array_equal(np.float32(a + 1) * X, one.result())
    np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))


def test_waiting_for_a_worker_without_calls(device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel) -> None:
    stream = device.stream()
    stream.wait(worker)
    np.testing.assert_array_equal(3 * X, worker.call(saxpy, X, X, 2.0))
    stream.wait(worker)
    worker.pause()
    stream.wait(worker)
    worker.resume()
    stream.synchronize()


def test_a_paused_worker_with_calls_cannot_be_waited_for(
    device: vc.Device, worker: vc.Worker, saxpy: vc.Kernel
) -> None:
    stream = device.stream()
    worker.pause()
    pending = worker.submit(saxpy, X, X, 2.0)
    with pytest.raises(vc.DeviceUnavailableError, match="resume it first"):
        stream.wait(worker)
    worker.resume()
    stream.wait(worker)
    stream.synchronize()
    np.testing.assert_array_equal(3 * X, pending.result())
    with pytest.raises(TypeError, match="an event or a worker"):
        stream.wait(3)  # type: ignore[arg-type]


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.thin(4)
@pytest.mark.emulator
@pytest.mark.parametrize("function", ["cuStreamCreate", "cuEventRecord", "cuStreamWaitEvent", "cuStreamWriteValue32"])
def test_a_driver_call_that_fails_leaves_no_call_behind(
    device: vc.Device, emulator: Emulator, saxpy: vc.Kernel, late: vc.Kernel, function: str
) -> None:
    stream = device.stream()
    x, y, out = arrays(device, 3)
    device.synchronize()  # otherwise the first call may need what is to fail in the second
    with Worker(device, [saxpy], idle=30.0, busy=30.0) as worker:
        worker.call(saxpy, x, x, out, 1.0)
        emulator.set("held", 1)
        late.launch(x, x, y, 2.0, TRIPS, stream=stream)
        emulator.fail(function, result=801)
        with pytest.raises(vc.DriverError):
            worker.call(saxpy, y, x, out, 1.0, timeout=LIMIT)
        emulator.set("held", 0)
        np.testing.assert_array_equal(2 * X, out.numpy())
        worker.call(saxpy, y, x, out, 5.0)
        np.testing.assert_array_equal(16 * X, out.numpy())


@pytest.mark.emulator
def test_a_stream_that_could_not_wait_goes_on(device: vc.Device, emulator: Emulator, saxpy: vc.Kernel) -> None:
    stream = device.stream()
    with Worker(device, [saxpy], idle=30.0, busy=30.0) as worker:
        worker.call(saxpy, X, X, 2.0)
        worker.pause()
        pending = worker.submit(saxpy, X, X, 2.0)
        emulator.fail("cuStreamWaitValue32", result=801)
        worker.resume()
        try:
            stream.wait(worker)
        except vc.DriverError:
            pass
        else:
            pytest.fail("the call was not there any more")
        stream.synchronize()
        np.testing.assert_array_equal(3 * X, pending.result())
