"""Temporary arrays share memory where they are not needed at the same time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from vyre_cuda.runtime.graph.arena import Interval, places


class Root:
    """A temporary array, as far as its place matters."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def meets(one: Interval, other: Interval) -> bool:
    return one.first <= other.last and other.first <= one.last


@pytest.mark.parametrize("seed", range(30))
def test_each_is_at_the_first_place_that_is_free_while_it_is_needed(seed: int) -> None:
    rng = random.Random(seed)
    needed: list[Interval] = []
    for first in sorted(rng.choices(range(40), k=30)):
        root: Any = Root(rng.choice((0, 1, 256, 300, 700)))
        needed.append(Interval(root, first, first + rng.choice((0, 1, 5, 30))))
    found, size = places(needed)
    expected: dict[int, int] = {}
    for number, one in enumerate(needed):
        others = [(expected[k], needed[k].root.nbytes) for k in range(number) if meets(needed[k], one)]
        free = (at for at in range(0, 1 << 16, 256) if all(at + one.root.nbytes <= b or b + n <= at for b, n in others))
        expected[number] = next(free)

    assert [found[one.root] for one in needed] == [*expected.values()]
    assert size == max(found[one.root] + one.root.nbytes for one in needed)
