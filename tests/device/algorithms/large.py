"""2^28 + 3 elements on a GPU, bit for bit, and some more than 2^31.

`pytest tests/device/algorithms/large.py --device=cuda` takes minutes, 32 GB of host memory and 16 GB of the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.testing.compare import assert_same

pytestmark = pytest.mark.cuda
N = (1 << 28) + 3


@pytest.fixture(scope="module")
def words() -> np.ndarray:
    return np.random.default_rng(8).integers(0, 1 << 63, N // 2 + 1, np.uint64).view(np.uint32)[:N]


def elements(words: np.ndarray, type_: vc.Type) -> np.ndarray:
    """Finite numbers from random bits."""
    if type_ in (vc.f32, vc.f64):
        return ((words >> 8).astype(type_.dtype) - 8e6) / type_.dtype.type(3)
    if type_.bits == 16 and type_.is_float:
        return (words & 0xBBFF).astype(np.uint16).view(type_.dtype)  # of both signs: a sum of them is finite
    if type_.itemsize == 8:
        return words.astype(type_.dtype) * type_.dtype.type(0x9E3779B1)
    return (words & 1).astype(np.bool_) if type_ is vc.bool_ else words.astype(type_.dtype)


REDUCTIONS = [
    *(("sum", type_) for type_ in (vc.u8, vc.i32, vc.u64, vc.f16, vc.f32, vc.f64)),
    *(("prod", type_) for type_ in (vc.i16, vc.f32)),
    *(("min", type_) for type_ in (vc.f32, vc.i64)),
    *(("max", type_) for type_ in (vc.u16, vc.f64)),
    *(("argmax", type_) for type_ in (vc.f32, vc.u32)),
    *(("argmin", type_) for type_ in (vc.i8,)),
    *(("mean", type_) for type_ in (vc.f32, vc.bool_)),
    *((name, vc.bool_) for name in ("any", "all")),
]
SCANS = [
    ("cumsum", vc.u32, {"dtype": vc.u32}),
    ("cumsum", vc.u8, {"exclusive": True}),
    ("cumsum", vc.f32, {}),
    ("cumsum", vc.f32, {"exclusive": True}),
    ("cumsum", vc.f64, {}),
    ("cumprod", vc.i64, {}),
    ("cummax", vc.i16, {}),
]


@pytest.mark.parametrize(("name", "type_"), REDUCTIONS, ids=str)
def test_reductions(device: vc.Device, words: np.ndarray, name: str, type_: vc.Type) -> None:
    x = elements(words, type_)
    function: Callable[..., Any] = getattr(algorithms, name)
    assert_same(function(x), function(device.array(x)).numpy())


@pytest.mark.parametrize(("name", "type_", "options"), SCANS, ids=str)
def test_scans(device: vc.Device, words: np.ndarray, name: str, type_: vc.Type, options: dict[str, Any]) -> None:
    x = elements(words, type_)
    function: Callable[..., Any] = getattr(algorithms, name)
    assert_same(function(x, **options), function(device.array(x), **options).numpy())


@pytest.mark.parametrize("type_", [vc.u8, vc.i16, vc.u32, vc.f32, vc.u64], ids=str)
def test_sort(device: vc.Device, words: np.ndarray, type_: vc.Type) -> None:
    """Also with places: that equal keys keep their order is seen in these."""
    x = elements(words, type_)
    want = np.sort(x)
    there = device.array(x)
    assert algorithms.sort(there).numpy().tobytes() == want.tobytes()
    keys, places = algorithms.sort(there, device.array(np.arange(N, dtype=np.uint32)))
    assert keys.numpy().tobytes() == want.tobytes()
    order = places.numpy()
    assert x[order].tobytes() == want.tobytes()
    assert bool(((want[1:] != want[:-1]) | (order[1:] > order[:-1])).all())


@pytest.mark.parametrize("type_", [vc.u8, vc.f16, vc.u32, vc.f64], ids=str)
def test_compress(device: vc.Device, words: np.ndarray, type_: vc.Type) -> None:
    x, condition = elements(words, type_), (words >> 9 & 1).astype(np.uint8)
    there = device.array(condition)
    assert algorithms.compress(there, device.array(x)).numpy().tobytes() == x[condition != 0].tobytes()


def test_nonzero_unique_and_bincount(device: vc.Device, words: np.ndarray) -> None:
    x = words.astype(np.uint8)
    there = device.array(x)
    assert np.array_equal(algorithms.nonzero(there)[0].numpy(), np.nonzero(x)[0])
    assert np.array_equal(algorithms.unique(there).numpy(), np.arange(256))
    assert np.array_equal(algorithms.bincount(there).numpy(), np.bincount(x))


def test_segments_and_axes(device: vc.Device, words: np.ndarray) -> None:
    x = elements(words, vc.f32)
    there = device.array(x)
    offsets = np.array([0, 5, 70_000, 1 << 27, (1 << 27) + 1, N])
    found = algorithms.segmented_sum(there, device.array(offsets)).numpy()
    assert_same(algorithms.segmented_sum(x, offsets), found)
    square = x[: 1 << 28].reshape(1 << 14, 1 << 14)
    turned = algorithms.transpose(there[: 1 << 28].reshape(1 << 14, 1 << 14)).numpy()
    assert np.array_equal(turned, square.T)


def test_more_than_2_31_elements(device: vc.Device) -> None:
    """Ids of 64 bits, in more than 2^32 bytes."""
    x = np.frombuffer(np.random.default_rng(9).bytes(1 << 20), np.uint8) & 3
    x = np.resize(x, (1 << 31) + 5)
    x[-3:] = 0, 7, 1
    there = device.array(x)
    assert int(algorithms.sum(there).numpy()) == int(x.sum(dtype=np.uint64))
    assert int(algorithms.argmax(there).numpy()) == x.size - 2
    assert np.array_equal(algorithms.cumsum(there, dtype=vc.u32).numpy(), np.cumsum(x, dtype=np.uint32))
    assert np.array_equal(algorithms.compress(there, there).numpy(), x[x != 0])
    numbers = [int(np.count_nonzero(x == number)) for number in range(8)]
    assert algorithms.bincount(there, 256).numpy()[:8].tolist() == numbers
    with pytest.raises(ValueError, match="at most"):
        algorithms.sort(there)
