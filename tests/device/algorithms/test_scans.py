"""Scans on the device have the bits of the stated order in NumPy; integers and maxima are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.algorithms.combining import scanning
from vyre_cuda.algorithms.programs.scan import FAN, tile_of
from vyre_cuda.testing.compare import assert_same

from .data import TYPES, drawn, is_real, special

NAMES = ["cumsum", "cumprod", "cummax"]


def agree(device: vc.Device, name: str, x: np.ndarray, **keywords: Any) -> np.ndarray:
    function: Callable[..., Any] = getattr(algorithms, name)
    got = function(device.array(x), **keywords).numpy()
    assert_same(function(x, **keywords), got)
    return got


@pytest.mark.thin(7)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("type_", [vc.u8, vc.i32, vc.f16, vc.f32, vc.f64], ids=str)
def test_whole_arrays(device: vc.Device, name: str, type_: vc.Type, exclusive: bool) -> None:
    tile = tile_of(scanning(name[3:], type_))
    for n in (1, tile + 1):
        x = drawn(type_, n)
        got = agree(device, name, x, exclusive=exclusive)
        if not type_.is_float and not exclusive and type_ is not vc.bool_:
            want = np.maximum.accumulate(x) if name == "cummax" else getattr(np, name)(x)
            assert_same(want, got)


@pytest.mark.thin(2)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("type_", [vc.u8, vc.f32, vc.f64], ids=str)
def test_one_tile_has_as_many_threads_as_it_takes(device: vc.Device, type_: vc.Type, exclusive: bool) -> None:
    how = scanning("sum", type_)
    segment = tile_of(how) // 32
    for n in (segment - 1, segment, segment + 1, 3 * segment, 9 * segment + 5, tile_of(how)):
        agree(device, "cumsum", drawn(type_, n), exclusive=exclusive)
    agree(device, "cumsum", drawn(type_, 7 * 66).reshape(7, 66), axis=1, exclusive=exclusive)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "type_", [pytest.param(type_, marks=[pytest.mark.long, pytest.mark.timeout(1200)]) for type_ in TYPES], ids=str
)
def test_sizes_around_tiles(device: vc.Device, name: str, type_: vc.Type) -> None:
    tile = tile_of(scanning(name[3:], type_))
    for n in (2, 127, tile - 1, tile, FAN * tile, FAN * tile + 1, 10**6):
        for exclusive in (False, True):
            agree(device, name, special(type_, n), exclusive=exclusive)


@pytest.mark.thin
@pytest.mark.parametrize("type_", [vc.u32, vc.f32, vc.f64], ids=str)
def test_more_than_a_group_of_tiles(device: vc.Device, type_: vc.Type) -> None:
    n = (FAN + 3) * tile_of(scanning("sum", type_)) + 5
    agree(device, "cumsum", drawn(type_, n), exclusive=False)


@pytest.mark.thin
@pytest.mark.parametrize("type_", [vc.bf16, vc.f32], ids=str)
def test_nan_and_infinities(device: vc.Device, type_: vc.Type) -> None:
    x = special(type_, 9000)
    got = agree(device, "cummax", x)
    if is_real(type_):
        assert np.array_equal(np.maximum.accumulate(x), got, equal_nan=True)
    agree(device, "cumsum", x)


@pytest.mark.thin(2)
@pytest.mark.parametrize("axis", [0, 1, 2, -2, None])
def test_axes(device: vc.Device, axis: int | None) -> None:
    middle = 4500 if axis in (1, -2, None) else 200  # along it, more than a tile
    x = drawn(vc.f32, 3 * middle * 2).reshape(3, middle, 2)
    got = agree(device, "cumsum", x, axis=axis)
    assert got.shape == np.cumsum(x, axis=axis).shape
    assert np.allclose(np.cumsum(x, axis=axis, dtype=np.float64), got, atol=0.01)


def test_an_exclusive_sum_begins_with_plus_zero(device: vc.Device) -> None:
    x = np.full(5000, -0.0, np.float32)
    got = agree(device, "cumsum", x, exclusive=True)
    assert not np.signbit(got[0])
    assert np.signbit(agree(device, "cumsum", x)).all()


@pytest.mark.thin
def test_dtype_and_out(device: vc.Device) -> None:
    x = drawn(vc.u32, 9000)
    assert_same(np.cumsum(x, dtype=np.uint32), agree(device, "cumsum", x, dtype=vc.u32))
    out = device.empty(9000, vc.u64)
    assert algorithms.cumsum(device.array(x), out=out) is out
    assert_same(np.cumsum(x), out.numpy())
    with pytest.raises(ValueError, match="shares memory"):
        algorithms.cumsum(out, out=out)


def test_empty(device: vc.Device) -> None:
    for shape in ((0,), (3, 0), (0, 3)):
        x = np.zeros(shape, np.float32)
        assert_same(np.cumsum(x, axis=0), agree(device, "cumsum", x, axis=0))
