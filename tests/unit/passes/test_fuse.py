"""Which steps become one: as many in a row as merge takes, the same ones each time, and why the others do not."""

from __future__ import annotations

import cProfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import launch_geometry
from vyre_cuda.passes.facts import facts_of
from vyre_cuda.passes.fuse import Apart, Group, decide, shares_alike
from vyre_cuda.passes.merge import Merge
from vyre_cuda.passes.pairs import Pairs
from vyre_cuda.passes.steps import Kind, Refused, Span, Step

N = 70
LARGE = 1030  # more than a block


def program(name: str = "scale", *, by: int = 0, loop: bool = False, guard: int = 0) -> vc.Program:
    """z = 2 * x, of the element `by` places on"""
    b = vc.Builder(name, block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size - guard):
        total = b.var("total", vc.f32(0))
        if loop:
            with b.for_(3):
                total.set(total + x[i + by])
        else:
            total.set(x[i + by] * 2)
        z[i] = total
    return b.build()


def step(made: vc.Program, x: Span, z: Span) -> Step:
    spans = {"x": x, "z": z}
    sizes: dict[Any, int] = {name: span.count for name, span in spans.items()}
    return Step(made, spans, {}, launch_geometry(made, sizes, {}))


def array(memory: int, count: int = N, first: int = 0) -> Span:
    return Span(memory, 4 * first, (count,))


def chain(*memories: int, count: int = N) -> list[Step]:
    return [step(program(f"p{k}"), array(a, count), array(b, count)) for k, (a, b) in enumerate(pairwise(memories))]


def ends(groups: Sequence[Group]) -> list[tuple[int, int]]:
    return [(group.first, group.end) for group in groups]


def test_steps_in_a_row_become_one() -> None:
    (group,) = decide(chain(0, 1, 2, 3, 4))

    assert group.step is not None
    assert group.step.program.name == "p0_p1_p2_p3"
    assert group.why == ""


@pytest.mark.parametrize("broken", range(1, 9))
def test_a_group_has_all_steps_before_the_one_that_is_refused(broken: int) -> None:
    steps = chain(*range(10), count=LARGE)
    steps[broken] = step(program("next", by=1), array(broken, LARGE), array(broken + 1, LARGE))
    groups = decide(steps)

    assert (groups[0].first, groups[0].end) == (0, broken)
    assert groups[0].kind is Kind.ELEMENT
    assert "another one wrote" in groups[0].why
    assert groups[-1].end == 9


def test_what_is_no_launch_and_seams_divide_steps() -> None:
    steps = chain(0, 1, 2, 3, 4)

    assert ends(decide([steps[0], Apart("copy", "it is not a launch"), *steps[1:]])) == [(0, 1), (1, 2), (2, 5)]
    assert ends(decide(steps, seams=[2])) == [(0, 2), (2, 4)]


def test_the_same_recording_gives_the_same_groups() -> None:
    steps = [*chain(0, 1, 2), *chain(3, 4), *chain(4, 5, 6)]

    assert decide(steps, (), [1, 4]) == decide(steps, (), [1, 4])


def test_temporaries_inside_a_group_are_gone() -> None:
    (group,) = decide(chain(0, 1, 2, 3), (), [1, 2])

    assert group.gone == {1, 2}
    assert group.step is not None
    assert {span.memory for span in group.step.spans.values()} == {0, 3}


def test_temporaries_that_others_use_stay() -> None:
    groups = decide([*chain(0, 1, 2, 3), Apart("copy", "it is not a launch", frozenset([2]))], (), [1, 2])

    assert groups[0].gone == {1}


def test_a_temporary_that_is_read_where_nobody_wrote_stays() -> None:
    b = vc.Builder("part", block=32)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 5):
        z[i] = x[i]
    steps = [step(b.build(), array(0), array(1)), *chain(1, 2, 3)]
    (group,) = decide(steps, (), [1, 2])

    assert group.gone == {2}


