"""Rows of saxpy, and whether they computed it."""

from __future__ import annotations

from typing import Any

import numpy as np

import vyre_cuda as vc

F32 = np.float32
SIZES = (1024, 0, 5, 300, 0, 0, 77, 4000, 1, 256, 257, 0)


def saxpy_rows(device: vc.Device, sizes: tuple[int, ...] = SIZES) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(len(sizes))
    rows = []
    for number, n in enumerate(sizes):
        x, y = rng.standard_normal(n, dtype=F32), rng.standard_normal(n, dtype=F32)
        rows.append((device.array(x), device.array(y), device.array(np.full(n, 7, F32)), float(number)))
    return rows


def assert_saxpy(rows: list[tuple[Any, ...]]) -> None:
    for number, (x, y, out, a) in enumerate(rows):
        np.testing.assert_array_equal(F32(a) * x.numpy() + y.numpy(), out.numpy(), err_msg=f"row {number}")


def launches(device: vc.Device) -> int:
    return device.stats().kernel_launches
