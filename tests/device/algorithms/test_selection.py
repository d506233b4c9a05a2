"""Selection, places, counting, segments and products: NumPy's results, and its errors or assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.testing.compare import assert_same

from .data import drawn, special

# One block selects from up to 4,096 elements, with others from a tile of so many.
SIZES = [1, 300, 4097, pytest.param(140_001, marks=pytest.mark.thin)]


@pytest.mark.thin
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("type_", [vc.bool_, vc.i16, vc.f32], ids=str)
def test_compress_nonzero_unique(device: vc.Device, type_: vc.Type, n: int) -> None:
    x = drawn(type_, n)
    condition = np.random.default_rng(n).random(n) < 0.5
    there = device.array(x)
    assert_same(np.compress(condition, x), algorithms.compress(device.array(condition), there).numpy())
    assert_same(np.nonzero(x)[0], algorithms.nonzero(there)[0].numpy())
    got = algorithms.unique(there).numpy()
    assert_same(algorithms.unique(x), got)
    assert np.array_equal(np.unique(x), got)


@pytest.mark.thin
@pytest.mark.parametrize("type_", [vc.bool_, vc.u8, vc.f32, vc.i64], ids=str)
def test_views_that_begin_anywhere(device: vc.Device, type_: vc.Type) -> None:
    x, condition = drawn(type_, 9001), np.random.default_rng(2).integers(0, 2, 9001, np.uint8)
    there, chosen = device.array(x), device.array(condition)
    for first, second in ((1, 0), (0, 3), (2, 5)):
        count = x.size - max(first, second)
        got = algorithms.compress(chosen[second : second + count], there[first : first + count]).numpy()
        assert_same(x[first : first + count][condition[second : second + count] != 0], got)
    assert_same(np.nonzero(x[1:])[0], algorithms.nonzero(there[1:])[0].numpy())
    assert_same(algorithms.unique(x[3:]), algorithms.unique(there[3:]).numpy())


def test_unique_has_one_nan_and_one_zero(device: vc.Device) -> None:
    x = np.array([0.0, np.nan, -0.0, -np.nan, 1, np.inf], np.float32)
    assert np.array_equal(algorithms.unique(device.array(x)).numpy(), [0, 1, np.inf, np.nan], equal_nan=True)


def test_compress_along_an_axis_and_nonzero_of_several(device: vc.Device) -> None:
    x = drawn(vc.f32, 600).reshape(20, 30)
    condition = np.random.default_rng(1).random(30) < 0.5
    there = device.array(x)
    for taken in (condition, condition[:9]):
        got = algorithms.compress(device.array(taken), there, 1).numpy()
        assert_same(np.compress(taken, x, axis=1), got)
    for want, got in zip(np.nonzero(x), algorithms.nonzero(there), strict=True):
        assert_same(want, got.numpy())
    assert_same(np.compress(condition, x), algorithms.compress(device.array(condition), there).numpy())


def test_out_and_count(device: vc.Device) -> None:
    x = drawn(vc.f32, 5000)
    out, count = device.empty(5000, vc.f32), device.zeros(1, vc.u64)
    assert algorithms.compress(device.array(x > 1), device.array(x), out=out, count=count) is out
    kept = int(count.numpy()[0])
    assert_same(x[x > 1], out.numpy()[:kept])
    host, number = np.empty(5000, np.float32), np.zeros(1, np.uint64)
    algorithms.compress(x > 1, x, out=host, count=number)
    assert (number[0], host[: number[0]].tobytes()) == (kept, x[x > 1].tobytes())
    with pytest.raises(TypeError, match="given together"):
        algorithms.compress(device.array(x > 1), device.array(x), out=out)
    with pytest.raises(ValueError, match="are needed"):
        algorithms.unique(device.array(x), out=out[:10], count=count)
    with pytest.raises(ValueError, match="condition has 5000 elements; it can have at most 10"):
        algorithms.compress(device.array(x > 1), device.array(x)[:10])


def test_nothing_and_everything(device: vc.Device) -> None:
    x = device.array(np.arange(5000, dtype=np.int32))
    none, all_ = device.zeros(5000, vc.u8), device.full(5000, 1, vc.u8)
    assert algorithms.compress(none, x).numpy().size == 0
    assert_same(x.numpy(), algorithms.compress(all_, x).numpy())
    empty = device.empty(0, vc.f32)
    assert algorithms.unique(empty).size == algorithms.nonzero(empty)[0].size == 0


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("indices", [np.int64, np.int8, np.uint32])
def test_take_and_put(device: vc.Device, mode: Any, indices: Any) -> None:
    x = drawn(vc.f32, 600).reshape(20, 30)
    low = -20 if np.dtype(indices).kind == "i" else 0
    places = np.random.default_rng(2).integers(low, 20, (7, 3)).astype(indices)
    for axis in (0, 1, None):
        got = algorithms.take(device.array(x), device.array(places), axis, mode=mode).numpy()
        assert_same(np.take(x, places, axis=axis, mode=mode), got)
    values = drawn(vc.f32, 5, seed=4)
    got = device.array(x)
    algorithms.put(got, device.array(places), device.array(values), mode)
    np.put(x, places, values, mode=mode)
    assert_same(x, got.numpy())


def test_indices_of_u64_have_no_sign(device: vc.Device) -> None:
    x, places = np.arange(5, dtype=np.int32), np.array([3, 2**64 - 1, 2**63], np.uint64)
    for mode, want in (("clip", [3, 4, 4]), ("wrap", [3, (2**64 - 1) % 5, 2**63 % 5])):
        got = algorithms.take(device.array(x), device.array(places), mode=mode)
        assert got.numpy().tolist() == algorithms.take(x, places, mode=mode).tolist() == want
        there, here = device.array(x), x.copy()
        algorithms.put(there, device.array(places[:2]), device.array(np.int32([7, 8])), mode)
        algorithms.put(here, places[:2], np.int32([7, 8]), mode)
        assert_same(here, there.numpy())
    with pytest.raises(vc.KernelAssertionError, match="out of bounds"):
        algorithms.take(device.array(x), device.array(places)).numpy()
    with pytest.raises(IndexError, match="out of bounds"):
        algorithms.take(x, places)


def test_an_index_far_out_of_bounds_is_wrapped_at_once(device: vc.Device) -> None:
    x, places = np.arange(5), np.array([2**62, -(2**63), -1])
    want = [2**62 % 5, -(2**63) % 5, 4]
    assert algorithms.take(x, places, mode="wrap").tolist() == want
    assert algorithms.take(device.array(x), device.array(places), mode="wrap").numpy().tolist() == want


def test_a_count_within_the_elements_is_refused(device: vc.Device) -> None:
    x, both = np.array([3, 1, 2], np.uint64), np.zeros(4, np.uint64)
    with pytest.raises(ValueError, match="shares memory"):
        algorithms.unique(x, out=both[:3], count=both[2:3])
    there = device.array(both)
    with pytest.raises(ValueError, match="shares memory"):
        algorithms.unique(device.array(x), out=there[:3], count=there[2:3])


def test_an_index_out_of_bounds(device: vc.Device) -> None:
    x, places = device.zeros(10, vc.f32), device.array(np.array([3, 10]))
    with pytest.raises(vc.KernelAssertionError, match="out of bounds"):
        algorithms.take(x, places).numpy()
    algorithms.put(x, places, x[:2].copy())
    with pytest.raises(vc.KernelAssertionError, match="out of bounds"):
        device.synchronize()
    with pytest.raises(IndexError):
        algorithms.take(x.numpy(), places.numpy())
    with pytest.raises(ValueError, match="mode"):
        algorithms.take(x, places, mode="near")
    with pytest.raises(TypeError, match="integers"):
        algorithms.take(x, x)


@pytest.mark.thin
@pytest.mark.parametrize("type_", [vc.u8, vc.i8, vc.i32, vc.u64], ids=str)
def test_bincount(device: vc.Device, type_: vc.Type) -> None:
    for n, minlength in ((0, 0), (5000, 0), (40_001, 300), (5000, 9000)):
        x = np.random.default_rng(n).integers(0, 127, n).astype(type_.dtype)
        got = algorithms.bincount(device.array(x), minlength).numpy()
        assert_same(np.bincount(x.astype(np.int64), minlength=minlength), got)
        assert_same(algorithms.bincount(x, minlength), got)


def test_numbers_without_a_count(device: vc.Device) -> None:
    negative, large = device.array(np.array([-1, 2], np.int32)), device.array(np.array([7], np.uint8))
    with pytest.raises(ValueError, match="negative"):
        algorithms.bincount(negative)
    for x in (negative, large):
        with pytest.raises(vc.KernelAssertionError, match="no place in the counts"):
            algorithms.bincount(x, out=device.empty(5, vc.i64)).numpy()


@pytest.mark.thin(4)
@pytest.mark.parametrize("type_", [vc.f32, vc.f64, vc.i32, vc.u8, vc.bool_], ids=str)
def test_histogram(device: vc.Device, type_: vc.Type) -> None:
    x = drawn(type_, 20_000)
    for keywords in ({}, {"bins": 7, "range": (-1, 3.5)}, {"bins": 5000, "range": (0, 9)}, {"bins": [0, 1, 1.5, 20]}):
        counts, edges = algorithms.histogram(device.array(x), **keywords)
        want, want_edges = np.histogram(x.view(np.uint8) if type_ is vc.bool_ else x, **keywords)
        assert_same(want.astype(np.int64), counts.numpy())
        assert np.array_equal(want_edges, edges)
        assert want_edges.dtype == edges.dtype
        assert_same(algorithms.histogram(x, **keywords)[0], counts.numpy())


def test_histogram_refuses(device: vc.Device) -> None:
    x = device.array(special(vc.f32, 100))
    with pytest.raises(ValueError, match="not finite"):
        algorithms.histogram(x)
    with pytest.raises(ValueError, match="monotonically"):
        algorithms.histogram(x, [2, 1])
    with pytest.raises(ValueError, match="larger than min"):
        algorithms.histogram(x, 3, (2, 1))
    counts, _ = algorithms.histogram(x, 3, (-1, 1))
    assert_same(algorithms.histogram(x.numpy(), 3, (-1, 1))[0], counts.numpy())


@pytest.mark.parametrize("type_", [vc.i16, vc.f16, vc.f32], ids=str)
def test_segments(device: vc.Device, type_: vc.Type) -> None:
    x = drawn(type_, 40_000)
    offsets = np.array([0, 0, 5, 5, 133, 20_000, 40_000, 40_000])
    for function in (algorithms.segmented_sum, algorithms.segmented_min):
        assert_same(function(x, offsets), function(device.array(x), device.array(offsets)).numpy())
    within = algorithms.segmented_sum(x, np.array([0, 9000]))[0]
    assert_same(np.asarray(algorithms.sum(x[:9000])), np.asarray(within))


def test_offsets_are_where_the_array_is(device: vc.Device) -> None:
    x = drawn(vc.f32, 40)
    assert_same(algorithms.segmented_sum(x, np.array([0, 7, 40])), algorithms.segmented_sum(x, [0, 7, 40]))
    with pytest.raises(TypeError, match="a DeviceArray is needed"):
        algorithms.segmented_sum(device.array(x), [0, 7, 40])
    with pytest.raises(TypeError, match="upload x"):
        algorithms.segmented_sum(x, device.array(np.array([0, 7, 40])))


@pytest.mark.parametrize("offsets", [[0, 41], [3, 1], [-1, 4]])
def test_offsets_that_do_not_fit(device: vc.Device, offsets: list[int]) -> None:
    x = drawn(vc.f32, 40)
    with pytest.raises(ValueError, match="ascend"):
        algorithms.segmented_sum(x, np.array(offsets))
    with pytest.raises(vc.KernelAssertionError, match="offset"):
        algorithms.segmented_sum(device.array(x), device.array(np.array(offsets))).numpy()


@pytest.mark.thin
@pytest.mark.parametrize("type_", [vc.f32, vc.f64], ids=str)
def test_matmul(device: vc.Device, type_: vc.Type) -> None:
    for m, k, n in ((1, 1, 1), (130, 37, 129), (128, 8, 256), (3, 9, 2), (131, 20, 132), (5, 8, 6)):
        x, y = drawn(type_, m * k).reshape(m, k), drawn(type_, k * n, seed=5).reshape(k, n)
        got = algorithms.matmul(device.array(x), device.array(y)).numpy()
        assert_same(algorithms.matmul(x, y), got)
        assert np.allclose(x.astype(np.float64) @ y, got, atol=1e-3)
    empty = algorithms.matmul(device.empty((3, 0), type_), device.empty((0, 2), type_)).numpy()
    assert_same(np.zeros((3, 2), type_.dtype), empty)
    with pytest.raises(ValueError, match="do not fit"):
        algorithms.matmul(device.array(x), device.array(x[:2]))
    with pytest.raises(TypeError, match="f32 or of f64"):
        algorithms.matmul(device.zeros((2, 2), vc.i32), device.zeros((2, 2), vc.i32))


@pytest.mark.thin
@pytest.mark.parametrize("n", [1, 127, 128, 1023, 1025, 4095, 4096, 4097, 8191, 8192, 12_289])
def test_selections_around_tiles_and_rows(device: vc.Device, n: int) -> None:
    """Also where a tile keeps nothing, or all."""
    x, rng = drawn(vc.i32, n), np.random.default_rng(n)
    some = rng.integers(0, 2, n, np.uint8)
    some[4096:8192] = n % 2
    for condition in (some, np.zeros(n, np.uint8), np.full(n, 2, np.uint8)):
        there = device.array(condition)
        assert_same(x[condition != 0], algorithms.compress(there, device.array(x)).numpy())
        assert_same(np.nonzero(condition)[0], algorithms.nonzero(there)[0].numpy())
    repeated = np.sort(x % 50)
    assert_same(np.unique(repeated), algorithms.unique(device.array(repeated)).numpy())


@pytest.mark.thin
def test_selections_with_places_of_64_bits(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with more than 2^31 elements."""
    monkeypatch.setattr("vyre_cuda.algorithms.work._MOST_OF_U32", 0)
    for n in (3000, 10_001):
        x = drawn(vc.f32, n)
        there, chosen = device.array(x), device.array(x > 1)
        assert_same(x[x > 1], algorithms.compress(chosen, there).numpy())
        assert_same(np.nonzero(x)[0], algorithms.nonzero(there)[0].numpy())
        assert_same(algorithms.unique(x), algorithms.unique(there).numpy())


