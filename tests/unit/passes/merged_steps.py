"""Steps on a few arrays, random recordings of them, and what one program of several steps gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import launch_geometry
from vyre_cuda.passes.merge import merge
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.testing.compare import assert_same

N = 70
BLOCK = 32
Memory = dict[int, np.ndarray[Any, Any]]


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


def refused(steps: Sequence[Step], dropped: Sequence[Span] = ()) -> Kind:
    with pytest.raises(Refused) as found:
        merge(steps, dropped)
    return found.value.kind


def would_be_wrong(steps: Sequence[Step]) -> None:
    """What would be made, if it were not refused, gives other bytes."""
    with pytest.raises(AssertionError):
        check(lambda p, **given: vc.evaluate(p, **given), steps, merge(steps))
