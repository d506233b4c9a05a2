"""Launches on more and more streams in turn, and what an allocation costs beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np

import vyre_cuda as vc
from harness.curves.base import Bench, Measure, check
from harness.curves.programs import ELEMENTS, sum_of


def streams(bench: Bench, items: int) -> Iterator[Measure]:
    device, clock = bench.device, bench.clock
    kernel = device.compile(sum_of(1, 0))
    all_streams = [device.stream() for _ in range(items)]
    values = np.arange(ELEMENTS, dtype=np.float32)
    shared = device.array(values), device.empty(ELEMENTS, vc.f32)
    own = [(device.array(values), device.empty(ELEMENTS, vc.f32)) for _ in all_streams]
    calls = max(clock.calls, items)

    def launches(sets: list[tuple[vc.DeviceArray, vc.DeviceArray]], way: str) -> list[float]:
        turns = cycle(zip(sets, all_streams, strict=True))

        def block(n: int) -> None:
            for (x, out), stream in islice(turns, n):
                kernel.launch(x, out, stream=stream)

        times = clock.blocks(block, device.synchronize, calls)
        for _, out in sets:
            out.fill(np.nan)
        block(items)
        for _, out in sets:
            check(way, bool((out.numpy() == values).all()), True)
        return times

    yield "own", lambda: launches(own, "own")
    yield "shared", lambda: launches([shared] * items, "shared")
    yield "allocation", lambda: clock.repeat(lambda: device.empty(ELEMENTS, vc.f32), device.synchronize)
