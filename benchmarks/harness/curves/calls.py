"""More and more bound calls alive, each launched in turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np

import vyre_cuda as vc
from harness.curves.base import Bench, Measure, check
from harness.curves.programs import ELEMENTS, sum_of

_ROUNDS_TO_WARM = 3  # a call's graph is made at its second launch


def calls(bench: Bench, items: int) -> Iterator[Measure]:
    device, clock = bench.device, bench.clock
    kernel = device.compile(sum_of(1, 0))
    x, out = device.array(np.ones(ELEMENTS, np.float32)), device.empty(ELEMENTS, vc.f32)

    def same() -> list[float]:
        alive = [kernel.bind(x, out) for _ in range(items)]
        for call in alive * _ROUNDS_TO_WARM:
            call()
        turns = cycle(alive)

        def block(n: int) -> None:
            for call in islice(turns, n):
                call()

        times = clock.blocks(block, device.synchronize, max(clock.calls, min(items, 512)))
        out.fill(np.nan)
        alive[-1]()
        check("same", set(out.numpy().tolist()), {1.0})
        return times

    yield "same", same
