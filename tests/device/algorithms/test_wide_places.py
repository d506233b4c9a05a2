"""What arrays of more than 2^31 elements run: ids of 64 bits, here with few elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda import algorithms
from vyre_cuda.testing.compare import assert_same

from .data import drawn

N = 5003


@pytest.fixture(autouse=True)
def ids_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_cuda.algorithms.work._MOST_OF_U32", 0)


def column(type_: vc.Type = vc.f32, n: int = N) -> np.ndarray:
    return drawn(type_, n)


def table(type_: vc.Type = vc.f32) -> np.ndarray:
    return drawn(type_, 4200).reshape(60, 70)


def numbers() -> np.ndarray:
    return (drawn(vc.u32, N) % 300).astype(np.int32)


def bounds() -> np.ndarray:
    return np.array([0, 3, 3, 4100, N])


CASES: list[tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]] = [
    *(
        (name, getattr(algorithms, name), (column(),))
        for name in ("sum", "prod", "mean", "max", "any", "all", "argmin")
    ),
    *((f"{name} rows", getattr(algorithms, name), (table(),)) for name in ("sum", "min", "argmax")),
    *((name, getattr(algorithms, name), (column(),)) for name in ("cumsum", "cumprod", "cummax")),
    ("cumsum rows", lambda x: algorithms.cumsum(x, 0, exclusive=True), (table(vc.f64),)),
    ("cumsum of one tile", algorithms.cumsum, (column(vc.i16, 700),)),
    ("sort", algorithms.sort, (column(vc.u32),)),
    ("sort of one block", algorithms.sort, (column(vc.u32, 900),)),
    ("sort by merging", algorithms.sort, (column(vc.u16, 90),)),
    ("sort of pairs", algorithms.sort, (column(vc.i16), column(vc.f64))),
    ("sort columns", lambda x: algorithms.sort(x, axis=0), (table(vc.i32),)),
    ("argsort", algorithms.argsort, (column(vc.u16),)),
    ("argsort rows", algorithms.argsort, (table(vc.u8),)),
    ("searchsorted", lambda x, y: algorithms.searchsorted(algorithms.sort(x), y), (column(), column(n=77))),
    ("compress", algorithms.compress, (numbers() % 2, column())),
    ("compress of one tile", algorithms.compress, (numbers()[:900] % 2, column(n=900))),
    ("nonzero", lambda x: algorithms.nonzero(x)[0], (column(),)),
    ("nonzero of axes", algorithms.nonzero, (table(),)),
    ("unique", algorithms.unique, (numbers(),)),
    ("take", algorithms.take, (column(), numbers())),
    ("take rows", lambda x, y: algorithms.take(x, y, 0, mode="wrap"), (table(), numbers())),
    ("bincount", algorithms.bincount, (numbers(),)),
    ("bincount of few", lambda x: algorithms.bincount(x, 256), (column(vc.u8),)),
    ("bincount of many", lambda x: algorithms.bincount(x, 70_000), (numbers(),)),
    ("histogram", lambda x: algorithms.histogram(x, 9)[0], (column(),)),
    ("segmented_sum", algorithms.segmented_sum, (column(), bounds())),
    ("segmented_min", algorithms.segmented_min, (column(), bounds())),
    ("transpose", algorithms.transpose, (table(),)),
    ("transpose of axes", lambda x: algorithms.transpose(x, (2, 0, 1)), (column(n=4200).reshape(12, 10, 35),)),
    ("matmul", lambda x: algorithms.matmul(x, algorithms.transpose(x)), (table(),)),
]


@pytest.mark.thin(18)
@pytest.mark.parametrize(("function", "arrays"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_results(device: vc.Device, function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> None:
    wanted, got = function(*arrays), function(*(device.array(each) for each in arrays))
    for want, have in zip(each_of(wanted), each_of(got), strict=True):
        assert_same(want, have.numpy())


def each_of(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_put(device: vc.Device) -> None:
    x, values = column(), column(n=40)
    there = device.array(x)
    algorithms.put(there, device.array(numbers()), device.array(values))
    np.put(x, numbers(), values)
    assert_same(x, there.numpy())
