"""Allocations while more and more released blocks wait for a kernel that runs.

Of one launch up to MOST arguments are used, so that the queue of the stream stays short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import vyre_cuda as vc
from harness.curves.base import Bench, Measure
from harness.curves.clock import WrongResult
from harness.curves.programs import spin, sum_of

MOST = 254
_SMALL = 64  # elements of a block that waits
_KNOWN = 16 << 10
_NEW = [(20 + i) * 2048 for i in range(48)]  # sizes that nobody has idle, a step of 8 KiB between them


class _Waiting:
    """So many blocks that were released behind a running kernel; `ended` says whether it still runs."""

    def __init__(self, bench: Bench, stream: vc.Stream, items: int) -> None:
        device = bench.device
        spinning = device.compile(spin())
        self.stream, self.result = stream, device.empty(1, vc.u32)
        arrays = [device.zeros(_SMALL, vc.f32) for _ in range(items)]
        out = device.empty(_SMALL, vc.f32)
        groups = [arrays[at : at + MOST] for at in range(0, items, MOST)]
        kernels = [device.compile(sum_of(len(group), 0)) for group in groups]

        def launch(steps: int) -> None:
            spinning.launch(self.result, steps, stream=self.stream)
            for kernel, group in zip(kernels, groups, strict=True):
                kernel.launch(*group, out, stream=self.stream)

        for _ in range(3):  # the driver loads kernels and graphs when they are first launched
            launch(1)
        device.synchronize()
        device.trim()
        launch(bench.steps)
        self.event = self.stream.record()

    @property
    def ended(self) -> bool:
        return bool(self.event.query())

    def wait(self) -> None:
        self.stream.synchronize()


def _beside(bench: Bench, stream: vc.Stream, items: int, measure: Callable[[], list[float]]) -> list[float]:
    """Measured while the blocks wait, with a kernel that runs long enough for it."""
    while True:
        waiting = _Waiting(bench, stream, items)
        times = measure()
        ended = waiting.ended
        waiting.wait()
        if not ended:
            return times
        if bench.steps >= bench.most_steps:
            raise WrongResult(f"a kernel of {bench.steps} steps ended before the allocations beside it")
        bench.steps = min(4 * bench.steps, bench.most_steps)


def blocks(bench: Bench, items: int) -> Iterator[Measure]:
    device, clock = bench.device, bench.clock
    stream = device.stream()

    def known() -> list[float]:
        return clock.repeat(lambda: device.empty(_KNOWN, vc.f32), lambda: None)

    def new() -> list[float]:
        sizes = iter(_NEW)
        return clock.once(lambda: device.empty(next(sizes), vc.f32), len(_NEW))

    yield "known", lambda: _beside(bench, stream, items, known)
    yield "new", lambda: _beside(bench, stream, items, new)