def test_arrays_without_axes(device: vc.Device) -> None:
    """Places and what is searched for may be single; in NumPy's shape."""
    x, one = drawn(vc.f32, 40), np.array(7)
    assert_same(np.asarray(x[7]), algorithms.take(device.array(x), device.array(one)).numpy())
    ascending = np.sort(x)
    for found in (
        algorithms.searchsorted(ascending, x[3:4].reshape(())),
        algorithms.searchsorted(device.array(ascending), device.array(x[3:4].reshape(()))).numpy(),
    ):
        assert_same(np.asarray(np.searchsorted(ascending, x[3])), found)
    assert algorithms.transpose(one).shape == algorithms.transpose(device.array(one)).shape == ()
    for single in (one, device.array(one)):
        with pytest.raises(ValueError, match="at least one axis"):
            algorithms.nonzero(single)


def test_an_axis_that_does_not_exist(device: vc.Device) -> None:
    x, chosen = drawn(vc.f32, 9), np.ones(9, np.bool_)
    for arrays in ((chosen, x), (device.array(chosen), device.array(x))):
        with pytest.raises(np.exceptions.AxisError if hasattr(np, "exceptions") else np.AxisError):
            algorithms.compress(*arrays, axis=1)


def test_out_of_a_transpose_in_numpy() -> None:
    x, out = drawn(vc.f32, 12).reshape(3, 4), np.empty((4, 3), np.float32)
    assert algorithms.transpose(x, out=out) is out
    assert_same(x.T.copy(), out)


def test_numpy_arrays_are_refused_where_device_arrays_are(device: vc.Device) -> None:
    for there in (np.asarray, lambda x: device.array(np.asarray(x))):
        x = there(drawn(vc.f32, 12).reshape(3, 4))
        with pytest.raises(ValueError, match="one axis"):
            algorithms.nonzero(x, there(np.empty(12, np.int64)), count=there(np.empty(1, np.uint64)))
        with pytest.raises(TypeError, match="given together"):
            algorithms.nonzero(there(np.ones(3, np.float32)), count=there(np.empty(1, np.uint64)))
        with pytest.raises(TypeError, match="write a number, or the edges"):
            algorithms.histogram(x, "auto")
        with pytest.raises(TypeError, match="must be integers"):
            algorithms.segmented_sum(there(np.ones(4, np.float32)), there(np.array([0.0, 2.5])))
        with pytest.raises(TypeError, match="convert them first"):
            algorithms.put(x, there(np.array([0])), there(np.array([1.5])))
