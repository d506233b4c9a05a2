"""Graphs with merged steps on streams that another library captures."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

from ..foreign_library import GLOBAL, RELAXED, THREAD_LOCAL, ForeignStream
from .fused_kernels import is_emulator, scaled
from .graph_checks import N, first, floats
from .table_kernels import evens


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED], ids=["global", "thread_local", "relaxed"])
def test_the_first_replay_may_be_captured(device: vc.Device, stream: ForeignStream, mode: int) -> None:
    kernel = device.compile(scaled())
    x, y, z = floats(device, 1), floats(device, 0), floats(device, 0)
    device.synchronize()
    with device.record(fuse=True) as graph:
        t, u = graph.temporary(N, vc.f32), graph.temporary(N, vc.f32)
        u.copy_from(x)
        kernel.launch(u, t, vc.symbol("a", 2.0), 0.0)
        kernel.launch(t, vc.symbol("y", y), 1.0, 1.0)
        z.copy_from(y)

    stream.begin_capture(mode)
    graph.replay(stream=stream)
    merged = stream.end_capture()
    stream.begin_capture(mode)
    graph.replay(stream=stream, y=z, a=5.0)  # as it was recorded: z is copied to as well
    graph.replay(stream=stream, y=x, a=1.0)
    others = stream.end_capture()

    assert (first(x), first(y), first(z)) == (1, 0, 0)
    merged.replay(stream)
    assert (first(y), first(z)) == (3, 3)
    others.replay(stream)
    assert (first(x), first(y), first(z)) == (2, 3, 3)
    merged.replay(stream)
    assert first(y) == 5
    graph.replay()
    stream.synchronize()
    np.testing.assert_array_equal(z.numpy(), np.full(N, 5, np.float32))
    assert graph.node_count == 3 + is_emulator(device)
    merged.destroy()
    others.destroy()


def test_tables_are_captured(device: vc.Device, stream: ForeignStream) -> None:
    kernel = device.compile(evens())
    n = 20
    xs, zs = [floats(device, k) for k in range(n)], [floats(device, 7) for _ in range(n)]
    with device.record(fuse=True) as graph:
        for x, z in zip(xs, zs, strict=True):
            kernel.launch(x, z)
    device.synchronize()
    stream.begin_capture(RELAXED)
    graph.replay(stream=stream)
    captured = stream.end_capture()
    assert first(zs[3]) == 7
    assert "with a table of 20 rows" in graph.explain()
    del graph, xs, x
    others = [floats(device, 100) for _ in range(2 * n)]
    captured.replay(stream)
    stream.synchronize()
    for k, z in enumerate(zs):
        np.testing.assert_array_equal(z.numpy(), np.where(np.arange(N) % 2 == 0, k + 1, 0))
    assert first(others[0]) == 100
    captured.destroy()
