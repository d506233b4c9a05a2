"""Steps in a row that became one program give the bytes of the steps; what would not is refused."""

from __future__ import annotations

import cProfile
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda.passes import merge as merging
from vyre_cuda.passes.merge import merge
from vyre_cuda.passes.steps import Kind, Refused, Span, Step

from .merged_steps import (
    BLOCK,
    N,
    array,
    check,
    check_dropped,
    first,
    loads,
    programs,
    recorded,
    recording,
    refused,
    scale,
    shift,
    would_be_wrong,
)

# ---- random recordings -----------------------------------------------------------------------------------------------


LONG = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.thin
@pytest.mark.parametrize(("seed", "count"), [(0, 300), *[pytest.param(k, 5000, marks=LONG) for k in range(4)]])
def test_random_recordings_give_the_bytes_of_the_steps(seed: int, count: int) -> None:
    counts = compare(lambda p, **given: vc.evaluate(p, **given), seed, count)
    print(dict(counts))

    assert counts["merged"] > count // 10
    assert counts["ELEMENT"]
    assert counts["OVERLAP"]
    assert counts["CLEAR"] + counts["UNKNOWN"]


@pytest.mark.parametrize("count", [30, pytest.param(5000, marks=LONG)])
@pytest.mark.parametrize("precision", ["ieee", "ftz"])
def test_random_recordings_on_the_device(device: vc.Device, precision: str, count: int) -> None:
    counts = compare(lambda p, **given: device.compile(p, precision=precision)(**given), 99, count)

    assert counts["merged"] > count // 10


def compare(call: Callable[..., Any], seed: int, count: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    pool = programs(120)
    rng = random.Random(seed)
    for number in range(count):
        steps, dropped = recording(rng, pool)
        try:
            one = merge(steps, dropped)
        except Refused as refused:
            counts[refused.kind.name] += 1
            continue
        counts["merged"] += 1
        try:
            check_dropped(call, steps, one, number, dropped)
        except AssertionError as error:
            texts = "\n".join(f"{step.program.text()}{dict(step.spans)}" for step in (*steps, one))
            raise AssertionError(f"seed {seed}, recording {number}: {error}\n{texts}") from None
    return counts


# ---- what is made ----------------------------------------------------------------------------------------------------


def test_a_value_goes_on_without_memory() -> None:
    steps = [first(), recorded(shift(), {"x": array(1), "z": array(2)})]
    one = merge(steps)

    assert loads(one) == 1
    assert one.program.text().count("store ") == 2
    assert one.program.text().count("\nif ") == 1
    assert set(one.spans.values()) == {array(0), array(1), array(2)}
    check(lambda p, **given: vc.evaluate(p, **given), steps, one)


def test_a_dropped_array_is_gone() -> None:
    one = merge([first(), recorded(shift(), {"x": array(1), "z": array(2)})], [array(1)])

    assert one.program.text().count("store ") == 1
    assert array(1) not in one.spans.values()


def test_ten_steps_one_after_the_other_are_those_at_once() -> None:
    steps = [first()]
    for k in range(9):
        steps.append(recorded(shift(of=k), {"x": array(1 + k % 2), "z": array(2 - k % 2)}))
    folded = steps[0]
    for step in steps[1:]:
        folded = merge([folded, step])
    at_once = merge(steps)

    check(lambda p, **given: vc.evaluate(p, **given), steps, folded)
    check(lambda p, **given: vc.evaluate(p, **given), steps, at_once)
    assert [name for name, _ in folded.origins] == ["scale"] + ["shift"] * 9
    assert folded.origins == at_once.origins
    assert folded.lines().endswith(") 9 times")
    assert loads(at_once) == 1


def test_a_loop_whose_step_is_the_size_of_an_empty_array_has_no_trips() -> None:
    b = vc.Builder("strided", block=BLOCK)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size), b.for_(0, 10, x.size):
        z[i] = z[i] + 1
    b.work(z.size)
    strided = b.build()
    steps = [recorded(strided, {"x": array(1, count=count), "z": array(2)}) for count in (3, 0)]

    for some in (steps, steps[::-1], [steps[1]] * 2):
        check(lambda p, **given: vc.evaluate(p, **given), some, merge(some))


