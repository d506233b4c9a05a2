"""Ways of using a device, each measured along with the driver calls that it needs at least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import vyre_cuda as vc
from vyre_cuda.cli.console import columns
from vyre_cuda.cli.demo import saxpy
from vyre_cuda.cli.progress import Progress
from vyre_cuda.cli.timing import Timing, duration, measure
from vyre_cuda.runtime.device.driver_latency import FLOORS, measure_floor

_SMALL = 1024  # elements of f32: 4 KiB
_FACTOR = 2.5
_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: the number of small and of large calls, and the bytes of large copies."""

    calls: int
    large_calls: int
    large_bytes: int


QUICK = Effort(calls=2000, large_calls=20, large_bytes=64 << 20)
FULL = Effort(calls=10_000, large_calls=50, large_bytes=256 << 20)
EMULATED = Effort(calls=100, large_calls=3, large_bytes=1 << 20)


@dataclass(frozen=True, slots=True)
class Way:
    """`floor` names the driver calls that it is compared with, "" for none; `nbytes` cross the link in each call."""

    id: str
    what: str
    floor: str
    act: Callable[[], object]
    nbytes: int = 0
    is_large: bool = False
    between: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A way and its times, with those of its floor."""

    id: str
    what: str
    ours: Timing
    floor: Timing | None
    nbytes: int

    @property
    def above_ns(self) -> float | None:
        """How much longer than its floor it takes, median against median."""
        return None if self.floor is None else self.ours.median_ns - self.floor.median_ns

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "ours_ns": self.ours.as_json(),
            "floor_ns": None if self.floor is None else self.floor.as_json(),
            "above_ns": self.above_ns,
            "bytes": self.nbytes or None,
            "gib_per_s": _rate(self.nbytes, self.ours) if self.nbytes else None,
        }


def floors(device: vc.Device, effort: Effort, progress: Progress) -> dict[str, Timing]:
    """Every floor of the machine; copies of 4 KiB, and large ones under names that end in _large."""
    found = {}
    for name, (_, what) in FLOORS.items():
        progress.stage(what)
        found[name] = Timing.of(measure_floor(device, name, count=effort.calls, nbytes=4 * _SMALL))
    for name in ("upload", "download", "copy"):
        progress.stage(f"{FLOORS[name][1]}, {effort.large_bytes >> 20} MiB")
        times = measure_floor(device, name, count=effort.large_calls, nbytes=effort.large_bytes)
        found[f"{name}_large"] = Timing.of(times)
    return found


def measured(
    device: vc.Device, effort: Effort, known: dict[str, Timing], progress: Progress, *, more: bool
) -> Iterator[Measured]:
    """Our ways, compared with these floors; with `more`, also those that only differ in their arguments."""
    for way in _ways(device, effort, more=more):
        progress.stage(way.what)
        repeats = effort.large_calls if way.is_large else effort.calls
        ours = measure(way.act, repeats=repeats, warmups=max(3, repeats // 10), between=way.between)
        yield Measured(way.id, way.what, ours, known.get(way.floor), way.nbytes)


def _ways(device: vc.Device, effort: Effort, *, more: bool) -> Iterator[Way]:
    kernel = device.compile(saxpy())
    x = np.ones(_SMALL, np.float32)
    out = np.empty_like(x)
    pinned = device.pinned_empty(_SMALL, vc.f32)
    arrays = [(device.array(x), device.array(x), device.empty(_SMALL, vc.f32)) for _ in range(2)]
    call = kernel.bind(*arrays[0], _FACTOR)
    turn = iter(_cycle(arrays))
    stream, wait = device.stream(), device.synchronize

    def call_and_wait() -> None:
        call()
        wait()

    def upload() -> None:
        arrays[0][0].copy_from(pinned)
        wait()

    yield Way("call", "bound call, enqueue", "graph_launch", call, between=wait)
    yield Way(
        "call_changed", "bound call, all changed", "graph_launch", lambda: call(*next(turn), _FACTOR), between=wait
    )
    yield Way("launch", "kernel.launch, enqueue", "launch", lambda: kernel.launch(*next(turn), _FACTOR), between=wait)
    yield Way("call_sync", "bound call and synchronize", "graph_round_trip", call_and_wait)
    yield Way("host_dispatch", "host arrays in and out, 3 x 4 KiB", "mapped", lambda: kernel(x, x, _FACTOR, out=out))
    yield Way("synchronize", "stream.synchronize(), idle", "synchronize", stream.synchronize)
    yield Way("event", "stream.record()", "event", stream.record, between=wait)
    yield Way("upload", "page-locked to device, 4 KiB", "upload", upload)
    yield Way("download", "device to page-locked, 4 KiB", "download", lambda: arrays[0][0].numpy(out=pinned))
    yield Way("alloc_free", "device.empty, dropped", "", lambda: device.empty(_SMALL, vc.f32))
    if more:
        yield Way("host_dispatch_new", "host arrays in, a new one out", "mapped", lambda: kernel(x, x, _FACTOR))
        yield Way(
            "host_dispatch_pinned", "page-locked in, a new one out", "mapped", lambda: kernel(pinned, pinned, _FACTOR)
        )
        with device.record() as graph:
            for _ in range(100):
                kernel.launch(*arrays[0], _FACTOR)
        yield Way("graph_100", "recorded graph of 100 kernels, enqueue", "graph_launch", graph.replay, between=wait)
    yield from _large_ways(device, effort.large_bytes)


def _large_ways(device: vc.Device, nbytes: int) -> Iterator[Way]:
    host = device.pinned_empty(nbytes, vc.u8)
    array, other = device.empty(nbytes, vc.u8), device.empty(nbytes, vc.u8)
    host[:] = 0

    def copy() -> None:
        other.copy_from(array)
        device.synchronize()

    size = f"{nbytes >> 20} MiB"
    up, down, within = (f"{name}_large" for name in ("upload", "download", "copy"))
    yield Way(up, f"page-locked to device, {size}", up, lambda: array.copy_from(host), nbytes, True)
    yield Way(down, f"device to page-locked, {size}", down, lambda: array.numpy(out=host), nbytes, True)
    yield Way(within, f"within the device, {size}", within, copy, nbytes, True)


def _cycle(arrays: list[Any]) -> Iterator[Any]:
    while True:
        yield from arrays


def table_of_floors(known: dict[str, Timing]) -> list[str]:
    """One aligned line per floor."""
    rows = [["driver calls alone", "median", "p90", "p99", "max", "jitter"]]
    for name, timing in known.items():
        what = FLOORS[name.removesuffix("_large")][1]
        rows.append([f"{what}, large" if name.endswith("_large") else what, *_times(timing)])
    return columns(rows, numbers=True)


def table_of_ways(found: list[Measured]) -> list[str]:
    """One aligned line per way: its times, and how much they are above the floor."""
    rows = [["", "median", "p90", "p99", "max", "jitter", "floor", "above", "GiB/s"]]
    for each in found:
        floor = "" if each.floor is None else duration(each.floor.median_ns)
        above = "" if each.above_ns is None else _signed(each.above_ns)
        rate = f"{_rate(each.nbytes, each.ours):.1f}" if each.nbytes else ""
        rows.append([each.what, *_times(each.ours), floor, above, rate])
    return columns(rows, numbers=True)


def _times(timing: Timing) -> list[str]:
    return [duration(ns) for ns in (timing.median_ns, timing.p90_ns, timing.p99_ns, timing.max_ns, timing.jitter_ns)]


def _signed(nanoseconds: float) -> str:
    return ("-" if nanoseconds < 0 else "+") + duration(abs(nanoseconds))


def _rate(nbytes: int, timing: Timing) -> float:
    return nbytes / _GIB / (timing.median_ns * 1e-9) if timing.median_ns else 0.0