def test_steps_that_share_nothing_stay_apart_where_one_has_a_loop() -> None:
    alone = [step(program("a"), array(0), array(1)), step(program("b"), array(2), array(3))]
    loops = [step(program("a", loop=True), array(0), array(1)), step(program("b"), array(0), array(3))]
    behind = [loops[0], step(program("b"), array(1), array(3))]

    assert ends(decide(alone)) == [(0, 2)]
    assert ends(decide(loops)) == [(0, 1), (1, 2)]
    assert "side by side" in decide(loops)[0].why
    assert ends(decide(behind)) == [(0, 2)]


def test_a_step_that_is_refused_leaves_those_before_it_as_they_were() -> None:
    """What it shares with them is found out before anything is added."""
    steps = chain(*range(21), count=LARGE)
    alone = decide(steps[:12])[0].step
    steps[12] = step(program("next", by=1), array(12, LARGE), array(13, LARGE))
    group = decide(steps)[0]

    assert alone is not None
    assert group.step is not None
    assert group.step.program.text() == alone.program.text()
    assert group.step.spans == alone.spans


def test_of_what_is_too_large_at_least_half_of_what_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sum of the operations does not tell how many the kernel has."""
    right = Merge.step

    def limited(self: Merge, dropped: frozenset[Span] = frozenset()) -> Step:
        if len(self._steps) > 137:
            raise Refused("too many", Kind.SIZE)
        return right(self, dropped)

    monkeypatch.setattr(Merge, "step", limited)

    assert all(137 // 2 < group.end - group.first <= 137 for group in decide(chain(*range(401)))[:-1])


def test_a_kernel_has_as_many_steps_as_it_may_have_operations() -> None:
    same = program(by=0)
    steps = [step(same, array(k % 2, LARGE), array(1 - k % 2, LARGE)) for k in range(2100)]
    (first, *_) = decide(steps)

    assert first.step is not None
    assert 1900 < facts_of(first.step.program).ops <= 2000
    assert first.kind is Kind.SIZE


# ---- later values ----------------------------------------------------------------------------------------------------


def recorded(spans: Mapping[str, Span]) -> list[Step]:
    return [step(program("a"), spans["x"], spans["t"]), step(program("b"), spans["t"], spans["z"])]


BEFORE = {"x": array(0), "t": array(1), "z": array(2)}


@pytest.mark.parametrize(
    ("now", "alike"),
    [
        ({}, True),
        ({"x": array(5)}, True),
        ({"x": array(5), "t": array(6), "z": array(7)}, True),
        ({"x": array(1)}, False),  # one array where there were two
        ({"z": array(0)}, False),
        ({"z": array(0, first=N)}, True),
        ({"z": array(0, first=N - 1)}, False),  # they meet, and one is written
        ({"x": array(1, first=1)}, False),
        ({"x": array(0, N - 1)}, False),
        ({"x": array(0, N - 1), "t": array(1, N - 1), "z": array(2, N - 1)}, False),
    ],
)
def test_what_was_merged_holds_where_the_same_arrays_are_the_same(now: dict[str, Span], alike: bool) -> None:
    assert shares_alike(recorded(BEFORE), recorded({**BEFORE, **now})) is alike


def test_two_arrays_that_became_one_are_not_alike() -> None:
    both = [step(program("a"), array(0), array(1)), step(program("b"), array(2), array(3))]
    one = [step(program("a"), array(0), array(1)), step(program("b"), array(0), array(3))]

    assert not shares_alike(both, one)
    assert not shares_alike(one, both)


def test_the_same_memory_in_another_shape_is_not_alike() -> None:
    b = vc.Builder("rows", block=32)
    x, z = b.input("x", vc.f32, ndim=2), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[0, i]
    rows = b.build()

    def steps(memory: int) -> list[Step]:
        spans = {"x": Span(memory, 0, (1, N)), "z": array(3)}
        sizes: dict[Any, int] = {"x": N, ("x", 0): 1, ("x", 1): N, "z": N}
        return [step(program("a"), array(0), array(1)), Step(rows, spans, {}, launch_geometry(rows, sizes, {}))]

    assert shares_alike(steps(2), steps(4))
    assert shares_alike(steps(2), steps(0))
    assert not shares_alike(steps(2), steps(1))  # which the first one writes


def test_inputs_may_meet() -> None:
    before = [step(program("a"), array(0), array(1)), step(program("b"), array(2), array(3))]
    now = [step(program("a"), array(0), array(1)), step(program("b"), array(0, first=3), array(3))]

    assert shares_alike(before, now)


# ---- long recordings -------------------------------------------------------------------------------------------------


def counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Every step that is put to others."""
    given: list[Step] = []
    right = Merge.add

    def counted(self: Merge, each: Step) -> None:
        given.append(each)
        right(self, each)

    monkeypatch.setattr(Merge, "add", counted)
    return given


