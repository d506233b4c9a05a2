"""Steps in a row that became one program give the bytes of the steps; what would not is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import launch_geometry
from vyre_cuda.ir.core.nodes import Barrier, Const, Id
from vyre_cuda.passes import merge as merging
from vyre_cuda.passes.forwarding import Forwarded
from vyre_cuda.passes.merge import merge
from vyre_cuda.passes.places import Places
from vyre_cuda.passes.steps import Kind, Options, Refused, Span, Step
from vyre_cuda.testing.compare import assert_same

N = 70
BLOCK = 32
Memory = dict[int, np.ndarray[Any, Any]]


# ---- recordings ------------------------------------------------------------------------------------------------------


def recorded(program: vc.Program, spans: Mapping[str, Span], scalars: Mapping[str, Any] | None = None) -> Step:
    sizes: dict[str | tuple[str, int], int] = {name: span.count for name, span in spans.items()}
    sizes |= {(name, axis): extent for name, span in spans.items() for axis, extent in enumerate(span.shape)}
    return Step(program, spans, scalars or {}, launch_geometry(program, sizes, {}))


def run(call: Callable[..., Any], step: Step, memory: Memory) -> None:
    """Run the step on these bytes; the keys of its scalars are their values."""
    arrays = {}
    for p in step.program.parameters:
        if p.is_buffer:
            span = step.spans[p.name]
            raw = memory[span.memory][span.first : span.first + span.count * p.type.itemsize]
            arrays[p.name] = raw.view(p.type.dtype).reshape(span.shape)
    given = {p.name: arrays[p.name] for p in step.program.parameters if p.is_buffer and p.kind != "out"}
    outs = {p.name: np.empty_like(arrays[p.name]) for p in step.program.parameters if p.kind == "out"}
    more = {"out": outs} if outs else {}
    results = call(step.program, **{**given, **step.scalars, **more})
    written = [p.name for p in step.program.parameters if p.is_writable]
    for name, result in zip(written, [results] if isinstance(results, np.ndarray) else results, strict=True):
        arrays[name][...] = result


def filled(seed: int, count: int = 5) -> Memory:
    rng = np.random.default_rng(seed)
    return {k: rng.integers(-9, 9, 2 * N).astype(np.float32).view(np.uint8) for k in range(count)}


def check(call: Callable[..., Any], steps: Sequence[Step], one: Step) -> None:
    check_dropped(call, steps, one, 0, ())


def array(memory: int, first: int = 0, count: int = N) -> Span:
    return Span(memory, 4 * first, (count,))


# ---- programs --------------------------------------------------------------------------------------------------------


def element(rng: random.Random, name: str) -> vc.Program:
    """out[i] from x[i] and y[i], with one of many guards and bodies."""
    b = vc.Builder(name, block=BLOCK)
    x, y = b.input("x", vc.f32), b.input("y", vc.f32)
    inplace = rng.random() < 0.3
    out = b.inout("z", vc.f32) if inplace else b.output("z", vc.f32)
    a = b.scalar("a", vc.f32)
    b.work(x.size)
    i = b.let("i", vc.global_id.x)
    guards = (
        i < out.size,
        i < x.size,
        (i < x.size) & (i < y.size),
        i < x.size - 3,
        x.size > i,
        (i < out.size) & (i > 4),
    )
    form = rng.randrange(6)
    guard = guards[rng.choice((0, 0, 1, 1, 2, 3, 4, 5))]
    at = rng.choice((i,) * 10 + (i + 1, x.size - 1 - i))
    value = (x[i] + y[i], x[i] * a, vc.where(x[i] > 0, y[i], a), vc.absolute(x[i]) - y[at], vc.sqrt(vc.absolute(x[at])))
    result = rng.choice(value)
    if form == 0:
        with b.if_(i >= out.size):
            b.return_()
        out[i] = result
    elif form == 1:
        out[i] = result
    elif form == 2:
        with b.if_(guard):
            with b.if_(x[i] > y[i]):
                out[i] = result
            with b.else_():
                if rng.random() < 0.5:
                    out[i] = a
    elif form == 3:
        with b.if_(guard):
            total = b.var("total", vc.f32(0))
            with b.for_(3) as k:
                total.set(total + x[i] * vc.f32(k))
                out[i] = total
            if inplace:
                out[i] = out[i] + result
    else:
        with b.if_(guard):
            out[i] = result + out[i] if inplace else result
    return b.build()


def programs(count: int) -> list[vc.Program]:
    rng = random.Random(1)
    return [element(rng, f"p{k}") for k in range(count)]


SPANS = [array(0), array(0, 70), array(1), array(2), array(2, 70), array(1, 1), array(1, 64), array(2, 35)]
OFFSET = 5  # from there on, they share a part with others


def recording(rng: random.Random, pool: Sequence[vc.Program]) -> tuple[list[Step], list[Span]]:
    steps = []
    for _ in range(rng.choice((2, 2, 2, 3, 4))):
        choices = SPANS if rng.random() < 0.05 else SPANS[:OFFSET]
        out = rng.choice(choices)
        inputs = [span for span in rng.sample(choices, len(choices)) if not meets(span, out)]
        spans = {"x": inputs[0], "y": inputs[rng.randrange(2)], "z": out}
        steps.append(recorded(rng.choice(pool), spans, {"a": rng.choice((0.5, 2.0))}))
    dropped = [array(2)] if rng.random() < 0.3 else []
    return steps, dropped


def meets(a: Span, b: Span) -> bool:
    return a.memory == b.memory and a.first < b.first + 4 * b.count and b.first < a.first + 4 * a.count


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


@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=LONG)])
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


def check_dropped(
    call: Callable[..., Any], steps: Sequence[Step], one: Step, seed: int, dropped: Sequence[Span]
) -> None:
    apart, together = filled(seed), filled(seed)
    for step in steps:
        run(call, step, apart)
    run(call, one, together)
    for key in apart:
        a, b = apart[key].view(np.float32), together[key].view(np.float32)
        for span in dropped:
            if span.memory == key:
                a[span.first // 4 : span.first // 4 + span.count] = 0
                b[span.first // 4 : span.first // 4 + span.count] = 0
        assert_same(a, b)


# ---- what is made ----------------------------------------------------------------------------------------------------


def scale(out: str = "out", guard: int = 0) -> vc.Program:
    b = vc.Builder("scale", block=BLOCK)
    x, a = b.input("x", vc.f32), b.scalar("a", vc.f32)
    z = b.output("z", vc.f32) if out == "out" else b.inout("z", vc.f32)
    b.work(x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size - guard):
        z[i] = x[i] * a
    return b.build()


def shift(by: int = 0, of: int = 0, type_: vc.Type = vc.f32) -> vc.Program:
    b = vc.Builder("shift", block=BLOCK)
    x = b.input("x", type_)
    z = b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = vc.f32(x[i + by]) + float(of)
    return b.build()


def first(**given: Any) -> Step:
    return recorded(scale(**given), {"x": array(0), "z": array(1)}, {"a": 2.0})


def loads(step: Step) -> int:
    return step.program.text().count("load(")


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
    assert folded.lines().count("test_merge.py:") == 10
    assert loads(at_once) == 1


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


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(steps: Sequence[Step], dropped: Sequence[Span] = ()) -> Kind:
    with pytest.raises(Refused) as found:
        merge(steps, dropped)
    return found.value.kind


def would_be_wrong(steps: Sequence[Step]) -> None:
    """What would be made, if it were not refused, gives other bytes."""
    with pytest.raises(AssertionError):
        check(lambda p, **given: vc.evaluate(p, **given), steps, merge(steps))


def test_a_neighbor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(), recorded(shift(by=1), {"x": array(1), "z": array(2)})]

    assert refused(steps) is Kind.ELEMENT
    key = Places.key
    monkeypatch.setattr(Places, "key", lambda self, _, of: key(self, Id(vc.u32, "global_id", 0), of))
    would_be_wrong(steps)


def test_memory_that_is_shared_in_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(), recorded(shift(), {"x": array(1, 1), "z": array(2)})]

    assert refused(steps) is Kind.OVERLAP
    monkeypatch.setattr(merging.Merge, "_check_ranges", lambda _: None)
    would_be_wrong(steps)


def test_another_type_of_the_same_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(), recorded(shift(type_=vc.i32), {"x": array(1), "z": array(2)})]

    assert refused(steps) is Kind.VIEW
    monkeypatch.setattr(merging.Merge, "_check_ranges", lambda _: None)
    would_be_wrong(steps)


def test_a_return_that_leaves_a_branch_in_its_middle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = vc.Builder("leaves", block=BLOCK)
    z = b.inout("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 50):
        with b.if_(i > 20):
            b.return_()
        z[i] = 1.0
    steps = [recorded(b.build(), {"z": array(1)}), recorded(shift(), {"x": array(1), "z": array(2)})]

    assert refused(steps) is Kind.RETURN
    monkeypatch.setattr(merging, "Return", Barrier)
    would_be_wrong(steps)


def test_a_clear_that_the_threads_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        recorded(scale(), {"x": array(0, 0, 20), "z": array(1, 0, 140)}, {"a": 2.0}),
        recorded(scale(), {"x": array(2, 0, 20), "z": array(1, 0, 140)}, {"a": 2.0}),
    ]
    steps[0] = recorded(scale(out="inout"), {"x": array(0, 0, 20), "z": array(1, 0, 140)}, {"a": 2.0})

    assert refused(steps) is Kind.CLEAR
    monkeypatch.setattr(merging.Merge, "_clears", lambda *_: ())
    would_be_wrong(steps)


def test_other_launches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = vc.Builder("everyone", block=BLOCK)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(x.size)
    z[vc.global_id.x] = z[vc.global_id.x] + 1
    every = b.build()
    steps = [
        recorded(every, {"x": array(0, 0, 20), "z": array(1)}),
        recorded(every, {"x": array(0), "z": array(2)}),
    ]

    assert refused(steps) is Kind.LAUNCH
    monkeypatch.setattr(merging, "check_launches", lambda _: None)
    would_be_wrong(steps)


def test_what_nobody_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [first(out="inout", guard=3), recorded(shift(), {"x": array(1), "z": array(2)})]

    assert refused(steps, [array(1)]) is Kind.UNKNOWN
    assert refused([steps[1]], [array(1)]) is Kind.UNKNOWN
    zero = Const(vc.f32, 0)

    def zeros(*given: Any) -> Forwarded:
        type_, shape, index, key, stores, _ = given
        return Forwarded(type_, shape, index, key, stores, zero)

    monkeypatch.setattr(merging, "Forwarded", zeros)
    with pytest.raises(AssertionError):
        check_dropped(lambda p, **given: vc.evaluate(p, **given), steps, merge(steps, [array(1)]), 0, [array(1)])


def test_other_options_are_refused() -> None:
    second = recorded(shift(), {"x": array(1), "z": array(2)})
    step = Step(second.program, second.spans, {}, second.geometry, Options(precision="ftz"))
    trap = Step(second.program, second.spans, {}, second.geometry, Options(bounds="trap"))

    assert refused([first(), step]) is Kind.OPTIONS
    assert refused([trap, trap]) is Kind.OPTIONS


def test_products_and_sums_that_could_become_one_are_refused() -> None:
    fast = Options(precision="fast")
    steps = [first(), recorded(shift(), {"x": array(1), "z": array(2)})]
    steps = [Step(s.program, s.spans, s.scalars, s.geometry, fast) for s in steps]

    assert refused(steps) is Kind.PRECISION


@pytest.mark.thin
def test_more_than_2000_operations_are_refused() -> None:
    assert (
        refused([recorded(scale(), {"x": array(0), "z": array(1 + k % 2)}, {"a": 2.0}) for k in range(900)])
        is Kind.SIZE
    )


@pytest.mark.parametrize("what", ["assert", "barrier", "print", "shared"])
def test_statements_that_other_threads_or_the_host_see_are_refused(what: str) -> None:
    b = vc.Builder("other", block=BLOCK)
    z = b.inout("z", vc.f32)
    if what == "assert":
        b.assert_(z.size > 3, "short")
    elif what == "barrier":
        b.barrier()
    elif what == "print":
        b.print("here")
    else:
        b.shared("s", vc.f32, 4)
    other = recorded(b.build(), {"z": array(2)})

    assert refused([first(), other]) is Kind.STATEMENT


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
