"""Loops that become part of the kernel that they repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .fused_kernels import scaled
from .graph_checks import F32, first


def stencil(block: int = 256) -> vc.Program:
    """z[i] = (x[i - 1] + 2 x[i] + x[i + 1]) / 4, around the ends"""
    b = vc.Builder("stencil", block=block)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = (x[(i + x.size - 1) % x.size] + x[i] * 2 + x[(i + 1) % x.size]) / 4
    return b.build()


def smoothed(x: Any, times: int) -> Any:
    for _ in range(times):
        x = (np.roll(x, 1) + x * F32(2) + np.roll(x, -1)) / F32(4)
    return x


def start(size: int) -> Any:
    return np.random.default_rng(size).standard_normal(size, dtype=F32)


@pytest.mark.parametrize(("size", "nodes"), [(100, 1), (256, 1), (1000, 1), (1024, 1), (1025, 20)])
def test_repeated_steps_of_one_block_are_one_node(device: vc.Device, size: int, nodes: int) -> None:
    kernel = device.compile(stencil())
    x, y = device.array(start(size)), device.zeros(size, vc.f32)
    with device.record(fuse=True) as graph, graph.repeat(10):
        kernel.launch(x, y)
        kernel.launch(y, x)

    graph.replay()
    graph.replay()

    assert graph.node_count == nodes
    np.testing.assert_array_equal(x.numpy(), smoothed(start(size), 40))
    assert ("are one kernel of one block, with 2 barriers, that repeats 10 times" in graph.explain()) == (nodes == 1)
    assert ("apart: its steps are 2 kernels" in graph.explain()) == (nodes > 1)


def test_own_elements_repeat_in_many_blocks(device: vc.Device) -> None:
    kernel = device.compile(scaled())
    x, y = device.array(start(5000)), device.zeros(5000, vc.f32)
    with device.record(fuse=True) as graph, graph.repeat(7):
        kernel.launch(x, y, vc.symbol("a"), 1.0)
        kernel.launch(y, x, 0.5, 0.25)
    wanted = start(5000)
    for a in (1.0, 2.0):
        graph.replay(a=a)
        for _ in range(7):
            wanted = (wanted * F32(a) + F32(1)) * F32(0.5) + F32(0.25)

    assert graph.node_count == 1
    assert "are one kernel that repeats 7 times" in graph.explain()
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_temporary_arrays_of_a_loop_in_a_kernel(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    x = device.array(start(300))
    with device.record(fuse=True) as graph, graph.repeat(5):
        t = graph.temporary(300, vc.f32)
        kernel.launch(x, t)
        kernel.launch(t, x)
    graph.replay()

    np.testing.assert_array_equal(x.numpy(), smoothed(start(300), 10))


def test_steps_beside_a_loop_keep_their_order(device: vc.Device) -> None:
    kernel, scale = device.compile(stencil()), device.compile(scaled())
    x, y = device.array(start(500)), device.zeros(500, vc.f32)
    with device.record(fuse=True) as graph:
        scale.launch(x, y, 2.0, 0.0)
        with graph.repeat(3):
            kernel.launch(y, x)
            with graph.repeat(2):
                kernel.launch(x, y)
                kernel.launch(y, x)
            kernel.launch(x, y)
        scale.launch(y, x, 0.5, 0.0)
    graph.replay()

    np.testing.assert_array_equal(x.numpy(), smoothed(start(500) * F32(2), 18) * F32(0.5))


def counting(at: int, done_type: vc.Type = vc.bool_, block: int = 256) -> vc.Program:
    """Adds one to each element; done[0] is not 0 once n[0] is `at`, which the last thread says"""
    b = vc.Builder("counting", block=block)
    n, done = b.inout("n", vc.u32), b.inout("done", done_type)
    b.work(n.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < n.size):
        n[i] = n[i] + 1
        with b.if_(i == n.size - 1):
            ends = n[i] >= at
            done[0] = ends if done_type is vc.bool_ else vc.where(ends, done_type(1), done_type(0))
    return b.build()


# A limit of passes, none at all, when the array ends the loop, and how often it runs.
ENDS = [(100, 6, 6), (None, 6, 6), (4, 6, 4), (6, 6, 6), (1, 6, 1), (None, 0, 1), (100, 1, 1)]


@pytest.mark.thin(8)
@pytest.mark.parametrize("size", [1, 32, 200, 1000])
@pytest.mark.parametrize(("limit", "at", "passes"), ENDS)
def test_an_array_ends_the_loop_in_a_kernel(
    device: vc.Device, limit: int | None, at: int, passes: int, size: int
) -> None:
    count, turn = device.compile(counting(at)), device.compile(stencil())
    counts = []
    for fuse in (False, True):
        n, done = device.zeros(size, vc.u32), device.zeros(1, vc.bool_)
        x, y = device.array(start(size)), device.zeros(size, vc.f32)
        with device.record(fuse=fuse) as graph, graph.repeat(limit, until=done):
            turn.launch(x, y)
            turn.launch(y, x)
            count.launch(n, done)
        for _ in range(2):
            n.fill(0)
            graph.replay()
            assert first(n) == passes
        np.testing.assert_array_equal(x.numpy(), smoothed(start(size), 4 * passes))
        counts.append(graph.node_count)
    assert counts[1] == 1 < counts[0]
    assert "until an array ends it" in graph.explain()


@pytest.mark.parametrize("type_", [vc.u8, vc.i16, vc.u32, vc.i64, vc.bool_])
@pytest.mark.parametrize("where", [0, 3])
def test_what_ends_the_loop_may_be_any_integer_of_a_larger_array(device: vc.Device, type_: vc.Type, where: int) -> None:
    kernel = device.compile(counting(5, type_))
    n, flags = device.zeros(70, vc.u32), device.zeros(8, type_)
    with device.record(fuse=True) as graph, graph.repeat(until=flags[where:]):
        kernel.launch(n, flags[where:])
    graph.replay()
    assert first(n) == 5
    assert graph.node_count == 1
    assert flags.numpy().tolist() == [k == where for k in range(8)]


def test_where_no_step_writes_what_ends_the_loop_it_stays_a_loop(device: vc.Device) -> None:
    """The device reads it anew after each pass: somebody else may write it."""
    kernel = device.compile(counting(5))
    n, done, other = device.zeros(70, vc.u32), device.zeros(2, vc.bool_), device.zeros(1, vc.u8)
    for until in (other, done[1:]):
        n.fill(0)
        with device.record(fuse=True) as graph, graph.repeat(7, until=until):
            kernel.launch(n, done)
        graph.replay()
        assert first(n) == 7
        assert graph.node_count > 1
        assert "no step in it writes to the array that ends it" in graph.explain()


def test_another_array_for_what_ends_the_loop(device: vc.Device) -> None:
    """The loop looks at the recorded array, whatever the symbol stands for."""
    kernel = device.compile(counting(5))
    n, done, other = device.zeros(70, vc.u32), device.zeros(1, vc.bool_), device.zeros(1, vc.bool_)
    with device.record(fuse=True) as graph, graph.repeat(9, until=done):
        kernel.launch(n, vc.symbol("done", done))
    graph.replay()
    assert (first(n), graph.node_count) == (5, 1)
    n.fill(0)
    done.fill(False)
    graph.replay(done=other)
    assert first(n) == 9
    n.fill(0)
    graph.replay()
    assert (first(n), graph.node_count) == (5, 1)


def test_a_temporary_array_may_end_the_loop(device: vc.Device) -> None:
    kernel = device.compile(counting(5))
    n = device.zeros(70, vc.u32)
    with device.record(fuse=True) as graph:
        done = graph.temporary(1, vc.bool_)
        with graph.repeat(9, until=done):
            kernel.launch(n, done)
    for _ in range(2):
        n.fill(0)
        graph.replay()
        assert first(n) == 5
    assert graph.node_count == 1
    assert "1 temporary array of 1 byte, in shared memory" in graph.explain()


def test_loops_that_arrays_end_inside_others(device: vc.Device) -> None:
    """The inner one becomes a kernel, the outer one stays a loop around it."""
    kernel, reset = device.compile(counting(5)), device.compile(scaled_counts())
    for fuse in (False, True):
        n, done = device.zeros(70, vc.u32), device.zeros(1, vc.bool_)
        with device.record(fuse=fuse) as graph, graph.repeat(3):
            with graph.repeat(50, until=done):
                kernel.launch(n, done)
            reset.launch(n)
        graph.replay()
        assert first(n) == 2
    assert "until an array ends it" in graph.explain()


def scaled_counts() -> vc.Program:
    """n = n / 2"""
    b = vc.Builder("halve_all", block=64)
    n = b.inout("n", vc.u32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < n.size):
        n[i] = n[i] // 2
    return b.build()


@pytest.mark.emulator
def test_loops_that_arrays_end_have_no_races() -> None:
    with vc.Device("emulator", check="races") as device:
        kernel, turn = device.compile(counting(5)), device.compile(stencil())
        n, done = device.zeros(200, vc.u32), device.zeros(1, vc.bool_)
        x, y = device.array(start(200)), device.zeros(200, vc.f32)
        with device.record(fuse=True) as graph, graph.repeat(until=done):
            t = graph.temporary(200, vc.f32)
            turn.launch(x, t)
            turn.launch(t, y)
            turn.launch(y, x)
            kernel.launch(n, done)
        graph.replay()
        device.synchronize()
        assert (first(n), graph.node_count) == (5, 1)
        np.testing.assert_array_equal(x.numpy(), smoothed(start(200), 15))


def test_other_arrays_for_a_loop_in_a_kernel(device: vc.Device) -> None:
    """Where arrays share memory in another way, the loop of the recorded steps runs."""
    kernel = device.compile(stencil())
    x, y, spare = device.array(start(200)), device.zeros(200, vc.f32), device.array(start(200))
    with device.record(fuse=True) as graph, graph.repeat(3):
        kernel.launch(vc.symbol("x", x), y)
        kernel.launch(y, spare)
    graph.replay()
    np.testing.assert_array_equal(spare.numpy(), smoothed(start(200), 2))
    assert graph.node_count == 1

    spare.copy_from(start(200))
    graph.replay(x=spare)
    np.testing.assert_array_equal(spare.numpy(), smoothed(start(200), 6))
    graph.replay()
    np.testing.assert_array_equal(spare.numpy(), smoothed(start(200), 2))


def test_a_bundle_has_the_kernel_with_its_loop(device: vc.Device, tmp_path: Path) -> None:
    kernel = device.compile(stencil())
    x, y = device.array(start(300)), device.zeros(300, vc.f32)
    with device.record(fuse=True) as graph:
        with graph.repeat(6):
            kernel.launch(x, y)
            kernel.launch(y, x)
        kernel.launch(x, vc.symbol("out", y))
    graph.compile()
    graph.export(tmp_path / "loop.vyre", "loop")
    loaded = vc.load_bundle(tmp_path / "loop.vyre").on(device).graph("loop")
    out = device.zeros(300, vc.f32)
    loaded.replay(out=out)

    assert loaded.node_count == graph.node_count == 2
    np.testing.assert_array_equal(out.numpy(), smoothed(start(300), 13))
