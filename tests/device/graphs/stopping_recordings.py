"""Recordings with one that never ends, for the test of what watches them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

import vyre_cuda as vc
from tests.support.watched.stopping import stops_at

from .many_recordings import Recordings

STOPS = 2


def spins() -> vc.Program:
    """It never ends."""
    b = vc.Builder("spins", block=1)
    z = b.inout("z", vc.u32)
    b.work(z.size)
    with b.while_(lambda: b.atomic_load(z, 0) == 0):
        pass
    return b.build()


class Stopping(Recordings):
    def one(self, seed: int, tell: Callable[[str], None]) -> tuple[Counter[str], str, bool]:
        if seed != STOPS:
            return super().one(seed, tell)
        z = self.device.array(np.zeros(1, np.uint32))
        with self.device.record() as graph:
            self.device.compile(spins()).launch(z)
        graph.replay()
        stops_at(tell, "reads what a kernel never gives")
        z.numpy()
        raise AssertionError
