"""Whether ranges of memory meet, as a comparison of each with each says it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from uncollected import uncollected

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import launch_geometry
from vyre_cuda.passes.fuse import decide, shares_alike
from vyre_cuda.passes.ranges import Covered, Range, meet_written
from vyre_cuda.passes.steps import Span, Step


def some_ranges(rng: random.Random, count: int) -> list[Range]:
    found: list[Range] = []
    for _ in range(count):
        first = rng.randrange(0, 60, 4)
        size = rng.choice((4, 8, 8, 24))
        found.append((rng.randrange(3), first, first + size, rng.choice(((size,), (2, size)))))
    return found


def meet(a: Range, b: Range) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


@pytest.mark.parametrize("seed", range(20))
def test_covered_bytes_are_those_of_all_ranges(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        covered, before = Covered(), list[Range]()
        for each in some_ranges(rng, rng.randrange(1, 12)):
            assert covered.meets([each]) is any(meet(each, other) for other in before)
            covered.add([each])
            before.append(each)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_meets_what_is_touched(seed: int) -> None:
    rng = random.Random(seed)
    found = set()
    for _ in range(100):
        touched = set(some_ranges(rng, rng.randrange(1, 7)))
        written = set(rng.sample(sorted(touched), rng.randrange(len(touched) + 1)))
        expected = any(meet(one, other) for one in written for other in touched if other != one)
        assert meet_written(touched, written) is expected
        found.add(expected)
    assert found == {False, True}


# ---- long recordings -------------------------------------------------------------------------------------------------


def chain(count: int) -> list[Step]:
    """Steps of one block, each of which reads backwards what the one before it left in an array of its own."""
    b = vc.Builder("turn", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[z.size - 1 - i]
    program = b.build()
    geometry = launch_geometry(program, {"x": 30, "z": 30}, {})
    spans = [Span(0, 120 * k, (30,)) for k in range(count + 1)]
    return [Step(program, {"x": x, "z": z}, {}, geometry) for x, z in pairwise(spans)]


def calls_for_each(work: Callable[[list[Step]], object], count: int) -> float:
    """Calls of Python functions, and of what they yield, for each of so many steps."""
    steps = chain(count)
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    with uncollected():
        sys.setprofile(note)
        try:
            work(steps)
        finally:
            sys.setprofile(None)
    return calls / count


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(decide, marks=pytest.mark.thin, id="decide"),
        pytest.param(lambda steps: shares_alike(steps, steps), id="shares_alike"),
    ],
)
def test_a_step_of_a_long_recording_takes_no_longer(work: Callable[[list[Step]], object]) -> None:
    assert calls_for_each(work, 400) < 1.15 * calls_for_each(work, 50)
