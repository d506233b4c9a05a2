"""What is refused of device arrays is refused of NumPy arrays too, so that these can stand for them in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms

_SQUARE = np.eye(4, dtype=np.float32)
_COUNTS = np.array([3, 1, 2, 0])

# A call for each function, with the array in whose memory the result would be.
SHARED: dict[str, tuple[np.ndarray[Any, Any], Callable[[Any], Any]]] = {
    "sum": (_SQUARE, lambda x: algorithms.sum(x, 0, out=x[0])),
    "cumsum": (_SQUARE, lambda x: algorithms.cumsum(x, 1, out=x)),
    "sort": (_SQUARE, lambda x: algorithms.sort(x, out=x)),
    "argsort": (_COUNTS, lambda x: algorithms.argsort(x, out=x)),
    "take": (_COUNTS, lambda x: algorithms.take(x, x, out=x)),
    "searchsorted": (_COUNTS, lambda x: algorithms.searchsorted(x, x, out=x)),
    "transpose": (_SQUARE, lambda x: algorithms.transpose(x, out=x)),
    "matmul": (_SQUARE, lambda x: algorithms.matmul(x, x, out=x)),
    "bincount": (_COUNTS, lambda x: algorithms.bincount(x, out=x)),
    "histogram": (_COUNTS, lambda x: algorithms.histogram(x, 4, (0, 4), out=x)),
    "segmented_sum": (np.arange(4), lambda x: algorithms.segmented_sum(x, x[2:], out=x[3:])),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_result_in_the_memory_of_an_argument(device: vc.Device, name: str) -> None:
    data, call = SHARED[name]
    here = data.copy()
    for x in (here, device.array(data)):
        with pytest.raises(ValueError, match="out shares memory with an argument"):
            call(x)
    assert (here == data).all()


def test_a_selection_in_the_memory_of_an_argument(device: vc.Device) -> None:
    data = np.array([3, 1, 2], np.uint64)
    for x, out, count in (
        (data.copy(), np.zeros(3, np.uint64), np.zeros(1, np.uint64)),
        (device.array(data), device.zeros(3, vc.u64), device.zeros(1, vc.u64)),
    ):
        with pytest.raises(ValueError, match="shares memory"):
            algorithms.unique(x, out=x, count=count)
        with pytest.raises(ValueError, match="shares memory"):
            algorithms.unique(x, out=out, count=x[:1])


def test_results_of_a_selection_have_room_for_every_element(device: vc.Device) -> None:
    data = np.array([3, 3, 3], np.int32)
    for x, out, count in (
        (data, np.zeros(1, np.int32), np.zeros(1, np.uint64)),
        (device.array(data), device.zeros(1, vc.i32), device.zeros(1, vc.u64)),
    ):
        with pytest.raises(ValueError, match="out has 1 element and count 1; 3 and 1 are needed"):
            algorithms.unique(x, out=out, count=count)
    for x, out, count in (
        (data, np.zeros(3, np.int32), np.zeros(1, np.int32)),
        (device.array(data), device.zeros(3, vc.i32), device.zeros(1, vc.i32)),
    ):
        with pytest.raises(TypeError, match="count"):
            algorithms.unique(x, out=out, count=count)


def test_bools_are_no_indices(device: vc.Device) -> None:
    x, places = np.zeros(2), np.array([True, False])
    for call in (
        lambda: algorithms.take(x, places),
        lambda: algorithms.put(x, places, x),
        lambda: algorithms.take(device.array(x), device.array(places)),
    ):
        with pytest.raises(TypeError, match="they must be integers"):
            call()


def test_an_index_of_u64_out_of_bounds_is_named() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(IndexError, match="index 18446744073709551615 is out of bounds for axis 1 with size 3"):
        algorithms.take(x, np.array([0, 2**64 - 1], np.uint64), 1)
    with pytest.raises(IndexError, match="index 6 is out of bounds for axis 0 with size 6"):
        algorithms.put(x, np.array([6], np.uint64), np.ones(1))


def test_a_number_that_no_count_fits() -> None:
    with pytest.raises(ValueError, match="each number up to 9223372036854775808 does not fit"):
        algorithms.bincount(np.array([2**63], np.uint64))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: algorithms.take(x, np.zeros(1, np.int64)),
        lambda x: algorithms.put(x, np.zeros(1, np.int64), np.zeros(1)),
        lambda x: algorithms.searchsorted(x, np.zeros(1)),
        lambda x: algorithms.compress(np.ones(1, np.bool_), x),
        algorithms.transpose,
        algorithms.nonzero,
        algorithms.unique,
        lambda x: algorithms.matmul(x, x),
    ],
)
def test_a_list_is_no_array(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="takes a DeviceArray or a NumPy array, not a list"):
        call([1.0])
    with pytest.raises(TypeError, match="v is a list"):
        algorithms.searchsorted(np.zeros(1), [1.0])  # type: ignore[type-var]
