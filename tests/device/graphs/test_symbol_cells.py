"""Scalar symbols with users in several nodes are cells, which one node at the head of the graph writes."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.types import TYPES, Type
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.emulator import Emulator

from .cell_kernels import WIDE, chain, counted, times, turned
from .fused_kernels import scaled
from .graph_checks import F32, first, floats
from .table_kernels import arrays, kinds, sums

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
    assert "are cells of device memory: 2 nodes at the head write what the others read" in graph.explain()


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


@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_what_a_loaded_graph_says_of_its_cells(device: vc.Device, tmp_path: Path, *, source: bool, moves: bool) -> None:
    """`moves`: an array is a symbol, so the bundle has the recorded steps, too."""
    kernel = device.compile(turned())
    x, out = device.array(np.arange(WIDE, dtype=F32)), device.zeros(WIDE, vc.f32)
    with device.record(fuse=True) as graph:
        between = graph.temporary(WIDE, vc.f32)
        kernel.launch(x, between, vc.symbol("a", 0.5))
        kernel.launch(between, vc.symbol("out", out) if moves else out, vc.symbol("a"))
    graph.replay()
    vc.bundle((), tmp_path / "a.vyre", graphs={"it": graph}, targets=[str(device.target)], source=source, cubins=False)
    loaded = vc.load_bundle(tmp_path / "a.vyre").on(device).graph("it")
    loaded.replay(a=2.0)
    for each in (graph, loaded):
        assert "symbol a is a cell of device memory: a node at the head writes what the others read" in each.explain()
    # Nobody else sees what the last step writes, if that is no symbol.
    temporaries = f"\n1 temporary array of {4 * WIDE} bytes" if moves else f"\n2 temporary arrays of {8 * WIDE} bytes"
    assert temporaries in loaded.explain()
    assert loaded.node_count == graph.node_count
    with device.record() as around:
        loaded.replay(a=3.0)
    around.replay()
    assert temporaries in around.explain()


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
