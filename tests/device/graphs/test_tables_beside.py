"""Tables of several kernels that do not depend on each other become one launch."""

from __future__ import annotations

import gc
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.passes import beside
from vyre_cuda.runtime.kernel import tables_entry
from vyre_cuda.testing.emulator import Emulator

from .graph_checks import F32
from .table_kernels import arrays, evens, kinds, sums

N = 8  # rows of each kernel


def shifted(place: int, block: int = 32) -> vc.Program:
    """z = x * a + place"""
    b = vc.Builder(f"shifted{place}", block=block)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < z.size):
        z[i] = x[i] * a + float(place)
    return b.build()


def spread(name: str = "spread") -> vc.Program:
    """z[y, x] = x[y, x] * 2 by blocks along two axes"""
    b = vc.Builder(name, block=(8, 4))
    x, z = b.input("x", vc.f32, ndim=2), b.output("z", vc.f32, ndim=2)
    b.work(z.shape[1], z.shape[0])
    i, j = b.let("i", vc.global_id.x), b.let("j", vc.global_id.y)
    with b.if_((i < z.shape[1]) & (j < z.shape[0])):
        z[j, i] = x[j, i] * 2
    return b.build()


class Scene:
    """Launches of some kernels in turn, each on arrays of its own, and what they leave."""

    def __init__(self, device: vc.Device, kernels: list[vc.Kernel], sizes: list[int]) -> None:
        self.device, self.kernels = device, kernels
        self.xs = arrays(device, sizes)
        self.zs = [device.array(np.full(size, 7, F32)) for size in sizes]
        self.want = []
        for k, x in enumerate(self.xs):
            start, name = x.numpy(), kernels[k % len(kernels)].program.name
            if name.startswith("shifted"):
                self.want.append(start * F32(2) + F32(name[7:]))
            elif name == "evens":
                self.want.append(np.where(np.arange(start.size) % 2 == 0, start + 1, 0).astype(F32))
            else:
                assert name == "sums"
                whole = np.resize(np.pad(start, (0, -start.size % 32)), (-(-start.size // 32), 32))
                totals = np.full(start.size, 7, F32)
                totals[: len(whole)] = whole.sum(1, dtype=F32) * 2
                self.want.append(totals)

    def record(self) -> vc.Graph:
        with self.device.record(fuse=True) as graph:
            for k, (x, z) in enumerate(zip(self.xs, self.zs, strict=True)):
                kernel = self.kernels[k % len(self.kernels)]
                kernel.launch(x, z) if kernel.program.name == "evens" else kernel.launch(x, z, 2.0)
        return graph

    def check(self) -> None:
        for z, want in zip(self.zs, self.want, strict=True):
            np.testing.assert_array_equal(z.numpy(), want)
            z.fill(7)


# ---- what becomes one ------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize("count", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("is_even", [True, False])
def test_launches_of_several_kernels_are_one_node(device: vc.Device, count: int, is_even: bool) -> None:
    kernels = [device.compile(shifted(place)) for place in range(count)]
    sizes = [100 if is_even else 1 + (37 * k) % 211 for k in range(N * count)]
    scene = Scene(device, kernels, sizes)
    graph = scene.record()
    for _ in range(2):
        graph.replay()
        scene.check()
    assert graph.node_count == 1, graph.explain()
    assert re.search(
        rf"are one launch with a table of \d+ rows: \d of shifted0.* and \d of shifted{count - 1}", graph.explain()
    )


def test_more_kernels_than_one_launch_takes_are_several(device: vc.Device) -> None:
    count = beside.MOST_KERNELS + 2
    scene = Scene(device, [device.compile(shifted(place)) for place in range(count)], [40] * N * count)
    graph = scene.record()
    graph.replay()
    scene.check()
    assert graph.node_count == 2
    assert f"and {N} of shifted{count - 1}" in graph.explain()


def test_kernels_with_shared_arrays_and_barriers(device: vc.Device) -> None:
    kernels = [device.compile(sums()), device.compile(shifted(3)), device.compile(evens())]
    scene = Scene(device, kernels, [20 + k for k in range(3 * N)])
    graph = scene.record()
    for _ in range(2):
        graph.replay()
        scene.check()
    assert graph.node_count == 2  # one of them clears
    assert "8 of sums, 8 of shifted3 and 8 of evens" in graph.explain()


def test_blocks_along_two_axes(device: vc.Device) -> None:
    kernels = [device.compile(spread()), device.compile(spread("other"))]
    shapes = [(1 + 3 * k, 50 - 2 * k) for k in range(2 * N)]
    xs = [device.array(np.random.default_rng(k).random(shape, F32)) for k, shape in enumerate(shapes)]
    zs = [device.zeros(shape, vc.f32) for shape in shapes]
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernels[k % 2].launch(x, z)
    graph.replay()
    assert graph.node_count == 1, graph.explain()
    for x, z in zip(xs, zs, strict=True):
        np.testing.assert_array_equal(z.numpy(), x.numpy() * 2)


def test_symbols_are_cells(device: vc.Device) -> None:
    kernels = [device.compile(shifted(place)) for place in range(4)]
    xs, zs = arrays(device, [40] * 4 * N), [device.zeros(40, vc.f32) for _ in range(4 * N)]
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernels[k % 4].launch(x, z, vc.symbol("a", 2.0))
    for a in (2.0, -3.0):
        graph.replay(a=a)
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            np.testing.assert_array_equal(z.numpy(), x.numpy() * F32(a) + F32(k % 4))
    assert graph.node_count == 2, graph.explain()


def test_layers_are_one_node_each(device: vc.Device) -> None:
    """In a loop, and on temporary arrays."""
    kernels = [device.compile(shifted(place)) for place in range(2)]
    others = [device.compile(sums()), device.compile(sums("others"))]
    xs, zs = arrays(device, [64] * 4 * N), [device.zeros(2, vc.f32) for _ in range(4 * N)]
    with device.record(fuse=True) as graph, graph.repeat(2):
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            t = graph.temporary(64, vc.f32)
            kernels[k % 2].launch(x, t, 2.0)
            others[k % 2].launch(t, z, 1.0)
    graph.replay()
    assert kinds(graph)["kernel"] == 4, graph.explain()
    for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
        np.testing.assert_array_equal(z.numpy(), (x.numpy() * 2 + F32(k % 2)).reshape(2, 32).sum(1, dtype=F32))


# ---- what stays apart ------------------------------------------------------------------------------------------------


def test_blocks_of_other_sizes_are_launches_of_their_own(device: vc.Device) -> None:
    scene = Scene(device, [device.compile(shifted(0)), device.compile(shifted(1, block=64))], [100] * 2 * N)
    graph = scene.record()
    graph.replay()
    scene.check()
    assert graph.node_count == 2


def test_large_launches_keep_a_form_of_their_own(device: vc.Device) -> None:
    scene = Scene(device, [device.compile(shifted(place)) for place in range(2)], [1 << 14] * 16 + [5] * 16)
    graph = scene.record()
    graph.replay()
    scene.check()
    assert graph.node_count == 2


def test_kernels_that_would_need_too_much_stay_apart(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_entry, "_too_large", lambda *_: "one kernel for all would spill 64 bytes a thread")
    scene = Scene(device, [device.compile(shifted(place)) for place in range(3)], [40] * 3 * N)
    graph = scene.record()
    graph.replay()
    scene.check()
    assert graph.node_count == 3
    assert "not one launch: one kernel for all would spill 64 bytes a thread" in graph.explain()


def test_shared_arrays_that_do_not_fit_together(device: vc.Device) -> None:
    def holds(name: str) -> vc.Program:
        b = vc.Builder(name, block=32)
        x, z = b.input("x", vc.f32), b.inout("z", vc.f32)
        part = b.shared("part", vc.f32, 9000)
        b.work(32)
        t = b.let("t", vc.thread_id.x)
        part[t * 250] = x[t]
        b.barrier()
        z[t] = part[(31 - t) * 250]
        return b.build()

    kernels = [device.compile(holds(name)) for name in ("one", "two")]
    xs, zs = arrays(device, [32] * 2 * N), [device.zeros(32, vc.f32) for _ in range(2 * N)]
    with device.record(fuse=True) as graph:
        for k, (x, z) in enumerate(zip(xs, zs, strict=True)):
            kernels[k % 2].launch(x, z)
    graph.replay()
    for x, z in zip(xs, zs, strict=True):
        np.testing.assert_array_equal(z.numpy(), x.numpy()[::-1])
    assert graph.node_count == 2
    assert "not one launch: the kernels use 72000 bytes of shared memory together" in graph.explain()


def test_rows_that_need_each_other_stay_in_order(device: vc.Device) -> None:
    """Those of the second kernel read what the first ones wrote."""
    first, second = device.compile(shifted(1)), device.compile(sums())
    xs, ys, zs = (arrays(device, [64] * 20, start) for start in (0, 50, 90))
    with device.record(fuse=True) as graph:
        for x, y, z in zip(xs, ys, zs, strict=True):
            first.launch(x, y, 2.0)
            second.launch(y, z, 1.0)
    graph.replay()
    assert graph.node_count == 2
    for x, z in zip(xs, zs, strict=True):
        np.testing.assert_array_equal(z.numpy()[:2], (x.numpy() * 2 + 1).reshape(2, 32).sum(1, dtype=F32))


# ---- once, and from disk ---------------------------------------------------------------------------------------------


def test_the_entry_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", str(tmp_path))
    compiled = []
    for _ in range(2):
        with vc.Device("emulator") as device:
            scene = Scene(device, [device.compile(shifted(place)) for place in range(3)], [40] * 3 * N)
            before = device.stats().compiles
            for _ in range(2):
                graph = scene.record()
                graph.replay()
                scene.check()
                assert graph.node_count == 1
            compiled.append(device.stats().compiles - before)
            del scene, graph
    assert compiled == [1, 0]


def test_a_damaged_file_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", str(tmp_path))
    for turn in range(2):
        with vc.Device("emulator") as device:
            scene = Scene(device, [device.compile(shifted(place)) for place in range(3)], [40] * 3 * N)
            graph = scene.record()
            graph.replay()
            scene.check()
            assert graph.node_count == 1
            del scene, graph
        files = [path for path in tmp_path.rglob("*") if path.is_file()] if turn == 0 else []
        for path in files:
            content = bytearray(path.read_bytes())
            if b"vyre_tables" in content:
                content[-40:] = bytes(40)
                path.write_bytes(content)


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
def test_a_fault_names_all_kernels_and_their_lines(emulator: Emulator) -> None:
    b = vc.Builder("far", block=32)
    x = b.input("x", vc.f32)
    z = b.output("z", vc.f32)
    b.work(z.size)
    i = b.let("i", vc.global_id.x)
    z[i] = x[i + (1 << 28)]
    device = vc.Device("emulator")
    far, near = device.compile(b.build(), bounds="off"), device.compile(shifted(0), bounds="off")
    xs, zs = arrays(device, [40] * 2 * N), [device.zeros(40, vc.f32) for _ in range(2 * N)]
    with device.record(fuse=True) as graph:
        for k, (one, other) in enumerate(zip(xs, zs, strict=True)):
            far.launch(one, other) if k % 2 else near.launch(one, other, 1.0)
    graph.replay()
    assert graph.node_count == 1
    with pytest.raises(vc.DeviceLostError) as caught:
        device.synchronize()
    device.close()

    (launch,) = [line for line in caught.value.launches if "graph" in line]
    file = r"test_tables_beside.py:\d+"
    assert re.search(rf"many launches of shifted0 \(.*{file}\), far \(.*{file}\) as one", launch)


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

    def scene_of(device: vc.Device) -> Scene:
        kernels = [device.compile(evens()), device.compile(shifted(1)), device.compile(sums())]
        return Scene(device, kernels, [20] * 3 * N)

    with vc.Device("emulator") as device:
        graph = scene_of(device).record()
        before = {name: emulator.count(name) for name in emulator.functions()}
        graph.compile()
        calls = {name: made for name in before if (made := emulator.count(name) - before[name])}
        del graph
    found: Counter[str] = Counter()
    for name, count in calls.items():
        for nth in range(1, count + 1) if request.config.getoption("--long") else sorted({1, count}):
            with vc.Device("emulator") as device:
                scene = scene_of(device)
                graph = scene.record()
                emulator.fail(name, nth=nth, result=result, repeat=lasting)
                try:
                    graph.compile()
                except (vc.DriverError, vc.ResourceError):
                    found["told"] += 1
                emulator.reset()
                graph.replay()
                scene.check()
                fused = "with a table" in graph.explain()
                found["table" if fused else "as recorded"] += 1
                assert graph.node_count == (2 if fused else 4 * N)
                del graph, scene
                gc.collect()
    assert found["as recorded"] > 5, found
