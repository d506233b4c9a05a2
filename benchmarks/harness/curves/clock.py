"""What a call costs: blocks of calls for a while, drained outside of the timing."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

_LEAST, _MOST = 3, 4000  # samples


class WrongResult(Exception):
    """A measured call computed something else than expected."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`seconds` for each point, beside its warm-up of a fifth; `calls` in a block."""

    seconds: float
    calls: int

    def blocks(self, block: Callable[[int], object], drain: Callable[[], object], calls: int = 0) -> list[float]:
        """Nanoseconds of a call, of each sample: `block(n)` makes n calls, `calls` at a time if that is given."""
        calls = calls or self.calls
        block(calls)
        drain()
        self._series(block, drain, calls, self.seconds / 5)
        return self._series(block, drain, calls, self.seconds)

    def _series(
        self, block: Callable[[int], object], drain: Callable[[], object], n: int, seconds: float
    ) -> list[float]:
        times: list[float] = []
        gc.collect(0)
        gc.disable()
        try:
            end = perf_counter_ns() + seconds * 1e9
            while len(times) < _LEAST or (len(times) < _MOST and perf_counter_ns() < end):
                begin = perf_counter_ns()
                block(n)
                times.append((perf_counter_ns() - begin) / n)
                drain()
        finally:
            gc.enable()
        return times

    def repeat(self, call: Callable[[], object], drain: Callable[[], object]) -> list[float]:
        """The same of a call without arguments."""

        def block(n: int) -> None:
            for _ in range(n):
                call()

        return self.blocks(block, drain)

    def once(self, call: Callable[[], object], times: int) -> list[float]:
        """So many calls, without a warm-up: none is like the one before."""
        found = []
        for _ in range(times):
            begin = perf_counter_ns()
            call()
            found.append(float(perf_counter_ns() - begin))
        return found

    def trips(self, call: Callable[[], object]) -> list[float]:
        """Of a call that waits for its end: one by one."""
        return self.blocks(lambda _: call(), lambda: None, 1)


def summary(times: list[float]) -> dict[str, float]:
    """The fields of a point."""
    best, median = min(times), statistics.median(times)
    return {"best_us": round(best / 1e3, 4), "median_us": round(median / 1e3, 4), "samples": len(times)}
