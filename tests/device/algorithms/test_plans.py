"""Algorithms in plans and graphs, on several devices, and under the emulator's checks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.testing.compare import assert_same

from .data import drawn


@pytest.mark.thin
@pytest.mark.parametrize("n", [1000, 40_000])
def test_a_plan_runs_on_what_the_arrays_hold(device: vc.Device, n: int) -> None:
    x = device.array(drawn(vc.f32, n))
    total = algorithms.plan(algorithms.sum, x)
    scan = algorithms.plan(algorithms.cumsum, x, exclusive=True)
    pairs = algorithms.plan(algorithms.sort, x, x.copy())
    for seed in (2, 3):
        host = drawn(vc.f32, n, seed)
        x.copy_from(host)
        assert total() is total.result
        assert_same(algorithms.sum(host), total().numpy())
        assert_same(algorithms.cumsum(host, exclusive=True), scan().numpy())
        assert pairs()[0].numpy().tobytes() == algorithms.sort(host).tobytes()


@pytest.mark.parametrize("n", [1, 129])
def test_a_plan_of_one_launch_has_memory_of_its_own(device: vc.Device, n: int) -> None:
    x = device.array((np.arange(n, dtype=np.uint32) * 40503) % 1009)
    places = algorithms.plan(algorithms.argsort, x)

    assert places().numpy().tolist() == np.argsort(x.numpy(), kind="stable").tolist()
    x.copy_from(x.numpy()[::-1].copy())
    assert places().numpy().tolist() == np.argsort(x.numpy(), kind="stable").tolist()


@pytest.mark.thin
def test_a_plan_takes_memory_once(device: vc.Device) -> None:
    x = device.array(drawn(vc.u32, 20_000))
    plans = [algorithms.plan(function, x) for function in (algorithms.sum, algorithms.cumsum, algorithms.sort)]
    kept = {"out": device.empty(x.size, x.type), "count": device.empty(1, vc.u64)}
    plans += [algorithms.plan(algorithms.compress, x, x, **kept), algorithms.plan(algorithms.unique, x, **kept)]
    table = x.reshape(100, 200)
    plans += [
        algorithms.plan(function, table, 0) for function in (algorithms.mean, algorithms.cumsum, algorithms.argsort)
    ]
    for plan in plans:
        plan()
    device.synchronize()
    before = device.memory_stats()
    for _ in range(3):
        for plan in plans:
            plan()
    device.synchronize()
    assert device.memory_stats() == before


def test_what_waits_is_refused_in_a_recording(device: vc.Device) -> None:
    x = device.array(drawn(vc.i32, 5000))
    for function in (
        lambda: algorithms.unique(x),
        lambda: algorithms.nonzero(x),
        lambda: algorithms.compress(x, x),
        lambda: algorithms.bincount(x),
        lambda: algorithms.histogram(x),
    ):
        with pytest.raises(vc.RecordingError, match="give"):
            _recorded(device, function)
    out, count = device.empty(5000, vc.i32), device.zeros(1, vc.u64)
    plan = algorithms.plan(algorithms.unique, x, out=out, count=count)
    plan()
    assert_same(np.unique(x.numpy()), out.numpy()[: int(count.numpy()[0])])


def test_what_is_said_of_several_axes_can_be_done(device: vc.Device) -> None:
    x = device.array(np.arange(12, dtype=np.int32).reshape(3, 4) % 5)
    condition = device.array(np.array([True, False, True]))
    with pytest.raises(vc.RecordingError, match=r"compress along an axis .* take\(x, places, axis=axis\)"):
        _recorded(device, lambda: algorithms.compress(condition, x, axis=0))
    (places,) = algorithms.nonzero(condition)
    assert_same(x.numpy()[[0, 2]], algorithms.plan(algorithms.take, x, places, axis=0)().numpy())

    out, count = device.empty(12, vc.i64), device.zeros(1, vc.u64)
    with pytest.raises(vc.RecordingError, match="reshape the array to one axis, and give out="):
        _recorded(device, lambda: algorithms.nonzero(x))
    algorithms.plan(algorithms.nonzero, x.reshape(12), out=out, count=count)()
    assert_same(np.nonzero(x.numpy().ravel())[0], out.numpy()[: int(count[0])])


def _recorded(device: vc.Device, function: object) -> None:
    with device.record():
        function()  # type: ignore[operator]


def test_recorded_histograms(device: vc.Device) -> None:
    x = device.array(drawn(vc.f32, 3000))
    zeros = device.zeros(9000, vc.u8)
    with device.record() as graph:
        counts, _ = algorithms.histogram(x, 5, (-2, 2))
        bytes_ = algorithms.bincount(zeros, 256)
    graph.replay()
    assert_same(algorithms.histogram(x.numpy(), 5, (-2, 2))[0], counts.numpy())
    assert bytes_.numpy()[0] == zeros.size


def test_a_graph_of_several_algorithms(device: vc.Device) -> None:
    x = device.array(drawn(vc.f32, 9000).reshape(90, 100))
    with device.record() as graph:
        means = algorithms.mean(x, 0)
        order = algorithms.argsort(means)
        best = algorithms.take(x, order[:3], 1)
    graph.replay()
    host = x.numpy()
    want = algorithms.argsort(algorithms.mean(host, 0))
    assert_same(want, order.numpy())
    assert_same(host[:, want[:3]], best.numpy())


def test_a_plan_of_numpy_arrays_is_refused() -> None:
    with pytest.raises(TypeError, match="device arrays"):
        algorithms.plan(algorithms.sum, np.zeros(3))


def test_arrays_of_two_devices_are_refused(device: vc.Device, device_name: int | str) -> None:
    with vc.Device(device_name) as other, pytest.raises(ValueError, match="different devices"):
        algorithms.sort(device.zeros(3, vc.f32), other.zeros(3, vc.f32))


@pytest.mark.thin
@pytest.mark.emulator
def test_no_kernel_has_a_race() -> None:
    x, f = drawn(vc.u32, 9000), drawn(vc.f32, 9000)
    with vc.Device("emulator", check="races") as device:
        there, floats = device.array(x), device.array(f)
        assert_same(algorithms.sum(f), algorithms.sum(floats).numpy())
        assert algorithms.argmax(there).numpy() == np.argmax(x)
        assert_same(algorithms.cumsum(f), algorithms.cumsum(floats).numpy())
        assert_same(np.cumsum(x), algorithms.cumsum(there).numpy())
        assert_same(np.sort(x), algorithms.sort(there).numpy())
        assert_same(np.argsort(f[:2000], kind="stable"), algorithms.argsort(floats[:2000]).numpy())
        assert_same(np.unique(x), algorithms.unique(there).numpy())
        assert_same(np.bincount(x % 99), algorithms.bincount(device.array(x % 99)).numpy())
        assert_same(algorithms.histogram(f)[0], algorithms.histogram(floats)[0].numpy())
        offsets = np.array([0, 77, 9000])
        assert_same(
            algorithms.segmented_sum(f, offsets), algorithms.segmented_sum(floats, device.array(offsets)).numpy()
        )
        assert_same(f[x % 9000], algorithms.take(floats, device.array(x % 9000)).numpy())
        m = floats.reshape(90, 100)
        assert_same(f.reshape(90, 100).T.copy(), algorithms.transpose(m).numpy())
        product = algorithms.matmul(m, algorithms.transpose(m)).numpy()
        assert_same(algorithms.matmul(f.reshape(90, 100), f.reshape(90, 100).T.copy()), product)
        device.synchronize()


@pytest.mark.thin
def test_no_other_kernel_has_a_race() -> None:
    x, f = drawn(vc.u32, 9000), drawn(vc.f64, 9000)
    with vc.Device("emulator", check="races") as device:
        there, doubles = device.array(x), device.array(f)
        assert_same(x[x % 2 == 1], algorithms.compress(device.array(x % 2 == 1), there).numpy())
        assert_same(np.nonzero(x % 3)[0], algorithms.nonzero(device.array(x % 3))[0].numpy())
        for function in (algorithms.cumprod, algorithms.cummax):
            assert_same(function(f), function(doubles).numpy())
        assert_same(algorithms.cumsum(f, exclusive=True), algorithms.cumsum(doubles, exclusive=True).numpy())
        assert_same(algorithms.cumsum(f[:300]), algorithms.cumsum(doubles[:300]).numpy())
        for reduction in (algorithms.mean, algorithms.prod, algorithms.min, algorithms.any, algorithms.argmin):
            assert_same(reduction(f[:900]), reduction(doubles[:900]).numpy())
            assert_same(reduction(f.reshape(300, 30), 1), reduction(doubles.reshape(300, 30), 1).numpy())
        sorted_ = np.sort(f)
        found = algorithms.searchsorted(device.array(sorted_), doubles[:100]).numpy()
        assert_same(np.searchsorted(sorted_, f[:100]), found)
        keys, values = algorithms.sort(doubles, there)
        order = np.argsort(f, kind="stable")
        assert_same([f[order], x[order]], [keys.numpy(), values.numpy()])
        offsets = np.array([0, 5000, 9000])
        assert_same(
            algorithms.segmented_min(f, offsets), algorithms.segmented_min(doubles, device.array(offsets)).numpy()
        )
        put = f.copy()
        np.put(put, x % 9000, f[::-1].copy())
        algorithms.put(doubles, device.array(x % 9000), device.array(f[::-1].copy()))
        assert_same(put, doubles.numpy())
        cube = drawn(vc.u8, 24 * 30 * 7).reshape(24, 30, 7)
        moved = algorithms.transpose(device.array(cube), (1, 2, 0)).numpy()
        assert_same(np.ascontiguousarray(cube.transpose(1, 2, 0)), moved)
        device.synchronize()


def test_they_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, vyre_cuda as vc; assert 'vyre_cuda.algorithms' not in sys.modules; "
        "vc.algorithms.sum; assert 'algorithms' in dir(vc)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
