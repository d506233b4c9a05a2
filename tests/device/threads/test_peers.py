"""Arrays of one device where another one is at work: copies between devices, and kernels that were let use a peer's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from side_by_side import side_by_side

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs

N = 1000
X = np.arange(N, dtype=np.float32)
# The way out: on another GPU, and on a second Device of the same one.
WAY_OUT = "enable_peer|open each GPU once"


def _scale() -> vc.Program:
    b = vc.Builder("scale")
    x = b.inout("x", vc.f32)
    a = b.scalar("a", vc.f32)
    with b.if_(vc.global_id.x < x.size):
        x[vc.global_id.x] = x[vc.global_id.x] * a
    return b.build()


def _slow_add() -> vc.Program:
    """Long enough that what is not ordered behind it reads too early."""
    b = vc.Builder("slow", block=64)
    x = b.inout("x", vc.f32)
    with b.if_(vc.global_id.x < x.size), b.for_(0, 200):
        x[vc.global_id.x] = x[vc.global_id.x] + 1.0
    return b.build()


@pytest.fixture
def two(device_name: int | str, request: pytest.FixtureRequest) -> Iterator[tuple[vc.Device, vc.Device]]:
    """Two devices; of a machine with one GPU, twice the same."""
    if str(device_name).startswith("emulator"):
        request.getfixturevalue("emulator").set("device_count", 2)
        names = "emulator:0", "emulator:1"
    else:
        count = sum(info.kind == "cuda" for info in vc.devices())
        names = "cuda:0", "cuda:1" if count > 1 else "cuda:0"
    with vc.Device(names[0]) as first, vc.Device(names[1]) as second:
        yield first, second


@pytest.mark.emulator
def test_peers_are_the_other_devices_of_the_driver(two, emulator):
    first, second = two

    assert [(peer.ordinal, peer.is_direct) for peer in first.peers] == [(1, True)]
    emulator.set("peer_access", 0)
    assert [(peer.ordinal, peer.is_direct) for peer in second.peers] == [(0, False)]


def test_copies_go_from_device_to_device_in_the_order_of_both(two):
    first, second = two
    slow, scale = second.compile(_slow_add()), second.compile(_scale())
    x, y = second.array(X), first.zeros(N, vc.f32)

    slow.launch(x)
    y.copy_from(x)
    scale.launch(x, 0.0)

    np.testing.assert_array_equal(X + 200, y.numpy())
    np.testing.assert_array_equal(np.zeros(N), x.numpy())


def test_copies_follow_work_on_other_streams(two):
    first, second = two
    slow, scale = second.compile(_slow_add()), first.compile(_scale())
    stream, other = second.stream(), first.stream()
    x, y = second.array(X), first.array(X)

    slow.launch(x, stream=stream)
    scale.launch(y, 3.0, stream=other)
    y.copy_from(x)

    np.testing.assert_array_equal(X + 200, y.numpy())


def test_parts_are_copied_to_where_they_belong(two):
    first, second = two
    x, y = second.array(X), first.zeros((10, 100), vc.f32)

    y[3] = x.reshape(10, 100)[7]
    y.reshape(N).copy_from(x[:50], 950)

    expected = np.zeros((10, 100), np.float32)
    expected[3], expected[9, 50:] = X[700:800], X[:50]
    np.testing.assert_array_equal(expected, y.numpy())


@pytest.mark.emulator
def test_copies_need_no_access(two, emulator):
    first, second = two
    emulator.set("peer_access", 0)
    y = first.zeros(N, vc.f32)

    y.copy_from(second.array(X))

    np.testing.assert_array_equal(X, y.numpy())


@pytest.mark.emulator
def test_a_copy_that_fails_says_so_and_leaves_both_devices_usable(two, emulator):
    first, second = two
    x, y = second.array(X), first.zeros(N, vc.f32)
    y.copy_from(x)
    emulator.fail("cuMemcpyPeerAsync", result=999)

    with pytest.raises(vc.Error, match="cuMemcpyPeerAsync"):
        y.copy_from(x)

    y.copy_from(x)
    np.testing.assert_array_equal(X, y.numpy())


def test_a_kernel_refuses_arrays_of_another_device_and_says_the_way_out(two):
    first, second = two
    kernel, x = first.compile(_scale()), second.array(X)
    other, own = second.properties.label, first.properties.label
    expected = [f"another device, {other}", f"the kernel is on {own}", "copy_from", "enable_peer"]
    if other == own:
        expected = [f"another device object of {own} than the kernel", "open each GPU once", "copy_from"]

    for use in (lambda: kernel.launch(x, 2.0), lambda: kernel.bind(x, 2.0)):
        with pytest.raises(ValueError) as caught:
            use()
        for words in expected:
            assert words in str(caught.value)
    second.array(X).copy_from(first.array(X))  # gives access, but not to kernels
    with pytest.raises(ValueError, match=WAY_OUT):
        kernel.launch(x, 2.0)


def test_kernels_take_arrays_of_an_enabled_peer(two):
    first, second = two
    first.enable_peer(second)
    first.enable_peer(second)
    kernel, slow = first.compile(_scale()), second.compile(_slow_add())
    x = second.array(X)

    slow.launch(x)
    kernel.launch(x, 2.0)
    slow.launch(x)
    bound = kernel.bind(x, 3.0)
    bound()
    slow.launch(x, stream=second.stream())

    np.testing.assert_array_equal(((X + 200) * 2 + 200) * 3 + 200, x.numpy())
    with pytest.raises(ValueError, match=WAY_OUT):
        second.compile(_scale()).launch(first.array(X), 2.0)


def test_calls_with_host_arrays_take_a_peers_arrays_too(two):
    first, second = two
    first.enable_peer(second)
    kernel = first.compile(programs.saxpy())

    result = kernel(second.array(X), X, 2.0)
    pending = kernel.submit(second.array(X), X, 3.0)

    np.testing.assert_array_equal(3 * X, result)
    np.testing.assert_array_equal(4 * X, pending.result())


def test_recorded_graphs_take_a_peers_arrays(two):
    first, second = two
    first.enable_peer(second)
    kernel, slow = first.compile(_scale()), second.compile(_slow_add())
    x, y = second.array(X), first.zeros(N, vc.f32)
    with first.record() as graph:
        kernel.launch(x, 2.0)
        y.copy_from(x)

    slow.launch(x)
    graph.replay()
    slow.launch(x)

    np.testing.assert_array_equal((X + 200) * 2, y.numpy())
    np.testing.assert_array_equal((X + 200) * 2 + 200, x.numpy())


def test_a_recorded_copy_from_a_device_that_is_no_peer_is_refused(two):
    first, second = two
    x, y = second.array(X), first.zeros(N, vc.f32)

    with pytest.raises(ValueError, match=WAY_OUT), first.record():
        y.copy_from(x)


def test_a_peers_array_lives_as_long_as_work_on_it(two):
    first, second = two
    first.enable_peer(second)
    slow, x = first.compile(_slow_add()), second.array(X)

    slow.launch(x)
    kept = x[:]
    x.free()
    others = [second.full(N, 7.0, vc.f32) for _ in range(3)]

    np.testing.assert_array_equal(X + 200, kept.numpy())
    assert all((other.numpy() == 7).all() for other in others)


def test_memory_goes_to_its_next_owner_behind_a_peers_work(two):
    first, second = two
    first.enable_peer(second)
    slow, y = first.compile(_slow_add()), first.zeros(N, vc.f32)

    for _ in range(20):
        x = second.array(X)
        slow.launch(x)
        y.copy_from(x)
        x.free()
        np.testing.assert_array_equal(np.full(N, 7), second.full(N, 7.0, vc.f32).numpy())
        np.testing.assert_array_equal(X + 200, y.numpy())


def test_a_closed_peer_is_named(two):
    first, second = two
    first.enable_peer(second)
    kernel, x, y = first.compile(_scale()), second.array(X), first.zeros(N, vc.f32)
    second.close()

    with pytest.raises(vc.DeviceUnavailableError):
        y.copy_from(x)
    with pytest.raises(vc.DeviceUnavailableError):
        kernel.launch(x, 2.0)
    np.testing.assert_array_equal(2 * X, first.run(_scale(), X, 2.0))


WAITS = {
    "device": lambda device, work: device.synchronize(),
    "stream": lambda device, work: work.stream.synchronize(),
    "event": lambda device, work: work.event.synchronize(),
    "array": lambda device, work: work.x.numpy(),
    "result": lambda device, work: work.pending.result(),
    "call": lambda device, work: work.kernel(X, 2.0),
}


@pytest.mark.emulator
@pytest.mark.parametrize("wait", WAITS)
def test_a_peer_closes_while_a_thread_waits_for_work_of_this_device(two, emulator, wait):
    first, second = two
    x, y, kernel = first.array(X), second.zeros(N, vc.f32), first.compile(_scale())
    y.copy_from(x)
    x.copy_from(y)
    kernel(X, 2.0)  # what is made once
    stream = first.stream()
    first.synchronize()
    second.synchronize()

    emulator.set("held", 1)
    kernel.launch(x, 2.0, stream=stream)
    work = SimpleNamespace(x=x, kernel=kernel, stream=stream, event=stream.record(), pending=kernel.submit(X, 2.0))
    before = emulator.count("calls")
    thread = threading.Thread(target=WAITS[wait], args=(first, work))
    thread.start()
    try:
        while emulator.count("calls") < before + 20:
            time.sleep(0.001)
        second.close(timeout=120.0)  # what waits in slices begins anew after some seconds
    finally:
        emulator.set("held", 0)
        thread.join()
    np.testing.assert_array_equal(2 * X, x.numpy())


@pytest.mark.emulator
def test_access_that_is_impossible_is_unsupported(two, emulator):
    first, second = two
    emulator.set("peer_access", 0)

    with pytest.raises(vc.UnsupportedError, match="device 0 cannot access the memory of device 1"):
        first.enable_peer(second)
    with pytest.raises(ValueError, match="its own peer"):
        first.enable_peer(first)
    with pytest.raises(TypeError, match="takes a Device"):
        first.enable_peer(1)


def test_threads_copy_between_devices_in_both_directions(two):
    failures: list[BaseException] = []

    def work(number: int) -> None:
        here, there = two[number % 2], two[1 - number % 2]
        try:
            for value in range(10):
                x, y = here.full(N, float(value), vc.f32), there.empty(N, vc.f32)
                y.copy_from(x)
                x.copy_from(y)
                assert (x.numpy() == value).all()
        except BaseException as error:
            failures.append(error)

    side_by_side([partial(work, number) for number in range(4)])

    assert not failures


@pytest.mark.emulator
@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_order_holds_in_every_mode_of_the_emulator(two, emulator: Emulator, mode):
    emulator.set("stream_mode", {"eager": 0, "lazy": 2}[mode])
    test_copies_go_from_device_to_device_in_the_order_of_both(two)
    test_kernels_take_arrays_of_an_enabled_peer(two)
