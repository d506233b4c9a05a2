"""Many launches as one in bundles: entries of kernels, tables of graphs, and graphs with two forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundled_rows import N, chain, gaps, ramp, scaled, tables

import vyre_cuda as vc

pytestmark = pytest.mark.device

F32 = np.float32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.vyre"


# ---- launch_many -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [True, False])
def test_a_bundle_has_the_entry_for_many_launches(path: Path, device: vc.Device, source: bool) -> None:
    vc.bundle([scaled(), gaps()], path, targets=[str(device.target)], source=source, many=["scaled", "gaps"])
    bundle = vc.load_bundle(path)
    kernels = bundle.on(device)

    assert bundle.format_version == 6
    assert sorted(kernels) == ["gaps", "scaled"]
    assert [name for name, each in bundle.kernels.items() if each.is_rows] == [
        "clear_results_many",
        "gaps_many",
        "scaled_many",
    ]
    with pytest.raises(KeyError):
        kernels["scaled_many"]
    xs = [device.array(ramp(40 + k) + k) for k in range(30)]
    ys = [device.array(np.full(40 + k, 9, F32)) for k in range(30)]
    before = device.stats().kernel_launches
    kernels["scaled"].launch_many([(x, y, 2.0, 1.0) for x, y in zip(xs, ys, strict=True)])
    assert device.stats().kernel_launches == before + 1
    for k, y in enumerate(ys):
        np.testing.assert_array_equal(y.numpy(), 2 * (ramp(40 + k) + k) + 1)
    kernels["gaps"].launch_many(list(zip(xs, ys, strict=True)))
    for k, y in enumerate(ys):
        wanted = ramp(40 + k) + k
        wanted[1::2] = 0
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_what_cannot_be_one_launch_is_refused(path: Path) -> None:
    b = vc.Builder("checked", block=32)
    x = b.inout("x", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.assert_(x[i] >= 0, "negative")
        x[i] = x[i] + 1
    with pytest.raises(vc.UnsupportedError, match="assertions"):
        vc.bundle(b.build(), path, many=["checked"])
    with pytest.raises(ValueError, match="no such kernel"):
        vc.bundle(scaled(), path, many=["other"])
    assert not path.exists()


def test_names_of_entries_avoid_those_of_programs(path: Path, device: vc.Device) -> None:
    programs = [scaled(), scaled("scaled_many"), gaps(), scaled("clear_results")]
    vc.bundle(programs, path, targets=[str(device.target)], cubins=False, many=["scaled", "gaps"])
    kernels = vc.load_bundle(path).on(device)

    assert sorted(kernels) == ["clear_results", "gaps", "scaled", "scaled_many"]
    y = device.zeros(N, vc.f32)
    kernels["scaled"].launch_many([(device.array(ramp()), y, 3.0, 0.0)])
    np.testing.assert_array_equal(y.numpy(), 3 * ramp())


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("source", [True, False])
def test_tables_are_tables_in_a_bundle(path: Path, device: vc.Device, kinds: int, source: bool) -> None:
    graph, wanted = tables(device, kinds, 16)
    graph.replay()
    nodes = graph.node_count
    assert nodes < 20
    graph.export(path, "it", source=source)
    bundle = vc.load_bundle(path)
    assert bundle.format_version == 6
    loaded = bundle.on(device).graph("it")
    out = device.zeros(wanted.size, vc.f32)

    for _ in range(2):
        loaded.replay(out=out)
        np.testing.assert_array_equal(out.numpy(), wanted)
    assert loaded.node_count == nodes
    loaded.replay(out=out, a=0.0)
    zeros = np.tile(np.repeat(np.arange(kinds, dtype=F32), N), 16)
    zeros[1::2] = 0
    np.testing.assert_array_equal(out.numpy(), zeros[::-1] + 1)
    again = device.zeros(wanted.size, vc.f32)
    with device.record(fuse=True) as outer:
        loaded.replay(out=again)
    outer.replay()
    np.testing.assert_array_equal(again.numpy(), wanted)


# ---- graphs with two forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("defaults", [True, False])
@pytest.mark.parametrize("source", [True, False])
def test_array_symbols_of_merged_steps(path: Path, device: vc.Device, defaults: bool, source: bool) -> None:
    chain(device, defaults=defaults).export(path, "it", source=source)
    loaded = vc.load_bundle(path).on(device).graph("it")
    own = 1 if device.properties.is_emulator else 0  # the fill of temporary arrays
    many = device.array(ramp(3 * N))

    def result(x: np.ndarray, a: float = 3.0) -> np.ndarray:
        return F32(a) * (2 * x + 1) + 1

    out = device.zeros(N, vc.f32)
    for a in (3.0, 5.0):
        loaded.replay(x=many[:N], out=out, a=a)
        assert loaded.node_count == 1
        np.testing.assert_array_equal(out.numpy(), result(ramp(), a))
    # Arrays that meet, and others sizes: the recorded steps.
    loaded.replay(x=many[:N], out=many[7 : 7 + N])
    assert loaded.node_count == 2 + own
    np.testing.assert_array_equal(many.numpy()[7 : 7 + N], result(ramp()))
    same = device.array(ramp())
    loaded.replay(x=same, out=same)
    assert loaded.node_count == 2 + own
    np.testing.assert_array_equal(same.numpy(), result(ramp()))
    small = device.array(ramp(50))
    loaded.replay(x=small, out=out[:50])
    assert loaded.node_count == 2 + own
    np.testing.assert_array_equal(out.numpy()[:50], result(ramp(50)))
    # What stays, and back again.
    loaded.update(x=same)
    loaded.replay(out=out)
    assert loaded.node_count == 1
    np.testing.assert_array_equal(out.numpy(), result(result(ramp())))
    loaded.update(out=same)
    loaded.replay()
    assert loaded.node_count == 2 + own
    np.testing.assert_array_equal(same.numpy(), result(result(ramp())))
    loaded.update(out=out)
    loaded.replay()
    assert loaded.node_count == 1
    np.testing.assert_array_equal(out.numpy(), result(result(result(ramp()))))


def test_the_environment_turns_merged_steps_of_a_bundle_off(
    path: Path, device: vc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(device, defaults=True).export(path, "it")
    monkeypatch.setenv("VYRE_CUDA_FUSE", "off")
    loaded = vc.load_bundle(path).on(device).graph("it")
    out = device.zeros(N, vc.f32)
    loaded.replay(out=out)
    assert loaded.node_count == 2 + device.properties.is_emulator
    np.testing.assert_array_equal(out.numpy(), 3 * (2 * ramp() + 1) + 1)


def test_arrays_of_the_graph_that_a_symbol_may_meet_are_compared(path: Path, device: vc.Device) -> None:
    """x and y are one array when steps are merged, the second step reads it by itself."""
    kernel = device.compile(scaled())
    data, out = device.array(ramp()), device.zeros(N, vc.f32)
    with device.record(fuse=True) as graph:
        kernel.launch(data, vc.symbol("y", out), 2.0, 0.0)
        kernel.launch(vc.symbol("y"), vc.symbol("z", data), 1.0, 5.0)
    graph.compile()
    merged = graph.node_count
    graph.export(path, "it")
    loaded = vc.load_bundle(path).on(device).graph("it")
    fresh = device.zeros(N, vc.f32)

    loaded.replay()  # z is what the first step reads
    assert loaded.node_count == merged
    loaded.replay(z=fresh)  # here it is not: data is 2 * ramp + 5 since the first
    np.testing.assert_array_equal(fresh.numpy(), 2 * (2 * ramp() + 5) + 5)
    assert loaded.node_count == 2


def test_what_a_bundle_says_of_its_two_forms(path: Path, device: vc.Device) -> None:
    chain(device, defaults=False).export(path, "it")
    bundle = vc.load_bundle(path)

    assert bundle.graphs["it"].steps == 1
    loaded = bundle.on(device).graph("it")
    assert len(loaded) == 2
    loaded.replay(x=device.array(ramp()), out=device.zeros(N, vc.f32))
    assert "as merged when the bundle was written" in loaded.explain()
