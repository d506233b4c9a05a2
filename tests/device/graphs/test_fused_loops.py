"""Loops that become part of the kernel that they repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .graph_checks import F32
from .test_fused_graphs import scaled


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


def test_a_loop_that_the_device_ends_stays(device: vc.Device) -> None:
    b = vc.Builder("count", block=1)
    n, done = b.inout("n", vc.u32), b.inout("done", vc.bool_)
    n[0] = n[0] + 1
    done[0] = n[0] == 6
    kernel = device.compile(b.build())
    n, done = device.zeros(1, vc.u32), device.zeros(1, vc.bool_)
    with device.record(fuse=True) as graph, graph.repeat(100, until=done):
        kernel.launch(n, done)
    graph.replay()

    assert n[0] == 6
    assert "the device reads an array after each pass" in graph.explain()


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
