"""2^28 + 3 elements of every type on a GPU, every function, bit for bit, and some more than 2^31.

    pytest tests/device/algorithms/large.py --device=cuda -n 10 --dist loadgroup

takes minutes on 16 cores, with 10 processes 100 GB of host memory and up to 16 GB of the device's each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.testing.compare import assert_same

from .data import TYPES

pytestmark = pytest.mark.cuda
N = (1 << 28) + 3
REDUCTIONS = ["sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax"]
SCANS = ["cumsum", "cumprod", "cummax"]
# Those that take longest come first.
EACH_TYPE = pytest.mark.parametrize(
    "type_", [pytest.param(type_, marks=pytest.mark.xdist_group(str(type_))) for type_ in reversed(TYPES)], ids=str
)


@pytest.fixture(autouse=True)
def _memory_goes_back(device: vc.Device) -> Iterator[None]:
    yield
    device.trim()


@lru_cache(1)
def words() -> np.ndarray:
    return np.random.default_rng(8).integers(0, 1 << 32, N, np.uint32)


@lru_cache(1)
def elements(type_: vc.Type) -> np.ndarray:
    """Finite numbers of both signs, and both zeros."""
    x = words()
    if type_ is vc.bool_:
        return (x & 1).astype(np.bool_)
    if type_ in (vc.f32, vc.f64):
        x = ((x >> 8).astype(type_.dtype) - 8e6) / type_.dtype.type(3)
    elif type_.is_float:
        x = (x & 0xBBFF).astype(np.uint16).view(type_.dtype)  # small enough for their sum to be finite
    else:
        return x.astype(type_.dtype) * type_.dtype.type(0x9E3779B1 if type_.bits == 64 else 1)
    x[::97] = 0.0
    x[5::97] = -0.0
    return x


def factors(type_: vc.Type) -> np.ndarray:
    """Elements whose product is not soon 0 or infinite: odd numbers, or floats near 1."""
    x = words()
    if type_ is vc.bool_:
        return x != 5
    if not type_.is_float:
        return elements(type_) | type_.dtype.type(1)
    if type_.bits == 16:
        return np.where(x % 4096 == 0, np.float32(1 + 2**-7), np.float32(1)).astype(type_.dtype)
    return ((x >> 16).astype(type_.dtype) - 32768) * type_.dtype.type(2**-30) + type_.dtype.type(1)


def given(name: str, type_: vc.Type) -> np.ndarray:
    if name == "all":
        return np.ones(N, np.bool_).astype(type_.dtype)
    return factors(type_) if "prod" in name else elements(type_)


def as_numbers(x: np.ndarray, type_: vc.Type) -> np.ndarray:
    """What NumPy compares."""
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if type_ is vc.bf16 else x


def function(name: str) -> Callable[..., Any]:
    return getattr(algorithms, name)


@EACH_TYPE
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(device: vc.Device, name: str, type_: vc.Type) -> None:
    x = given(name, type_)
    assert_same(function(name)(x), function(name)(device.array(x)).numpy())


@EACH_TYPE
@pytest.mark.parametrize("name", ["all", "any", "argmin", "argmax"])
def test_the_last_element_counts(device: vc.Device, name: str, type_: vc.Type) -> None:
    """The last one decides: 0 behind ones, or 1 behind zeros."""
    x = (np.ones if name in ("all", "argmin") else np.zeros)(N, np.uint8).astype(type_.dtype)
    x[-1] = 0 if name in ("all", "argmin") else 1
    want = {"all": False, "any": True, "argmin": N - 1, "argmax": N - 1}[name]
    assert function(name)(device.array(x)).numpy() == want


@EACH_TYPE
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", SCANS)
def test_scans(device: vc.Device, name: str, type_: vc.Type, exclusive: bool) -> None:
    x = given(name, type_)
    want = function(name)(x, exclusive=exclusive)
    assert_same(want, function(name)(device.array(x), exclusive=exclusive).numpy())


@EACH_TYPE
def test_sort_argsort_unique_and_searchsorted(device: vc.Device, type_: vc.Type) -> None:
    """The order is right if it is a permutation, its elements ascend, and places of equal ones do."""
    x = elements(type_)
    there = device.array(x)
    order = algorithms.argsort(there).numpy()
    keys = x[order]
    numbers = as_numbers(keys, type_)
    follows = numbers[1:] != numbers[:-1]
    assert bool(((numbers[1:] > numbers[:-1]) | (order[1:] > order[:-1])).all())
    assert bool((numbers[1:] >= numbers[:-1]).all())
    seen = np.zeros(N, np.bool_)
    seen[order] = True
    assert bool(seen.all())
    sorted_ = algorithms.sort(there)
    assert sorted_.numpy().tobytes() == keys.tobytes()
    pairs = algorithms.sort(there, device.array(np.arange(N, dtype=np.uint32)))
    assert pairs[0].numpy().tobytes() == keys.tobytes()
    assert np.array_equal(pairs[1].numpy(), order.astype(np.uint32))
    unique = as_numbers(algorithms.unique(there).numpy(), type_)
    assert np.array_equal(unique, numbers[np.concatenate([[True], follows])])
    wanted = x[: 1 << 20]
    for side in ("left", "right"):
        found = algorithms.searchsorted(sorted_, device.array(wanted), side=side).numpy()
        assert np.array_equal(found, np.searchsorted(numbers, as_numbers(wanted, type_), side))


@EACH_TYPE
def test_selection_and_places(device: vc.Device, type_: vc.Type) -> None:
    x, condition = elements(type_), (words() >> 9 & 1).astype(np.bool_)
    there = device.array(x)
    chosen = algorithms.compress(device.array(condition), there).numpy()
    assert chosen.tobytes() == x[condition].tobytes()
    assert np.array_equal(algorithms.nonzero(there)[0].numpy(), np.nonzero(as_numbers(x, type_))[0])
    places = np.concatenate([words()[: 1 << 24].astype(np.int64) % N, [N - 1, 0]])
    taken = algorithms.take(there, device.array(places)).numpy()
    assert taken.tobytes() == x[places].tobytes()
    put = x.copy()
    put[places] = taken[::-1]  # the last of several values for one place stays
    algorithms.put(there, device.array(places), device.array(taken[::-1].copy()))
    assert there.numpy().tobytes() == put.tobytes()


@EACH_TYPE
def test_segments_and_turns(device: vc.Device, type_: vc.Type) -> None:
    x = elements(type_)
    there = device.array(x)
    offsets = np.array([0, 5, 70_000, 1 << 27, (1 << 27) + 1, N])
    for name in ("segmented_sum", "segmented_min")[: 1 if type_ is vc.bool_ else 2]:
        assert_same(function(name)(x, offsets), function(name)(there, device.array(offsets)).numpy())
    square = x[: 1 << 28].reshape(1 << 12, 1 << 7, 1 << 9)
    turned = algorithms.transpose(there[: 1 << 28].reshape(square.shape), (2, 0, 1)).numpy()
    assert turned.tobytes() == np.ascontiguousarray(square.transpose(2, 0, 1)).tobytes()
    for axis in (0, 2):
        want = algorithms.sum(square, axis=axis)
        assert_same(want, algorithms.sum(there[: 1 << 28].reshape(square.shape), axis=axis).numpy())


@EACH_TYPE
def test_counts(device: vc.Device, type_: vc.Type) -> None:
    x = elements(type_)
    if type_ is not vc.bf16:
        low, high = (0, 1) if type_ is vc.bool_ else (int(x[:1000].min()), int(x[:1000].max()) + 1)
        some = x.view(np.uint8) if type_ is vc.bool_ else x
        on_device = device.array(some)
        counts, edges = algorithms.histogram(on_device, 100, (low, high))
        want, want_edges = algorithms.histogram(some, 100, (low, high))
        assert_same(want, counts.numpy())
        assert np.array_equal(edges, want_edges)
    if not type_.is_float and type_ is not vc.bool_:
        number = x & type_.dtype.type(0x7F)
        assert_same(np.bincount(number.astype(np.uint8)), algorithms.bincount(device.array(number)).numpy())


@pytest.mark.parametrize("type_", [vc.f32, vc.f64], ids=str)
def test_products_of_matrices(device: vc.Device, type_: vc.Type) -> None:
    """More than 2^28 elements of a result; in NumPy by some rows at a time, as this takes memory and time."""
    x = elements(type_)
    left, right = x[: 3 << 14].reshape(1 << 14, 3), x[5 : 5 + 3 * ((1 << 14) + 1)].reshape(3, (1 << 14) + 1)
    found = algorithms.matmul(device.array(left), device.array(right)).numpy()
    some = [slice(first, first + 128) for first in range(0, 1 << 14, 128)]
    with ThreadPoolExecutor(8) as threads:
        for rows, want in zip(some, threads.map(lambda rows: algorithms.matmul(left[rows], right), some), strict=True):
            assert_same(want, found[rows])


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