def test_what_the_guard_left_out_is_what_was_there() -> None:
    steps = [first(out="inout", guard=3), recorded(shift(), {"x": array(1), "z": array(2)})]
    one = merge(steps)

    assert loads(one) == 2
    check(lambda p, **given: vc.evaluate(p, **given), steps, one)


def test_equal_scalars_are_one_parameter_and_others_two() -> None:
    other = recorded(scale(), {"x": array(1), "z": array(2)}, {"a": 3.0})
    same = recorded(scale(), {"x": array(1), "z": array(2)}, {"a": 2.0})

    assert list(merge([first(), same]).scalars.values()) == [2.0]
    assert list(merge([first(), other]).scalars.values()) == [2.0, 3.0]


def test_an_output_that_was_touched_before_is_cleared_in_between() -> None:
    steps = [first(), recorded(scale(guard=9), {"x": array(2), "z": array(1)}, {"a": 2.0})]

    check(lambda p, **given: vc.evaluate(p, **given), steps, merge(steps))


def rows(name: str, *, guarded: bool = False) -> vc.Program:
    """z = x + 1 on two axes"""
    b = vc.Builder(name, block=(8, 4))
    x, z = b.input("x", vc.f32, ndim=2), b.output("z", vc.f32, ndim=2)
    b.work(x.shape[1], x.shape[0])
    j, i = b.let("j", vc.global_id.y), b.let("i", vc.global_id.x)
    if guarded:
        with b.if_((i < x.shape[1]) & (j < x.shape[0])):
            z[j, i] = x[j, i] + 1
    else:
        z[j, i] = x[j, i] + 1
    return b.build()


@pytest.mark.parametrize("guarded", [False, True])
def test_an_output_with_two_axes_that_is_filled_is_not_cleared(guarded: bool) -> None:
    a, b = Span(0, 0, (7, 10)), Span(1, 0, (7, 10))
    steps = [recorded(rows("there"), {"x": a, "z": b}), recorded(rows("back", guarded=guarded), {"x": b, "z": a})]
    one = merge(steps)

    assert one.program.text().count("store ") == 2
    check(lambda p, **given: vc.evaluate(p, **given), steps, one)


def test_an_output_with_two_axes_that_has_more_elements_than_threads_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = Span(0, 0, (4, 8)), Span(1, 0, (13, 8))
    fill = recorded(rows("fill"), {"x": a, "z": b})
    steps = [Step(fill.program, {"x": b, "z": Span(2, 0, (13, 8))}, {}, fill.geometry), fill]

    assert refused(steps) is Kind.CLEAR
    monkeypatch.setattr(merging.Merge, "_clears", lambda *_: ())
    would_be_wrong(steps)


# ---- several axes, types, several arrays of one step -----------------------------------------------------------------


def plane(by: int, transposed: bool = False) -> vc.Program:
    b = vc.Builder("plane", block=(8, 4))
    x, z = b.input("x", vc.f32, ndim=2), b.output("z", vc.f32, ndim=2)
    b.work(z.shape[1], z.shape[0])
    column, row = b.let("column", vc.global_id.x), b.let("row", vc.global_id.y)
    with b.if_((row < z.shape[0]) & (column < z.shape[1])):
        z[row, column] = x[column, row] if transposed else x[row, column + by] * 2.0
    return b.build()


