"""Launches in a row that become one kernel: the same results, and fewer nodes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from .fused_kernels import is_emulator, ramp, scaled
from .graph_checks import F32, N, first, floats


@pytest.fixture
def kernel(device: vc.Device) -> vc.Kernel:
    return device.compile(scaled())


# ---- what becomes one ------------------------------------------------------------------------------------------------


def test_a_chain_is_one_node_with_the_same_results(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = ramp(device), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    for fuse, nodes in ((False, 3), (True, 1)):
        y.fill(0)
        z.fill(0)
        with device.record(fuse=fuse) as graph:
            kernel.launch(x, y, 2.0, 1.0)
            kernel.launch(y, z, 3.0, 0.5)
            kernel.launch(z, y, 2.0, 0.0)
        graph.replay()
        np.testing.assert_array_equal(y.numpy(), (np.arange(N, dtype=F32) * 2 + 1) * 6 + 1)
        np.testing.assert_array_equal(z.numpy(), (np.arange(N, dtype=F32) * 2 + 1) * 3 + F32(0.5))
        assert graph.node_count == nodes


def test_a_graph_can_be_fused_after_its_recording(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = ramp(device), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    with device.record() as graph:
        kernel.launch(x, y, 2.0, vc.symbol("b", 1.0))
        kernel.launch(y, z, 3.0, 0.0)
    graph.replay()
    assert graph.node_count == 2
    graph.fuse()
    assert graph.node_count == 2
    assert "as recorded: the last replay was before fuse()" in graph.explain()
    graph.replay(b=2.0)
    assert graph.node_count == 1
    np.testing.assert_array_equal(z.numpy(), np.arange(N, dtype=F32) * 6 + 6)


def test_a_graph_that_is_fused_before_its_first_replay_says_so(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = ramp(device), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    with device.record() as graph:
        kernel.launch(x, y, 2.0, 1.0)
        kernel.launch(y, z, 3.0, 0.0)
    graph.fuse()
    assert graph.node_count == 1
    assert "as recorded" not in graph.explain()


def test_a_graph_that_waits_for_values_is_fused_by_its_next_replay(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = floats(device, 1), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    with device.record() as graph:
        kernel.launch(x, y, 2.0, vc.symbol("b"))
        kernel.launch(y, z, 3.0, 0.0)
    graph.replay(b=1.0)
    assert (first(z), graph.node_count) == (9, 2)
    graph.fuse()
    with pytest.raises(vc.RecordingError, match="no value is known for b"):
        graph.compile()
    graph.replay(b=2.0)
    assert (first(z), graph.node_count) == (12, 1)


def test_threads_replay_while_a_graph_is_fused(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = floats(device, 1), device.zeros(N, vc.f32), device.zeros(N, vc.f32)
    for _ in range(5):
        with device.record() as graph:
            kernel.launch(x, y, 2.0, vc.symbol("b", 0.0))
            kernel.launch(y, z, 3.0, 1.0)
        with ThreadPoolExecutor(4) as pool:
            replays = [pool.submit(graph.replay, **({"b": 0.0} if k % 3 else {})) for k in range(40)]
            pool.submit(graph.fuse).result()
            replays += [pool.submit(graph.replay) for _ in range(10)]
            for each in replays:
                each.result()
        graph.replay()  # one that began before the others were fused may have come last
        assert (first(z), graph.node_count) == (7, 1)


def test_compile_makes_the_nodes_before_the_first_replay(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = ramp(device), device.zeros(N, vc.f32)
    with device.record(fuse=True) as graph:
        kernel.launch(x, y, 2.0, 1.0)
        kernel.launch(y, x, 1.0, 0.0)
        assert graph.node_count == 0
    assert graph.node_count == 0
    graph.compile()
    assert graph.node_count == 1
    np.testing.assert_array_equal(y.numpy(), np.zeros(N))


def test_the_environment_turns_fusing_off(
    device: vc.Device, kernel: vc.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CUDA_FUSE", "off")
    x, y = ramp(device), device.zeros(N, vc.f32)
    with device.record(fuse=True) as graph:
        kernel.launch(x, y, 2.0, 1.0)
        kernel.launch(y, x, 1.0, 0.0)
    graph.replay()

    assert graph.node_count == 2
    assert "VYRE_CUDA_FUSE=off" in graph.explain()


def test_the_driver_launches_as_many_kernels_as_explain_says(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        kernel, other = device.compile(scaled()), device.compile(scaled("other", block=32))
        n = 2000  # more than a block
        x, y, z = ramp(device, n), device.zeros(n, vc.f32), device.zeros(n, vc.f32)
        with device.record(fuse=True) as graph:
            kernel.launch(x, y, 2.0, 1.0)
            kernel.launch(y, z, 2.0, 1.0)
            other.launch(z, y, 1.0, 0.0)
            x.copy_from(y)
            other.launch(x, z, 1.0, 0.0)
            other.launch(z, y, 1.0, 1.0)
        graph.compile()
        before = emulator.count("launches")
        graph.replay()
        device.synchronize()
        launched = emulator.count("launches") - before
        text = graph.explain()

        assert launched == 3
        assert text.splitlines()[0] == "6 steps, 4 nodes of the driver: 3 kernels, 1 copy"
        assert graph.node_count == 4
        assert "steps 1 to 2 are one kernel, scaled_scaled: scaled (" in text
        assert "not with the next step: other has 63 blocks of 32 threads, scaled 32 of 64" in text
        assert "step 4, copy\n  apart: it is not a launch" in text
        assert "steps 5 to 6 are one kernel, other_other" in text


def test_steps_of_a_loop_become_one_inside_it(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = floats(device, 1), floats(device, 0)
    with device.record(fuse=True) as graph:
        kernel.launch(x, y, 1.0, 1.0)
        with graph.repeat(3):
            kernel.launch(y, x, 2.0, 0.0)
            kernel.launch(x, y, 1.0, 1.0)
        kernel.launch(y, x, 1.0, 0.0)
    graph.replay()

    assert first(x) == 23
    assert graph.node_count == 3
    assert "steps 2 to 3 are one kernel that repeats 3 times, scaled_scaled" in graph.explain()


def test_a_kernel_is_compiled_once_and_comes_from_the_disk_the_next_time(opened: Callable[[], vc.Device]) -> None:
    for compiles in (2, 0):
        device = opened()
        kernel = device.compile(scaled())
        x, y = ramp(device), device.zeros(N, vc.f32)
        for _ in range(2):
            with device.record(fuse=True) as graph:
                kernel.launch(x, y, 2.0, 1.0)
                kernel.launch(y, x, 1.0, 0.0)
            graph.compile()
        assert graph.node_count == 1
        assert device.stats().compiles == compiles


# ---- symbols ---------------------------------------------------------------------------------------------------------


def test_scalar_symbols_stay_symbols(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z = floats(device, 1), floats(device, 0), floats(device, 0)
    with device.record(fuse=True) as graph:
        kernel.launch(x, y, vc.symbol("s", 2.0), vc.symbol("t"))
        kernel.launch(y, z, vc.symbol("s"), 0.0)
    graph.replay(t=1.0)
    assert first(z) == 6
    graph.replay(t=1.0, s=3.0)
    assert first(z) == 12
    graph.update(s=4.0)
    graph.replay(t=0.0)
    assert first(z) == 16
    graph.update(t=2.0)
    graph.replay()
    assert first(z) == 24
    assert graph.node_count == 1


def test_an_update_before_all_symbols_have_values_holds_for_all_steps(device: vc.Device, kernel: vc.Kernel) -> None:
    for fuse in (False, True):
        x, y, z = floats(device, 1), floats(device, 0), floats(device, 0)
        with device.record(fuse=fuse) as graph:
            kernel.launch(x, y, vc.symbol("s", 2.0), 0.0)
            kernel.launch(x, z, 1.0, vc.symbol("t"))
        graph.replay(t=1.0)
        graph.update(s=5.0)
        graph.replay(t=1.0)

        assert (first(y), first(z)) == (5, 2)


def test_arrays_that_share_memory_in_another_way_run_the_recorded_steps(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y, z, w = (ramp(device) for _ in range(4))
    with device.record(fuse=True) as graph:
        kernel.launch(vc.symbol("x", x), y, 2.0, 0.0)
        kernel.launch(y, vc.symbol("z", z), 2.0, 1.0)
    graph.replay()
    assert graph.node_count == 1
    graph.replay(z=w)
    assert graph.node_count == 1
    np.testing.assert_array_equal(w.numpy(), np.arange(N, dtype=F32) * 4 + 1)
    graph.replay(z=x)  # x is what the first step reads
    assert graph.node_count == 2
    assert "as recorded: with the values" in graph.explain()
    np.testing.assert_array_equal(x.numpy(), np.arange(N, dtype=F32) * 4 + 1)
    graph.replay()
    assert graph.node_count == 1
    graph.update(z=x)
    graph.replay()
    assert graph.node_count == 2
    np.testing.assert_array_equal(x.numpy(), (np.arange(N, dtype=F32) * 4 + 1) * 4 + 1)
    graph.update(z=w)
    graph.replay()
    assert graph.node_count == 1
    np.testing.assert_array_equal(w.numpy(), ((np.arange(N, dtype=F32) * 4 + 1) * 4 + 1) * 4 + 1)


def test_views_that_meet_run_the_recorded_steps(device: vc.Device, kernel: vc.Kernel) -> None:
    whole, x = device.zeros(2 * N, vc.f32), ramp(device)
    with device.record(fuse=True) as graph:
        kernel.launch(x, vc.symbol("y", whole[:N]), 2.0, 0.0)
        kernel.launch(x, vc.symbol("z", whole[N:]), 1.0, 1.0)
    graph.replay()
    assert graph.node_count == 1
    graph.replay(z=whole[10 : N + 10])
    assert graph.node_count == 2
    wanted = np.arange(N, dtype=F32) * 2
    wanted[10:] = np.arange(N - 10, dtype=F32) + 1
    np.testing.assert_array_equal(whole[:N].numpy(), wanted)


def test_other_sizes_run_the_recorded_steps(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy(block=64))
    x, y, z = floats(device, 1), floats(device, 2), floats(device, 0)
    with device.record(fuse=True) as graph:
        for _ in range(2):
            kernel.launch(vc.symbol("x", x), vc.symbol("y", y), vc.symbol("z", z), 2.0)
    graph.replay()
    assert graph.node_count == 1
    graph.replay(x=x[:10], y=y[:10], z=y[10:20])

    assert graph.node_count == 2
    assert y.numpy()[:22].tolist() == [2.0] * 10 + [4.0] * 10 + [2.0] * 2


def test_wrong_values_are_refused_in_the_words_of_the_recorded_step(device: vc.Device, kernel: vc.Kernel) -> None:
    x, y = floats(device, 1), floats(device, 0)
    with device.record(fuse=True) as graph:
        kernel.launch(vc.symbol("x", x), y, vc.symbol("a", 2.0), 0.0)
        kernel.launch(y, x, 1.0, 0.0)
    graph.replay()
    for given, kind in (
        ({"a": "two"}, TypeError),
        ({"x": 3}, TypeError),
        ({"x": device.zeros(N, vc.i32)}, TypeError),
        ({"x": x[:10]}, ValueError),
        ({"q": 1}, TypeError),
    ):
        for use in (graph.replay, graph.update):
            with pytest.raises(kind) as caught:
                use(**given)
            assert "scaled_scaled" not in str(caught.value)
    graph.replay()
    assert first(x) == 4
    assert graph.node_count == 1


def test_replays_of_both_graphs_on_several_streams_run_one_after_the_other(emulator: Emulator) -> None:
    for mode in ("lazy", "threaded"):
        emulator.stream_mode(mode)
        with vc.Device("emulator") as device:
            kernel = device.compile(scaled())
            x, y, z, other = floats(device, 1), floats(device, 0), floats(device, 0), floats(device, 0)
            with device.record(fuse=True) as graph:
                kernel.launch(x, y, vc.symbol("a", 2.0), 0.0)
                kernel.launch(y, vc.symbol("x", x), 1.0, 1.0)
                kernel.launch(x, z, 1.0, 0.0)
            streams = [device.stream() for _ in range(4)]
            device.synchronize()
            value = 1.0
            for k in range(12):
                stream = streams[k % 4]
                if k % 3 == 1:  # the second step leaves x as it is
                    graph.replay(stream=stream, x=other)
                    assert graph.node_count == 3
                else:
                    graph.replay(stream=stream)
                    assert graph.node_count == 1
                    value = value * 2 + 1
            stream.synchronize()
            assert (first(x), first(z)) == (value, value)


# ---- export ----------------------------------------------------------------------------------------------------------


def test_a_fused_graph_is_exported_as_fused(device: vc.Device, kernel: vc.Kernel, tmp_path: Path) -> None:
    other = device.compile(scaled("other"), precision="ftz")
    path = tmp_path / "graphs.vyre"
    graphs = {}
    for n in (N, 10):  # two merged kernels of the same names
        x, y, z = ramp(device, n), device.zeros(n, vc.f32), device.zeros(n, vc.f32)
        with device.record(fuse=True) as graph:
            t = graph.temporary(n, vc.f32)
            t.fill(0)
            kernel.launch(x, t, vc.symbol("a", 2.0), 0.0)
            kernel.launch(t, y, 1.0, 1.0)
            other.launch(y, vc.symbol("out", z), 1.0, 0.0)
        graph.compile()
        graphs[f"of {n}"] = graph
    vc.bundle((), path, graphs=graphs, targets=[str(device.target)])
    bundle = vc.load_bundle(path)

    assert len([name for name in bundle.kernels if name.startswith("scaled_scaled_")]) == 2
    for n in (N, 10):
        out = device.zeros(n, vc.f32)
        loaded = bundle.on(device).graph(f"of {n}")
        loaded.replay(out=out, a=3.0)
        np.testing.assert_array_equal(out.numpy(), np.arange(n, dtype=F32) * 3 + 1)
        assert loaded.node_count == 3 + is_emulator(device)


def test_a_graph_whose_arrays_are_symbols_is_exported_in_both_forms(
    device: vc.Device, kernel: vc.Kernel, tmp_path: Path
) -> None:
    x, y = ramp(device), device.zeros(N, vc.f32)
    with device.record(fuse=True) as graph:
        t = graph.temporary(N, vc.f32)
        kernel.launch(vc.symbol("x", x), t, 2.0, 0.0)
        kernel.launch(t, y, 1.0, 1.0)
    graph.replay()
    graph.export(tmp_path / "graph.vyre", "graph")
    loaded = vc.load_bundle(tmp_path / "graph.vyre")
    narrow = device.array(np.full(N // 2, 2, F32))

    assert len([name for name in loaded.kernels if name.startswith("scaled_scaled_")]) == 1
    assert "scaled" in loaded.kernels
    again = loaded.on(device).graph("graph")
    again.replay()
    assert again.node_count == 1 + is_emulator(device)
    with pytest.raises(ValueError, match="elements"):
        again.replay(x=narrow)
