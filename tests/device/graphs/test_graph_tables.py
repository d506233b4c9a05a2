"""Launches of one kernel that do not depend on each other become one launch, by a table."""

from __future__ import annotations

import gc
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.limits import LARGE_LAUNCH
from vyre_cuda.testing.emulator import Emulator

from .fused_kernels import scaled
from .graph_checks import F32
from .table_kernels import LEAST, arrays, evens, kinds, sums

# ---- what becomes one ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[100] * 64, [(37 * k) % 211 for k in range(64)], [1] * 40])
def test_independent_launches_are_one_node(device: vc.Device, sizes: list[int]) -> None:
    kernel = device.compile(scaled())
    xs, zs = arrays(device, sizes), [device.zeros(size, vc.f32) for size in sizes]
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernel.launch(x, z, float(k), 1.0)
    for _ in range(2):
        graph.replay()
        for k, z in enumerate(zs):
            np.testing.assert_array_equal(z.numpy(), (np.arange(sizes[k], dtype=F32) + F32(k)) * F32(k) + F32(1))
            z.fill(0)
    rows = sum(size > 0 for size in sizes)
    assert graph.node_count == 1
    assert f"are one launch with a table of {rows} rows: scaled" in graph.explain()


def test_fewer_launches_become_one_kernel(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    for count in (LEAST - 1, LEAST):
        xs, zs = arrays(device, [40] * count), [device.zeros(40, vc.f32) for _ in range(count)]
        with device.record(fuse=True) as graph:
            for x, z in zip(xs, zs, strict=True):
                kernel.launch(x, z, 2.0, 0.0)
        graph.replay()
        assert ("with a table" in graph.explain()) == (count == LEAST)
        assert ("are one kernel" in graph.explain()) == (count < LEAST)
        for x, z in zip(xs, zs, strict=True):
            np.testing.assert_array_equal(z.numpy(), 2 * x.numpy())


def test_layers_of_launches_are_one_node_each(device: vc.Device) -> None:
    first, second = device.compile(scaled()), device.compile(sums())
    n = 20
    xs, ys, zs = arrays(device, [64] * n), arrays(device, [64] * n), arrays(device, [2] * n)
    with device.record(fuse=True) as graph:
        for x, y, z in zip(xs, ys, zs, strict=True):
            first.launch(x, y, 2.0, 1.0)
            second.launch(y, z, 1.0)
    graph.replay()
    last = graph._versions.last()
    assert last is not None
    assert [node.behind for node in last.native.nodes()] == [(), (0,)]
    assert re.search(r"steps 1, 3, 5, 7 and others up to 39 are one launch with a table of 20 rows", graph.explain())
    for x, z in zip(xs, zs, strict=True):
        np.testing.assert_array_equal(z.numpy(), (x.numpy() * 2 + 1).reshape(2, 32).sum(1, dtype=F32))


def test_a_chain_is_no_table(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    x, y = device.array(np.ones(40, F32)), device.zeros(40, vc.f32)
    with device.record(fuse=True) as graph:
        for _ in range(20):
            kernel.launch(x, y, 1.0, 1.0)
            kernel.launch(y, x, 1.0, 0.0)
    graph.replay()
    assert "with a table" not in graph.explain()
    assert x.numpy().tolist() == [21] * 40


def chains(
    device: vc.Device, sizes: list[int], length: int, *, fuse: bool, symbol: bool = False
) -> tuple[vc.Graph, list[list[vc.DeviceArray]]]:
    """For each size a chain of launches of as many kernels, one chain after the other."""
    kernels = [device.compile(scaled(f"scaled{k}")) for k in range(length)]
    rows = [[*arrays(device, [size]), *[device.zeros(size, vc.f32) for _ in kernels]] for size in sizes]
    with device.record(fuse=fuse) as graph:
        for row in rows:
            for k, kernel in enumerate(kernels):
                kernel.launch(row[k], row[k + 1], vc.symbol("a", 2.0) if symbol else 2.0, float(k))
    return graph, rows


@pytest.mark.parametrize("symbol", [False, True])
@pytest.mark.parametrize("alike", [False, True])
def test_many_chains_beside_each_other_are_a_table_for_each_launch(
    device: vc.Device, *, alike: bool, symbol: bool
) -> None:
    sizes = [64 if alike else 40 * (1 + k % 3) for k in range(30)]
    given = {"a": 3.0} if symbol else {}
    found = []
    for fuse in (True, False):
        graph, rows = chains(device, sizes, 2, fuse=fuse, symbol=symbol)
        graph.replay()
        graph.replay(**given)
        found.append([each.numpy() for row in rows for each in row])
        if fuse:
            assert graph.node_count == 2 + symbol  # one writes the cell
            assert graph.explain().count("are one launch with a table of 30 rows") == 2
    a = F32(3 if symbol else 2)
    for k, (fused, plain) in enumerate(zip(*found, strict=True)):
        x = np.arange(sizes[k // 3], dtype=F32)
        right = [x, (x + F32(0)) * a, ((x + F32(0)) * a) * a + F32(1)][k % 3]
        np.testing.assert_array_equal(plain, fused)
        np.testing.assert_array_equal(plain, right)


@pytest.mark.parametrize(
    ("count", "length", "is_table"), [(15, 2, False), (16, 2, True), (16, 3, False), (24, 3, True)]
)
def test_long_chains_must_be_more_than_short_ones(
    device: vc.Device, count: int, length: int, *, is_table: bool
) -> None:
    graph, rows = chains(device, [60 * (1 + k % 3) for k in range(count)], length, fuse=True)
    graph.replay()

    assert graph.node_count == (length if is_table else count)
    for row in rows:
        for k, (x, z) in enumerate(pairwise(row)):
            np.testing.assert_array_equal(z.numpy(), x.numpy() * 2 + k)


def test_large_chains_stay_kernels(device: vc.Device) -> None:
    """What they take is for memory, which one kernel of a chain reads once."""
    graph, rows = chains(device, [LARGE_LAUNCH // 8] * 16, 2, fuse=True)
    graph.replay()

    assert "with a table" not in graph.explain()
    for x, _, z in rows:
        np.testing.assert_array_equal(z.numpy(), (x.numpy() * 2) * 2 + 1)


@pytest.mark.parametrize("fuse", [False, True])
def test_chains_whose_ends_meet_stay_in_order(device: vc.Device, *, fuse: bool) -> None:
    """Each chain reads what the one before it wrote: none is beside another."""
    first, second = device.compile(scaled("first")), device.compile(scaled("second"))
    some = [*arrays(device, [40]), *[device.zeros(40, vc.f32) for _ in range(40)]]
    with device.record(fuse=fuse) as graph:
        for x, y, z in zip(some[::2], some[1::2], some[2::2], strict=False):
            first.launch(x, y, 1.0, 1.0)
            second.launch(y, z, 1.0, -1.0)
    graph.replay()

    assert "with a table" not in (graph.explain() if fuse else "")
    for k, each in enumerate(some):
        np.testing.assert_array_equal(each.numpy(), np.arange(40, dtype=F32) + k % 2)


def test_a_step_between_keeps_launches_apart(device: vc.Device) -> None:
    """What comes between needs the first ones, and the others need it."""
    kernel, between = device.compile(scaled()), device.compile(sums())
    n = 16
    xs, zs = arrays(device, [32] * 2 * n), [device.zeros(32, vc.f32) for _ in range(2 * n)]
    with device.record(fuse=True) as graph:
        for k in range(n):
            kernel.launch(xs[k], zs[k], 2.0, 0.0)
        between.launch(zs[3], xs[n][:1], 1.0)
        for k in range(n, 2 * n):
            kernel.launch(xs[k] if k == n else xs[n], zs[k], 2.0, 0.0)
    graph.replay()
    assert graph.node_count == 3
    assert zs[n].numpy()[0] == 2 * zs[3].numpy().sum(dtype=F32)
    assert all(z.numpy()[0] == zs[n].numpy()[0] for z in zs[n:])


def test_launches_within_a_loop(device: vc.Device) -> None:
    kernel = device.compile(sums())
    n = 20
    xs, zs = arrays(device, [32] * n), [device.zeros(1, vc.f32) for _ in range(n)]
    with device.record(fuse=True) as graph:
        with graph.repeat(3):
            for x, z in zip(xs, zs, strict=True):
                kernel.launch(x, z, 1.0)
            with graph.repeat(2):
                for x, z in zip(xs, zs, strict=True):
                    kernel.launch(z, x[:1], 1.0)
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z, 0.5)
    start = [x.numpy() for x in xs]
    graph.replay()
    assert graph.node_count == 3 * 3 + 1
    for x, z in zip(start, zs, strict=True):
        for _ in range(3):
            x[0] = x.sum(dtype=F32)
        assert z.numpy()[0] == x.sum(dtype=F32) * F32(0.5)


# ---- clears ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "nodes"), [(40, 2), (16, 2)])
def test_results_with_gaps_are_cleared_by_one_node(device: vc.Device, count: int, nodes: int) -> None:
    kernel = device.compile(evens())
    xs, zs = arrays(device, [50] * count), [device.array(np.full(50, 7, F32)) for _ in range(count)]
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z)
    graph.replay()
    for x, z in zip(xs, zs, strict=True):
        want = np.where(np.arange(50) % 2 == 0, x.numpy() + 1, 0)
        np.testing.assert_array_equal(z.numpy(), want)
    assert graph.node_count == nodes, graph.explain()
    if nodes == 2:
        assert graph.dot().count("launches of evens") == 2


def test_adjacent_results_are_cleared_by_a_memset(device: vc.Device) -> None:
    kernel = device.compile(evens())
    x, z = device.array(np.arange(32 * 50, dtype=F32)), device.array(np.full(32 * 50, 7, F32))
    with device.record(fuse=True) as graph:
        for k in range(32):
            kernel.launch(x[50 * k : 50 * k + 50], z[50 * k : 50 * k + 50])
    graph.replay()
    np.testing.assert_array_equal(z.numpy(), np.where(np.arange(32 * 50) % 2 == 0, np.arange(32 * 50) + 1, 0))
    assert kinds(graph) == {"fill": 1, "kernel": 1}


# ---- what does not ---------------------------------------------------------------------------------------------------


def test_launches_with_symbols_are_rows_of_a_kernel_of_their_own(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    xs, zs = arrays(device, [40] * 40), [device.zeros(40, vc.f32) for _ in range(40)]
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernel.launch(x, z, vc.symbol("a", 2.0) if k % 2 else 3.0, 0.0)
    graph.replay(a=5.0)
    assert "are one launch with a table of 40 rows: 20 of scaled and 20 of scaled" in graph.explain()
    for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
        np.testing.assert_array_equal(z.numpy(), x.numpy() * (5 if k % 2 else 3))


def test_explain_says_what_tables_do_not_take(device: vc.Device) -> None:
    xs, zs = arrays(device, [32] * 20), [device.zeros(1, vc.f32) for _ in range(20)]
    b = vc.Builder("checked", block=32)
    x, z = b.input("x", vc.f32), b.output("z", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        b.assert_(x[i] >= 0, "negative")
        z[i] = x[i]
    checked = device.compile(b.build())
    with device.record(fuse=True) as graph:
        for each, z in zip(xs, zs, strict=True):
            checked.launch(each, z)
    graph.replay()
    assert "not a row of a table: the kernel has assertions" in graph.explain()
    assert "with a table" not in graph.explain()


def test_arrays_of_symbols_keep_their_place(device: vc.Device) -> None:
    """The array of a later replay is one that rows before it write, or rows behind it: those run as recorded."""
    kernel, reader = device.compile(scaled()), device.compile(sums())
    xs = arrays(device, [32] * 20)
    zs, ws = ([device.zeros(32, vc.f32) for _ in xs] for _ in range(2))
    other, total = device.zeros(32, vc.f32), device.zeros(1, vc.f32)
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z, 2.0, 0.0)
        reader.launch(vc.symbol("x", other), total, 1.0)
        for x, w in zip(xs, ws, strict=True):
            kernel.launch(x, w, 3.0, 0.0)
    graph.compile()
    assert graph.node_count == 2
    graph.replay(x=zs[7])
    assert total.numpy()[0] == 2 * xs[7].numpy().sum(dtype=F32)
    ws[7].fill(1)
    graph.replay(x=ws[7])
    assert total.numpy()[0] == 32
    assert ws[7].numpy()[1] == 3 * xs[7].numpy()[1]


def test_fusing_can_be_off(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = device.compile(sums())
    xs, zs = arrays(device, [32] * 20), [device.zeros(1, vc.f32) for _ in range(20)]
    monkeypatch.setenv("VYRE_CUDA_FUSE", "off")
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z, 1.0)
    graph.replay()
    assert graph.node_count == 20


# ---- life ------------------------------------------------------------------------------------------------------------


def test_a_graph_keeps_what_its_rows_use(device: vc.Device) -> None:
    kernel = device.compile(sums())
    xs, zs = arrays(device, [32] * 20), [device.zeros(1, vc.f32) for _ in range(20)]
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z, 1.0)
    graph.compile()
    sums_of = [x.numpy().sum(dtype=F32) for x in xs]
    del xs, x
    gc.collect()
    others = arrays(device, [32] * 40, 1000)
    graph.replay()
    assert [z.numpy()[0] for z in zs] == sums_of
    assert others[0].numpy()[0] == 1000


def test_temporary_arrays_of_rows(device: vc.Device) -> None:
    first, second = device.compile(scaled()), device.compile(sums())
    n = 20
    xs, zs = arrays(device, [64] * n), [device.zeros(2, vc.f32) for _ in range(n)]
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            t = graph.temporary(64, vc.f32)
            first.launch(x, t, 2.0, 1.0)
            second.launch(t, z, 1.0)
    graph.replay()
    assert graph.explain().count("with a table of 20 rows") == 2
    for x, z in zip(xs, zs, strict=True):
        np.testing.assert_array_equal(z.numpy(), (x.numpy() * 2 + 1).reshape(2, 32).sum(1, dtype=F32))


@pytest.mark.thin
@pytest.mark.emulator
@pytest.mark.parametrize(
    ("result", "lasting"),
    [pytest.param(2, False, marks=pytest.mark.long), (2, True), pytest.param(999, False, marks=pytest.mark.long)],
)
def test_any_call_that_fails_leaves_the_recorded_graph(
    emulator: Emulator,
    leak_check: object,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    result: int,
    lasting: bool,
) -> None:
    """Without --long, the first and the last use of each function."""
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")

    def recorded(device: vc.Device) -> tuple[vc.Graph, list[vc.DeviceArray]]:
        kernel = device.compile(evens())
        xs, zs = arrays(device, [20] * 16), [device.array(np.full(20, 7, F32)) for _ in range(16)]
        with device.record(fuse=True) as graph:
            for x, z in zip(xs, zs, strict=True):
                kernel.launch(x, z)
        return graph, zs

    with vc.Device("emulator") as device:
        graph, _ = recorded(device)
        before = {name: emulator.count(name) for name in emulator.functions()}
        graph.compile()
        calls = {name: made for name in before if (made := emulator.count(name) - before[name])}
        del graph, _
    found: Counter[str] = Counter()
    for name, count in calls.items():
        for nth in range(1, count + 1) if request.config.getoption("--long") else sorted({1, count}):
            with vc.Device("emulator") as device:
                graph, zs = recorded(device)
                emulator.fail(name, nth=nth, result=result, repeat=lasting)
                try:
                    graph.compile()
                except (vc.DriverError, vc.ResourceError):
                    found["told"] += 1
                emulator.reset()
                graph.replay()
                for k, z in enumerate(zs):
                    want = np.where(np.arange(20) % 2 == 0, np.arange(20) + k + 1, 0)
                    np.testing.assert_array_equal(z.numpy(), want)
                found["table" if "with a table" in graph.explain() else "as recorded"] += 1
                assert graph.node_count == (2 if "with a table" in graph.explain() else 32)
                del graph, zs, z
                gc.collect()
    assert found["as recorded"] > 10, found
