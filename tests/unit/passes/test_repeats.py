"""Loops that go into the kernel that they repeat: the bytes of the passes one after the other."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.limits import MAX_NESTING
from vyre_cuda.ir.core.nodes import Barrier, For
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.passes import fuse
from vyre_cuda.passes.blocks import merge_blocks
from vyre_cuda.passes.fuse import Apart, Repeat, decide
from vyre_cuda.passes.merge import merge
from vyre_cuda.passes.repeats import Until, merge_repeated
from vyre_cuda.passes.steps import Kind, Refused, Step
from vyre_cuda.records import replace

from .merged_steps import N, array, check, recorded
from .test_blocks import barriers, evaluated, step, turned
from .test_fuse import ends

TIMES = 5


def grown(block: int = 32) -> vc.Program:
    """z[i] = 2 * z[i] + x[i]"""
    b = vc.Builder("grown", block=block)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = z[i] * 2 + x[i]
    b.work(z.size)
    return b.build()


def counted() -> vc.Program:
    """z[i] += x[i] in an output, which begins with zeros at each launch; and few of its elements"""
    b = vc.Builder("counted", block=128)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 9):
        z[i] = z[i] + x[x.size - 1 - i]
    return b.build()


def test_steps_of_own_elements_repeat_without_barriers_in_any_number_of_blocks() -> None:
    one = step(grown(block=2), 0, 1)
    made = merge_repeated(one, TIMES)

    assert made.geometry.blocks == N // 2
    assert barriers(made) == 0
    check(evaluated, [one] * TIMES, made)


def test_steps_of_one_block_repeat_with_a_barrier_at_the_end_of_each_pass() -> None:
    steps = [step(turned(), 0, 1), step(turned(), 1, 0)]
    made = merge_repeated(merge_blocks(steps), TIMES)

    assert barriers(made) == 2
    assert sum(isinstance(s, For) for s in statements(made.program.body)) == 1
    check(evaluated, steps * TIMES, made)


@pytest.mark.parametrize("programs", [(counted(),), (turned(guard=9), counted()), (counted(), turned(guard=5))])
def test_outputs_are_cleared_in_each_pass(programs: tuple[vc.Program, ...]) -> None:
    steps = [step(program, k, k + 1) for k, program in enumerate(programs)]
    steps.append(step(turned(guard=3), len(steps), 0))

    check(evaluated, steps * TIMES, merge_repeated(merge_blocks(steps), TIMES))


def test_a_loop_in_a_loop() -> None:
    steps = [step(turned(), 0, 1), step(turned(), 1, 0)]
    made = merge_repeated(merge_repeated(merge_blocks(steps), 2), 3)

    check(evaluated, steps * 6, made)


@pytest.mark.parametrize("without", [False, True])
def test_passes_race_without_the_barriers(*, without: bool, emulator: object) -> None:
    """In a pass each thread reads what another one writes in the pass after it."""
    made = merge_repeated(merge_blocks([step(turned(), 0, 1), step(turned(), 1, 0)]), 3)
    (loop_,) = made.program.body
    assert isinstance(loop_, For)
    assert isinstance(loop_.body[-1], Barrier)
    program = replace(made.program, body=(replace(loop_, body=loop_.body[: -1 if without else None]),))
    with vc.Device("emulator", check="races") as device:
        given = [np.zeros(N, np.float32) for p in program.parameters if p.kind != "out"]
        if without:
            with pytest.raises(vc.DataRaceError):
                device.run(program, *given)
        else:
            device.run(program, *given)


# ---- what stays ------------------------------------------------------------------------------------------------------


def barrier_and_return() -> vc.Program:
    b = vc.Builder("waits", block=96)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    b.barrier()
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i]
    return b.build()


def reversed_() -> vc.Program:
    """z[i] += z[n - 1 - i]"""
    b = vc.Builder("reversed", block=32)
    z = b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(2 * i < z.size):
        z[i] = z[i] + z[z.size - 1 - i]
    return b.build()


@pytest.mark.parametrize(
    ("one", "times", "kind"),
    [
        (step(barrier_and_return(), 0, 1), 5, Kind.STATEMENT),
        (recorded(reversed_(), {"z": array(0, 0, 2000)}), 5, Kind.LAUNCH),
        (step(turned(), 0, 1), 1 << 32, Kind.SIZE),
    ],
)
def test_what_cannot_be_repeated_is_refused(one: Step, times: int, kind: Kind) -> None:
    with pytest.raises(Refused) as found:
        merge_repeated(one, times)
    assert found.value.kind is kind


def until_large(block: int = 32) -> vc.Program:
    """z doubles until it is beyond 99, which `done` says: each element of it, by any thread"""
    b = vc.Builder("until_large", block=block)
    z, done = b.inout("z", vc.f32), b.inout("done", vc.u32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = z[i] * 2 + 1
        with b.if_(z[i] > 99):
            done[0] = 7
    return b.build()


@pytest.mark.parametrize(("times", "block"), [(0, 32), (5, 32), (100, 32), (1, 64), (7, N)])
def test_an_array_ends_the_passes(times: int, block: int) -> None:
    z, done = array(0, 0, N), replace(array(1, 0, 3), first=1 << 16)
    one = recorded(until_large(block), {"z": z, "done": done})
    made = merge_repeated(one, times, Until(done.memory, done.first, vc.u32))
    value, passes = np.float32(0), 0
    while value <= 99 and (not times or passes < times):
        value, passes = value * 2 + 1, passes + 1
    names = {made.spans[p.name].first: p.name for p in made.program.parameters}
    starts = {names[z.first]: np.zeros(N, np.float32), names[done.first]: np.zeros(3, np.uint32)}
    found = vc.evaluate(made.program, *[starts[p.name] for p in made.program.parameters])
    results = dict(zip([p.name for p in made.program.parameters], found, strict=True))
    np.testing.assert_array_equal(results[names[z.first]], np.full(N, value))
    assert results[names[done.first]][0] == (7 if value > 99 else 0)
    assert barriers(made) == 3


@pytest.mark.parametrize("until", [Until(5, 1 << 16, vc.u32), Until(0, 4, vc.u32), Until(0, 0, vc.u8)])
def test_a_loop_that_no_step_in_it_ends_is_refused(until: Until) -> None:
    with pytest.raises(Refused) as found:
        merge_repeated(recorded(reversed_(), {"z": array(0, 0, 20)}), 5, until)
    assert found.value.kind is Kind.VIEW


# ---- the decision ----------------------------------------------------------------------------------------------------


def loop(times: int, end: int, until: Until | None = None) -> Apart:
    return Apart("repeat", "it is a loop", frozenset(), Repeat(times, end, until))


def test_a_loop_around_one_kernel_is_part_of_it() -> None:
    steps: list[Any] = [
        step(grown(), 3, 4),
        loop(7, 4),
        step(turned(), 0, 1),
        step(turned(), 1, 0),
        step(grown(), 0, 1),
    ]
    groups = decide(steps, seams=[4])

    assert ends(groups) == [(0, 1), (1, 4), (4, 5)]
    assert groups[1].times == 7
    assert groups[1].step is not None
    check(evaluated, steps[2:4] * 7, groups[1].step)


def test_loops_in_loops_are_decided_from_within() -> None:
    inner: list[Any] = [step(turned(), 0, 1), step(turned(), 1, 0)]
    groups = decide([loop(3, 4), loop(2, 4), *inner], seams=[4])

    assert ends(groups) == [(0, 4)]
    assert groups[0].times == 6
    assert groups[0].step is not None
    check(evaluated, inner * 6, groups[0].step)


@pytest.mark.parametrize("own", [True, False])
def test_loops_around_a_loop_take_no_more_work(monkeypatch: pytest.MonkeyPatch, *, own: bool) -> None:
    """As their passes are those of one loop, it is made once, and the loops around it change its number."""
    made: list[int] = []
    right = fuse.merge_repeated

    def counted(one: Step, times: int, until: Until | None = None) -> Step:
        made.append(times)
        return right(one, times, until)

    monkeypatch.setattr(fuse, "merge_repeated", counted)
    inner: list[Any] = [step(grown() if own else turned(), 0, 1), step(grown() if own else turned(), 1, 0)]
    (group,) = decide([*[loop(times, 5) for times in (2, 1, 3)], *inner], seams=[5])

    assert made == [3]
    assert group.times == 6
    assert group.step is not None
    assert sum(isinstance(s, For) for s in statements(group.step.program.body)) == 1
    check(evaluated, inner * 6, group.step)


def test_a_loop_of_more_passes_than_an_index_counts_is_two() -> None:
    inner: list[Any] = [step(grown(), 0, 1)]
    (group,) = decide([loop(1 << 20, 3), loop(1 << 20, 3), *inner], seams=[3])

    assert group.times == 1 << 40
    assert group.step is not None
    assert sum(isinstance(s, For) for s in statements(group.step.program.body)) == 2


def test_a_loop_that_an_array_ends_is_not_part_of_a_loop_around_it() -> None:
    z, done = array(0, 0, N), replace(array(1, 0, 3), first=1 << 16)
    until = Until(done.memory, done.first, vc.u32)
    one = recorded(until_large(), {"z": z, "done": done})
    groups = decide([loop(3, 3), loop(4, 3, until), one], seams=[3])

    assert ends(groups) == [(0, 1), (1, 3)]
    assert (groups[1].times, groups[1].until) == (4, until)


def test_a_loop_around_several_kernels_stays_and_says_why() -> None:
    large = step(turned(block=32), 0, 1, 5000)
    groups = decide([loop(3, 3), large, step(turned(block=32), 1, 0, 5000)], seams=[3])

    assert ends(groups) == [(0, 1), (1, 2), (2, 3)]
    assert groups[0].why == "its steps are 2 kernels"
    groups = decide([loop(3, 4), loop(2, 4), large, step(turned(block=32), 1, 0, 5000)], seams=[4])
    assert [group.why for group in groups[:2]] == ["its steps do not become one kernel", "its steps are 2 kernels"]
    (loop_, one) = decide([loop(3, 2), recorded(reversed_(), {"z": array(0, 0, 2000)})], seams=[2])
    assert one.step is None
    assert "blocks, which are not one" in loop_.why
    (loop_, _) = decide([loop(3, 2, Until(0, 1 << 20, vc.u32)), step(turned(), 0, 1)], seams=[2])
    assert "no step in it writes to the array that ends it" in loop_.why


def test_a_merged_kernel_of_own_elements_repeats() -> None:
    steps: list[Any] = [step(grown(block=8), 0, 1), step(grown(block=8), 1, 2)]
    (group,) = decide([loop(4, 3), *steps], seams=[3])

    assert group.step is not None
    assert merge(steps).geometry.blocks == group.step.geometry.blocks
    check(evaluated, steps * 4, group.step)


def test_a_loop_around_branches_as_deep_as_they_may_be_stays() -> None:
    b = vc.Builder("deep", block=32)
    z = b.inout("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with ExitStack() as open_branches:
        for _ in range(MAX_NESTING):
            open_branches.enter_context(b.if_(i < z.size))
        z[i] = z[i] + 1
    (loop_, one) = decide([loop(3, 2), recorded(b.build(), {"z": array(0)})], seams=[2])

    assert one.step is None
    assert (loop_.kind, loop_.why) == (Kind.SIZE, "one kernel would be beyond a limit of the language")
