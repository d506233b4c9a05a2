"""Arrays that are symbols of rows of a table: a replay with others is one launch, where they share memory as before."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.graph import fusing
from vyre_cuda.runtime.graph.graph_steps import ArrayPlace, LaunchStep
from vyre_cuda.testing.compare import assert_same

from ..foreign_library import RELAXED, ForeignStream
from .fused_kernels import scaled
from .graph_checks import F32, N, first, floats
from .table_kernels import arrays, evens, kinds, sums
from .test_random_tables import evens_of_any, scaled_of_any

ROWS = 20


def recorded(device: vc.Device, xs: list[Any], zs: list[Any], *, fuse: bool = True) -> vc.Graph:
    kernel = device.compile(scaled())
    with device.record(fuse=fuse) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z, 2.0, 1.0)
    return graph


def rows(device: vc.Device) -> tuple[list[vc.DeviceArray], list[vc.DeviceArray]]:
    return [floats(device, k) for k in range(ROWS)], [floats(device, 0) for _ in range(ROWS)]


def test_rows_have_other_arrays_in_one_launch(device: vc.Device) -> None:
    xs, zs = rows(device)
    graph = recorded(device, [vc.symbol("x", xs[0]), *xs[1:]], [*zs[:-1], vc.symbol("z", zs[-1])])
    graph.replay()
    assert (first(zs[0]), first(zs[-1]), graph.node_count) == (1, 2 * (ROWS - 1) + 1, 1)
    assert f"are one launch with a table of {ROWS} rows" in graph.explain()
    other, out = floats(device, 100), floats(device, 0)
    graph.replay(x=other, z=out)
    assert (first(zs[0]), first(zs[-1]), first(out)) == (201, 2 * (ROWS - 1) + 1, 2 * (ROWS - 1) + 1)
    graph.replay()
    assert (first(zs[0]), graph.node_count) == (1, 1)


def test_one_symbol_of_all_rows_is_one_array(device: vc.Device) -> None:
    xs, zs = rows(device)
    graph = recorded(device, [vc.symbol("x", xs[0])] * ROWS, zs)
    graph.compile()
    graph.replay(x=floats(device, 7))
    assert ({first(z) for z in zs}, graph.node_count) == ({15}, 1)


def test_update_changes_all_later_replays(device: vc.Device) -> None:
    xs, zs = rows(device)
    graph = recorded(device, [vc.symbol("x", xs[0]), *xs[1:]], zs)
    graph.replay()
    graph.update(x=floats(device, 7))
    for _ in range(2):
        zs[0].fill(0)
        graph.replay()
        assert (first(zs[0]), graph.node_count) == (15, 1)
    graph.replay(x=xs[3])
    assert first(zs[0]) == 7


def test_arrays_that_meet_others_run_the_recorded_steps(device: vc.Device) -> None:
    """A row would read what another one writes."""
    xs, zs = rows(device)
    graph = recorded(device, [vc.symbol("x", xs[0]), *xs[1:]], zs)
    graph.replay()
    graph.replay(x=zs[5])
    assert graph.node_count == ROWS
    assert (first(zs[5]), first(zs[0])) == (11, 23)
    graph.replay(x=xs[4])
    assert (first(zs[0]), graph.node_count) == (9, 1)


def test_arrays_of_other_sizes_run_the_recorded_steps(device: vc.Device) -> None:
    xs = arrays(device, [32] * ROWS)
    zs = [device.zeros(1, vc.f32) for _ in xs]
    kernel = device.compile(sums())
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(vc.symbol("x", x) if x is xs[0] else x, z, 1.0)
    graph.compile()
    assert graph.node_count == 1
    graph.replay(x=device.array(np.ones(17, F32)))
    assert (first(zs[0]), graph.node_count) == (17, ROWS)


def test_what_is_wrong_is_said_as_without_fusing(device: vc.Device) -> None:
    xs, zs = rows(device)
    graph = recorded(device, [vc.symbol("x", xs[0]), *xs[1:]], zs)
    graph.replay()
    freed = floats(device, 1)
    freed.free()
    for wrong, error in ((device.zeros(N, vc.u32), TypeError), (freed, ValueError), (3.0, TypeError)):
        with pytest.raises(error):
            graph.replay(x=wrong)
    graph.replay()
    assert graph.node_count == 1


def test_rows_of_several_kernels_have_other_arrays(device: vc.Device) -> None:
    xs, zs = arrays(device, [32] * ROWS), [device.zeros(1, vc.f32) for _ in range(ROWS)]
    kernels = [device.compile(sums(f"sums{k}")) for k in range(2)]
    other, out = device.array(np.ones(32, F32)), device.zeros(1, vc.f32)
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            given = vc.symbol(f"x{k}", x) if k < 2 else x
            kernels[k % 2].launch(given, vc.symbol("z", z) if k == 5 else z, 1.0)
    graph.compile()
    graph.replay(x1=other, z=out)
    assert kinds(graph) == {"kernel": 1}
    assert [first(z) for z in (*zs[:3], out)] == [xs[0].numpy().sum(), 32, xs[2].numpy().sum(), xs[5].numpy().sum()]


def test_outputs_that_may_have_to_be_cleared_stay_apart(device: vc.Device) -> None:
    kernel = device.compile(evens())
    xs, zs = rows(device)
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernel.launch(x, vc.symbol("z", z) if k == 10 else z)
    graph.replay()
    assert "it has the symbol z, which is an output that may have to be cleared" in graph.explain()
    other = floats(device, 9)
    graph.replay(z=other)
    np.testing.assert_array_equal(other.numpy(), np.where(np.arange(N) % 2 == 0, 11, 0))


def test_one_launch_takes_so_many_arrays(device: vc.Device) -> None:
    xs, zs = rows(device)
    graph = recorded(device, [vc.symbol(f"x{k}", x) for k, x in enumerate(xs)], zs)
    graph.replay()
    said = graph.explain()
    assert "steps 1 to 20 are 2 launches: scaled\n  not one launch: 20 of their arrays are symbols, and one" in said
    graph.replay(x3=floats(device, 7), x19=floats(device, 8))
    assert (first(zs[3]), first(zs[19]), graph.node_count) == (15, 17, 2)


def sum_of(count: int) -> vc.Program:
    """y is the sum of so many arrays, the block turned round, so that no step behind it is merged with it."""
    b = vc.Builder("sum_of", block=32)
    xs = [b.input(f"x{k}", vc.f32) for k in range(count)]
    y = b.output("y", vc.f32, size=xs[0].size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = sum((x[y.size - 1 - i] for x in xs[1:]), xs[0][y.size - 1 - i])
    return b.build()


@pytest.mark.parametrize("count", [15, 16, 17, 24])
def test_a_launch_may_have_more_arrays_than_a_row(device: vc.Device, count: int) -> None:
    kernel = device.compile(sum_of(count))
    xs, ys = [floats(device, k) for k in range(count)], [device.zeros(N, vc.f32) for _ in range(ROWS)]
    with device.record(fuse=True) as graph:
        for y in ys:
            kernel.launch(*(vc.symbol(f"x{k}", x) for k, x in enumerate(xs)), y)
    graph.replay()
    expected = sum(x.numpy() for x in xs)[::-1]
    for y in ys:
        np.testing.assert_array_equal(y.numpy(), expected)

    graph.replay(x2=floats(device, 50))
    for y in ys:
        np.testing.assert_array_equal(y.numpy(), expected + 48)
    assert ("are one launch with a table of" in graph.explain()) == (count <= 16)


def test_rows_beside_many_arrays_are_looked_at_once(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 17 symbols one begins a second launch; the work for it grows with the rows, not with their square."""
    looked_at = 0
    places = fusing.array_places

    def counted(launches: Sequence[LaunchStep]) -> dict[tuple[str, int], ArrayPlace]:
        nonlocal looked_at
        looked_at += len(launches)
        return places(launches)

    monkeypatch.setattr(fusing, "array_places", counted)
    xs, zs = arrays(device, [4] * 300), arrays(device, [4] * 300)
    graph = recorded(device, [vc.symbol(f"x{k}", x) if k < 16 or k == 299 else x for k, x in enumerate(xs)], zs)
    graph.compile()

    assert graph.node_count == 2
    assert looked_at <= 4 * 300


