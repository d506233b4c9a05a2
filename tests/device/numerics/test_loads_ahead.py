"""Loops that read several elements ahead give the same bits, whatever their bounds, steps and bodies are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.cli import main
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.nodes import For, Let, Load
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.passes.ahead import TRIPS, loads_ahead, loops
from vyre_cuda.passes.pipeline import prepared

TYPES = (vc.f32, vc.f64, vc.i32, vc.u8, vc.i64, vc.f16)
INDICES = (vc.u32, vc.i32, vc.u64, vc.i64)
LANES = 8
Body = Callable[[vc.Builder, Any, Any, Any], None]


def ahead_of(program: vc.Program) -> int:
    """How many loads stand ahead of a branch's other statements."""
    return sum(1 for s in statements(program.body) if isinstance(s, Let) and s.name.startswith("ahead"))


def accumulating(
    body: Body,
    *,
    type_: vc.Type = vc.f32,
    index: vc.Type = vc.u32,
    start: Any = None,
    stop: Any = None,
    step: Any = LANES,
) -> vc.Program:
    """Each of a few threads goes through x, from its own number on."""
    b = vc.Builder("accumulating", block=LANES, index=index)
    x, y = b.input("x", type_), b.input("y", vc.u32)
    out = b.output("out", type_, size=LANES)
    first, last, by = (b.scalar(name, index) for name in ("first", "last", "by"))
    b.work(LANES)
    total = b.var("total", type_(1))
    begin = vc.thread_id.x if start is None else first if start == "first" else start
    end = x.size if stop is None else last if stop == "last" else stop
    with b.for_(begin, end, step=by if step == "by" else step) as i:
        body(b, total, (x, y), i)
    out[vc.thread_id.x] = total
    return b.build()


