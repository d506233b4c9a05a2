"""Reductions on the device have the bits of the stated order in NumPy, and NumPy's types, shapes and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.algorithms.combining import combining
from vyre_cuda.algorithms.programs.reduce import tile_of
from vyre_cuda.testing.compare import assert_same

from .data import TYPES, drawn, is_real, special

NAMES = ["sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax"]


def function(name: str) -> Callable[..., Any]:
    return getattr(algorithms, name)


def numpys(name: str, x: np.ndarray, **keywords: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return getattr(np, name)(x, **keywords)


def agree(device: vc.Device, name: str, x: np.ndarray, **keywords: Any) -> np.ndarray:
    """The result, which device and NumPy arrays share."""
    got = function(name)(device.array(x), **keywords).numpy()
    assert_same(function(name)(x, **keywords), got)
    return got


@pytest.mark.thin(28)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("type_", [vc.bool_, vc.u8, vc.i32, vc.f16, vc.f32], ids=str)
def test_whole_arrays(device: vc.Device, name: str, type_: vc.Type) -> None:
    tile = tile_of(combining(name, type_))
    for n in (1, tile + 1):
        got = agree(device, name, drawn(type_, n))
        want = numpys(name, drawn(type_, n))
        assert got.dtype == want.dtype
        assert got.shape == ()
        if not type_.is_float or name in ("min", "max", "any", "all", "argmin", "argmax"):
            assert got == want or name == "mean"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "type_", [pytest.param(type_, marks=[pytest.mark.long, pytest.mark.timeout(1200)]) for type_ in TYPES], ids=str
)
def test_sizes_around_tiles(device: vc.Device, name: str, type_: vc.Type) -> None:
    tile = tile_of(combining(name, type_))
    for n in (1, 2, 31, 255, 4 * 256, tile - 1, tile, tile + 1, 5 * tile + 77, 10**6):
        agree(device, name, special(type_, n))


@pytest.mark.thin
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("type_", [vc.bf16, vc.f32], ids=str)
def test_nan_and_infinities(device: vc.Device, name: str, type_: vc.Type) -> None:
    x = special(type_, 3000)
    got = agree(device, name, x)
    if name in ("min", "max", "argmin", "argmax", "any", "all") and is_real(type_):
        assert_same(np.asarray(numpys(name, x)), got)


@pytest.mark.thin(7)
@pytest.mark.parametrize("name", ["sum", "max", "mean", "all", "argmin"])
@pytest.mark.parametrize("axis", [0, 1, -1, None, (0, 1), (0, 2), (1, 2), ()], ids=str)
def test_axes(device: vc.Device, name: str, axis: Any) -> None:
    if name == "argmin" and isinstance(axis, tuple):
        with pytest.raises(TypeError, match="one axis"):
            algorithms.argmin(device.zeros((2, 2), vc.f32), axis)  # type: ignore[arg-type]
        return
    x = drawn(vc.f32, 5 * 7 * 30).reshape(5, 7, 30)
    for keepdims in (False, True):
        got = agree(device, name, x, axis=axis, keepdims=keepdims)
        assert got.shape == numpys(name, x, axis=axis, keepdims=keepdims).shape


@pytest.mark.parametrize("n", [1, 7, 127, 128, 129])
def test_short_rows(device: vc.Device, n: int) -> None:
    x = drawn(vc.f32, 13 * n).reshape(13, n)
    for name in ("sum", "mean", "argmax", "any"):
        got = agree(device, name, x, axis=1)
        assert_same(np.array([function(name)(row) for row in x]), got)


def test_rows_of_several_tiles(device: vc.Device) -> None:
    agree(device, "sum", drawn(vc.f32, 3 * 40_001).reshape(3, 40_001), axis=1)
    agree(device, "argmax", drawn(vc.i32, 3 * 40_001).reshape(3, 40_001), axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_empty_arrays_are_numpys(device: vc.Device, name: str) -> None:
    for shape, axis in (((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), 1)):
        x = np.zeros(shape, np.float32)
        if name in ("min", "max", "argmin", "argmax") and (shape, axis) != ((0, 3), 1):
            with pytest.raises(ValueError) as wanted:
                numpys(name, x, axis=axis)
            for each in (x, device.array(x)):
                with pytest.raises(ValueError) as raised:
                    function(name)(each, axis)
                assert str(raised.value) == str(wanted.value)
            continue
        want = np.asarray(numpys(name, x, axis=axis))
        for got in (function(name)(x, axis), function(name)(device.array(x), axis).numpy()):
            assert_same(want, got)


def test_minus_zeros_stay(device: vc.Device) -> None:
    x = np.full(5000, -0.0, np.float32)
    for name in ("sum", "min", "max"):
        assert np.signbit(agree(device, name, x))
    x[4000] = 0
    assert not np.signbit(agree(device, "sum", x))
    assert np.signbit(agree(device, "min", x))
    assert not np.signbit(agree(device, "max", x))


@pytest.mark.thin
@pytest.mark.parametrize("name", NAMES)
def test_sources_without_axes(device: vc.Device, name: str) -> None:
    x = np.array(3, np.int32)
    for keepdims in (False, True):
        assert_same(np.asarray(numpys(name, x, keepdims=keepdims)), agree(device, name, x, keepdims=keepdims))


@pytest.mark.parametrize("name", ["prod", "mean"])
def test_results_of_nothing_can_be_recorded(device: vc.Device, name: str) -> None:
    """In 64 bits with different halves."""
    x = np.zeros((3, 0), np.uint8)
    run = algorithms.plan(function(name), device.array(x), axis=1)
    assert_same(function(name)(x, axis=1), run().numpy())
    assert_same(function(name)(x, axis=1), run().numpy())


def test_a_mean_is_a_float(device: vc.Device) -> None:
    for x in (drawn(vc.i32, 20), device.array(drawn(vc.i32, 20))):
        with pytest.raises(TypeError, match="cut off"):
            algorithms.mean(x, dtype=np.int8)
    assert algorithms.mean(drawn(vc.i32, 20), dtype=vc.f32).dtype == np.float32


@pytest.mark.thin
@pytest.mark.parametrize("dtype", [vc.u32, vc.i64, vc.f32, np.float64, "int8"], ids=str)
def test_dtype(device: vc.Device, dtype: Any) -> None:
    x = drawn(vc.u16, 5000)
    got = agree(device, "sum", x, dtype=dtype)
    if np.dtype(got.dtype).kind in "iu":
        assert got == np.sum(x, dtype=got.dtype)


def test_the_error_is_within_the_bound(device: vc.Device) -> None:
    """docs/algorithms.md: additions one after the other on the way of an element, times half an ULP of the sums."""
    x = np.random.default_rng(3).random(10**6).astype(np.float32)
    exact = x.sum(dtype=np.longdouble)
    got = np.longdouble(algorithms.sum(device.array(x)).numpy()[()])
    depth = 2 * (2 + 3 + 2 + 5 + 3)
    assert abs(got - exact) <= depth * 2.0**-24 * exact


def test_out(device: vc.Device) -> None:
    x = device.array(drawn(vc.f32, 600).reshape(20, 30))
    out = device.empty(30, vc.f32)
    assert algorithms.sum(x, 0, out=out) is out
    assert_same(algorithms.sum(x.numpy(), 0), out.numpy())
    host = np.empty(30, np.float32)
    assert algorithms.sum(x.numpy(), 0, out=host) is host
    with pytest.raises(TypeError, match="result has float32"):
        algorithms.sum(x, 0, out=device.empty(30, vc.f64))
    with pytest.raises(ValueError, match="shape"):
        algorithms.sum(x, 0, out=device.empty(20, vc.f32))
    with pytest.raises(ValueError, match="shares memory"):
        algorithms.sum(x, 0, out=x.reshape(600)[:30])
    with pytest.raises(TypeError, match="DeviceArray is needed"):
        algorithms.sum(x, 0, out=np.zeros(30, np.float32))  # type: ignore[type-var]


def test_wrong_arguments(device: vc.Device) -> None:
    x = device.zeros((2, 3), vc.f32)
    with pytest.raises(np.exceptions.AxisError):
        algorithms.sum(x, 2)
    with pytest.raises(ValueError, match="duplicate"):
        algorithms.sum(x, (0, -2))
    with pytest.raises(TypeError, match="not a list"):
        algorithms.sum([1, 2])  # type: ignore[type-var]
    with pytest.raises(TypeError, match="convert them first"):
        algorithms.sum(x, dtype=vc.i32)
    x.free()
    with pytest.raises(ValueError, match="freed"):
        algorithms.sum(x)


def test_views_that_begin_anywhere(device: vc.Device) -> None:
    x = drawn(vc.f32, 20_000)
    whole = device.array(x)
    for start in (1, 2, 3):
        assert_same(algorithms.sum(x[start:]), algorithms.sum(whole[start:]).numpy())


def test_arrays_without_axes(device: vc.Device) -> None:
    total = algorithms.sum(device.array(np.arange(10)))
    assert (total.shape, total.ndim, total.size) == ((), 0, 1)
    assert total.numpy().shape == ()
    assert total[()] == 45
    assert total.copy().numpy() == 45
    assert total.reshape(1).shape == (1,)
    with pytest.raises(TypeError, match="len"):
        len(total)
    total.fill(7)
    assert algorithms.max(total).numpy() == 7
