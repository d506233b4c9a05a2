"""Every driver call of a scenario fails in turn, at its first, second, ... use and with several results.

For each fault the scenario runs on a device of its own, opened and closed under the fault as well. It must end well or
with the error that the fault calls for; then the device must be as good as new, or say that it is lost; and its close
must leave nothing with the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator, StreamMode

from .. import programs
from .fault_scenarios import Scenario, X

OUT_OF_MEMORY, NOT_INITIALIZED, ILLEGAL_ADDRESS, UNKNOWN = 2, 3, 700, 999
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
    "cuLinkAddData",
    "cuLinkComplete",
    "cuLinkCreate",
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuModuleLoadDataEx",
    "cuStreamCreate",
}


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
        if fault.function in RELEASING and (fault.lasting or _is_one_thing(new)):
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


def _is_one_thing(left: dict[str, int]) -> bool:
    """A graph that stays keeps the user object that it holds."""
    held = left.get("user_objects", 0)
    return sum(left.values()) - held == 1 and (held == 0 or (held == 1 and "graphs" in left))


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
