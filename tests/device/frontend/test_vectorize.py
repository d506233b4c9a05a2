"""Vectorized functions: NumPy's results, shapes and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.frontend import vectorize
from vyre_cuda.runtime.device import default_device as default

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def opened(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls without device arrays run on the device of the tests."""
    monkeypatch.setattr(default, "_opened", [device])
    return


@vc.vectorize
def mix(a: vc.f32, b: vc.f32) -> vc.f32:
    return a * 2 + b


@vc.vectorize(block=64)
def three(x: vc.i32, y: vc.f32, z: vc.i32) -> vc.f64:
    if x > z:
        return vc.f64(y)
    total: vc.i32 = 0
    for j in range(z - x):
        total += j
    return vc.f64(total) / 4


def three_numpy(x: Any, y: Any, z: Any) -> Any:
    count = np.asarray(z, np.int64) - x
    return np.where(np.asarray(x) > z, y, (count * (count - 1) // 2) / 4).astype(np.float64)


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> Any:
    """An array of this shape whose elements stand apart or in another order, or a number."""
    if shape == () and rng.random() < 0.5:
        return dtype(rng.integers(-5, 5))
    values = rng.integers(-5, 5, shape).astype(dtype)
    way = rng.integers(0, 4)
    if way == 0:
        return np.asfortranarray(values)
    if way == 1 and shape:
        return np.repeat(values, 2, axis=-1)[..., ::2]
    return values[::-1] if way == 2 and shape else values


def random_shapes(seed: int, count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([0, 1, 2, 3, 5], rng.integers(0, 5), p=[0.05, 0.2, 0.3, 0.3, 0.15]).tolist())
    shapes = []
    for _ in range(count):
        own = tuple(extent if rng.random() < 0.6 else 1 for extent in shape)
        shapes.append(own[rng.integers(0, len(own) + 1) :])
    return shapes


@pytest.mark.parametrize("seed", range(60))
def test_results_are_those_of_numpy_over_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    a, b = (operand(rng, shape, np.float32) for shape in random_shapes(seed, 2))
    expected = np.add(np.multiply(a, np.float32(2)), b)
    found = mix(a, b)
    assert type(found) is type(expected)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)

    types = (np.int32, np.float32, np.int32)
    given = [operand(rng, shape, dtype) for shape, dtype in zip(random_shapes(seed, 3), types, strict=True)]
    expected = three_numpy(*given)
    assert np.shape(three(*given)) == expected.shape
    assert np.array_equal(three(*given), expected)


@pytest.mark.parametrize("seed", range(20))
def test_out_takes_the_result_and_is_returned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (operand(rng, shape, np.float32) for shape in random_shapes(seed, 2))
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    for out in (np.full((2, *shape), -7, np.float32), np.full((*shape, 2), -7, np.float32)[..., 0]):
        assert mix(a, b, out=out) is out
        assert np.array_equal(out, np.broadcast_to(np.add(np.multiply(a, np.float32(2)), b), out.shape))


def test_an_out_may_be_an_operand() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = a * 2 + a[0]
    assert np.array_equal(mix(a, a[0], out=a), expected)


def test_many_axes_that_alternate_are_found() -> None:
    a = np.arange(2**5, dtype=np.float32).reshape((2, 1) * 5)
    b = np.arange(2**5, dtype=np.float32).reshape((1, 2) * 5)
    assert np.array_equal(mix(a, b), a * 2 + b)


def test_numbers_alone_give_a_numpy_scalar() -> None:
    found = mix(1.5, np.float32(2))
    assert type(found) is np.float32
    assert found == 5
    assert mix(np.array(1, np.float32), b=2) == 4


def test_device_arrays_run_on_their_device_and_give_a_device_array(device: vc.Device) -> None:
    a, b = np.arange(6, dtype=np.float32), np.float32([10])
    on_device = device.array(a)
    for found, expected in [
        (mix(on_device, on_device), a * 3),
        (mix(on_device, device.array(b)), a * 2 + 10),
        (mix(3, on_device), a + 6),
        (mix(on_device, a[::-1]), a * 2 + a[::-1]),
    ]:
        assert isinstance(found, vc.DeviceArray)
        assert found.device is device
        assert np.array_equal(found.numpy(), expected)
    out = device.zeros(6, vc.f32)
    assert mix(on_device, 1, out=out) is out
    assert np.array_equal(out.numpy(), a * 2 + 1)
    with pytest.raises(TypeError, match="out= is on the host"):
        mix(on_device, 1, out=a)


@pytest.mark.parametrize("seed", range(20))
def test_device_arrays_broadcast_as_numpy_arrays_do(seed: int, device: vc.Device) -> None:
    rng = np.random.default_rng(seed)
    shapes = [shape or (1,) for shape in random_shapes(seed, 2)]
    a, b = (rng.integers(-5, 5, shape).astype(np.float32) for shape in shapes)
    found = mix(device.array(a), device.array(b))
    assert found.shape == np.broadcast_shapes(*shapes)
    assert np.array_equal(found.numpy(), a * 2 + b)


scale = 3


@vc.vectorize
def scaled(a: vc.i32) -> vc.i32:
    return a * scale


def test_a_changed_global_makes_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(4, dtype=np.int32)
    assert scaled(a).tolist() == [0, 3, 6, 9]
    monkeypatch.setattr(f"{__name__}.scale", 5)
    assert scaled(a).tolist() == [0, 5, 10, 15]
    assert scaled(a[:, None]).tolist() == [[0], [5], [10], [15]]


@vc.kernel
def uses(x: vc.In[vc.f32]):
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    out[i] = mix(x[i], 1.0)


def test_a_kernel_calls_it_on_values() -> None:
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(uses(x), x * 2 + 1)
    assert np.array_equal(uses.python(x), x * 2 + 1)


@pytest.mark.parametrize(
    ("args", "named", "error", "message"),
    [
        ((np.zeros(3), 1), {}, TypeError, r"it needs float32 \(write a\.astype\(vc\.f32\.dtype\)\)"),
        ((1, np.array(2)), {}, TypeError, "argument b is an array of int64; it needs float32"),
        (([1.0], 1), {}, TypeError, r"argument a is a list \(write np.array"),
        ((1,), {}, TypeError, "missing argument: b"),
        ((1, 2, 3), {}, TypeError, r"takes 2 arguments \(a, b\); 3 given"),
        ((1, 2), {"c": 3}, TypeError, "no parameter c"),
        ((1, "2"), {}, TypeError, "argument b is a str"),
        ((np.zeros((2, 3), np.float32), np.zeros(2, np.float32)), {}, ValueError, r"a has shape \(2, 3\), b has shape"),
        ((np.zeros(3, np.float32), 1), {"out": np.zeros(4, np.float32)}, ValueError, r"out= has shape \(4,\)"),
        ((np.zeros((2, 3), np.float32), 1), {"out": np.zeros(3, np.float32)}, ValueError, "do not broadcast"),
        ((np.zeros(3, np.float32), 1), {"out": np.zeros(3)}, TypeError, "out= is an array of float64"),
        ((np.zeros(3, np.float32), 1e50), {}, OverflowError, "scalar b"),
    ],
)
def test_wrong_arguments_are_refused(args: Any, named: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mix(*args, **named)


def test_a_read_only_out_is_refused() -> None:
    for out in (np.zeros(3, np.float32), np.zeros(6, np.float32)[::2]):
        out.flags.writeable = False
        with pytest.raises(ValueError, match="mix: out= is read-only"):
            mix(1, 2, out=out)


def test_more_elements_than_i32_counts_take_i64(device: vc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered to 15, because arrays beyond it take 8 GiB."""
    monkeypatch.setattr(vectorize, "_MOST", 15)
    a = np.arange(16, dtype=np.float32)
    wide = vc.vectorize(mix.__wrapped__)

    few, many = wide(a[:15], 1.0), wide(a, 1.0)
    spread = wide(a[:, None], a[:3])
    resident = wide(device.array(a), device.array(a))

    assert {form.index for form in wide._kernels._forms} == {vc.i32, vc.i64}
    assert {form.index for form in wide._kernels._forms if form.axes is not None} == {vc.i64}
    assert np.array_equal(few, a[:15] * 2 + 1)
    assert np.array_equal(many, a * 2 + 1)
    assert np.array_equal(spread, a[:, None] * 2 + a[:3])
    assert np.array_equal(resident.numpy(), a * 3)
