"""Repeated measurements of wall time, and tables of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vyre_cuda.cli.console import columns

EMULATED = "These are times of an emulator on the CPU; they say nothing about a GPU."


@dataclass(frozen=True, slots=True)
class Timing:
    """One measurement, in nanoseconds: percentiles, the maximum, and jitter, from the 5th to the 95th percentile."""

    median_ns: float
    p90_ns: float
    p99_ns: float
    max_ns: float
    jitter_ns: float
    repeats: int

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Timing:
        p5, median, p90, p95, p99, most = map(float, np.percentile(nanoseconds, (5, 50, 90, 95, 99, 100)))
        return cls(median, p90, p99, most, p95 - p5, len(nanoseconds))

    def as_json(self) -> dict[str, float | int]:
        return {
            "median": self.median_ns,
            "p90": self.p90_ns,
            "p99": self.p99_ns,
            "max": self.max_ns,
            "jitter": self.jitter_ns,
            "repeats": self.repeats,
        }


def measure(
    action: Callable[[], object], *, repeats: int, warmups: int, between: Callable[[], object] | None = None
) -> Timing:
    """Wall time of each of `repeats` actions; `between` runs after each and is not counted."""
    clock = time.perf_counter_ns
    for _ in range(warmups):
        action()
        if between is not None:
            between()
    spent = []
    for _ in range(repeats):
        begin = clock()
        action()
        spent.append(clock() - begin)
        if between is not None:
            between()
    return Timing.of(spent)


def table(timings: Mapping[str, Timing]) -> list[str]:
    """One aligned line per timing, below a line of headings."""
    rows = [["", "median", "p99"]]
    rows.extend([name, duration(t.median_ns), duration(t.p99_ns)] for name, t in timings.items())
    return columns(rows, numbers=True)


def duration(nanoseconds: float) -> str:
    """The duration with at most four digits and a suitable unit."""
    for unit, size in (("s ", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            value = nanoseconds / size
            return f"{value:.{max(0, 3 - len(str(int(value))))}f} {unit}"
    return f"{nanoseconds:.0f} ns"