@pytest.mark.thin
@pytest.mark.parametrize("merged", [True, False])
def test_each_step_of_a_long_recording_is_put_to_others_once(monkeypatch: pytest.MonkeyPatch, *, merged: bool) -> None:
    given = counted_steps(monkeypatch)
    same = program(by=0 if merged else 1)
    groups = decide([step(same, array(k, LARGE), array(k + 1, LARGE)) for k in range(1000)])

    assert all((group.step is None) != merged for group in groups)
    assert len(groups) == (4 if merged else 1000)
    assert len(given) < 1010 if merged else len(given) < 10


def test_the_step_that_does_not_belong_to_a_group_is_found_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen chains beside each other, of steps that read what other threads wrote: each group is as many steps."""
    given = counted_steps(monkeypatch)
    same = program(by=1)
    steps = [step(same, array(k, LARGE), array(k + 16, LARGE)) for k in range(160)]
    groups = decide(steps)

    assert ends(groups) == [(k, k + 16) for k in range(0, 160, 16)]
    assert len(given) <= len(steps) + len(groups) + 2
    assert "a thread would find what another one wrote" in groups[0].why


@pytest.mark.thin
@pytest.mark.parametrize("kind", ["onward", "two"])
def test_deciding_takes_as_long_a_step_in_long_recordings(kind: str) -> None:
    """By calls of functions, which nothing else on the machine changes."""
    same = program(by=0)

    def calls(length: int) -> float:
        places = [(k, k + 1) if kind == "onward" else (k % 2, 1 - k % 2) for k in range(length)]
        steps = [step(same, array(a, LARGE), array(b, LARGE)) for a, b in places]
        profile = cProfile.Profile()
        profile.runcall(decide, steps)
        return sum(entry.callcount for entry in profile.getstats()) / length

    calls(50)  # what is imported when it is first needed

    assert calls(800) <= calls(100)


def test_pairs_that_share_in_another_way_are_asked_apart() -> None:
    """The same programs with the same shapes: what overlaps decides."""
    one, other = program("one"), program("other")
    asked = Pairs()
    found = [
        asked.refused(step(one, array(0), array(1)), step(other, array(source, first=first), array(to)))
        for source, first, to in [(1, 0, 2), (1, 1, 2), (3, 0, 2), (1, 0, 0), (0, 0, 1), (4, 0, 5), (2, 1, 1)]
    ]
    kinds = [None if why is None else why.kind for why in found]
    assert kinds == [None, Kind.OVERLAP, None, None, None, None, None]


def test_programs_that_were_merged_several_times_are_named_once() -> None:
    same = program()
    (group,) = decide([step(same, array(a), array(b)) for a, b in pairwise(range(4))])
    assert group.step is not None
    (text,) = group.step.lines().split(", ")
    assert text.startswith("scale (")
    assert text.endswith(") 3 times")
