"""Kernel functions whose arrays have several axes."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

import vyre_cuda as vc


@vc.kernel(block=(8, 8))
@no_type_check
def above(x: vc.In[vc.f32, 2], a: vc.f32):
    out = vc.output(vc.f32, x.shape)
    vc.work(x.shape[1], x.shape[0])
    i, j = vc.global_id.y, vc.global_id.x
    tile = vc.shared(vc.f32, (8, 8))
    tile[vc.thread_id.y, vc.thread_id.x] = x[i - 1, j]
    vc.barrier()
    out[i, j] = a * x[i, j] + tile[vc.thread_id.y, vc.thread_id.x]


def test_a_kernel_function_with_two_axes_is_the_same_everywhere(device: vc.Device) -> None:
    x = np.random.default_rng(1).random((5, 13)).astype(np.float32)
    want = np.float32(2) * x
    want[1:] += x[:-1]
    for result in (vc.evaluate(above, x, 2.0), above.python(x, 2.0), above.on(device)(x, 2.0)):
        np.testing.assert_array_equal(want, result, strict=True)
