"""Recorded graphs in bundles: symbols, the memory that goes along, and replays like those of the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc

from ..bundle_programs import saxpy, step, step_result

pytestmark = pytest.mark.device


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.vyre"


def reloaded(graph: vc.Graph, path: Path) -> vc.Graph:
    graph.export(path, "it", cubins=False)
    return vc.load_bundle(path).on(graph.device).graph("it")


def test_a_graph_of_a_bundle_replays_as_the_original(path: Path, device: vc.Device) -> None:
    x = np.arange(64, dtype=np.float32) * 4
    graph = reloaded(step(device), path)
    out = device.empty(64, vc.f32)

    for a in (2.0, 6.0):
        graph.replay(x=device.array(x), a=np.float32(a), out=out)
        np.testing.assert_array_equal(out.numpy(), step_result(x, a))


def test_its_symbols_are_told_without_a_device(path: Path, device: vc.Device) -> None:
    step(device).export(path, "it", targets=["sm_80"], cubins=False)

    bundle = vc.load_bundle(path)
    assert list(bundle.kernels) == ["saxpy"]
    graph = bundle.graphs["it"]
    assert (graph.steps, graph.nbytes) == (6, 5 * 256)
    assert graph.symbols == {
        "a": vc.BundledSymbol("a", is_array=False, type=vc.f32, has_default=True, written=False),
        "out": vc.BundledSymbol("out", is_array=True, type=vc.f32, has_default=True, written=True),
        "x": vc.BundledSymbol("x", is_array=True, type=vc.f32, has_default=False, written=False),
    }
    with pytest.raises(KeyError):
        bundle.on(device).graph("nothing")


def times(device: vc.Device, type_: vc.Type, factor: int, **options: Any) -> vc.Kernel:
    b = vc.Builder("times", block=32)
    x = b.input("x", type_)
    n = b.scalar("n", vc.u32)
    out = b.output("out", type_, size=x.size)
    out[vc.global_id.x] = x[vc.global_id.x] * factor + type_(n)
    return device.compile(b.build(), **options)


@pytest.mark.parametrize("fuse", [False, True])
def test_kernels_of_graphs_may_have_one_name(path: Path, device: vc.Device, fuse: bool) -> None:
    """As one kernel function has for several types, consts or known values."""
    data = np.arange(40)
    x, y = device.array(data), device.array(data.astype(np.float32))
    graphs = {}
    for name, factor in (("twice", 2), ("thrice", 3)):
        with device.record(fuse=fuse) as graph:
            times(device, vc.i64, factor).launch(x, 1, vc.symbol("a"))
            times(device, vc.i64, factor, specialize={"n": 1}).launch(x, 1, vc.symbol("b"))
            times(device, vc.f32, factor).launch(y, vc.symbol("n", 0), vc.symbol("c"))
        graph.replay(a=device.empty(40, vc.i64), b=device.empty(40, vc.i64), c=device.empty(40, vc.f32))
        graphs[name] = graph
    vc.bundle(times(device, vc.i64, 7).program, path, cubins=False, graphs=graphs)

    loaded = vc.load_bundle(path).on(device)
    assert loaded["times"](data, 0).tolist() == (7 * data).tolist()
    for name, factor in (("twice", 2), ("thrice", 3)):
        a, b, c = device.empty(40, vc.i64), device.empty(40, vc.i64), device.empty(40, vc.f32)
        loaded.graph(name).replay(a=a, b=b, c=c)
        assert a.numpy().tolist() == b.numpy().tolist() == (factor * data + 1).tolist()
        assert c.numpy().tolist() == (factor * data).tolist()


def test_each_loaded_graph_has_arrays_of_its_own(path: Path, device: vc.Device) -> None:
    data = device.array(np.zeros(8, np.float32))
    one = device.array(np.ones(8, np.float32))
    spare = device.empty(8, vc.f32)
    kernel = device.compile(saxpy())
    with device.record() as graph:
        kernel.launch(one, data, spare, 1.0)
        data.copy_from(spare)
    graph.export(path, "count", cubins=False)
    loaded = vc.load_bundle(path).on(device)

    for _ in range(3):
        loaded.graph("count").replay()
    device.synchronize()

    np.testing.assert_array_equal(data.numpy(), np.zeros(8, np.float32))


def test_contents_go_along_only_where_a_step_reads_them_first(path: Path, device: vc.Device) -> None:
    """Of a view, the part that is read: what a step wrote before, whole, needs none."""
    pattern = np.full(4096, 1.2345e7, np.float32)
    written, read = device.array(pattern), device.array(pattern)
    kernel = device.compile(saxpy())
    with device.record() as graph:
        written.fill(0)
        kernel.launch(written[:8], read[16:24], vc.symbol("out"), 1.0)
    graph.export(path, "it", cubins=False)

    held = path.read_bytes().count(pattern[:1].tobytes())
    assert 8 <= held < 200
    out = device.empty(8, vc.f32)
    vc.load_bundle(path).on(device).graph("it").replay(out=out)
    np.testing.assert_array_equal(out.numpy(), pattern[:8])


def test_a_loop_that_ends_on_the_device_and_fills_of_every_type_go_along(path: Path, device: vc.Device) -> None:
    b = vc.Builder("count_down", block=1)
    n = b.inout("n", vc.i32)
    go = b.inout("go", vc.u8)
    n[0] = n[0] - 1
    with b.if_(n[0] == 0):
        go[0] = vc.u8(1)
    kernel = device.compile(b.build())
    count, stop = device.array(np.array([5], np.int32)), device.array(np.zeros(1, np.uint8))
    filled = {t: device.array(np.zeros(3, t.dtype)) for t in (vc.bool_, vc.i8, vc.f16, vc.f32, vc.f64, vc.u64)}
    with device.record() as graph:
        stop.fill(0)
        count.copy_from(vc.symbol("start"))
        with graph.repeat(until=stop):
            kernel.launch(count, stop, grid=1)
        for type_, array in filled.items():
            array.fill(True if type_ is vc.bool_ else 0 if type_ in (vc.f64, vc.u64) else 1)
    found = reloaded(graph, path)

    found.replay(start=device.array(np.array([3], np.int32)))
    device.synchronize()

    kinds = [node.kind for node in found._native.nodes()]
    # The arrays that nobody else sees are temporary ones, which the emulator fills.
    own = ["fill"] * device.properties.is_emulator
    assert kinds == [*own, *[node.kind for node in graph_after(graph, device)._native.nodes()]]


def graph_after(graph: vc.Graph, device: vc.Device) -> vc.Graph:
    """A graph without defaults is made when it is first replayed."""
    graph.replay(start=device.array(np.array([3], np.int32)))
    device.synchronize()
    return graph


def test_what_a_bundle_cannot_hold_is_refused(path: Path, device: vc.Device) -> None:
    host = device.pinned_empty(8, vc.f32)
    data = device.zeros(8, vc.f32)
    with device.record() as copies:
        data.copy_from(host)
    with pytest.raises(vc.UnsupportedError):
        copies.export(path, "it", cubins=False)
    unrecorded = device.record()
    with pytest.raises(vc.RecordingError):
        unrecorded.export(path, "it", cubins=False)
    assert not path.exists()


def test_one_symbol_of_two_types_is_refused(path: Path, device: vc.Device) -> None:
    floats, ints = device.zeros(8, vc.f32), device.zeros(8, vc.i32)
    with device.record() as graph:
        floats.fill(vc.symbol("v"))
        ints.fill(vc.symbol("v"))

    with pytest.raises(vc.UnsupportedError):
        graph.export(path, "it", cubins=False)


def test_a_first_replay_leaves_nothing_of_what_it_was_given(device: vc.Device) -> None:
    """A graph is made at its first replay where a symbol has no default; what that gives for others is its own."""
    ones, fives = (device.array(np.full(8, value, np.float32)) for value in (1, 5))
    zeros, between, out = (device.zeros(8, vc.f32) for _ in range(3))
    kernel = device.compile(saxpy())
    with device.record() as graph:
        kernel.launch(vc.symbol("x", ones), zeros, between, 1.0)
        kernel.launch(between, zeros, out, vc.symbol("a"))

    graph.replay(a=2.0, x=fives)
    assert out.numpy()[0] == 10.0
    graph.replay(a=3.0)

    assert out.numpy()[0] == 3.0