def test_elements_of_two_axes() -> None:
    a, t, z = (Span(k, 0, (10, 10)) for k in range(3))
    steps = [recorded(plane(0), {"x": a, "z": t}), recorded(plane(0), {"x": t, "z": z})]
    one = merge(steps)

    assert loads(one) == 1
    check(lambda p, **given: vc.evaluate(p, **given), steps, one)
    assert refused([steps[0], recorded(plane(1), {"x": t, "z": z})]) is Kind.ELEMENT
    assert refused([steps[0], recorded(plane(0, transposed=True), {"x": t, "z": z})]) is Kind.ELEMENT


def test_rows_and_columns_of_one_axis_are_an_element_of_each_thread_only_below_the_width() -> None:
    def flat(width: int, inside: int) -> vc.Program:
        b = vc.Builder("flat", block=(8, 4))
        x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
        b.work(10, 7)
        with b.if_((vc.global_id.x < inside) & (vc.global_id.y < 7)):
            i = b.let("i", vc.global_id.y * width + vc.global_id.x)
            z[i] = z[i] + x[i]
        return b.build()

    def two(width: int, inside: int) -> list[Step]:
        program = flat(width, inside)
        return [recorded(program, {"x": array(k), "z": array(2)}) for k in range(2)]

    check(lambda p, **given: vc.evaluate(p, **given), two(10, 10), merge(two(10, 10)))
    assert refused(two(10, 12)) is Kind.ELEMENT


def test_an_array_that_is_input_and_output_of_one_step() -> None:
    b = vc.Builder("twice", block=BLOCK)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    b.work(z.size)
    z[vc.global_id.x] = x[vc.global_id.x] * 2
    twice = b.build()

    assert refused([recorded(twice, {"x": array(0), "z": array(0)}), first()]) is Kind.OVERLAP


@pytest.mark.parametrize("type_", [vc.bool_, vc.u8, vc.i16, vc.f16, vc.f64], ids=str)
def test_a_value_goes_on_as_it_is_stored(type_: vc.Type) -> None:
    def cast(name: str, source: vc.Type, target: vc.Type) -> vc.Program:
        b = vc.Builder(name, block=BLOCK)
        x, z = b.input("x", source), b.output("z", target)
        b.work(z.size)
        z[vc.global_id.x] = target(x[vc.global_id.x] * 31 if source is vc.f32 else x[vc.global_id.x])
        return b.build()

    between = Span(1, 0, (N,))
    steps = [
        recorded(cast("store", vc.f32, type_), {"x": array(0), "z": between}),
        recorded(cast("load", type_, vc.f32), {"x": between, "z": array(2)}),
    ]
    one = merge(steps)

    assert loads(one) == 1
    check(lambda p, **given: vc.evaluate(p, **given), steps, one)


def test_stores_in_loops_and_branches_are_seen_behind_them() -> None:
    b = vc.Builder("loop", block=BLOCK)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size), b.for_(4) as k, b.if_(x[i] > vc.f32(k)):
        z[i] = z[i] + vc.f32(k)
    steps = [recorded(b.build(), {"x": array(0), "z": array(1)}), recorded(shift(), {"x": array(1), "z": array(2)})]
    one = merge([*steps, *steps])

    check(lambda p, **given: vc.evaluate(p, **given), [*steps, *steps], one)


def test_the_random_recordings_find_a_wrong_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging.Merge, "_clears", lambda *_: ())

    with pytest.raises(AssertionError, match="recording"):
        compare(lambda p, **given: vc.evaluate(p, **given), 0, 500)


def test_a_step_of_a_long_chain_takes_no_longer_to_merge() -> None:
    """By calls of functions, which nothing else on the machine changes."""

    def calls(count: int) -> float:
        steps = [first()]
        steps += [recorded(shift(of=k), {"x": array(1 + k % 2), "z": array(2 - k % 2)}) for k in range(count - 1)]
        profile = cProfile.Profile()
        profile.runcall(merge, steps)
        return sum(entry.callcount for entry in profile.getstats()) / count

    calls(50)  # what is imported when it is first needed

    assert calls(400) <= calls(50)
