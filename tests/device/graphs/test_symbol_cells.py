"""Scalar symbols with users in several nodes are cells, which one node at the head of the graph writes."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.emulator import Emulator

from .graph_checks import F32, first, floats
from .test_fused_graphs import scaled
from .test_graph_tables import arrays, kinds, sums

# More elements than threads of a block, as smaller steps that follow each other become one kernel of one block.
WIDE = 1100


def turned(name: str = "turned") -> vc.Program:
    """z[i] = x[n - 1 - i] * a: never one kernel with what wrote x, as its blocks read what others wrote"""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[x.size - 1 - i] * a
    return b.build()


def counted(name: str = "counted") -> vc.Program:
    """z[i] = x[i] + n, with n threads"""
    b = vc.Builder(name, block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    n = b.scalar("n", vc.u32)
    b.work(n)
    i = b.let("i", vc.global_id.x)
    with b.if_((i < n) & (i < z.size)):
        z[i] = x[i] + vc.f32(n)
    return b.build()


def chain(device: vc.Device, steps: int, value: Any, *, fuse: bool = True) -> tuple[vc.Graph, vc.DeviceArray]:
    """Steps on `WIDE` elements of which none can be merged, and what the last one writes."""
    kernel = device.compile(turned())
    all_of = [device.array(np.arange(WIDE, dtype=F32))] + [device.zeros(WIDE, vc.f32) for _ in range(steps)]
    with device.record(fuse=fuse) as graph:
        for before, behind in pairwise(all_of):
            kernel.launch(before, behind, value)
    return graph, all_of[-1]


def times(steps: int, a: float) -> np.ndarray[Any, Any]:
    found = np.arange(WIDE, dtype=F32)
    for _ in range(steps):
        found = found[::-1] * F32(a)
    return found


# ---- what becomes a cell ---------------------------------------------------------------------------------------------


def test_users_in_several_nodes_read_what_one_node_writes(device: vc.Device) -> None:
    graph, last = chain(device, 5, vc.symbol("a", 0.5))
    graph.compile()
    assert graph.node_count == 6
    for values, a in (({}, 0.5), ({"a": -0.25}, -0.25), ({}, 0.5), ({"a": 3.0}, 3.0)):
        graph.replay(**values)
        np.testing.assert_array_equal(last.numpy(), times(5, a))
    graph.update(a=2.0)
    for values, a in (({}, 2.0), ({"a": 1.5}, 1.5), ({}, 2.0)):
        graph.replay(**values)
        np.testing.assert_array_equal(last.numpy(), times(5, a))
    assert graph.node_count == 6
    assert "symbol a is a cell of device memory" in graph.explain()


def test_without_fuse_and_with_one_user_nothing_changes(device: vc.Device) -> None:
    graph, last = chain(device, 5, vc.symbol("a", 0.5), fuse=False)
    graph.replay(a=2.0)
    assert graph.node_count == 5
    np.testing.assert_array_equal(last.numpy(), times(5, 2.0))
    graph, last = chain(device, 1, vc.symbol("a", 0.5))
    graph.replay(a=2.0)
    assert graph.node_count == 1
    np.testing.assert_array_equal(last.numpy(), times(1, 2.0))
    assert "symbol" not in graph.explain()


def test_a_changed_cell_costs_one_change_of_a_node(device: vc.Device, request: pytest.FixtureRequest) -> None:
    if not device.properties.is_emulator:
        return
    emulator = request.getfixturevalue("emulator")
    graph, last = chain(device, 40, vc.symbol("a"))
    graph.replay(a=1.0)
    for k in range(5):
        before = emulator.count("cuGraphExecKernelNodeSetParams")
        graph.replay(a=1.0 + k / 64)
        assert emulator.count("cuGraphExecKernelNodeSetParams") - before <= 1
    np.testing.assert_array_equal(last.numpy(), times(40, 1.0 + 4 / 64))


def test_a_symbol_in_merged_kernels_and_in_others_is_one_cell(device: vc.Device) -> None:
    plain, other = device.compile(scaled()), device.compile(turned())
    x, y, z, w = (floats(device, value, WIDE) for value in (1, 0, 0, 0))
    with device.record(fuse=True) as graph:
        plain.launch(x, y, vc.symbol("a", 2.0), vc.symbol("b", 1.0))
        plain.launch(y, z, vc.symbol("a"), 0.0)
        other.launch(z, w, vc.symbol("a"))
    for a, b in ((2.0, 1.0), (3.0, 1.0), (3.0, 5.0)):
        graph.replay(a=a, b=b)
        assert (first(y), first(z), first(w)) == (a + b, (a + b) * a, (a + b) * a * a)
    assert graph.node_count == 3
    assert "symbol a is a cell" in graph.explain()
    assert "steps 1 and 2 are one kernel" in graph.explain() or "steps 1 to 2 are one kernel" in graph.explain()


@pytest.mark.thin(4)
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_cells_of_every_type(device: vc.Device, type_: Type) -> None:
    b = vc.Builder("stored", block=32)
    x, z = b.input("x", type_), b.output("z", type_)
    a = b.scalar("a", type_)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = vc.where(x[z.size - 1 - i] == x[i], a, x[i])
    kernel = device.compile(b.build())
    zeros = [device.zeros(WIDE, type_) for _ in range(4)]
    with device.record(fuse=True) as graph:
        kernel.launch(zeros[0], zeros[1], vc.symbol("a"))
        kernel.launch(zeros[1], zeros[2], vc.symbol("a"))
        kernel.launch(zeros[2], zeros[3], vc.symbol("c"))
        kernel.launch(zeros[3], zeros[2], vc.symbol("c"))
    values = [True, False] if type_ is vc.bool_ else [0, 1, 100] if type_.is_integer else [-0.0, 1.5, float("inf")]
    for a in values:
        for c in values:
            graph.replay(a=a, c=c)
            for array, value in ((zeros[1], a), (zeros[3], c)):
                wanted = np.empty(WIDE, array.dtype)
                wanted[:] = value
                assert_same(array.numpy(), wanted)
    assert "symbols a and c are cells" in graph.explain()
    assert "clear" not in kinds(graph)


def test_more_cells_than_one_kernel_writes(device: vc.Device) -> None:
    kernel = device.compile(turned())
    x, y = floats(device, 1), [floats(device, 0) for _ in range(140)]
    with device.record(fuse=True) as graph:
        for k in range(70):
            kernel.launch(x, y[2 * k], vc.symbol(f"s{k}", float(k)))
            kernel.launch(y[2 * k], y[2 * k + 1], vc.symbol(f"s{k}"))
    graph.replay()
    assert [first(each) for each in y[1::2]] == [float(k * k) for k in range(70)]
    graph.replay(s3=-1.0, s69=100.0)
    assert (first(y[6]), first(y[139]), first(y[9])) == (-1, 10000, 16)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_rows_of_a_table_read_cells(device: vc.Device) -> None:
    kernel = device.compile(sums())
    xs, zs = arrays(device, [32] * 40), [device.zeros(1, vc.f32) for _ in range(40)]
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernel.launch(x, z, vc.symbol("ab"[k % 2], 2.0))
    for a, b in ((2.0, 2.0), (3.0, -1.0), (2.0, 0.5)):
        graph.replay(a=a, b=b)
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            assert z.numpy()[0] == x.numpy().sum() * (a, b)[k % 2]
    assert kinds(graph)["kernel"] == 2
    assert "with a table of 40 rows" in graph.explain()
    assert "symbols a and b are cells" in graph.explain()


# ---- what stays by value ---------------------------------------------------------------------------------------------


def test_a_scalar_that_decides_the_work_stays_by_value(device: vc.Device) -> None:
    kernel = device.compile(counted())
    x, y, z = floats(device, 1, 100), floats(device, 0, 100), floats(device, 0, 100)
    with device.record(fuse=True) as graph:
        kernel.launch(x, y, vc.symbol("n", 100))
        kernel.launch(x, z, vc.symbol("n"))
    for n in (100, 40, 100, 0, 70):
        graph.replay(n=n)
        for each in (y, z):
            np.testing.assert_array_equal(each.numpy(), np.where(np.arange(100) < n, 1 + n, 0))
    assert "symbol n stays by value where it decides sizes or how many threads a launch has" in graph.explain()
    assert "of device memory" not in graph.explain()


def test_a_kernel_for_known_values_reads_no_cells(device: vc.Device) -> None:
    kernel = device.compile(turned(), specialize={"x.size": 64})
    x, y, z = (floats(device, value, 64) for value in (1, 0, 0))
    with device.record(fuse=True) as graph:
        kernel.launch(x, y, vc.symbol("a", 2.0))
        kernel.launch(y, z, vc.symbol("a"))
    graph.replay(a=3.0)
    assert (first(z), graph.node_count) == (9, 2)


# ---- loops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5000])
def test_cells_are_read_in_loops(device: vc.Device, count: int) -> None:
    add = vc.Builder("add", block=32)
    z = add.inout("z", vc.i32)
    a = add.scalar("a", vc.i32)
    i = add.let("i", vc.global_id.x)
    with add.if_(i < z.size):
        z[i] = z[i] + a
    kernel = device.compile(add.build())
    one, two = device.zeros(70, vc.i32), device.zeros(40, vc.i32)
    with device.record(fuse=True) as graph:
        with graph.repeat(count):
            kernel.launch(one, vc.symbol("a", 1))
        kernel.launch(two, vc.symbol("a"))
    total = 0
    for a in (1, 1, 7, -2):
        graph.replay(a=a)
        total += a
        assert (first(one), first(two)) == (total * count, total)
    assert "symbol a is a cell" in graph.explain()


def test_cells_are_read_in_loops_that_the_device_ends(device: vc.Device) -> None:
    add = vc.Builder("add", block=32)
    z = add.inout("z", vc.i32)
    done = add.inout("done", vc.u32)
    a = add.scalar("a", vc.i32)
    i = add.let("i", vc.global_id.x)
    with add.if_(i < z.size):
        z[i] = z[i] + a
        with add.if_((i == 0) & (z[i] >= 100)):
            done[0] = 1
    kernel = device.compile(add.build())
    z, done, other, no = (
        device.zeros(4, vc.i32),
        device.zeros(1, vc.u32),
        device.zeros(9, vc.i32),
        device.zeros(1, vc.u32),
    )
    with device.record(fuse=True) as graph:
        kernel.launch(other, no, vc.symbol("a"))
        done.fill(0)
        z.fill(0)
        with graph.repeat(until=done):
            kernel.launch(z, done, vc.symbol("a"))
    for a, end in ((30, 120), (100, 100), (51, 102)):
        graph.replay(a=a)
        assert first(z) == end


# ---- one launch sees one set of values -------------------------------------------------------------------------------


def test_replays_of_threads_have_their_own_values(device: vc.Device) -> None:
    kernel = device.compile(turned())
    x, between = floats(device, 1, 64), [floats(device, 0, 64) for _ in range(3)]
    with device.record(fuse=True) as graph:
        kernel.launch(x, between[0], vc.symbol("a"))
        kernel.launch(between[0], between[1], vc.symbol("b"))
        kernel.launch(between[1], between[2], vc.symbol("a"))
        kernel.launch(between[2], vc.symbol("out"), vc.symbol("b"))
    outs = [floats(device, 0, 64) for _ in range(4)]
    graph.replay(a=1.0, b=1.0, out=outs[0])

    def replays(number: int) -> None:
        for k in range(30):
            a, b = float(number + 1), float(k % 7)
            graph.replay(a=a, b=b, out=outs[number])
            assert first(outs[number]) == a * a * b * b

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(replays, number) for number in range(4)]:
            each.result()


# ---- bundles ---------------------------------------------------------------------------------------------------------


def test_a_bundle_has_the_cells(device: vc.Device, tmp_path: Path) -> None:
    graph, _ = chain(device, 5, vc.symbol("a", 0.5))
    graph.compile()
    graph.export(tmp_path / "a.vyre", "it", cubins=False)
    loaded = vc.load_bundle(tmp_path / "a.vyre").on(device).graph("it")
    assert len(loaded) == 6  # the first writes the cell
    assert loaded.symbols == ("a",)
    kernel = device.compile(turned())
    ramp, out = device.array(np.arange(WIDE, dtype=F32)), device.zeros(WIDE, vc.f32)
    with device.record(fuse=True) as graph:
        kernel.launch(ramp, out, vc.symbol("a", 0.5))
        kernel.launch(out, vc.symbol("out"), vc.symbol("a"))
    graph.replay(out=device.zeros(WIDE, vc.f32))
    assert graph.node_count == 3
    graph.export(tmp_path / "b.vyre", "it", cubins=False)
    loaded = vc.load_bundle(tmp_path / "b.vyre").on(device).graph("it")
    for a in (0.5, 2.0, -1.0):
        loaded.replay(a=a, out=out)
        np.testing.assert_array_equal(out.numpy(), times(2, a))


def test_two_graphs_of_a_bundle_have_cells_of_their_own(device: vc.Device, tmp_path: Path) -> None:
    kernel = device.compile(turned())
    graphs, outs = {}, []
    for count in (1, 3):
        x, y = device.array(np.arange(WIDE, dtype=F32)), device.zeros(WIDE, vc.f32)
        with device.record(fuse=True) as graph:
            for k in range(count):
                kernel.launch(x, y, vc.symbol(f"a{k}", 1.0))
                kernel.launch(y, vc.symbol(f"out{k}"), vc.symbol(f"a{k}"))
        outs.append({f"out{k}": device.zeros(WIDE, vc.f32) for k in range(count)})
        graph.replay(**outs[-1])
        graphs[f"of{count}"] = graph
    vc.bundle((), tmp_path / "a.vyre", graphs=graphs, targets=[str(device.target)], cubins=False)
    loaded = vc.load_bundle(tmp_path / "a.vyre").on(device)
    for name, given in zip(graphs, outs, strict=True):
        loaded.graph(name).replay(**given, **{f"a{k}": k + 2.0 for k in range(len(given))})
        for k, out in enumerate(given.values()):
            np.testing.assert_array_equal(out.numpy(), times(2, k + 2.0))


# ---- random recordings -----------------------------------------------------------------------------------------------


def random_graph(device: vc.Device, kernels: list[vc.Kernel], seed: int, *, fuse: bool) -> tuple[vc.Graph, list[Any]]:
    """Launches on places of three arrays, most of them with symbols."""
    rng = random.Random(seed)
    pool = [device.array(np.random.default_rng(seed + k).integers(-4, 5, 40 * 64).astype(F32)) for k in range(3)]
    symbols = [f"s{k}" for k in range(rng.choice((1, 2, 5)))]

    def launch(place: int) -> None:
        source, target = rng.sample(range(3), 2)
        kernel = rng.choice(kernels)
        reads = pool[source][64 * (at := rng.choice((place, rng.randrange(40)))) : 64 * at + 64]
        values: dict[str, Any] = {"x": reads, "z": pool[target][64 * place : 64 * place + 64], "b": 1.0}
        for name in ("a", "b"):
            if rng.random() < 0.7:
                values[name] = vc.symbol(rng.choice(symbols), 0.5)
            else:
                values[name] = rng.choice((0.5, 2.0))
        values["n"] = rng.choice((64, vc.symbol("n", 64)))
        names = [parameter.name for parameter in kernel.program.parameters]
        kernel.launch(**{name: value for name, value in values.items() if name in names})

    with device.record(fuse=fuse) as graph:
        for _ in range(rng.choice((1, 2, 3))):
            form = rng.random()
            if form < 0.3:
                with graph.repeat(rng.choice((1, 2, 3))):
                    for _ in range(rng.choice((1, 3))):
                        launch(rng.randrange(40))
            elif form < 0.6:
                source, target = rng.sample(range(3), 2)
                kernel, a = rng.choice(kernels[:2]), vc.symbol(rng.choice(symbols), 0.5)
                for place in rng.sample(range(40), 20):
                    x, z = (pool[which][64 * place : 64 * place + 64] for which in (source, target))
                    kernel.launch(**{**({"b": a} if kernel is kernels[0] else {}), "x": x, "z": z, "a": a})
            else:
                for _ in range(rng.choice((2, 4, 8))):
                    launch(rng.randrange(40))
    return graph, pool


@pytest.mark.thin
@pytest.mark.parametrize("number", [40, pytest.param(4000, marks=[pytest.mark.long, pytest.mark.timeout(7200)])])
def test_random_recordings_leave_the_same_bytes(device: vc.Device, number: int) -> None:
    kernels = [device.compile(program) for program in (scaled(), turned(), counted(), sums())]
    counts: Counter[str] = Counter()
    for seed in range(number):
        results: list[list[Any]] = []
        for fuse in (False, True):
            graph, pool = random_graph(device, kernels, seed, fuse=fuse)
            rng = random.Random(seed)
            found: list[Any] = []
            for turn in range(5):
                values = {
                    name: rng.choice((64, 30, 0)) if name == "n" else rng.choice((0.0, -0.0, 1.5, -2.0, float("inf")))
                    for name in graph.symbols
                    if rng.random() < 0.6
                }
                (graph.update if turn == 2 else graph.replay)(**values)
                found.append([array.numpy() for array in pool])
            results.append(found)
        text = graph.explain()
        counts["cells"] += " of device memory" in text
        counts["by value"] += " by value" in text
        counts["tables"] += "with a table" in text
        counts["merged"] += "are one kernel" in text
        for turn, (plain, fused) in enumerate(zip(*results, strict=True)):
            try:
                for a, b in zip(plain, fused, strict=True):
                    assert_same(a, b)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, turn {turn}: {error}\n{text}") from None
    print(counts)
    assert all(counts[what] > number // 10 for what in ("cells", "by value", "tables", "merged")), counts


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["cuGraphExecKernelNodeSetParams", "cuGraphLaunch"])
def test_a_call_that_fails_leaves_the_values_as_they_were(emulator: Emulator, leak_check: object, name: str) -> None:
    with vc.Device("emulator") as device:
        graph, last = chain(device, 5, vc.symbol("a", 0.5))
        graph.replay()
        emulator.fail(name, result=999)
        with pytest.raises(vc.DriverError):
            graph.replay(a=3.0)
        emulator.reset()
        for values, a in (({}, 0.5), ({"a": 3.0}, 3.0), ({"a": 2.0}, 2.0), ({}, 0.5)):
            graph.replay(**values)
            np.testing.assert_array_equal(last.numpy(), times(5, a))


@pytest.mark.emulator
@pytest.mark.thin
@pytest.mark.parametrize("lasting", [False, True])
def test_any_call_that_fails_while_cells_are_made_leaves_the_recorded_graph(
    emulator: Emulator, leak_check: object, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device("emulator") as device:
        graph, _ = chain(device, 3, vc.symbol("a", 0.5))
        before = {name: emulator.count(name) for name in emulator.functions()}
        graph.compile()
        calls = {name: made for name in before if (made := emulator.count(name) - before[name])}
    del graph, _
    counts: Counter[str] = Counter()
    for name, count in calls.items():
        for nth in range(1, count + 1):
            with vc.Device("emulator") as device:
                graph, last = chain(device, 3, vc.symbol("a", 0.5))
                emulator.fail(name, nth=nth, result=999, repeat=lasting)
                try:
                    graph.compile()
                except (vc.DriverError, vc.ResourceError):
                    counts["told"] += 1
                emulator.reset()
                for values, a in (({}, 0.5), ({"a": 3.0}, 3.0), ({}, 0.5)):
                    graph.replay(**values)
                    np.testing.assert_array_equal(last.numpy(), times(3, a))
                counts["as recorded" if "as recorded" in graph.explain() else "cells"] += 1
            del graph, last
    assert counts["told"] > 5 if lasting else counts["as recorded"] > 5, counts


# ---- replays that make no objects ------------------------------------------------------------------------------------


def test_values_of_every_kind_take_the_way_that_fits_them(device: vc.Device) -> None:
    """Plain values, others that must be converted, arrays of other sizes and wrong values, in turn, by both ways."""
    kernel = device.compile(scaled())
    x, small = floats(device, 3, 64), floats(device, 5, 40)
    y, z = floats(device, 0, 64), floats(device, 0, 64)
    with device.record() as graph:
        kernel.launch(vc.symbol("x", x), y, vc.symbol("a", 2.0), vc.symbol("b"))
        z.fill(vc.symbol("b"))
        z[:40].copy_from(vc.symbol("s", small))

    def check(x: float, a: float, b: float, s: float = 5) -> None:
        np.testing.assert_array_equal(y.numpy(), np.full(64, x * a + b, F32))
        np.testing.assert_array_equal(z.numpy(), np.repeat(F32([s, b]), [40, 24]))

    with pytest.raises(TypeError, match="replay\\(\\) needs a value for b"):
        graph.replay(a=1.0)
    for one in (1.0, F32(1), 1, np.float64(1), True):
        if isinstance(one, bool):
            with pytest.raises(TypeError):
                graph.replay(b=one)
            continue
        graph.replay(b=one)
        check(3, 2, 1)
    graph.replay(b=0.5, a=4.0, x=x, s=x[:40])
    check(3, 4, 0.5, 3)
    graph.replay(b=0.5, s=x[:7])
    np.testing.assert_array_equal(z.numpy(), np.repeat(F32([3, 0.5]), [7, 57]))
    with pytest.raises((TypeError, ValueError)):
        graph.replay(b=0.5, x=small)  # as many elements as the result
    with pytest.raises(TypeError, match="no symbol c"):
        graph.replay(b=0.5, c=1.0)
    with pytest.raises(TypeError):
        graph.replay(b=0.5, x=device.zeros(64, vc.i32))
    freed = floats(device, 1, 64)
    freed.free()
    with pytest.raises(ValueError, match="freed"):
        graph.replay(b=0.5, x=freed)
    with pytest.raises((TypeError, ValueError)):
        graph.replay(b=0.5, x=y)  # which is written
    graph.replay(b=0.5)
    check(3, 2, 0.5)
    graph.update(b=7.0)
    graph.replay(a=1.0)
    check(3, 1, 7)


def test_an_update_before_all_values_are_known_is_not_lost(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    x, y = floats(device, 3), floats(device, 0)
    for fuse in (False, True):
        with device.record(fuse=fuse) as graph:
            kernel.launch(x, y, vc.symbol("a", 2.0), vc.symbol("b"))
        graph.replay(b=1.0)
        graph.update(a=10.0)
        for b in (1.0, 2.0):
            graph.replay(b=b)
            assert first(y) == 30 + b
        graph.update(b=5.0)
        graph.replay(a=1.0)
        assert first(y) == 8
        graph.replay()
        assert first(y) == 35