def test_launches_are_captured_with_their_arrays(device: vc.Device, stream: ForeignStream) -> None:
    """Those with memory of the graph alone have a table of their own."""
    kernel = device.compile(sums())
    xs, zs = arrays(device, [32] * ROWS), [device.zeros(1, vc.f32) for _ in range(ROWS)]
    for alone in (False, True):
        with device.record(fuse=True) as graph:
            t = graph.temporary(32, vc.f32)
            t.fill(1.0)
            for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
                given = vc.symbol("x", x) if k == 0 else t if alone and k == 1 else x
                kernel.launch(given, vc.symbol("z", z) if k == 2 else z, 1.0)
        graph.compile()
        other, out = device.array(np.ones(32, F32)), device.zeros(1, vc.f32)
        device.synchronize()
        stream.begin_capture(RELAXED)
        graph.replay(stream=stream, x=other, z=out)
        captured = stream.end_capture()
        graph.replay()
        device.synchronize()  # the other stream waits for nobody
        captured.replay(stream)
        stream.synchronize()
        assert (first(zs[0]), first(out)) == (32, xs[2].numpy().sum())
        assert first(zs[1]) == (32 if alone else xs[1].numpy().sum())
        captured.destroy()


# ---- random recordings -----------------------------------------------------------------------------------------------

