"""Driver calls that fail while steps become one kernel: the graph runs as it was recorded, and says why."""

from __future__ import annotations

import gc
import re
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .fused_kernels import scaled
from .graph_checks import F32, N, first, floats

pytestmark = pytest.mark.emulator

UNKNOWN, OUT_OF_MEMORY = 999, 2


class Scene:
    def __init__(self, device: vc.Device) -> None:
        self.device = device
        self.kernel, self.other = device.compile(scaled()), device.compile(scaled("other", block=32))
        self.x, self.y, self.z = (floats(device, value) for value in (1, 0, 0))

    def record(self) -> vc.Graph:
        with self.device.record(fuse=True) as graph:
            t, u = graph.temporary(N, vc.f32), graph.temporary(N, vc.f32)
            u.fill(2.0)
            self.kernel.launch(self.x, t, vc.symbol("a", 2.0), 0.0)
            self.kernel.launch(t, vc.symbol("y", self.y), 1.0, 1.0)
            self.other.launch(u, self.z, 1.0, 0.0)
        return graph

    def check(self, graph: vc.Graph, a: float) -> None:
        assert (first(self.x), first(self.y), first(self.z)) == (1, a + 1, 2)
        fused = "are one kernel" in graph.explain()
        assert graph.node_count == (4 if fused else 5)


def calls_of_compile(emulator: Emulator) -> dict[str, int]:
    """How often compiling the graph makes each driver call."""
    with vc.Device("emulator") as device:
        graph = Scene(device).record()
        before = {name: emulator.count(name) for name in emulator.functions()}
        graph.compile()
        return {name: made for name in before if (made := emulator.count(name) - before[name])}


def cells_and_loops(device: vc.Device) -> tuple[vc.Graph, vc.DeviceArray, vc.DeviceArray]:
    """A loop that becomes one kernel of one block, and a symbol that two nodes read in a cell."""
    kernel, turn = device.compile(scaled()), device.compile(rotated())
    x, y = device.array(np.arange(30, dtype=F32)), device.zeros(30, vc.f32)
    wide, out = floats(device, 1), floats(device, 0)
    with device.record(fuse=True) as graph:
        with graph.repeat(4):
            turn.launch(x, y)
            turn.launch(y, x)
        for _ in range(2):
            kernel.launch(wide, out, vc.symbol("a", 2.0), 1.0)
            out.fill(0.5)
        kernel.launch(wide, out, vc.symbol("a"), 1.0)
    return graph, x, out


def rotated() -> vc.Program:
    b = vc.Builder("rotated", block=32)
    x, y = b.input("x", vc.f32), b.output("y", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < y.size):
        y[i] = x[(i + 1) % x.size] + 1
    return b.build()


@pytest.mark.thin
@pytest.mark.parametrize("result", [UNKNOWN, OUT_OF_MEMORY])
def test_any_call_that_fails_leaves_cells_and_loops_as_recorded(
    emulator: Emulator, leak_check: object, monkeypatch: pytest.MonkeyPatch, result: int
) -> None:
    """The first and the last use of each function."""
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    with vc.Device("emulator") as device:
        graph, *_ = cells_and_loops(device)
        before = {name: emulator.count(name) for name in emulator.functions()}
        graph.compile()
        calls = {name: made for name in before if (made := emulator.count(name) - before[name])}
        said = graph.explain()
        assert "is a cell" in said
        assert "that repeats 4 times" in said
        del graph, _
    found = {"fused": 0, "as recorded": 0}
    for name, count in calls.items():
        for nth in sorted({1, count}):
            with vc.Device("emulator") as device:
                graph, x, out = cells_and_loops(device)
                emulator.fail(name, nth=nth, result=result, repeat=True)
                with suppress(vc.DriverError, vc.ResourceError):
                    graph.compile()
                emulator.reset()
                graph.replay(a=3.0)
                np.testing.assert_array_equal(x.numpy(), np.roll(np.arange(30, dtype=F32), -8) + 8)
                assert first(out) == 4
                found["as recorded" if "as recorded" in graph.explain() else "fused"] += 1
                del graph, x, out
                gc.collect()
    assert found["as recorded"] > 5, found


@pytest.mark.thin
@pytest.mark.parametrize("result", [UNKNOWN, OUT_OF_MEMORY])
@pytest.mark.parametrize("lasting", [False, True])
def test_any_call_that_fails_while_fusing_leaves_the_recorded_graph(
    emulator: Emulator,
    leak_check: object,
    monkeypatch: pytest.MonkeyPatch,
    result: int,
    lasting: bool,
) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    found = {"fused": 0, "as recorded": 0, "told": 0}
    for name, count in calls_of_compile(emulator).items():
        for nth in range(1, count + 1):
            with vc.Device("emulator") as device:
                scene = Scene(device)
                graph = scene.record()
                emulator.fail(name, nth=nth, result=result, repeat=lasting)
                try:
                    graph.compile()
                except (vc.DriverError, vc.ResourceError):
                    found["told"] += 1
                emulator.reset()
                graph.replay()
                scene.check(graph, 2.0)
                graph.replay(a=3.0)
                scene.check(graph, 3.0)
                found["fused" if "are one kernel" in graph.explain() else "as recorded"] += 1
                if graph.node_count == 5:
                    assert "as recorded: fusing failed: " in graph.explain()
            del graph, scene
            gc.collect()
    print(found)
    assert found["as recorded"] > 10 if not lasting else found["told"] > 10
    assert found["fused"] > 0


