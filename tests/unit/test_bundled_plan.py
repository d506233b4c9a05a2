"""Whether arrays share memory as when steps were merged, as a comparison of each with each says it."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from vyre_cuda.runtime.graph.bundled_plan import Place, share_alike


def meet(a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    return a_bytes > 0 and b_bytes > 0 and a < b + b_bytes and b < a + a_bytes


def two_alike(a: Place, b: Place) -> bool:
    if a.memory == b.memory and meet(a.begin, a.nbytes, b.begin, b.nbytes):
        return a.address - b.address == a.begin - b.begin
    return not meet(a.address, a.nbytes, b.address, b.nbytes)


@pytest.mark.parametrize("seed", range(10))
def test_arrays_share_memory_as_each_does_with_each(seed: int) -> None:
    rng = random.Random(seed)
    found = set()
    for _ in range(300):
        moved = [1000 + 40 * rng.randrange(8) for _ in range(4)]
        places = []
        for _ in range(rng.randrange(1, 6)):
            memory, begin = rng.randrange(4), rng.randrange(0, 64, 8)
            strays = rng.random() < 0.1
            address = 1000 + rng.randrange(0, 320, 8) if strays else moved[memory] + begin
            places.append(Place(memory, begin, rng.choice((0, 8, 16, 24)), address))
        expected = all(two_alike(a, b) for a, b in combinations(places, 2))
        assert share_alike(places) is expected
        found.add(expected)
    assert found == {False, True}