def plain(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
    total.set(total + arrays[0][i])


def named(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
    x, y = arrays
    at = b.let("at", y[i] + i)
    value = b.let("value", x[at] * x[i])
    with b.if_(value > x[0]):
        inner = b.var("inner", value)
        inner.set(inner + total)
        total.set(inner)


def varying(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
    """What comes early beside what cannot, as it depends on the sum so far."""
    x, _ = arrays
    total.set(vc.maximum(total, x[i + 1]))
    with b.if_(x[i] == x[i + 2]):
        total.set(total - x[i])


BODIES: tuple[Body, ...] = (plain, named, varying)


def same(program: vc.Program, arguments: list[Any], device: vc.Device | None = None) -> None:
    changed = loads_ahead(program)
    validate.check(changed)
    before, after = vc.evaluate(program, *arguments), vc.evaluate(changed, *arguments)
    assert before.tobytes() == after.tobytes()
    if device is not None:
        assert device.compile(program)(*arguments).tobytes() == before.tobytes()


def arguments(random: Random, type_: vc.Type, index: vc.Type, size: int) -> list[Any]:
    values = np.array([random.randrange(5) for _ in range(size)])
    places = np.array([random.randrange(3) for _ in range(size)], np.uint32)
    scalars = [random.choice(ends(random, index, size)) for _ in range(2)]
    steps = [0, 1, 2, 3, 7, index.maximum >> 4, (index.maximum >> 4) + 1, index.maximum // 2, index.maximum]
    by = random.choice([*steps, *((-1, -3, index.minimum) if index.minimum else ())])
    return [values.astype(type_.dtype), places, *scalars, by]


def trips(given: list[Any], start: Any, stop: Any, step: Any) -> int:
    """How many a thread makes at most."""
    x, _, first, last, by = given
    begin = {None: 0, "first": first}.get(start, start)
    end = {None: len(x), "last": last}.get(stop, stop)
    by = by if step == "by" else step
    return max(0, -((begin - end) // by)) if by else 0


def ends(random: Random, index: vc.Type, size: int) -> list[int]:
    """Near each other, and near the ends of the type."""
    near = random.randrange(40)
    most = index.maximum
    low = [index.minimum, index.minimum + near] if index.minimum else []
    return [0, near, size, max(0, size - near), most, most - near, most - 4 * (most >> 4) + near - 20, *low]


@pytest.mark.thin
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_random_loops_give_the_same_bits(type_: vc.Type, body: Body, device: vc.Device) -> None:
    random, changed = Random(f"{type_}{body.__name__}"), 0
    for number in range(60):
        index = random.choice(INDICES)
        if body is named and index is not vc.u32:
            continue
        start, stop = random.choice([None, "first", 0, 3]), random.choice([None, "last", 100])
        step = random.choice([1, LANES, 5, "by"])
        program = accumulating(body, type_=type_, index=index, start=start, stop=stop, step=step)
        given = arguments(random, type_, index, random.randrange(120))
        while trips(given, start, stop, step) > 300:
            given = arguments(random, type_, index, random.randrange(120))
        changed += loads_ahead(program) is not program
        same(program, given, device if number % 6 == 0 else None)
    assert changed >= 10


@pytest.mark.parametrize("size", range(6 * LANES + 2))
def test_every_rest_is_summed(size: int, device: vc.Device) -> None:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    same(accumulating(plain), [x, np.zeros(0, np.uint32), 0, 0, 0], device)


@pytest.mark.thin(4)
@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("step", [1, 3, "by"])
def test_loops_at_the_end_of_the_type(index: vc.Type, step: Any, device: vc.Device) -> None:
    """Where a few steps more would wrap, each element is still read once."""

    def counted(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
        total.set(total + arrays[0][i % 7] + 1)

    program = accumulating(counted, type_=vc.i64, index=index, start="first", stop="last", step=step)
    assert loads_ahead(program) is not program
    most = index.maximum
    for first, last, by in (
        (most - 50, most, 1),
        (most - 50, most - 1, 7),
        (most - 3, most, 2),
        (most - 4 * (most >> 4) - 9, most - 4 * (most >> 4) + 9, 2),
        (0, most, most >> 4),
        (1, most, (most >> 4) + 1),
        (0, most, most // 3),
        (index.minimum, index.minimum + 40, 3),
    ):
        if step != "by" and last - first > 1000:
            continue
        same(program, [np.arange(7), np.zeros(0, np.uint32), first, last, by], device)


def test_the_loads_stand_before_what_uses_them() -> None:
    program = prepared(accumulating(plain))
    outer = next(s for s in program.body if isinstance(s, For))
    branch = outer.body[-1]
    loads = [any(isinstance(e, Load) for e in expressions(operands(s))) for s in getattr(branch, "then", ())]
    assert loads == sorted(loads, reverse=True)
    assert sum(loads) == TRIPS
    assert prepared(accumulating(plain), bounds="trap") == accumulating(plain)


def test_indices_that_were_loaded_come_early_too() -> None:
    assert ahead_of(loads_ahead(accumulating(named))) == 3 * TRIPS
    assert "at" in loads_ahead(accumulating(named)).text()


def refused(name: str) -> vc.Program:
    def store(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
        total.set(total + arrays[0][i])
        b.atomic_add(shared, 0, total)

    def leave(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
        total.set(total + arrays[0][i])
        with b.if_(total > 5):
            b.break_()

    def depends(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
        total.set(total + arrays[0][vc.u32(total)])

    def always(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
        total.set(total + arrays[0][0])

    def large(b: vc.Builder, total: Any, arrays: Any, i: Any) -> None:
        for _ in range(40):
            total.set(total + arrays[0][i])

    if name == "few trips":
        return accumulating(plain, start=0, stop=15, step=1)
    if name == "wide step":
        return accumulating(plain, step=1 << 29)
    if name == "store":
        b = vc.Builder("store", block=LANES)
        x, shared = b.input("x", vc.u32), b.inout("shared", vc.u32)
        b.work(LANES)
        total = b.var("total", vc.u32(0))
        with b.for_(0, x.size) as i:
            store(b, total, (x,), i)
        return b.build()
    return accumulating({"leave": leave, "depends": depends, "always": always, "large": large}[name])


@pytest.mark.parametrize("name", ["store", "leave", "depends", "always", "large", "few trips", "wide step"])
def test_other_loops_stay_as_they_are(name: str) -> None:
    program = refused(name)
    assert loads_ahead(program) is program


def test_only_the_innermost_loop_changes(device: vc.Device) -> None:
    b = vc.Builder("products", block=LANES)
    x, out = b.input("x", vc.f32, ndim=2), b.output("out", vc.f32, size=LANES)
    b.work(LANES)
    total = b.var("total", vc.f32(0))
    with b.for_(0, x.shape[0]) as row, b.for_(vc.thread_id.x, x.shape[1], step=LANES) as column:
        total.set(total + x[row, column])
    out[vc.thread_id.x] = total
    program = b.build()
    assert ahead_of(loads_ahead(program)) == TRIPS
    for shape in ((3, 100), (1, 31), (4, 0), (0, 9), (2, 8 * LANES)):
        same(program, [np.random.default_rng(1).standard_normal(shape).astype(np.float32)], device)


def test_nothing_behind_an_array_is_read(device: vc.Device) -> None:
    """With bounds="off" a load of what is not there would be an error."""
    x = np.arange(37, dtype=np.float32)
    kernel = device.compile(accumulating(plain), bounds="off")
    expected = vc.evaluate(accumulating(plain), x, np.zeros(0, np.uint32), 0, 0, 0)
    assert kernel(x, np.zeros(0, np.uint32), 0, 0, 0).tobytes() == expected.tobytes()


def test_explain_says_which_loops_read_ahead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reads, leaves = accumulating(plain).text(), accumulating(plain, start=0, stop=15, step=1).text()
    (tmp_path / "reads.vir").write_text(reads, encoding="utf-8")
    (tmp_path / "leaves.vir").write_text(leaves, encoding="utf-8")
    said = []
    for name in ("reads", "leaves"):
        assert main(["explain", str(tmp_path / f"{name}.vir"), "--device", "emulator"]) == 0
        said.append(capsys.readouterr().out)
    assert f"reads {TRIPS} trips at once" in said[0]
    assert "reads one trip at a time: it has fewer than 16 trips" in said[1]


@pytest.mark.parametrize(
    ("statement", "called"),
    [
        ("store out[u32:0], load(x[j])", "a store"),
        ("let old = atomic add out[u32:0], f32:1.0 order relaxed scope device", "an atomic"),
        ("let all = warp reduce load(x[j]) combine add", "a warp operation"),
        ("break", "a break"),
        ("continue", "a continue"),
        ("return", "a return"),
        ("barrier", "a barrier"),
        ("grid_barrier", "a barrier of the grid"),
        ('assert greater(load(x[j]), f32:0.0), "positive"', "an assertion"),
        ('print "{}", load(x[j])', "a print"),
    ],
)
def test_a_loop_is_said_to_have_what_keeps_it_as_it_is(statement: str, called: str) -> None:
    program = vc.parse(f"""program p
block 32
in x: f32
inout out: f32
var sum = f32:0.0
for j = u32:0 to size(x) step u32:1
  sum = add(sum, load(x[j]))
  {statement}
end
""")
    ((_, reason),) = loops(program)

    assert reason == f"it has {called}"
