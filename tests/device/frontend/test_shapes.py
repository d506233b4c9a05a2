"""Arrays of several axes in kernel functions."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc

pytestmark = pytest.mark.device


@vc.kernel(block=(16, 16))
def blur(x: vc.In[vc.f32, 2], weight: vc.f32):
    rows, columns = x.shape
    out = vc.output(vc.f32, (rows, columns))
    tile = vc.shared(vc.f32, (16, 16))
    vc.work(columns, rows)
    i, j = vc.global_id.y, vc.global_id.x
    tile[vc.thread_id.y, vc.thread_id.x] = weight
    vc.barrier()
    if i < rows and j < columns:
        total: vc.f32 = 0
        for a in range(-1, 2):
            for b in range(-1, 2):
                total += x[i + a, j + b]
        out[i, j] = total * tile[vc.thread_id.y, vc.thread_id.x]
        out[i, j] += 1


@vc.kernel
def rows_of(x: vc.In2[vc.i32], y: vc.InOut[vc.i32, 3]):
    n = x.shape[0]
    out = vc.output(vc.i32, n)
    i = vc.global_id.x
    if i < n:
        out[i] = x[i, 0] + y[i, 1, 1]
        y[i, 1, 1] = 7


def test_a_stencil_reads_zeros_beyond_each_edge(device: vc.Device) -> None:
    x = np.random.default_rng(5).integers(0, 100, (40, 50)).astype(np.float32)
    padded = np.pad(x, 1)
    expected = sum(padded[a : a + 40, b : b + 50] for a in range(3) for b in range(3)) * 2 + 1

    interpreted = vc.evaluate(blur, x, 2.0)
    on_device = blur.on(device)(x, 2.0)

    assert np.array_equal(interpreted, expected)
    assert on_device.shape == (40, 50)
    assert np.array_equal(on_device, expected)
    assert np.array_equal(blur(device.array(x), 2.0), expected)


def test_results_have_their_shapes(device: vc.Device) -> None:
    x, y = np.arange(6, dtype=np.int32).reshape(3, 2), np.ones((3, 2, 2), np.int32)

    new_y, out = rows_of.on(device)(x, y)

    assert out.tolist() == [1, 3, 5]
    assert new_y.shape == (3, 2, 2)
    assert new_y[:, 1, 1].tolist() == [7, 7, 7]
    with pytest.raises(ValueError, match="axes"):
        rows_of.on(device)(x.ravel(), y)


@vc.kernel(block=(8, 4))
def places(x: vc.In[vc.f32, 2]):
    out = vc.output(vc.i32, (x.shape[0], x.shape[1] + 1))
    i, j = vc.global_id.yx
    out[i, j] = 100 * i + j


@vc.kernel(block=(2, 3, 4))
def places_in_three(n: vc.i32):
    out = vc.output(vc.i32, (n, 3, 2))
    i, j, k = vc.global_id.zyx
    out[i, j, k] = 100 * i + 10 * j + k


@vc.kernel
def flat(x: vc.In[vc.f32, 2]):
    out = vc.output(vc.i32, x.shape)
    i = vc.global_id.x
    out[i // x.shape[1], i % x.shape[1]] = i


def test_ids_along_each_axis_give_a_thread_for_each_element(device: vc.Device) -> None:
    x = np.zeros((9, 10), np.float32)
    rows, columns = np.mgrid[:9, :11]

    assert places.program().text().splitlines()[3] == "work size(out, 1), size(out, 0)"
    for found in (vc.evaluate(places, x), places.on(device)(x), places.python(x)):
        assert np.array_equal(found, 100 * rows + columns)


def test_three_axes_too(device: vc.Device) -> None:
    i, j, k = np.mgrid[:5, :3, :2]

    for found in (vc.evaluate(places_in_three, 5), places_in_three.on(device)(5), places_in_three.python(5)):
        assert np.array_equal(found, 100 * i + 10 * j + k)


def test_with_ids_along_x_alone_the_elements_are_counted(device: vc.Device) -> None:
    x = np.zeros((9, 10), np.float32)

    assert "work" not in flat.program().text()
    assert np.array_equal(flat.on(device)(x), np.arange(90).reshape(9, 10))


def test_ids_as_tuples() -> None:
    assert [len(getattr(vc.thread_id, name)) for name in ("xy", "yx", "xyz", "zyx")] == [2, 2, 3, 3]


@vc.kernel
def doubled_into(x: vc.In2[vc.f32], y: vc.Out2[vc.f32]):
    i, j = vc.global_id.yx
    y[i, j] = 2 * x[i, j]


@vc.kernel
def doubled_in_place(y: vc.InOut3[vc.f32]):
    i, j, k = vc.global_id.zyx
    y[i, j, k] *= 2


def test_an_out_that_a_call_brings_has_a_thread_for_each_element(device: vc.Device) -> None:
    x = np.arange(600, dtype=np.float32).reshape(2, 300)

    results = [
        doubled_into.on(device)(x, out=np.empty_like(x)),
        doubled_into.python(x, out=np.empty_like(x)),
        vc.evaluate(doubled_into, x, out=np.empty_like(x)),
    ]
    for result in results:
        np.testing.assert_array_equal(2 * x, result)


def test_without_outputs_the_first_inout_has_a_thread_for_each_element(device: vc.Device) -> None:
    y = np.arange(600, dtype=np.float32).reshape(2, 3, 100)

    for result in (doubled_in_place.on(device)(y), doubled_in_place.python(y), vc.evaluate(doubled_in_place, y)):
        np.testing.assert_array_equal(2 * y, result, strict=True)
