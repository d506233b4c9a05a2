"""Arrays that steps have in common are the same memory, type and shape; others are apart, or nobody writes to them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.passes.arrays import Arrays
from vyre_cuda.passes.renaming import UniqueNames
from vyre_cuda.passes.steps import Kind, Refused, Span, Step


def program(kinds: tuple[str, ...]) -> vc.Program:
    """A program with such parameters."""
    b = vc.Builder("some", block=32)
    for k, kind in enumerate(kinds):
        type_ = vc.i32 if kind.endswith("i32") else vc.f32
        if kind.startswith("in "):
            b.input(f"x{k}", type_)
        elif kind.startswith("inout"):
            each = b.inout(f"x{k}", type_)
            each[vc.global_id.x] = type_(1)
        else:
            b.output(f"x{k}", type_, size=9)
    b.work(9)
    return b.build()


KINDS = ("in f32", "in i32", "inout f32", "inout i32", "out f32")
PROGRAMS = {
    kinds: program(kinds) for kinds in [(a, b) for a in KINDS for b in KINDS] + [(a, "in f32", "in f32") for a in KINDS]
}


def step(rng: random.Random) -> Step:
    made = rng.choice(list(PROGRAMS.values()))
    spans = {
        p.name: Span(rng.randrange(2), 4 * rng.randrange(30), (rng.choice((0, 1, 2, 3)),)) for p in made.parameters
    }
    return Step(made, spans, {}, Geometry((1, 1, 1), (32, 1, 1), (9, 1, 1)))


def is_right(steps: list[Step]) -> bool:
    """The same by every pair of bytes."""
    found: dict[tuple[Span, vc.Type], bool] = {}
    for each in steps:
        here = set()
        for p in each.program.parameters:
            key = each.spans[p.name], p.type
            if p.kind == "out" and key in here:
                return False
            here.add(key)
            found[key] = found.get(key, False) or p.kind != "in"
    users: dict[tuple[int, int], list[bool]] = {}
    for (span, _), is_written in found.items():
        for byte in range(span.first, span.first + 4 * span.count, 4):
            users.setdefault((span.memory, byte), []).append(is_written)
    return all(len(some) == 1 or not any(some) for some in users.values())


@pytest.mark.parametrize("seed", range(20))
def test_steps_are_refused_exactly_where_other_arrays_meet_and_are_written(seed: int) -> None:
    rng = random.Random(seed)
    counts: Counter[object] = Counter()
    for _ in range(100):
        arrays, names, taken = Arrays(), UniqueNames(), []
        for _ in range(12):
            each = step(rng)
            try:
                touches = arrays.touches(each)
            except Refused as refused:
                counts[refused.kind] += 1
                is_taken = False
            else:
                is_taken = True
                counts["taken"] += 1
            assert is_taken == is_right([*taken, each])
            if is_taken:
                arrays.add(each, touches, names.take, ())
                taken.append(each)
        assert len({array.name for array in arrays.found.values()}) == len(arrays.found)
    assert counts.keys() == {"taken", Kind.OVERLAP, Kind.VIEW}
    assert min(counts["taken"], counts[Kind.OVERLAP]) > 100
