"""Where a curve jumps.

A call that works on all items may cost more with each of them: then it is its cost per item that must not rise. Any
other must cost the same however many there are. A point is a step when it costs more than LIMIT times what its
neighbour with fewer items would make of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

LIMIT = 1.5


@dataclass(frozen=True, slots=True)
class Step:
    """From `before` items to `items` the cost rises by `ratio` beyond what their number explains."""

    before: int
    items: int
    ratio: float


def steps(costs: Mapping[int, float], *, each: bool, limit: float = LIMIT) -> list[Step]:
    """Every step of a curve: the cost of a call by number of items. `each`: the call works on all of them."""
    found = []
    for before, items in pairwise(sorted(costs)):
        explained = costs[before] * (items / max(before, 1) if each else 1.0)
        ratio = costs[items] / explained
        if ratio > limit:
            found.append(Step(before, items, round(ratio, 2)))
    return found