def test_a_fault_while_the_plain_graph_is_made_beside_the_fused_one_is_told(
    emulator: Emulator, leak_check: object
) -> None:
    with vc.Device("emulator") as device:
        scene = Scene(device)
        graph = scene.record()
        graph.replay()
        for name in ("cuGraphCreate", "cuGraphInstantiateWithFlags", "cuGraphAddKernelNode", "cuGraphLaunch"):
            emulator.fail(name, result=UNKNOWN)
            with pytest.raises(vc.DriverError):
                graph.replay(y=scene.x, a=1.0)
            emulator.reset()
            scene.check(graph, 2.0)
            graph.replay(a=2.0)
            scene.check(graph, 2.0)
        graph.replay(y=scene.x, a=1.0)
        assert graph.node_count == 5
        np.testing.assert_array_equal(scene.x.numpy(), np.full(N, 2, F32))


def test_a_fault_names_all_programs_of_a_merged_kernel(emulator: Emulator) -> None:
    b = vc.Builder("far", block=64)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    z[i] = x[i + (1 << 28)]
    device = vc.Device("emulator")
    far, near = device.compile(b.build(), bounds="off"), device.compile(scaled("near"), bounds="off")
    w, x, y, v = (floats(device, 1) for _ in range(4))
    with device.record(fuse=True) as graph:
        near.launch(x, y, 1.0, 0.0)
        far.launch(w, v)
    graph.replay()
    assert graph.node_count == 1
    with pytest.raises(vc.DeviceLostError) as caught:
        device.synchronize()
    device.close()

    (launch,) = [line for line in caught.value.launches if "graph" in line]
    assert re.search(r"near \(.*fused_kernels.py:\d+\), far \(.*test_fused_faults.py:\d+\) as one kernel", launch)


def test_a_time_limit_names_all_programs_of_a_merged_kernel(emulator: Emulator) -> None:
    with vc.Device("emulator") as device:
        scene = Scene(device)
        graph = scene.record()
        graph.compile()
        emulator.set("held", 1)
        graph.replay()
        with pytest.raises(vc.KernelTimeoutError) as caught:
            device.synchronize(timeout=0.0)
        emulator.set("held", 0)
        device.synchronize()

    (launch,) = [line for line in caught.value.launches if "graph" in line]
    assert re.search(r"scaled \(.*fused_kernels.py:\d+\) 2 times as one kernel", launch)


def test_a_lost_device_is_told(emulator: Emulator, leak_check: object) -> None:
    device = vc.Device("emulator")
    graph = Scene(device).record()
    emulator.set("lost", 1)
    with pytest.raises(vc.DeviceLostError):
        graph.compile()
    with pytest.raises(vc.DeviceLostError):
        graph.replay()
    device.close()


def test_a_closed_device_refuses_its_fused_graphs(emulator: Emulator, leak_check: object) -> None:
    device = vc.Device("emulator")
    compiled, recorded = Scene(device).record(), Scene(device).record()
    compiled.replay()
    device.close()
    for graph in (compiled, recorded):
        for use in (graph.replay, lambda g=graph: g.replay(a=1.0), graph.compile):
            if graph is compiled and use == graph.compile:
                continue  # it is
            with pytest.raises(vc.DeviceUnavailableError):
                use()


def test_kernels_without_room_stay_apart(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre_cuda.runtime.graph import fusing

    with vc.Device("emulator") as device:
        scene = Scene(device)
        monkeypatch.setattr(
            fusing, "_too_large", lambda *_: "one kernel would spill 64 bytes a thread, the steps apart 0"
        )
        graph = scene.record()
        graph.replay()
        scene.check(graph, 2.0)
        assert graph.explain().count("apart: one kernel would spill") == 2


@pytest.mark.parametrize(
    ("local", "blocks", "said"),
    [
        (0, 8, ""),
        (24, 8, ""),  # as many as the steps have
        (32, 8, "one kernel would spill 32 bytes a thread, the steps apart 16"),
        (0, 4, ""),
        (0, 3, "a multiprocessor would hold 3 blocks of one kernel, but 8 of each step"),
    ],
)
def test_a_kernel_that_needs_too_much_is_not_used(local: int, blocks: int, said: str) -> None:
    """Of steps that keep 16 and 8 bytes of a thread in memory, and of which 16 and 8 blocks fit a multiprocessor."""
    from vyre_cuda.runtime.graph.fusing import _too_large

    def kernel(local: int, blocks: int) -> Any:
        device = SimpleNamespace(properties=SimpleNamespace(multiprocessor_count=2))
        attributes, occupancy = SimpleNamespace(local_bytes=local), SimpleNamespace(resident_blocks=blocks)
        return SimpleNamespace(device=device, attributes=attributes, occupancy=occupancy)

    whole: Any = SimpleNamespace(geometry=SimpleNamespace(blocks=1000))
    steps: list[Any] = [SimpleNamespace(kernel=kernel(16, 16)), SimpleNamespace(kernel=kernel(8, 8))]

    assert _too_large(kernel(local, blocks), whole, steps) == said
