"""Launches that leave out elements of an array on purpose are taken, and give what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.bundle.bundle import BundleFile

X = np.arange(1000, dtype=np.uint32)
IMAGE = np.arange(20 * 30, dtype=np.uint32).reshape(20, 30)


def name_of(value: Any) -> str:
    return getattr(value, "__name__", "") or getattr(value, "name", "")


@vc.kernel
def differences(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, x.size - 1)
    i = vc.global_id.x
    out[i] = x[i + 1] - x[i]


@vc.kernel
def beginning(x: vc.In[vc.u32], n: vc.i32):
    out = vc.output(vc.u32, n)
    i = vc.global_id.x
    if i < out.size:
        out[i] = x[i]


@vc.kernel
def reversed_beginning(x: vc.In[vc.u32], n: vc.i32):
    out = vc.output(vc.u32, n)
    i = vc.global_id.x
    out[n - 1 - i] = x[i]


@vc.kernel
def with_a_halo(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, x.size - 2)
    i = vc.global_id.x
    if i < out.size:
        out[i] = x[i] + x[i + 1] + x[i + 2]


@vc.kernel
def every_third(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, x.size // 3)
    i = vc.global_id.x
    out[i] = x[3 * i]


@vc.kernel
def by_table(table: vc.In[vc.u32], k: vc.In[vc.i32]):
    out = vc.output(vc.u32, k.size)
    i = vc.global_id.x
    out[i] = table[k[i]]


@vc.kernel
def scattered(x: vc.In[vc.u32], to: vc.In[vc.i32]):
    out = vc.output(vc.u32, x.size)
    i = vc.global_id.x
    if i < x.size:
        out[to[i]] = x[i]


@vc.kernel
def in_strides(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 1)
    total = vc.u32(0)
    for k in range(vc.global_id.x, x.size, vc.grid_dim.x * vc.block_dim.x):
        total += x[k]
    vc.atomic_add(out, 0, total)


@vc.kernel
def by_one_thread(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 1)
    if vc.global_id.x == 0:
        total = vc.u32(0)
        for k in range(x.size):
            total += x[k]
        out[0] = total


@vc.kernel
def sums_of_rows(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, x.shape[0])
    i = vc.global_id.x
    total = vc.u32(0)
    for j in range(x.shape[1]):
        total += x[i, j]
    out[i] = total


@vc.kernel
def cut_out(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, (x.shape[0] - 5, x.shape[1] - 5))
    i, j = vc.global_id.yx
    out[i, j] = x[i, j]


@vc.kernel
def rows_in_another_order(x: vc.In[vc.u32, 2], rows: vc.In[vc.i32], columns: vc.In[vc.i32]):
    out = vc.output(vc.u32, x.shape)
    i, j = vc.global_id.yx
    if i < x.shape[0] and j < x.shape[1]:
        out[rows[i], columns[j]] = x[i, j]


@vc.kernel
def rows_of_a_flat_one(x: vc.In[vc.u32], w: vc.i32):
    out = vc.output(vc.u32, 60)
    i = vc.global_id.x
    out[i // w * w + (w - 1 - i % w)] = x[i]


@vc.kernel
def up_to(x: vc.In[vc.u32], n: vc.i32):
    out = vc.output(vc.u32, 1)
    i = vc.global_id.x
    v = x[i]
    if i < n:
        vc.atomic_add(out, 0, v)


@vc.kernel
def even_ones_up_to(x: vc.In[vc.u32], n: vc.i32):
    out = vc.output(vc.u32, 1)
    i = vc.global_id.x
    if x[i] % 2 != 0 or i > n - 1:
        return
    vc.atomic_add(out, 0, x[i])


@vc.kernel
def of_the_first_warp(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 1)
    i = vc.global_id.x
    vc.atomic_add(out, 0, x[i] if i < 32 and x[i] > 5 else vc.u32(0))


@vc.kernel
def a_few_updates(to: vc.In[vc.i32], x: vc.In[vc.u32], out: vc.InOut[vc.u32]):
    i = vc.global_id.x
    if not i >= to.size:
        out[to[i]] = x[i]


@vc.kernel
def cut_out_of_a_row(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 50)
    i = vc.global_id.x
    out[i - 100] = x[i]


@vc.kernel
def transposed(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, (x.shape[1], x.shape[0]))
    i, j = vc.global_id.yx
    out[j, i] = x[i, j]


@vc.kernel
def quarter_turn(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, (x.shape[1], x.shape[0]))
    i, j = vc.global_id.yx
    if i < x.shape[0] and j < x.shape[1]:
        out[j, x.shape[0] - 1 - i] = x[i, j]


def below_a_number() -> vc.Program:
    b = vc.Builder("below_a_number")
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=1)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 200):
        b.atomic_add(out, 0, x[i])
    return b.build()


ORDER = np.random.default_rng(1).permutation(1000).astype(np.int32)
ROWS, COLUMNS = np.arange(20, dtype=np.int32)[::-1].copy(), np.roll(np.arange(30, dtype=np.int32), 7)
Expected = Callable[[], Any]
TAKEN: list[tuple[Any, tuple[Any, ...], Expected]] = [
    (differences, (X,), lambda: np.diff(X)),
    (beginning, (X, 300), lambda: X[:300]),
    (reversed_beginning, (X, 300), lambda: X[:300][::-1]),
    (with_a_halo, (X,), lambda: X[:-2] + X[1:-1] + X[2:]),
    (every_third, (X,), lambda: X[:999:3]),
    (by_table, (X, ORDER[:10]), lambda: X[ORDER[:10]]),
    (scattered, (X, ORDER), lambda: np.argsort(ORDER)),
    (in_strides, (X,), lambda: [X.sum()]),
    (by_one_thread, (X,), lambda: [X.sum()]),
    (sums_of_rows, (IMAGE,), lambda: IMAGE.sum(1)),
    (cut_out, (IMAGE,), lambda: IMAGE[:-5, :-5]),
    (rows_in_another_order, (IMAGE, ROWS, COLUMNS), lambda: IMAGE[::-1][:, (np.arange(30) + 7) % 30]),
    (up_to, (X, 200), lambda: [X[:200].sum()]),
    (even_ones_up_to, (X, 200), lambda: [X[:200:2].sum()]),
    (of_the_first_warp, (X,), lambda: [X[6:32].sum()]),
    (a_few_updates, (ROWS, X, np.zeros(100, np.uint32)), lambda: np.pad(X[:20][::-1], (0, 80))),
    (cut_out_of_a_row, (X,), lambda: X[100:150]),
    (below_a_number(), (X,), lambda: [X[:200].sum()]),
    (rows_of_a_flat_one, (X, 30), lambda: X[:60].reshape(2, 30)[:, ::-1].reshape(-1)),
]


@pytest.mark.parametrize(("kernel", "arguments", "expected"), TAKEN, ids=name_of)
def test_programs_that_mean_what_they_leave_out_are_taken(
    kernel: Any, arguments: tuple[Any, ...], expected: Expected
) -> None:
    result = vc.evaluate(kernel, *arguments)

    assert result.tolist() == np.asarray(expected()).tolist()


def test_a_condition_must_hold_for_all_threads_that_are_missing() -> None:
    assert vc.evaluate(up_to, X, 256) == X[:256].sum()
    with pytest.raises(ValueError, match=r"x\.size is 1000"):
        vc.evaluate(up_to, X, 257)
    assert vc.evaluate(up_to, X, -5) == 0
    assert vc.evaluate(up_to, X[:0], 257) == 0


def test_a_condition_counts_in_every_way_to_launch(tmp_path: Path) -> None:
    device = vc.Device("emulator")
    vc.bundle([up_to], tmp_path / "b.vyre", targets=["sm_90"], cubins=False)
    file = BundleFile((tmp_path / "b.vyre").read_bytes())

    assert up_to.on(device)(X, 256) == X[:256].sum()
    assert up_to.on(device)(X, -5) == 0
    assert file.shape(0, [1000, 0], [256]) == ([1000, 1], (1, 1, 1))
    assert file.shape(0, [1000, 0], [2**32 - 5]) == ([1000, 1], (1, 1, 1))
    with pytest.raises(ValueError, match=r"x\.size is 1000"):
        up_to.on(device)(X, 257)
    with pytest.raises(ValueError, match="pass a grid"):
        file.shape(0, [1000, 0], [257])


@pytest.mark.parametrize("shape", [(3, 300), (300, 3), (20, 30)])
def test_an_id_counts_along_the_axis_that_it_is_used_for(shape: tuple[int, int]) -> None:
    image = np.arange(900, dtype=np.uint32)[: shape[0] * shape[1]].reshape(shape)

    assert vc.evaluate(transposed, image).tolist() == image.T.tolist()
    assert vc.evaluate(quarter_turn, image).tolist() == np.rot90(image, -1).tolist()
