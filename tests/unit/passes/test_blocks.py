"""Launches of one block that become one: the bytes of the steps, by barriers between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Barrier
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.passes.blocks import merge_blocks
from vyre_cuda.passes.fuse import decide
from vyre_cuda.passes.steps import Kind, Refused, Step
from vyre_cuda.records import replace

from .merged_steps import N, array, check, recorded
from .test_fuse import ends

BLOCK = 96


def turned(name: str = "turned", *, block: int = BLOCK, guard: int = 0, loop: bool = False) -> vc.Program:
    """z[i] = x[n - 1 - i] + 1, but for the last `guard` elements"""
    b = vc.Builder(name, block=block)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size - guard):
        total = b.var("total", vc.f32(1))
        if loop:
            with b.for_(3):
                total.set(total + x[x.size - 1 - i])
        else:
            total.set(total + x[x.size - 1 - i])
        z[i] = total
    return b.build()


def numbered(kind: str) -> vc.Program:
    """z[i] = x[n - 1 - i] + a number"""
    b = vc.Builder("numbered", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i] + vc.f32(getattr(vc, kind).x)
    return b.build()


def plane() -> vc.Program:
    b = vc.Builder("plane", block=(16, 8))
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(16, 8)
    i = b.let("i", vc.global_id.y * 16 + vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[z.size - 1 - i]
    return b.build()


def step(made: vc.Program, x: int, z: int, count: int = N) -> Step:
    return recorded(made, {"x": array(x, 0, count), "z": array(z, 0, count)})


def evaluated(program: vc.Program, **given: Any) -> Any:
    return vc.evaluate(program, **given)


def barriers(made: Step) -> int:
    return sum(isinstance(s, Barrier) for s in statements(made.program.body))


def test_a_step_may_read_what_other_threads_wrote() -> None:
    steps = [step(turned(), 0, 1), step(turned(), 1, 2), step(turned(), 2, 0)]
    one = merge_blocks(steps)

    assert barriers(one) == 2
    check(evaluated, steps, one)


def test_an_output_that_an_earlier_step_touched_is_cleared_between_barriers() -> None:
    steps = [step(turned(), 0, 1), step(turned(guard=9), 2, 1), step(turned(), 1, 2)]
    one = merge_blocks(steps)

    assert barriers(one) == 3
    check(evaluated, steps, one)


def test_a_step_that_leaves_early_arrives_at_the_barriers() -> None:
    b = vc.Builder("early", block=BLOCK)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i > 20):
        b.return_()
    z[i] = x[i] * 2
    steps = [step(b.build(), 0, 1), step(turned(), 1, 2)]

    check(evaluated, steps, merge_blocks(steps))


@pytest.mark.parametrize("without", [False, True])
def test_threads_race_without_the_barriers(without: bool, emulator: object) -> None:
    one = merge_blocks([step(turned(), 0, 1), step(turned(), 1, 2)])
    body = tuple(s for s in one.program.body if not (without and isinstance(s, Barrier)))
    program = replace(one.program, body=body)
    with vc.Device("emulator", check="races") as device:
        given = [np.zeros(N, np.float32) for p in program.parameters if p.kind != "out"]
        outs = tuple(np.zeros(N, np.float32) for p in program.parameters if p.kind == "out")

        def run() -> None:
            device.run(program, *given, out=outs)

        if without:
            with pytest.raises(vc.DataRaceError):
                run()
        else:
            run()


# ---- what stays apart ------------------------------------------------------------------------------------------------


def refused(steps: list[Step]) -> Kind:
    with pytest.raises(Refused) as found:
        merge_blocks(steps)
    return found.value.kind


def test_several_blocks_become_one_where_the_program_cannot_tell() -> None:
    several = [step(turned(block=32), 0, 1), step(turned(block=32), 1, 2)]
    one = merge_blocks(several)

    assert one.geometry.blocks == 1
    assert one.geometry.block == (96, 1, 1)
    check(evaluated, several, one)


@pytest.mark.parametrize(
    ("made", "count", "said"),
    [
        (turned(block=32, loop=True), N, "has 3 blocks, not one, and a loop"),
        (turned(block=32), 1025, "has 33 blocks, which are not one"),
        (numbered("block_id"), N, "has 3 blocks, not one, and uses block_id"),
        (numbered("thread_id"), N, "has 3 blocks, not one, and uses thread_id"),
    ],
)
def test_several_blocks_stay_several(made: vc.Program, count: int, said: str) -> None:
    with pytest.raises(Refused, match=said) as found:
        merge_blocks([step(made, 0, 1, count), step(made, 1, 2, count)])
    assert found.value.kind is Kind.LAUNCH


@pytest.mark.parametrize("sizes", [(N, 20, N), (1, N, 33), (64, 3, 64)])
def test_threads_behind_the_end_of_their_block_skip_the_step(sizes: tuple[int, ...]) -> None:
    """Also where all threads of the step write, and where its output is cleared."""
    b = vc.Builder("all_threads", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32, size=N)
    b.work(x.size)
    z[vc.global_id.x] = x[0] + 1
    every = b.build()
    first, second, third = sizes
    steps = [
        recorded(turned(block=8), {"x": array(0, 0, first), "z": array(1, 0, first)}),
        recorded(every, {"x": array(3, 0, second), "z": array(2)}),
        recorded(turned(block=256), {"x": array(4, 0, third), "z": array(3, 0, second)}),
        recorded(every, {"x": array(3, 0, second), "z": array(2)}),
        recorded(turned(block=128), {"x": array(2), "z": array(4, 0, third)}),
    ]

    check(evaluated, steps, merge_blocks(steps))


@pytest.mark.parametrize("what", ["block", "options", "overlap"])
def test_what_merge_refuses_at_once_is_refused(what: str) -> None:
    first = step(turned(), 0, 1)
    second: dict[str, Callable[[], Step]] = {
        "block": lambda: recorded(plane(), {"x": array(1), "z": array(2)}),
        "options": lambda: step(turned(), 1, 2),
        "overlap": lambda: recorded(turned(), {"x": array(1, 1), "z": array(2)}),
    }
    other = second[what]()
    if what == "options":
        other = replace(other, options=replace(other.options, precision="ftz"))

    assert refused([first, other]).name == {"block": "LAUNCH", "options": "OPTIONS", "overlap": "OVERLAP"}[what]


# ---- the decision ----------------------------------------------------------------------------------------------------


def test_element_wise_steps_are_merged_first_and_blocks_after() -> None:
    b = vc.Builder("plain", block=BLOCK)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] * 2
    plain = b.build()
    steps = [step(plain, 0, 1), step(plain, 1, 2), step(turned(), 2, 0), step(plain, 0, 1)]
    (group,) = decide(steps, (), [1])

    assert group.barriers == 1
    assert group.step is not None
    assert group.step.program.name == "plain_plain_turned_plain"
    # It is written again, and nothing reads that, so it stays an array; but one of the block.
    assert group.gone == group.shared == frozenset([1])
    assert [array.size for array in group.step.program.shared] == [N]
    (kept,) = decide(steps, (), [])
    assert kept.step is not None
    assert kept.gone == frozenset()
    check(evaluated, steps, kept.step)


def test_blocks_that_need_nothing_of_each_other_stay_apart() -> None:
    loops = turned(loop=True)

    assert ends(decide([step(loops, 0, 1), step(loops, 0, 2)])) == [(0, 1), (1, 2)]
    assert ends(decide([step(loops, 0, 1), step(loops, 1, 2)])) == [(0, 2)]


def test_seams_divide_blocks() -> None:
    steps = [step(turned(), 0, 1), step(turned(), 1, 2), step(turned(), 2, 0), step(turned(), 0, 1)]

    assert ends(decide(steps, seams=[2])) == [(0, 2), (2, 4)]
