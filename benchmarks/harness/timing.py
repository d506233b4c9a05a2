"""Series of timed calls and the figures kept of each.

Enqueues are timed in blocks that are drained outside of the timing, round trips one by one. Results are compared after
the series, and on a sample in between: rarely enough that the samples after a check stay clear of the 99th percentile.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter_ns

import numpy as np

from harness.counts import Counts
from harness.inputs import Floats, InputSet

CHECK_EVERY = 256


class WrongResult(Exception):
    """A benchmarked call computed something else than expected."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series as child processes print it: nanoseconds of one call, from `n` samples of `calls` calls each."""

    id: str
    median_ns: float
    p99_ns: float
    n: int
    calls: int

    def emit(self) -> None:
        """Print it for the parent."""
        print(json.dumps(asdict(self)), flush=True)


@dataclass(frozen=True, slots=True)
class Task:
    """What a series computes: the sets it rotates among, how to read and to poison the result of one."""

    id: str
    sets: Sequence[InputSet]
    read: Callable[[int], Floats]
    poison: Callable[[int], None]
    exact: bool = True

    def verify(self, number: int) -> None:
        """Raise WrongResult when the result of a set is not the expected one."""
        expected = self.sets[number]
        values = self.read(number)
        if not (expected.is_exactly(values) if self.exact else expected.is_about(values)):
            at = int(np.argmax(~(values == expected.expected)))
            what = f"element {at} is {values[at]!r}, not {expected.expected[at]!r}"
            raise WrongResult(f"{self.id}: wrong result in set {number}: {what}")


def host_task(id: str, sets: Sequence[InputSet], *, exact: bool = True) -> Task:
    """A task whose results are in the sets' own host memory."""
    return Task(id, sets, lambda number: sets[number].result, lambda number: sets[number].result.fill(np.nan), exact)


def measure_blocks(task: Task, block: Callable[[], object], drain: Callable[[], object], counts: Counts) -> Line:
    """Time `block`, which makes `counts.block_calls` calls, the i-th on set i modulo their number."""
    used = min(len(task.sets), counts.block_calls)
    last = (counts.block_calls - 1) % len(task.sets)

    def series(blocks: int) -> list[int]:
        times = []
        for number in range(blocks):
            begin = perf_counter_ns()
            block()
            times.append(perf_counter_ns() - begin)
            drain()
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                task.verify(last)
                task.poison(last)
                block()
                drain()
        return times

    return _measure(task, series, counts.blocks, used, counts.block_calls)


def measure_trips(task: Task, trip: Callable[[int], int], counts: Counts) -> Line:
    """Time `trip(number of the set)`, which returns its own nanoseconds."""
    sets = len(task.sets)

    def series(trips: int) -> list[int]:
        times = []
        for number in range(trips):
            which = number % sets
            times.append(trip(which))
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                task.verify(which)
                task.poison(which)
                trip(which)
        return times

    return _measure(task, series, counts.trips, min(sets, counts.trips), 1)


def timer_ns() -> float:
    """What reading the clock costs: it is part of every sample."""
    begin = perf_counter_ns()
    for _ in range(1000):
        perf_counter_ns()
    return (perf_counter_ns() - begin) / 1000


def _measure(task: Task, series: Callable[[int], list[int]], count: int, used: int, calls: int) -> Line:
    gc.collect()
    gc.disable()
    try:
        series(-(-count // 10))
        for number in range(len(task.sets)):
            task.poison(number)
        times = sorted(series(count))
    finally:
        gc.enable()
    for number in range(used):
        task.verify(number)
    return Line(task.id, times[count // 2] / calls, times[count * 99 // 100] / calls, count, calls)
