"""assert_ on the device: the lowest thread is reported, the device stays usable."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import vyre_cuda as vc

from .. import programs


def values(*bad: int) -> np.ndarray:
    x = np.arange(1000, dtype=np.uint32) % 100
    x[list(bad)] = 5000
    return x


def check(error: vc.KernelAssertionError, thread: int) -> None:
    assert error.message == "x must be below 100"
    assert error.program == "guarded"
    assert error.thread == thread
    assert error.source is not None
    assert error.source[0].endswith("programs.py")


def test_a_call_raises_for_the_lowest_thread(device: vc.Device) -> None:
    kernel = device.compile(programs.guarded())

    with pytest.raises(vc.KernelAssertionError) as caught:
        kernel(values(77, 300, 999))

    check(caught.value, 77)
    np.testing.assert_array_equal(values(), kernel(values()))


def test_the_interpreter_raises_the_same(device: vc.Device) -> None:
    program = programs.guarded()

    with pytest.raises(vc.KernelAssertionError) as expected:
        vc.evaluate(program, values(500, 501))
    with pytest.raises(vc.KernelAssertionError) as found:
        device.run(program, values(500, 501))

    assert expected.value.args == found.value.args
    assert expected.value.statement == found.value.statement


def test_a_submitted_call_raises_at_its_result(device: vc.Device) -> None:
    pending = device.compile(programs.guarded()).submit(values(3))

    for _ in range(2):
        with pytest.raises(vc.KernelAssertionError) as caught:
            pending.result()
        check(caught.value, 3)
    assert pending.done()


@pytest.mark.parametrize("wait", ["device", "numpy", "stream", "event"])
def test_a_launch_raises_at_the_next_wait_and_only_there(own_device: vc.Device, wait: str) -> None:
    kernel = own_device.compile(programs.guarded())
    x, out = own_device.array(values(42)), own_device.zeros(1000, vc.u32)

    stream = own_device.stream()
    kernel.launch(x, out, stream=stream)
    event = stream.record()
    waits = {
        "device": own_device.synchronize,
        "numpy": out.numpy,
        "stream": stream.synchronize,
        "event": event.synchronize,
    }
    with pytest.raises(vc.KernelAssertionError) as caught:
        waits[wait]()

    check(caught.value, 42)
    own_device.synchronize()
    x.copy_from(values())
    kernel.launch(x, out)
    np.testing.assert_array_equal(values(), out.numpy())


def test_threads_after_a_failed_one_go_on(device: vc.Device) -> None:
    b = vc.Builder("partial", block=32)
    x = b.input("x", vc.u32)
    hits = b.inout("hits", vc.u32)
    i = b.let("i", vc.global_id.x)
    b.assert_(i != 5, "five")
    with b.if_(i < x.size):
        b.atomic_add(hits, 0, vc.u32(1))
    b.work(x.size)
    kernel = device.compile(b.build())
    x, hits = device.array(np.zeros(64, np.uint32)), device.zeros(1, vc.u32)

    kernel.launch(x, hits)
    with pytest.raises(vc.KernelAssertionError):
        device.synchronize()

    assert hits.numpy()[0] == 63


def test_an_assertion_of_a_dropped_kernel_is_still_explained(device_name: int | str) -> None:
    with vc.Device(device_name) as device:
        x, out = device.array(values(42)), device.zeros(1000, vc.u32)
        kernel = device.compile(programs.guarded())
        kernel.launch(x, out)

        device._kernels.clear()  # what the table of kernels does with old ones
        del kernel
        gc.collect()

        with pytest.raises(vc.KernelAssertionError) as caught:
            device.synchronize()
        check(caught.value, 42)


@pytest.fixture
def late_main_stream(own_device: vc.Device) -> Iterator[Callable[[], None]]:
    """Gives the main stream work that takes longer than a small copy waits before it goes another way."""
    kernel = own_device.compile(programs.spin())
    flag = own_device.zeros(1, vc.u32)

    def hold() -> None:
        kernel.launch(flag, 20_000)

    yield hold
    own_device.synchronize()


def launched(device: vc.Device, stream: vc.Stream) -> tuple[vc.DeviceArray, vc.DeviceArray]:
    """The input, and the output of a launch that has ended with a failed assertion in thread 42."""
    kernel = device.compile(programs.guarded())
    x, out = device.array(values(42)), device.zeros(1000, vc.u32)
    kernel.launch(x, out, stream=stream)
    ended = stream.record()
    while not ended.query():
        pass
    return x, out


def test_a_wait_for_an_array_raises_where_the_main_stream_is_late(
    own_device: vc.Device, late_main_stream: Callable[[], None]
) -> None:
    _, out = launched(own_device, own_device.stream())
    late_main_stream()

    with pytest.raises(vc.KernelAssertionError) as caught:
        out.numpy()

    check(caught.value, 42)
    np.testing.assert_array_equal(np.delete(values(), 42), np.delete(out.numpy(), 42))


def test_a_wait_for_an_array_raises_where_its_stream_is_gone(own_device: vc.Device) -> None:
    _, out = launched(own_device, own_device.stream())
    gc.collect()

    with pytest.raises(vc.KernelAssertionError) as caught:
        out.numpy()

    check(caught.value, 42)
    own_device.synchronize()


@pytest.mark.parametrize("copies", ["into", "from", "fills"])
def test_a_wait_for_an_array_raises_after_a_copy_that_waited_for_its_stream(own_device: vc.Device, copies: str) -> None:
    stream = own_device.stream()
    _, out = launched(own_device, stream)
    other = own_device.zeros(1000, vc.u32)
    if copies == "into":
        out.copy_from(values())
    elif copies == "from":
        other.copy_from(out)
    else:
        out.fill(0)

    with pytest.raises(vc.KernelAssertionError) as caught:
        (other if copies == "from" else out).numpy()

    check(caught.value, 42)
    stream.synchronize()
    own_device.synchronize()


def test_the_stream_still_raises_after_such_a_copy(own_device: vc.Device) -> None:
    stream = own_device.stream()
    _, out = launched(own_device, stream)
    out.copy_from(values())

    with pytest.raises(vc.KernelAssertionError) as caught:
        stream.synchronize()

    check(caught.value, 42)
    np.testing.assert_array_equal(values(), out.numpy())


def test_an_array_that_no_copy_has_waited_for_does_not_raise_for_another(own_device: vc.Device) -> None:
    stream = own_device.stream()
    launched(own_device, stream)
    other = own_device.zeros(1000, vc.u32)

    assert not other.numpy().any()
    with pytest.raises(vc.KernelAssertionError):
        stream.synchronize()