PLACES, SIZE = 60, 40


class Random:
    """A recording by its seed, the same steps whether fused or not."""

    def __init__(self, device: vc.Device, kernels: list[vc.Kernel], seed: int) -> None:
        self.device, self.kernels, self.seed = device, kernels, seed
        self.start = [np.random.default_rng(seed + k).integers(-9, 9, PLACES * SIZE).astype(F32) for k in range(3)]
        self.pool = [device.array(start) for start in self.start]
        self.symbols: dict[str, Any] = {}
        self.used: set[str] = set()  # of them, those that are launched with

    def view(self, rng: random.Random, place: int, number: int, size: int = SIZE - 1) -> vc.DeviceArray:
        begin = place * SIZE + rng.choice((0, 0, 0, 1))
        return self.pool[number][begin : begin + size]

    def host(self, view: vc.DeviceArray) -> np.ndarray[Any, Any]:
        """The same part of the arrays that the pool was made of."""
        number = next(k for k, array in enumerate(self.pool) if array._alive() is view._alive())
        first = view.offset // 4
        return self.start[number][first : first + view.size]

    def symbol(self, rng: random.Random, value: vc.DeviceArray) -> Any:
        if rng.random() < 0.75 or len(self.symbols) > 12:
            return value
        known = [name for name, before in self.symbols.items() if isinstance(before, vc.DeviceArray)]
        if known and rng.random() < 0.3:
            name = rng.choice(known)
            return vc.symbol(name, self.symbols[name])
        name = f"s{len(self.symbols)}"
        self.symbols[name] = value
        return vc.symbol(name, value)

    def record(self, *, fuse: bool) -> vc.Graph:
        rng = random.Random(self.seed)
        self.symbols, self.used = {}, set()
        used = rng.sample(self.kernels, rng.choice((1, 1, 2, 3)))
        with self.device.record(fuse=fuse) as graph:
            t = graph.temporary(SIZE - 1, vc.f32)
            t.fill(1.0)
            for _ in range(rng.choice((1, 2, 3))):
                source, target = rng.sample(range(3), 2)
                for place in rng.sample(range(PLACES), rng.choice((4, 8, 20))):
                    kind = rng.random()
                    if kind < 0.05:
                        self.pool[rng.randrange(3)][place * SIZE : place * SIZE + 20].fill(2.0)
                    elif kind < 0.08:
                        self.pool[0][place * SIZE : place * SIZE + 9].copy_from(self.pool[1][5:14])
                    self._launch(rng, rng.choice(used), t, place, source, target)
        return graph

    def _launch(
        self, rng: random.Random, kernel: vc.Kernel, t: vc.DeviceArray, place: int, source: int, target: int
    ) -> None:
        size = rng.choice((SIZE - 1, SIZE - 1, SIZE - 1, 7, 0))
        x = t if rng.random() < 0.05 else self.symbol(rng, self.view(rng, rng.choice((place, place, 3)), source, size))
        z = self.symbol(rng, self.view(rng, place, target))
        one, other = (each.default if isinstance(each, vc.Symbol) else each for each in (x, z))
        if one is not t and np.shares_memory(*(self.host(each) for each in (one, other))):
            return
        values = {"x": x, "z": z, "a": rng.choice((0.5, 2.0)), "b": 1.0}
        names = [parameter.name for parameter in kernel.program.parameters]
        if rng.random() < 0.1 and "a" in names:
            values["a"] = vc.symbol("a", 3.0)
            self.symbols["a"] = 3.0
        given = {name: value for name, value in values.items() if name in names}
        self.used |= {value.name for value in given.values() if isinstance(value, vc.Symbol)}
        kernel.launch(**given)

    def values(self, seed: int) -> dict[str, Any]:
        """Of some symbols; arrays of the pool or new ones, most of them as large as before."""
        rng = random.Random(seed)
        found: dict[str, Any] = {}
        for name, value in self.symbols.items():
            if name not in self.used or rng.random() < 0.5:
                continue
            if isinstance(value, float):
                found[name] = rng.choice((0.0, 1.5))
                continue
            size = value.size if rng.random() < 0.95 else 11
            kind = rng.random()
            if kind < 0.3:
                found[name] = self.view(rng, rng.randrange(PLACES), rng.randrange(3), size)
            elif kind < 0.4:
                found[name] = rng.choice([each for each in self.symbols.values() if not isinstance(each, float)])
            else:
                found[name] = self.fresh[rng.randrange(4)][:size]
        return found

    def replayed(self, graph: vc.Graph, counts: Counter[str]) -> list[Any]:
        found: list[Any] = []
        self.fresh = [self.device.array(np.arange(SIZE, dtype=F32) + k) for k in range(4)]
        for array, start in zip(self.pool, self.start, strict=True):
            array.copy_from(start)
        for turn in range(6):
            try:
                if turn == 3:
                    graph.update(**self.values(self.seed + turn))
                graph.replay(**(self.values(self.seed + turn) if turn % 2 else {}))
            except ValueError as error:
                found.append(str(error))
                continue
            counts["as recorded" if "as recorded" in graph.explain() else "as fused"] += 1
            found.append([array.numpy() for array in (*self.pool, *self.fresh)])
        return found


@pytest.mark.thin
@pytest.mark.parametrize("number", [40, pytest.param(3000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_random_recordings_leave_the_same_bytes(device: vc.Device, number: int) -> None:
    kernels = [device.compile(each) for each in (scaled_of_any(), sums(), sums("more"), evens_of_any())]
    counts: Counter[str] = Counter()
    for seed in range(number):
        recording = Random(device, kernels, seed)
        plain = recording.replayed(recording.record(fuse=False), Counter())
        graph = recording.record(fuse=True)
        fused = recording.replayed(graph, counts)
        for turn, (a, b) in enumerate(zip(plain, fused, strict=True)):
            assert type(a) is type(b), (seed, turn, a, b)
            if isinstance(a, str):
                assert a == b, (seed, turn)
                continue
            for one, other in zip(a, b, strict=True):
                assert_same(one, other), (seed, turn, graph.explain())
        plan = graph._versions.plan
        if plan is not None:
            counts["places"] += sum(len(table.places) for table in plan.tables if hasattr(table, "places"))
    print(dict(counts))
    assert counts["places"] > number
    assert counts["as fused"] > number
    assert counts["as recorded"] > number // 10
