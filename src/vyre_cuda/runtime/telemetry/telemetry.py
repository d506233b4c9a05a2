"""What a device reports about its work: counters, launches with their callers, ranges in profilers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vyre_cuda._native.core.context import UNWATCHED

if TYPE_CHECKING:
    from _thread import LockType

    from vyre_cuda._native.core.context import Context, Unwatched
    from vyre_cuda.runtime.telemetry.profiler_ranges import Watch
    from vyre_cuda.runtime.telemetry.stats import DeviceStats

# Imported with the first snapshot.
_STATS = "vyre_cuda.runtime.telemetry.stats"
# Imported when one of its options is set.
_WATCH = "vyre_cuda.runtime.telemetry.profiler_ranges"


class Telemetry:
    """The part of a Device that only observes."""

    _watch_lock: LockType
    _watch: Watch | Unwatched = UNWATCHED

    if TYPE_CHECKING:  # defined by Allocator

        @property
        def context(self) -> Context: ...

    def stats(self) -> DeviceStats:
        """What was launched, copied, waited for, compiled and cached since the device was opened or this was reset.

        Each thread has its own counters, and a snapshot sums them. It also works after a close and on a lost device.
        """
        stats: DeviceStats = import_module(_STATS).DeviceStats(**self.context.stats())
        return stats

    def reset_stats(self) -> None:
        """Count from 0 again; caches, pools and what they hold stay."""
        self.context.reset_stats()

    @property
    def trace_launches(self) -> bool:
        """Whether messages about later faults show all arguments of a launch, as Python prints them.

        Off by default: then they show only what is in the first 48 bytes of the kernel's parameters. On, it costs a few
        microseconds a launch.
        """
        return self._watch.traces

    @trace_launches.setter
    def trace_launches(self, value: bool) -> None:
        self._set_watch(traces=bool(value), ranges=self.nvtx_ranges)

    @property
    def nvtx_ranges(self) -> bool:
        """Whether compilations, calls, launches and copies are ranges in profilers, in the domain vyre_cuda.

        Off by default, which costs nothing. UnsupportedError if the package nvtx is not installed.
        """
        return self._watch.ranges

    @nvtx_ranges.setter
    def nvtx_ranges(self, value: bool) -> None:
        self._set_watch(traces=self.trace_launches, ranges=bool(value))

    def _set_watch(self, *, traces: bool, ranges: bool) -> None:
        watch: Watch | Unwatched = UNWATCHED
        if traces or ranges:
            watch = import_module(_WATCH).Watch(self.context, traces=traces, ranges=ranges)
        with self._watch_lock:
            self.context.count_recording((watch is not UNWATCHED) - (self._watch is not UNWATCHED))
            self._watch = watch
