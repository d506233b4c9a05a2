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

from .test_fuse import ends
from .test_merge import N, array, check, recorded

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


def test_several_blocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [step(turned(block=32), 0, 1), step(turned(block=32), 1, 2)]

    assert refused(several) is Kind.LAUNCH


@pytest.mark.parametrize("what", ["block", "options", "overlap"])
def test_what_merge_refuses_at_once_is_refused(what: str) -> None:
    first = step(turned(), 0, 1)
    second: dict[str, Callable[[], Step]] = {
        "block": lambda: step(turned(block=128), 1, 2),
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
    assert group.gone == frozenset()  # it is written again, and nothing reads that
    check(evaluated, steps, group.step)


def test_blocks_that_need_nothing_of_each_other_stay_apart() -> None:
    loops = turned(loop=True)

    assert ends(decide([step(loops, 0, 1), step(loops, 0, 2)])) == [(0, 1), (1, 2)]
    assert ends(decide([step(loops, 0, 1), step(loops, 1, 2)])) == [(0, 2)]


def test_seams_divide_blocks() -> None:
    steps = [step(turned(), 0, 1), step(turned(), 1, 2), step(turned(), 2, 0), step(turned(), 0, 1)]

    assert ends(decide(steps, seams=[2])) == [(0, 2), (2, 4)]
