"""Temporaries of fused graphs: which have memory, when they share it, and what they contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .fused_kernels import is_emulator, ramp, scaled
from .graph_checks import F32, N, first, floats


@pytest.fixture
def kernel(device: vc.Device) -> vc.Kernel:
    return device.compile(scaled())


def test_a_temporary_that_only_merged_steps_use_has_no_memory(device: vc.Device, kernel: vc.Kernel) -> None:
    n = 5000
    x, y = ramp(device, n), device.zeros(n, vc.f32)
    before = device.memory_stats().live_bytes
    with device.record(fuse=True) as graph:
        t, u = graph.temporary(n, vc.f32), graph.temporary(n, vc.f32)
        kernel.launch(x, t, 2.0, 0.0)
        kernel.launch(t, u, 2.0, 0.0)
        kernel.launch(u, y, 2.0, 1.0)
    graph.replay()

    np.testing.assert_array_equal(y.numpy(), np.arange(n, dtype=F32) * 8 + 1)
    assert graph.node_count == 1
    assert device.memory_stats().live_bytes < before + 4 * n
    assert "2 temporary arrays of 40000 bytes, without memory" in graph.explain()


def test_temporaries_that_are_not_needed_at_the_same_time_share_memory(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = ramp(device, 1024), device.zeros(1024, vc.f32)
    for fuse in (False, True):
        with device.record(fuse=fuse) as graph:
            arrays = [graph.temporary(1024, vc.f32) for _ in range(5)]
            for before, behind in zip([x, *arrays], [*arrays, y], strict=True):
                behind.copy_from(before)
        graph.replay()

        np.testing.assert_array_equal(y.numpy(), x.numpy())
        assert "5 temporary arrays of 20480 bytes, in 8192 bytes" in graph.explain()
        assert graph.node_count == 6 + is_emulator(device)


def test_a_temporary_of_a_loop_keeps_its_contents_between_passes(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = floats(device, 1), floats(device, 0), floats(device, 0)
    for fuse in (False, True):
        with device.record(fuse=fuse) as graph:
            t, u = graph.temporary(N, vc.f32), graph.temporary(N, vc.f32)
            t.fill(1.0)
            with graph.repeat(3):
                kernel.launch(t, y, 2.0, 0.0)
                u.copy_from(y)
                z.copy_from(u)
                kernel.launch(u, t, 1.0, 1.0)
            kernel.launch(t, x, 1.0, 0.0)
        graph.replay()

        assert first(x) == 15


def test_the_contents_begin_unspecified_at_each_replay(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        out = device.zeros(8, vc.u8)
        for fuse in (False, True):
            with device.record(fuse=fuse) as graph:
                t = graph.temporary(8, vc.u8)
                out.copy_from(t)
                t.fill(7)
            for _ in range(2):
                graph.replay()
                assert out.numpy().tolist() == [0xA5] * 8


def test_views_of_temporaries_are_parts_of_them(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = ramp(device, 8), device.zeros((2, 4), vc.f32)
    with device.record(fuse=True) as graph:
        t = graph.temporary((2, 4), vc.f32)
        t.reshape(8)[:].copy_from(x)
        t[1].fill(9.0)
        kernel.launch(t[0], y[1], 2.0, 0.0)
        kernel.launch(t[1], y[0], 1.0, 0.0)
    graph.replay()

    assert t.shape == (2, 4)
    assert y.numpy().tolist() == [[9, 9, 9, 9], [0, 2, 4, 6]]


def test_a_temporary_has_no_use_outside_its_graph(device: vc.Device, kernel: vc.Kernel) -> None:
    x = floats(device, 1)
    with device.record() as graph:
        t = graph.temporary(N, vc.f32)
        kernel.launch(x, t, 1.0, 0.0)
        with pytest.raises(vc.RecordingError):
            t.numpy()
        kernel.launch(t, x, 1.0, 0.0)
    uses: list[Callable[[], Any]] = [
        t.numpy,
        lambda: t[0],
        t.copy,
        lambda: t.fill(1.0),
        lambda: t.copy_from(x),
        lambda: x.copy_from(t),
        lambda: kernel.launch(t, x, 1.0, 0.0),
        lambda: kernel.launch(x, t, 1.0, 0.0, stream=device.stream()),
        lambda: kernel(t, 1.0, 0.0),
        lambda: kernel(x, 1.0, 0.0, out=t),
        lambda: kernel.bind(x, t, 1.0, 0.0),
        lambda: device.download([(t, 0, 1)]),
        lambda: device.upload([(t, np.ones(1, F32))]),
        lambda: t.__dlpack__(),
        lambda: vc.from_dlpack(t).numpy(),
    ]
    for use in uses:
        with pytest.raises(vc.RecordingError, match="temporary array"):
            use()
    with device.record() as other:
        for use in (
            lambda: kernel.launch(x, t, 1.0, 0.0),
            lambda: t.fill(1.0),
            lambda: x.copy_from(t),
            lambda: kernel.launch(vc.symbol("x", t), x, 1.0, 0.0),
            lambda: t.copy(),
        ):
            with pytest.raises(vc.RecordingError, match="temporary array"):
                use()
    assert len(other) == 0
    with pytest.raises(vc.RecordingError):
        graph.temporary(3, vc.f32)
    graph.replay()
    assert first(x) == 1


def test_a_recorded_replay_has_temporaries_of_its_own(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = ramp(device), device.zeros(N, vc.f32)
    with device.record() as inner:
        t = inner.temporary(N, vc.f32)
        kernel.launch(vc.symbol("x", x), t, 2.0, 0.0)
        kernel.launch(t, y, 1.0, vc.symbol("b", 1.0))
    with device.record(fuse=True) as outer:
        own = outer.temporary(N, vc.f32)
        kernel.launch(x, own, 1.0, 1.0)
        inner.replay(x=own, b=vc.symbol("c", 3.0))
    del inner, t
    outer.replay(c=5.0)

    np.testing.assert_array_equal(y.numpy(), (np.arange(N, dtype=F32) + 1) * 2 + 5)
    assert outer.node_count == 1


def test_a_plain_graph_beside_the_fused_one_has_the_temporaries(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = ramp(device), device.zeros(N, vc.f32)
    with device.record(fuse=True) as graph:
        t = graph.temporary(N, vc.f32)
        kernel.launch(x, t, 2.0, 0.0)
        kernel.launch(t, vc.symbol("y", y), 1.0, 1.0)
    graph.replay()
    assert graph.node_count == 1
    graph.replay(y=x)
    assert graph.node_count == 2 + is_emulator(device)
    np.testing.assert_array_equal(x.numpy(), np.arange(N, dtype=F32) * 2 + 1)
