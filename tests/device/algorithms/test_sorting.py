"""Sorting: NumPy's stable order with -0 equal to +0 and NaNs last, bit for bit, values moved with their keys."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.algorithms.programs import block_sort, radix
from vyre_cuda.algorithms.programs.ranking import Sorted
from vyre_cuda.testing.compare import assert_same

from .data import SOME, TYPES, drawn, is_real, special

# One block sorts up to 4,096 keys.
LARGE = 4097


def check_sort(device: vc.Device, x: np.ndarray, type_: vc.Type) -> None:
    """Also NaNs keep their bits: nothing is computed with them."""
    got = algorithms.sort(device.array(x)).numpy()
    order = algorithms.argsort(device.array(x)).numpy()
    assert order.dtype == np.int64
    assert got.tobytes() == x[order].tobytes() == algorithms.sort(x).tobytes()
    assert_same(algorithms.argsort(x), order)
    if is_real(type_):
        assert_same(np.argsort(x, kind="stable"), order)


@pytest.mark.thin
@pytest.mark.parametrize("type_", SOME, ids=str)
def test_sort_and_argsort(device: vc.Device, type_: vc.Type) -> None:
    for n in (300, LARGE):
        check_sort(device, special(type_, n), type_)


@pytest.mark.parametrize(
    "type_", [pytest.param(type_, marks=[pytest.mark.long, pytest.mark.timeout(1200)]) for type_ in TYPES], ids=str
)
def test_sizes(device: vc.Device, type_: vc.Type) -> None:
    for n in (2, 255, 256, 257, 1024, 1025, 4095, 4096, LARGE, 8192, 100_003):
        check_sort(device, special(type_, n), type_)


@pytest.mark.thin
@pytest.mark.parametrize("n", [700, 3000, 9000])
@pytest.mark.parametrize("values", [vc.u8, vc.f64], ids=str)
def test_values_move_with_their_keys(device: vc.Device, n: int, values: vc.Type) -> None:
    keys = drawn(vc.i32, n) % 100
    moved = drawn(values, n)
    got = algorithms.sort(device.array(keys), device.array(moved))
    order = np.argsort(keys, kind="stable")
    assert_same([keys[order], moved[order]], [each.numpy() for each in got])
    assert_same(algorithms.sort(keys, moved), [each.numpy() for each in got])


@pytest.mark.thin
@pytest.mark.parametrize("n", [100, 700, LARGE])
def test_values_of_bool(device: vc.Device, n: int) -> None:
    keys, values = drawn(vc.i16, n), drawn(vc.bool_, n)
    order = np.argsort(keys, kind="stable")
    got = algorithms.sort(device.array(keys), device.array(values))
    assert_same([keys[order], values[order]], [each.numpy() for each in got])


@pytest.mark.thin(3)
@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_axes(device: vc.Device, axis: int | None) -> None:
    x = drawn(vc.f32, 4 * 70 * 6).reshape(4, 70, 6)
    assert_same(np.sort(x, axis=axis, kind="stable"), algorithms.sort(device.array(x), axis=axis).numpy())
    assert_same(np.argsort(x, axis=axis, kind="stable"), algorithms.argsort(device.array(x), axis=axis).numpy())


def test_long_rows(device: vc.Device) -> None:
    x = drawn(vc.u32, 3 * 5000).reshape(3, 5000)
    values = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    keys, moved = algorithms.sort(device.array(x), device.array(values))
    assert_same(np.sort(x), keys.numpy())
    assert_same(np.take_along_axis(values, np.argsort(x, kind="stable"), axis=-1), moved.numpy())


@pytest.mark.thin
@pytest.mark.emulator
def test_equal_digits_are_found_by_votes_as_by_match(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU runs, on the emulator too."""
    monkeypatch.setattr("vyre_cuda.algorithms.sorting._votes", lambda work: True)
    for n in (700, 2 * LARGE):
        check_sort(device, special(vc.f32, n), vc.f32)


@pytest.mark.thin
@pytest.mark.parametrize("n", [1, 2, 31, 33, 1000, 1024, 1025, 2049, 4096])
def test_rows_that_one_block_sorts(device: vc.Device, n: int) -> None:
    rows = drawn(vc.i16, 3 * n).reshape(3, n) % 50
    got = algorithms.argsort(device.array(rows)).numpy()
    assert_same(np.argsort(rows, axis=1, kind="stable"), got)
    keys, values = algorithms.sort(device.array(rows), device.array(rows.astype(np.float64)))
    assert_same([np.sort(rows, axis=1), np.sort(rows, axis=1).astype(np.float64)], [keys.numpy(), values.numpy()])


