"""Every driver call of a scenario fails in turn, at its first, second, ... use and with several results.

A scenario is a function of an open device that uses it and asserts what it computes; `@scenario` adds it to the sweep.
For each fault the scenario runs on a device of its own, opened and closed under the fault as well. It must end well or
with the error that the fault calls for; then the device must be as good as new, or say that it is lost; and its close
must leave nothing with the driver.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator, StreamMode

from . import bundle_programs, programs
from .foreign_library import Library
from .foreign_ptx import SAXPY

Scenario = Callable[[vc.Device], None]
SCENARIOS: dict[str, Scenario] = {}

INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, ILLEGAL_ADDRESS, UNKNOWN = 1, 2, 3, 700, 999
CAPTURE_UNSUPPORTED = 900
STICKY = (ILLEGAL_ADDRESS,)

# The device cannot be opened: reported without the CUresult's own class.
OPENING = {"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuGetProcAddress"}
# What fails to give something back leaves that one thing with the driver.
RELEASING = {
    "cuCtxSetCurrent",
    "cuDevicePrimaryCtxRelease",
    "cuEventDestroy",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuLinkDestroy",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostUnregister",
    "cuModuleUnload",
    "cuStreamDestroy",
}

X = np.arange(300, dtype=np.float32)
# What gives memory, or an object that takes some.
ALLOCATING = {
    "cuEventCreate",
    "cuGraphAddBatchMemOpNode",
    "cuGraphAddKernelNode",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphAddNode",
    "cuGraphConditionalHandleCreate",
    "cuGraphCreate",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuLinkAddData",
    "cuLinkComplete",
    "cuLinkCreate",
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuModuleLoadDataEx",
    "cuStreamCreate",
}
# Arrays that were registered: where unlocking failed, their addresses cannot be registered again.
REGISTERED: list[np.ndarray] = []


def scenario(function: Scenario) -> Scenario:
    """Add a scenario to the sweep."""
    SCENARIOS[function.__name__] = function
    return function


# ---- the sweep -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """The n-th call of a driver function, from the opening of the device on, gives `result`.

    `lasting`: all later ones too.
    """

    function: str
    nth: int
    result: int
    lasting: bool = False


class Sweep:
    """The faults of one scenario in one stream mode."""

    def __init__(self, emulator: Emulator, run: Scenario, mode: StreamMode) -> None:
        gc.collect()  # devices that earlier tests dropped
        self._emulator = emulator
        self._run = run
        self._mode = mode

    def calls(self) -> dict[str, int]:
        """How often the scenario, undisturbed, makes each driver call."""
        before = {name: self._emulator.count(name) for name in self._emulator.functions()}
        assert self._attempt(None) is None
        counts = {name: self._emulator.count(name) - before[name] for name in before}
        return {name: count for name, count in counts.items() if count}

    def faults(self, results: tuple[int, ...], most: int) -> Iterator[Fault]:
        """Each call at its first `most` uses and at its last, once and from then on."""
        for function, count in self.calls().items():
            for nth in sorted({*range(1, min(count, most) + 1), count}):
                for result in results:
                    yield Fault(function, nth, result)
                    yield Fault(function, nth, result, lasting=True)

    def shortages(self) -> Iterator[Fault]:
        """Every call that gives memory, at each of its uses: once, and from then on."""
        for function, count in self.calls().items():
            for nth in range(1, count + 1 if function in ALLOCATING else 1):
                yield Fault(function, nth, OUT_OF_MEMORY)
                yield Fault(function, nth, OUT_OF_MEMORY, lasting=True)

    def check(self, fault: Fault) -> list[str]:
        """What is wrong with how the scenario takes the fault."""
        before = self._emulator.live()
        try:
            error = self._attempt(fault)
        except AssertionError as wrong:
            return [f"{fault}: {wrong}"]
        problems = [] if error is None or _fits(error, fault) else [f"{fault}: {type(error).__name__}: {error}"]
        problems += self._leaks(fault, before)
        return problems

    def _leaks(self, fault: Fault, before: dict[str, int]) -> list[str]:
        live = self._emulator.live()
        new = {kind: live.get(kind, 0) - before.get(kind, 0) for kind in live.keys() | before.keys()}
        new = {kind: count for kind, count in new.items() if count}
        if fault.function in RELEASING and (fault.lasting or sum(new.values()) == 1):
            return []
        return [f"{fault}: leaves {new}"] if new else []

    def _attempt(self, fault: Fault | None) -> vc.Error | None:
        """The error of the scenario, after a look at what it left of the device."""
        self._emulator.reset()
        self._emulator.stream_mode(self._mode)
        if fault is not None:
            self._emulator.fail(fault.function, nth=fault.nth, result=fault.result, repeat=fault.lasting)
        device = None
        error: vc.Error | None = None
        try:
            device = vc.Device("emulator")
            self._run(device)
            device.close()
        except vc.Error as raised:
            error = raised.with_traceback(None)
        self._emulator.reset()
        if device is not None and error is not None:
            check_usable_or_lost(device)
            with suppress(vc.KernelAssertionError):  # of the scenario, where a lost device did not tell it before
                device.close()
        return error


def check_usable_or_lost(device: vc.Device) -> None:
    try:
        while True:
            try:
                device.synchronize()
                break
            except vc.KernelAssertionError:  # of the scenario; each is told once
                continue
        kernel = device.compile(programs.saxpy())
        np.testing.assert_array_equal(np.float32(3) * X + X, kernel(X, X, 3.0))
        device.synchronize()
    except vc.DeviceLostError:
        for use in (device.synchronize, device.stream, lambda: device.array(X)):
            try:
                use()
            except vc.DeviceLostError:
                continue
            raise AssertionError("a lost device let itself be used") from None
    except vc.DeviceUnavailableError:
        return  # the close had begun


def _fits(error: vc.Error, fault: Fault) -> bool:
    if fault.function in OPENING:
        return type(error) is vc.DeviceUnavailableError
    if fault.function == "cuThreadExchangeStreamCaptureMode":  # what it was to allow is forbidden
        return type(error) is vc.DriverError and error.status == CAPTURE_UNSUPPORTED
    if fault.result in STICKY:
        return type(error) is vc.DeviceLostError
    if fault.result == OUT_OF_MEMORY:
        return type(error) is vc.ResourceError
    return type(error) is vc.DriverError and (error.op, error.status) == (fault.function, fault.result)


# ---- scenarios -------------------------------------------------------------------------------------------------------


@scenario
def calls(device: vc.Device) -> None:
    """Host arrays in and out: in mapped memory, and copied."""
    kernel = device.compile(programs.saxpy())
    for a in (1.0, 2.0):
        np.testing.assert_array_equal(np.float32(a) * X + X, kernel(X, X, a))
    counts = device.compile(programs.histogram())(np.zeros(16, np.uint32), np.arange(160, dtype=np.uint32))
    np.testing.assert_array_equal(np.full(16, 10), counts)
    np.testing.assert_array_equal(2 * X, kernel.timed(X, X, 1.0).outputs)
    assert kernel.attributes.registers > 0


@scenario
def submits(device: vc.Device) -> None:
    """Several runs in flight, one of them dropped."""
    kernel = device.compile(programs.saxpy())
    pending = [kernel.submit(X, X, float(a)) for a in range(4)]
    pending.pop(1)
    for a, one in zip((3, 2, 0), reversed(pending), strict=True):
        np.testing.assert_array_equal(np.float32(a) * X + X, one.result())


@scenario
def launches(device: vc.Device) -> None:
    """Device arrays, streams, events, bound calls."""
    kernel = device.compile(programs.saxpy())
    x, out, stream = device.array(X), device.zeros(300, vc.f32), device.stream()
    for a in (5.0, 6.0, 7.0):
        kernel.launch(x, x, out, a)
    np.testing.assert_array_equal(np.float32(7) * X + X, out.numpy())
    start = stream.record()
    call = kernel.bind(x, x, out, 8.0, stream=stream)
    call()
    call.set(a=9.0)
    call()
    stop = stream.record()
    device.stream().wait(stop)
    stop.synchronize()
    assert stop.query()
    assert stop.elapsed_ms(start) >= 0
    stream.synchronize()
    np.testing.assert_array_equal(np.float32(9) * X + X, out.numpy())
    spread = device.zeros(600, vc.u32)
    device.compile(programs.every_second()).launch(device.array(np.arange(300, dtype=np.uint32)), spread)
    device.synchronize()
    np.testing.assert_array_equal(np.arange(300), spread.numpy()[::2])


@scenario
def memory(device: vc.Device) -> None:
    """Allocation, copies in every direction, page-locked arrays, statistics."""
    x = device.array(X)
    y = device.empty(300, vc.f32)
    y.copy_from(x)
    y.copy_from(X[:10], offset=5)
    y[100:200].copy_from(y[90:190])
    np.testing.assert_array_equal(X[90:190], y[100:200].numpy())
    assert y[5] == X[0]
    y.free()
    pinned = device.pinned_empty(300, vc.f32)
    pinned[:] = X
    REGISTERED.append(np.array(X))
    registered = device.register(REGISTERED[-1])
    x.copy_from(pinned)
    x.copy_from(registered)
    np.testing.assert_array_equal(X, x.numpy())
    assert device.memory_stats().live_bytes > 0
    device.context.trim()
    del pinned, registered


@scenario
def failed_checks(device: vc.Device) -> None:
    """Assertions of a call, a launch and a kernel that was dropped."""
    kernel = device.compile(programs.guarded(10))
    bad = np.arange(40, dtype=np.uint32)
    x, out = device.array(bad), device.zeros(40, vc.u32)
    assert _failed_thread(partial(kernel, bad)) == 10
    kernel.launch(x, out)
    assert _failed_thread(device.synchronize) == 10
    kernel.launch(x, out)
    device._kernels.clear()
    del kernel
    assert _failed_thread(out.numpy) == 10
    device.synchronize()


def _failed_thread(use: Callable[[], object]) -> int | None:
    """The thread that failed a check."""
    try:
        use()
    except vc.KernelAssertionError as error:
        return error.thread
    return None


@scenario
def long_waits(device: vc.Device) -> None:
    """Work that outlasts the looks without a sleep."""
    kernel = device.compile(programs.saxpy())
    x, out, stream = device.array(X), device.zeros(300, vc.f32), device.stream()
    Emulator().set("delay_us", 250)
    kernel.launch(x, x, out, 1.0)
    device.synchronize(timeout=60)
    kernel.launch(x, x, out, 2.0, stream=stream)
    stream.synchronize(timeout=60)
    kernel.launch(x, x, out, 3.0, stream=stream)
    np.testing.assert_array_equal(np.float32(3) * X + X, out.numpy())
    np.testing.assert_array_equal(2 * X, kernel(X, X, 1.0))
    Emulator().set("delay_us", 0)


@scenario
def graphs(device: vc.Device) -> None:
    """Steps of every kind, a loop that ends on the device, changes for one replay and for all; a recorded call."""
    saxpy = device.compile(programs.saxpy())
    x, y, out = device.array(X), device.array(X), device.zeros(300, vc.f32)
    other, never = device.array(X * 2), device.zeros(1, vc.u32)
    pinned = device.pinned_empty(300, vc.f32)
    pinned[:] = X
    with device.record() as graph:
        y.copy_from(vc.symbol("start", pinned))
        with graph.repeat(2, until=never):
            saxpy.launch(vc.symbol("x", x), y, out, vc.symbol("a", 2.0))
            y.copy_from(out)
        x[:10].fill(vc.symbol("value", 0.0))
        graph.download(out, pinned)
    graph.replay(x=other, a=1.0)
    device.synchronize()
    np.testing.assert_array_equal(X * 5, pinned)
    graph.update(a=0.0, value=7.0)
    graph.replay()
    device.synchronize()
    np.testing.assert_array_equal(X * 5, pinned)
    assert x[9] == 7
    recorded = saxpy.record(X, X, 1.0)
    np.testing.assert_array_equal(X * 3, recorded.replay(a=2.0))


@scenario
def captured_graphs(device: vc.Device) -> None:
    """A replay that goes into a capture of somebody else, who gives up where a driver call of its own fails."""
    kernel = device.compile(programs.rotate_in_place())
    x, source, never = device.zeros(300, vc.f32), device.array(X), device.zeros(1, vc.u32)
    with device.record() as graph:
        x.copy_from(source)
        with graph.repeat(2, until=never):
            kernel.launch(x)
    with suppress(RuntimeError), Library().current() as library:
        stream = library.stream()
        try:
            stream.begin_capture()
            try:
                graph.replay(stream=stream)
            except vc.Error:
                with suppress(RuntimeError):
                    stream.end_capture().destroy()
                raise
            stream.end_capture().destroy()
        finally:
            with suppress(RuntimeError):
                stream.destroy()
    graph.replay()
    np.testing.assert_array_equal(np.roll(X, -2), x.numpy())


@scenario
def bundles(device: vc.Device) -> None:
    """A kernel and a graph of a bundle."""
    loaded = vc.load_bundle(bundle_programs.EXAMPLE).on(device)
    np.testing.assert_array_equal(np.float32(2) * X + X, loaded["saxpy"](X, X, 2.0))
    x, out = device.array(X[:64]), device.zeros(64, vc.f32)
    loaded.graph("step").replay(x=x, out=out)
    np.testing.assert_array_equal(bundle_programs.step_result(X[:64], 2.0), out.numpy())


@scenario
def grid_barriers(device: vc.Device) -> None:
    """A cooperative kernel, called, launched and recorded."""
    kernel = device.compile(programs.rotate_in_place())
    expected = np.roll(X, -1)
    np.testing.assert_array_equal(expected, kernel(X))
    x = device.array(X)
    kernel.launch(x, stream=device.stream())
    np.testing.assert_array_equal(expected, x.numpy())
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x))
    graph.replay()
    graph.replay(x=device.array(X[:64]))
    np.testing.assert_array_equal(np.roll(X, -2), x.numpy())


@scenario
def foreign_streams(device: vc.Device) -> None:
    """The legacy default stream, launched on and bound to, and an exported handle of ours."""
    kernel = device.compile(programs.saxpy())
    x, out, stream = device.array(X), device.zeros(300, vc.f32), device.stream()
    for a in (1.0, 2.0):
        kernel.launch(x, x, out, a, stream=0)
    np.testing.assert_array_equal(3 * X, out.numpy())
    call = kernel.bind(x, x, out, 4.0, stream=0)
    call()
    device.synchronize()
    kernel.launch(x, x, out, 5.0, stream=stream.handle)
    np.testing.assert_array_equal(6 * X, out.numpy())


@scenario
def other_libraries(device: vc.Device) -> None:
    """Arrays shared both ways, and a kernel of another compiler."""
    kernel = device.compile(programs.saxpy())
    x, out = device.array(X), device.zeros(300, vc.f32)
    kernel.launch(x, vc.from_dlpack(np.from_dlpack(x), device=device), out, 1.0)
    view = np.from_dlpack(out)
    np.testing.assert_array_equal(2 * X, view)
    loaded = device.load(SAXPY, "saxpy", signature="const_ptr ptr f32 u32")
    loaded.launch(x, out, 1.0, 300, grid=3, block=128)
    call = loaded.bind(x, out, 1.0, 300, grid=3, block=128, stream=0)
    call()
    call(x, out, 2.0, 300)
    np.testing.assert_array_equal(6 * X, out.numpy())


@scenario
def drops(device: vc.Device) -> None:
    """Everything is released with work in flight, in an order that nobody would choose."""
    kernel, add = device.compile(programs.saxpy()), device.compile(programs.add_to())
    stream, other = device.stream(), device.stream()
    x, out, h = device.array(X), device.zeros(300, vc.f32), device.zeros(300, vc.i32)
    event = stream.record()
    call = kernel.bind(x, x, out, 1.0, stream=other)
    call()
    kernel.launch(x, x, out, 1.0, stream=stream)
    pending = kernel.submit(X, X, 1.0)
    device._kernels.clear()
    del kernel, x, stream
    del out, add, call, pending, other, event, h
    device.synchronize()


@scenario
def many_at_once(device: vc.Device) -> None:
    """Lists of copies, statistics, a traced launch, a graph drawn, runs that are awaited."""
    x, out = device.array(X), device.zeros(300, vc.f32)
    device.upload([(x, 2 * i, X[:2]) for i in range(20)])
    for part in device.download([(x, 2 * i, 2) for i in range(20)]):
        np.testing.assert_array_equal(X[:2], part)
    kernel = device.compile(programs.saxpy())
    device.trace_launches = True
    kernel.launch(x, x, out, 1.0)
    assert device.stats().kernel_launches >= 1
    with device.record() as graph:
        kernel.launch(x, x, out, 2.0)
    assert "saxpy" in graph.dot()
    np.testing.assert_array_equal(2 * X, asyncio.run(_await_both(kernel)))


async def _await_both(kernel: vc.Kernel) -> np.ndarray:
    first, _ = await asyncio.gather(kernel.submit(X, X, 1.0), kernel.submit(X, X, 2.0))
    return first
