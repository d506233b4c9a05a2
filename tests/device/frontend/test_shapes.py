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
