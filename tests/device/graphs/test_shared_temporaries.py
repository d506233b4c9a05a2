"""Temporary arrays that only the steps of one block use are shared arrays of the block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from .graph_checks import F32
from .test_fused_loops import smoothed, start, stencil


def partly(size: int) -> vc.Program:
    """Writes the elements whose numbers are even."""
    b = vc.Builder("partly", block=128)
    x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
    b.work(size)
    i = b.let("i", vc.global_id.x)
    with b.if_((i < z.size) & (i % 2 == 0)):
        z[i] = x[i]
    return b.build()


def evens() -> vc.Program:
    """z is an output, which has zeros where nothing is written."""
    b = vc.Builder("evens", block=128)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(2 * i < z.size):
        z[2 * i] = x[2 * i]
    return b.build()


def chain(device: vc.Device, size: int, *, fuse: bool, of: vc.Kernel | None = None) -> tuple[vc.Graph, Any]:
    kernel = device.compile(stencil())
    x, y = device.array(start(size)), device.zeros(size, vc.f32)
    with device.record(fuse=fuse) as graph:
        t, u = graph.temporary(size, vc.f32), graph.temporary(size, vc.f32)
        (of or kernel).launch(x, t)
        kernel.launch(t, u)
        kernel.launch(u, y)
    graph.replay()
    return graph, y.numpy()


@pytest.mark.parametrize("size", [1, 31, 256, 1000])
def test_steps_of_one_block_leave_arrays_to_each_other_in_shared_memory(device: vc.Device, size: int) -> None:
    graph, found = chain(device, size, fuse=True)
    np.testing.assert_array_equal(found, smoothed(start(size), 3))
    assert graph.node_count == 1
    assert f"2 temporary arrays of {8 * size} bytes, in shared memory" in graph.explain()


def test_an_output_has_zeros_where_nothing_was_written(device: vc.Device) -> None:
    results = [chain(device, 500, fuse=fuse, of=device.compile(evens())) for fuse in (False, True)]
    np.testing.assert_array_equal(results[0][1], results[1][1])
    x = start(500)
    x[1::2] = 0
    np.testing.assert_array_equal(results[1][1], smoothed(x, 2))
    assert "in shared memory" in results[1][0].explain()


@pytest.mark.emulator
@pytest.mark.parametrize("repeats", [1, 3])
def test_unwritten_elements_have_the_bytes_that_replays_begin_with(device: vc.Device, repeats: int) -> None:
    """So that nobody relies on the zeros of shared arrays; and a later pass finds what an earlier one left."""
    kernel = device.compile(partly(200))
    turn = device.compile(stencil())
    results = []
    for fuse in (False, True):
        x, y = device.array(start(200)), device.zeros(200, vc.f32)
        with device.record(fuse=fuse) as graph:
            t = graph.temporary(200, vc.f32)
            with graph.repeat(repeats):
                kernel.launch(x, t)
                turn.launch(t, y)
                turn.launch(y, t)
        graph.replay()
        results.append(y.numpy())
    np.testing.assert_array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
    assert graph.node_count == 1
    assert "in shared memory" in graph.explain()
    if repeats == 1:
        t = np.frombuffer(b"\xa5" * 800, F32).copy()
        t[::2] = start(200)[::2]
        np.testing.assert_array_equal(results[1], smoothed(t, 1))


def test_arrays_that_do_not_fit_stay_in_memory(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    size, count = 1000, 16
    x, y = device.array(start(size)), device.zeros(size, vc.f32)
    with device.record(fuse=True) as graph:
        all_of = [graph.temporary(size, vc.f32) for _ in range(count)]
        for before, behind in zip([x, *all_of], [*all_of, y], strict=True):
            kernel.launch(before, behind)
    graph.replay()
    np.testing.assert_array_equal(y.numpy(), smoothed(start(size), count + 1))
    assert graph.node_count == 1 + device.properties.is_emulator
    assert ": 12 in shared memory, the others in" in graph.explain()


def test_what_another_node_uses_stays_in_memory(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    x, y, z = device.array(start(300)), device.zeros(300, vc.f32), device.zeros(300, vc.f32)
    with device.record(fuse=True) as graph:
        t = graph.temporary(300, vc.f32)
        kernel.launch(x, t)
        kernel.launch(t, y)
        z.copy_from(t)
    graph.replay()
    np.testing.assert_array_equal(y.numpy(), smoothed(start(300), 2))
    np.testing.assert_array_equal(z.numpy(), smoothed(start(300), 1))
    assert "shared memory" not in graph.explain()


def test_views_and_shapes_of_an_array_in_shared_memory(device: vc.Device) -> None:
    kernel = device.compile(stencil())
    b = vc.Builder("turned", block=(16, 8))
    p = b.input("p", vc.f32, ndim=2)
    q = b.output("q", vc.f32, shape=(p.shape[0], p.shape[1]))
    i, j = b.let("i", vc.global_id.y), b.let("j", vc.global_id.x)
    b.work(p.shape[1], p.shape[0])
    with b.if_((i < p.shape[0]) & (j < p.shape[1])):
        q[i, j] = p[p.shape[0] - 1 - i, p.shape[1] - 1 - j]
    turned = device.compile(b.build())
    x, y, z = device.array(start(128)), device.zeros(100, vc.f32), device.zeros((8, 16), vc.f32)
    with device.record(fuse=True) as graph:
        t = graph.temporary(250, vc.f32)
        kernel.launch(x[:100], t[:100])
        kernel.launch(t[:100], t[150:])
        kernel.launch(t[150:], y)
        square = graph.temporary((8, 16), vc.f32)
        turned.launch(x.reshape(8, 16), square)
        turned.launch(square, z)
    graph.replay()
    np.testing.assert_array_equal(y.numpy(), smoothed(start(128)[:100], 3))
    np.testing.assert_array_equal(z.numpy(), start(128).reshape(8, 16))
    assert "in shared memory" in graph.explain()


@pytest.mark.emulator
def test_who_reads_what_nothing_wrote_is_still_named() -> None:
    with vc.Device("emulator", check="initialized") as device:
        kernel, turn = device.compile(partly(200)), device.compile(stencil())
        x, y = device.array(start(200)), device.zeros(200, vc.f32)
        with device.record(fuse=True) as graph:
            t = graph.temporary(200, vc.f32)
            kernel.launch(x, t)
            turn.launch(t, y)
        graph.replay()
        with pytest.raises(vc.UninitializedError) as caught:
            device.synchronize()
        assert caught.value.buffer == "x"