@pytest.mark.thin
def test_tiles_look_back_at_more_than_they_read_at_once(device: vc.Device) -> None:
    x = drawn(vc.u16, 90_000)
    assert_same(np.sort(x), algorithms.sort(device.array(x)).numpy())


@pytest.mark.thin
@pytest.mark.parametrize("shared", [48 << 10, 64 << 10])
def test_devices_with_less_shared_memory(device: vc.Device, monkeypatch: pytest.MonkeyPatch, shared: int) -> None:
    monkeypatch.setattr("vyre_cuda.algorithms.sorting._shared_bytes", lambda work: shared)
    for keys, values in ((vc.u64, vc.f64), (vc.u32, vc.u8)):
        how = Sorted(keys, values, values)
        programs = [
            radix.one_pass(how, radix.tile_of(how, shared), vc.u32, vc.u32, implicit=False, final=True),
            *(
                block_sort.program(how, *shape, vc.u32)
                for n in (300, 2000, 4000)
                if (shape := block_sort.shape_of(how, n, shared))
            ),
        ]
        for program in programs:
            assert sum(array.size * array.type.itemsize for array in program.shared) <= shared
        x, y = drawn(keys, 5000), drawn(values, 5000)
        order = np.argsort(x, kind="stable")
        got = algorithms.sort(device.array(x), device.array(y))
        assert_same([x[order], y[order]], [each.numpy() for each in got])


@pytest.mark.thin
def test_already_sorted_reversed_and_equal_keys(device: vc.Device) -> None:
    for x in (np.arange(9000), np.arange(9000)[::-1].copy(), np.zeros(9000, np.int64), np.full(9000, -1)):
        check_sort(device, x, vc.i64)


def test_wrong_arguments(device: vc.Device) -> None:
    x = device.zeros(10, vc.f32)
    with pytest.raises(ValueError, match="values have the shape"):
        algorithms.sort(x, device.zeros(11, vc.f32))
    with pytest.raises(TypeError, match="one kind"):
        algorithms.sort(x, np.zeros(10))  # type: ignore[type-var]
    with pytest.raises(TypeError, match="pair"):
        algorithms.sort(x, device.zeros(10, vc.f32), out=device.zeros(10, vc.f32))
    with pytest.raises(ValueError, match="shares memory"):
        algorithms.sort(x, out=x)


def test_results_of_pairs_are_two_arrays(device: vc.Device) -> None:
    keys, values = np.array([3, 1, 2]), np.array([7, 8, 9])
    for outs in ((np.empty(3, np.int64),) * 2, (values, np.empty(3, np.int64))):
        with pytest.raises(ValueError, match="shares memory"):
            algorithms.sort(keys, values, out=outs)
    assert values.tolist() == [7, 8, 9]
    one = device.empty(3, vc.i64)
    with pytest.raises(ValueError, match="shares memory"):
        algorithms.sort(device.array(keys), device.array(values), out=(one, one))


@pytest.mark.thin(3)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("type_", SOME, ids=str)
def test_searchsorted(device: vc.Device, type_: vc.Type, side: str) -> None:
    x = algorithms.sort(special(type_, 3000))
    wanted = np.concatenate([special(type_, 500, seed=2), x[:100]])
    got = algorithms.searchsorted(device.array(x), device.array(wanted), side).numpy()
    assert_same(algorithms.searchsorted(x, wanted, side), got)
    assert_same(np.searchsorted(x, wanted, side=side), got)  # type: ignore[call-overload]


@pytest.mark.parametrize("type_", [vc.bool_, vc.u8, vc.f16, vc.f32, vc.f64], ids=str)
def test_transpose(device: vc.Device, type_: vc.Type) -> None:
    rng = np.random.default_rng(7)
    for ndim in (1, 2, 3, 4, 5):
        shape = tuple(rng.integers(1, [0, 3000, 70, 40, 12, 7][ndim], ndim))
        axes = tuple(int(axis) for axis in rng.permutation(ndim))
        x = drawn(type_, int(np.prod(shape))).reshape(shape)
        got = algorithms.transpose(device.array(x), axes).numpy()
        assert got.tobytes() == np.ascontiguousarray(x.transpose(axes)).tobytes()
        assert got.shape == x.transpose(axes).shape


def test_transpose_refuses_what_is_no_permutation(device: vc.Device) -> None:
    x = device.zeros((2, 3), vc.f32)
    with pytest.raises(ValueError, match="repeated axis"):
        algorithms.transpose(x, (0, 0))
    with pytest.raises(ValueError, match="don't match"):
        algorithms.transpose(x, (0,))
    assert algorithms.transpose(x).shape == (3, 2)
