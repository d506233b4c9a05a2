"""Captures of other libraries: our launches go into them, and nothing that this package does ends one."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core import limits

from .. import programs
from ..foreign_library import GLOBAL, RELAXED, THREAD_LOCAL, ForeignStream, Library
from ..foreign_ptx import SAXPY

pytestmark = pytest.mark.emulator
F32 = np.float32
N = 600


def test_launches_are_captured_and_run_with_the_graph(device: vc.Device, stream: ForeignStream) -> None:
    x, out = device.array(np.arange(N, dtype=F32)), device.zeros(N, vc.f32)
    kernel = device.compile(programs.saxpy())
    loaded = device.load(SAXPY, "saxpy", signature="const_ptr ptr f32 u32")
    call = kernel.bind(x, x, out, 3.0, stream=stream)
    for _ in range(2):
        kernel.launch(x, x, out, 0.0, stream=stream)

    stream.begin_capture(GLOBAL)
    kernel.launch(x, x, out, 5.0, stream=stream)
    call()
    loaded.launch(x, out, 2.0, N, grid=3, block=256, stream=stream)
    graph = stream.end_capture()

    np.testing.assert_array_equal(np.arange(N, dtype=F32), out.numpy())
    for _ in range(2):
        graph.replay(stream)
        np.testing.assert_array_equal(6 * np.arange(N, dtype=F32), out.numpy())
    graph.destroy()


def test_the_first_large_launch_may_be_captured(
    device: vc.Device, stream: ForeignStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph has the entry with several elements a thread, which is compiled during the capture."""
    monkeypatch.setattr(limits, "LARGE_LAUNCH", 64)
    b = vc.Builder("first_large", block=32)
    x = b.inout("x", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        x[i] = x[i] + 1.0
    kernel, array = device.compile(b.build()), device.array(np.arange(N, dtype=F32))
    kernel.launch(device.zeros(32, vc.f32), stream=stream)
    assert kernel.several is None

    stream.begin_capture(GLOBAL)
    kernel.launch(array, stream=stream)
    graph = stream.end_capture()
    assert kernel.several is not None
    kernel.launch(array, stream=stream)
    for _ in range(2):
        graph.replay(stream)

    np.testing.assert_array_equal(np.arange(N, dtype=F32) + 3, array.numpy())
    graph.destroy()


def test_an_out_that_must_be_cleared_is_cleared_by_the_graph(device: vc.Device, stream: ForeignStream) -> None:
    x, out = device.array(np.arange(1, 51, dtype=np.uint32)), device.array(np.full(100, 9, np.uint32))
    wanted = np.zeros(100, np.uint32)
    wanted[::2] = np.arange(1, 51)
    kernel = device.compile(programs.every_second())

    stream.begin_capture()
    kernel.launch(x, out, stream=stream)
    graph = stream.end_capture()

    for _ in range(2):
        out.copy_from(np.full(100, 9, np.uint32))
        graph.replay(stream)
        np.testing.assert_array_equal(wanted, out.numpy())
    graph.destroy()


def test_arrays_of_the_capturing_library_are_captured(
    device: vc.Device, library: Library, stream: ForeignStream
) -> None:
    x, out = library.array(np.zeros(N, F32), stream), library.array(np.zeros(N, F32), stream)

    stream.begin_capture()
    device.compile(programs.saxpy()).launch(x, x, out, 1.0, stream=stream)
    graph = stream.end_capture()

    x.write(np.full(N, 4, F32))
    graph.replay(stream)
    np.testing.assert_array_equal(np.full(N, 8, F32), out.read())
    graph.destroy()
    x.free()
    out.free()


def test_what_a_capture_cannot_be_ordered_with_is_refused(
    device: vc.Device, library: Library, stream: ForeignStream
) -> None:
    """Its arrays on another stream, and the legacy default stream beside a capture that it waits for."""
    x, blocking = library.array(np.zeros(N, F32), stream), library.stream(blocking=True)
    kernel, out = device.compile(programs.saxpy()), device.zeros(N, vc.f32)

    stream.begin_capture()
    with pytest.raises(ValueError, match="being captured"):
        kernel.launch(x, x, out, 1.0)
    stream.end_capture().destroy()
    blocking.begin_capture()
    with pytest.raises(vc.DriverError, match="legacy default stream"):
        kernel.launch(device.zeros(N, vc.f32), device.zeros(N, vc.f32), out, 1.0, stream=1)
    blocking.end_capture().destroy()

    blocking.destroy()
    x.free()


# ---- what else goes on meanwhile -------------------------------------------------------------------------------------


def _everything(device: vc.Device, name: str) -> dict[str, Callable[[], object]]:
    """One of each public operation, each whole in itself."""
    kernel, host = device.compile(programs.saxpy()), np.arange(N, dtype=F32)
    checked = device.compile(programs.saxpy(), bounds="trap")
    eight, large = device.compile(programs.first_eight()), np.zeros(1 << 17, np.uint64)  # which crosses in chunks
    dx, dy, dz = device.array(host), device.array(host), device.zeros(N, vc.f32)
    nines = dx[:9], dy[:9], device.zeros(9, vc.f32)
    own, other = device.stream(), device.stream()
    event = own.record()
    call = kernel.bind(dx, dy, dz, 2.0)
    recorded = kernel.record(host, host, 2.0)
    with device.record() as graph:
        kernel.launch(dx, dy, dz, vc.symbol("a", 2.0))
        dz.fill(vc.symbol("value", 1.0))
        dy.copy_from(vc.symbol("source", dx))
    turns, ring = device.compile(programs.rotate_in_place()), device.array(host)
    with device.record() as turning, turning.repeat(2):
        turns.launch(vc.symbol("x", ring))
    numbers = iter(range(10**6))

    def fresh_program() -> vc.Program:
        b = vc.Builder(f"fresh{name}{next(numbers)}", block=32)
        x = b.inout("x", vc.f32)
        i = b.let("i", vc.global_id.x)
        with b.if_(i < x.size):
            x[i] = x[i] + vc.f32(next(numbers))
        return b.build()

    def first_large_launch() -> None:  # compiles an entry for it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "LARGE_LAUNCH", 1)
            fresh = device.compile(fresh_program())
            fresh.launch(dz)
        assert fresh.several is not None

    def launch_twice() -> None:  # the second makes a graph
        fresh = device.compile(fresh_program())
        fresh.launch(dz)
        fresh.launch(dz)

    def many_streams() -> None:
        for stream in [device.stream() for _ in range(3)]:
            kernel.launch(dx, dy, dz, 2.0, stream=stream)

    def pinned() -> None:
        array = device.pinned_empty(N, vc.f32)
        array[:] = host
        kernel(array, array, 2.0)

    def loaded() -> None:
        found = device.load(SAXPY, "saxpy", signature="ptr ptr f32 u32")
        found.launch(dx, dz, 1.0, N, grid=3, block=256)
        found.bind(dx, dz, 1.0, N, grid=3, block=256)()

    def record_again() -> None:
        with device.record() as fresh, fresh.repeat(2):
            kernel.launch(dx, dy, dz, 2.0)
        fresh.replay()

    def another_device() -> None:
        with vc.Device("emulator") as opened:
            opened.array(host).numpy()

    return {
        "call": lambda: kernel(host, host, 2.0),
        "call of a new kernel": lambda: device.run(fresh_program(), host),
        "call with device arrays": lambda: kernel(dx, host, 2.0),
        "call with large arrays": lambda: eight(large, out=(large.copy(), large.copy())),
        "submit": lambda: kernel.submit(host, host, 2.0).result(),
        "submit, dropped": lambda: kernel.submit(host, host, 2.0),
        "timed": lambda: kernel.timed(host, host, 2.0),
        "pinned": pinned,
        "register": lambda: device.register(np.zeros(N, F32)),
        "compile": lambda: device.compile(fresh_program()).attributes,
        "launch": lambda: kernel.launch(dx, dy, dz, 2.0),
        "launch on a stream": lambda: kernel.launch(dx, dy, dz, 2.0, stream=own),
        "launch with checks": lambda: checked.launch(dx, dy, dz, 2.0),
        "first large launch": first_large_launch,
        "launch twice": launch_twice,
        "launch many": lambda: kernel.launch_many([(dx, dy, dz, 2.0), (*nines, 1.0)]),
        "launch many on a stream": lambda: kernel.launch_many([(dx, dy, dz, 2.0), (*nines, 1.0)], stream=own),
        "many": lambda: kernel.many([(host, host, 2.0), (host[:9], host[:9], 3.0)]),
        "bound call": call,
        "bind": lambda: kernel.bind(dx, dy, dz, 2.0)(),
        "set": lambda: call.set(a=3.0),
        "array": lambda: device.array(host),
        "large array": lambda: device.empty(3 << 20, vc.f32),
        "zeros": lambda: device.zeros(N, vc.f32),
        "numpy": dz.numpy,
        "item": lambda: dz[3],
        "copy_from": lambda: dz.copy_from(host),
        "copy_from device": lambda: dz.copy_from(dx),
        "free in flight": lambda: (kernel.launch(dx, dy, device.zeros(N, vc.f32), 1.0, stream=own), None),
        "dlpack": lambda: np.from_dlpack(dx),
        "fill": lambda: dz.fill(3.0),
        "upload": lambda: device.upload([(dx, host), (dz, 10, host[:5])]),
        "download": lambda: device.download([(dx, 0, 16), (dz, 4, 8)]),
        "replay": graph.replay,
        "replay with others": lambda: graph.replay(a=3.0, value=2.0, source=device.array(host), stream=own),
        "replay with grid barriers": lambda: turning.replay(x=device.array(host[:64])),
        "timed replay": graph.timed,
        "update": lambda: graph.update(a=float(next(numbers))),
        "record": record_again,
        "recorded call": lambda: recorded.replay(host, host, 4.0),
        "recorded anew": lambda: kernel.record(host, host, 2.0).replay(),
        "budget": lambda: device.set_memory_budget(device_bytes=1 << 20),
        "streams": many_streams,
        "stream synchronize": own.synchronize,
        "stream query": own.query,
        "event": lambda: (other.wait(own.record()), event.synchronize(), event.query()),
        "elapsed": lambda: event.elapsed_ms(event),
        "memory_stats": device.memory_stats,
        "trim": device.trim,
        "synchronize": device.synchronize,
        "load": loaded,
        "open and close": another_device,
    }


@pytest.mark.thin(4)
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED], ids=["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("same_thread", [False, True], ids=["another thread", "the same thread"])
def test_no_operation_ends_a_capture(
    device_name: str, library: Library, stream: ForeignStream, mode: int, same_thread: bool
) -> None:
    failed: dict[str, object] = {}
    with vc.Device(device_name) as device:
        for name, operation in _everything(device, f"{mode}{same_thread}").items():
            stream.begin_capture(mode)
            thread = threading.Thread(target=_run, args=(name, operation, failed))
            if same_thread:
                thread.run()
            else:
                thread.start()
                thread.join()
            try:
                stream.end_capture().destroy()
            except RuntimeError as error:
                failed.setdefault(name, error)
        x = np.ones(N, F32)
        np.testing.assert_array_equal(np.full(N, 3, F32), device.compile(programs.saxpy())(x, x, 2.0))
    assert failed == {}


def _run(name: str, operation: Callable[[], object], failed: dict[str, object]) -> None:
    try:
        operation()
    except (vc.Error, ValueError, TypeError) as error:
        failed[name] = error


def test_a_close_does_not_end_a_capture(device_name: str, library: Library, stream: ForeignStream) -> None:
    device = vc.Device(device_name)
    operations = _everything(device, "close")
    for operation in operations.values():
        operation()

    stream.begin_capture(GLOBAL)
    device.close()
    del operations, operation
    stream.end_capture().destroy()


def test_the_capture_mode_of_the_thread_is_left_as_found(device: vc.Device, library: Library) -> None:
    """A thread that was not relaxed before is not afterwards: an allocation of its own ends a capture then."""
    stream = library.stream()
    for operation in _everything(device, "mode").values():
        operation()
        stream.begin_capture(GLOBAL)
        address = ctypes.c_uint64()
        assert library.try_call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(8)) != 0
        with pytest.raises(RuntimeError):
            stream.end_capture()
    stream.destroy()
