"""The scenarios of `fault_scenarios` where the host's memory runs out: run as a program, in a process of its own.

    LD_PRELOAD=LIBRARY python -m tests.device.faults.host_memory_sweep LIBRARY SCENARIO COUNT

LIBRARY is tests/native/host_faults.c, built to stand before the allocator: what libvyre_cuda and the extensions, as
they are installed, allocate fails at every place in turn, COUNT times in a row (0: from there on). Each time the
scenario ends well or with the error for it, the device is as good as new afterwards, and nothing is left. Prints what
is wrong, and at last how many allocations failed. The cache on disk is emptied before each time.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .fault_scenarios import SCENARIOS, Scenario
from .fault_sweep import check_usable_or_lost

UNLIMITED = 2**64 - 1


class HostFaults:
    """The functions of tests/native/host_faults.h, in the library that was loaded first."""

    def __init__(self, library: str) -> None:
        loaded = ctypes.CDLL(library)
        self._arm = loaded.host_faults_arm
        self._arm.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
        self.disarm = loaded.host_faults_disarm
        self.disarm.restype = ctypes.c_uint64
        self.live = loaded.host_faults_live
        self.live.restype = ctypes.c_uint64
        self.made = loaded.host_faults_made
        self.made.restype = ctypes.c_uint64
        self.watch = loaded.host_faults_watch
        self.watch.restype = ctypes.c_uint32

    def arm(self, nth: int, count: int) -> None:
        """The nth allocation from now on fails, and count - 1 after it."""
        self._arm(nth, count)


class Sweep:
    """One scenario; `problems` are found on the way."""

    def __init__(self, faults: HostFaults, run: Scenario, count: int) -> None:
        self._faults = faults
        self._emulator = Emulator()
        self._run = run
        self._count = count
        self.problems: list[str] = []
        sys.unraisablehook = self._unraisable

    def prepare(self) -> None:
        """Everything that is made once in a process is made."""
        for _ in range(2):
            self._attempt(0)
            list(self._use_again(vc.Device("emulator")))  # launches from lines of its own, which are remembered
            self._faults.watch()
        if self._faults.watch() < 3 or self._faults.made() == 0:
            raise RuntimeError("the allocations of the library and its extensions are not counted")

    def failures(self) -> int:
        """Fail each allocation; how many there were."""
        nth = 1
        while self._survives(nth):
            nth += 1
        return nth - 1

    def _survives(self, nth: int) -> bool:
        """Whether an allocation failed at all."""
        gc.collect()
        before, with_driver = self._faults.live(), self._emulator.live()
        failed, wrong = self._attempt(nth)
        gc.collect()
        if self._emulator.live() != with_driver:
            wrong.append(f"leaves {self._emulator.live()} with the driver")
        if self._faults.live() != before:
            wrong.append(f"leaves {self._faults.live() - before} allocations")
        self.problems += [f"allocation {nth}: {text}" for text in wrong]
        return failed > 0

    def _attempt(self, nth: int) -> tuple[int, list[str]]:
        self._emulator.reset()
        self._emulator.stream_mode("lazy")
        shutil.rmtree(os.environ["VYRE_CUDA_CACHE_DIR"], ignore_errors=True)
        self._faults.arm(nth, self._count)
        device = None
        error: BaseException | None = None
        try:
            device = vc.Device("emulator")
            self._run(device)
            device.close()
        except (vc.Error, MemoryError, AssertionError) as raised:
            error = raised.with_traceback(None)
        failed = self._faults.disarm()
        wrong = []
        if error is not None and (failed == 0 or type(error) not in (vc.ResourceError, MemoryError)):
            wrong.append(f"{type(error).__name__}: {error}")
        if device is not None and error is not None:
            wrong += self._use_again(device)
        return failed, wrong

    def _use_again(self, device: vc.Device) -> Iterator[str]:
        self._emulator.set("delay_us", 0)
        try:
            check_usable_or_lost(device)
            self._run(device)
        except vc.DeviceLostError as lost:
            yield f"lost: {lost}"
        except vc.DeviceUnavailableError:
            pass  # the close had begun
        except (vc.Error, AssertionError) as error:
            yield f"afterwards {type(error).__name__}: {error}"
        device.close()

    def _unraisable(self, event: SimpleNamespace) -> None:
        self.problems.append(f"nobody was told {event.exc_type.__name__}: {event.exc_value} in {event.object!r}")


def main(library: str, name: str, count: str) -> int:
    """Sweep one scenario; 1 where something is wrong."""
    sweep = Sweep(HostFaults(library), SCENARIOS[name], int(count) or UNLIMITED)
    sweep.prepare()
    failures = sweep.failures()
    print(*sweep.problems, failures, sep="\n")
    return 1 if sweep.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
