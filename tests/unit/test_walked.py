"""A launch that would leave out elements of an array is refused; test_left_out.py has those that are not.

Without `vc.work` the number of threads follows from the first result, whatever the threads read.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from uncollected import uncollected

import vyre_cuda as vc
from vyre_cuda.ir.call import reach
from vyre_cuda.ir.call.walked import Walk, walks
from vyre_cuda.ir.core.nodes import Size
from vyre_cuda.ir.core.types import i32

X = np.arange(1000, dtype=np.uint32)
IMAGE = np.arange(20 * 30, dtype=np.uint32).reshape(20, 30)


# ---- what leaves out elements ----------------------------------------------------------------------------------------


@vc.kernel
def histogram(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 7)
    i = vc.global_id.x
    if i < x.size:
        vc.atomic_add(out, x[i] % 7, 1)


@vc.kernel(block=128)
def sums_of_blocks(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, (x.size + 127) // 128)
    vc.atomic_add(out, vc.block_id.x, x[vc.block_id.x * vc.block_dim.x + vc.thread_id.x])


@vc.kernel(block=128)
def sums_with_the_block_written_out(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, (x.size + 127) // 128)
    first = vc.block_id.x * 128
    vc.atomic_add(out, vc.block_id.x, x[vc.thread_id.x + first])


@vc.kernel
def total_first(x: vc.In[vc.u32]):
    total = vc.output(vc.u32, 1)
    doubled = vc.output(vc.u32, x.size)
    i = vc.global_id.x
    if i < x.size:
        doubled[i] = x[i] * 2
        vc.atomic_add(total, 0, x[i])


@vc.kernel
def folded(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 4)
    i = vc.global_id.x
    vc.atomic_add(out, i % 4, x[i])


@vc.kernel
def bins_by_branches(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 3)
    i = vc.global_id.x
    where: vc.i32 = 0
    if x[i] > 10:
        where = 1
    elif x[i] > 500:
        where = 2
    vc.atomic_add(out, where, 1)


@vc.kernel
def given_counts(x: vc.In[vc.u32], counts: vc.InOut[vc.u32]):
    i = vc.global_id.x
    if i < x.size:
        vc.atomic_add(counts, x[i] & 3, 1)


@vc.kernel
def pairs(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 2)
    i = vc.global_id.x
    if i + 1 < x.size:
        vc.atomic_add(out, vc.u32(x[i] > x[i + 1]), 1)


@vc.kernel
def joint_histogram(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, (4, 4))
    i, j = vc.global_id.yx
    vc.atomic_add(out, (x[i, j] % 4, x[i, j] // 4 % 4), 1)


@vc.kernel
def sums_of_columns(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, x.shape[1])
    i, j = vc.global_id.yx
    vc.atomic_add(out, j, x[i, j])


def rows_of_one_thread() -> vc.Program:
    b = vc.Builder("rows_of_one_thread")
    x = b.input("x", vc.u32, ndim=2)
    out = b.output("out", vc.u32, shape=x.shape)
    i, j = b.let("i", vc.global_id.y), b.let("j", vc.global_id.x)
    out[i, j] = x[i, j]
    return b.build()


@vc.kernel
def four_a_thread(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 7)
    i = vc.global_id.x * 4
    for k in range(4):
        if i + k < x.size:
            vc.atomic_add(out, x[i + k] % 7, 1)


@vc.kernel(block=64)
def two_tiles_a_block(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 1)
    i = vc.block_id.x * 128 + vc.thread_id.x
    vc.atomic_add(out, 0, x[i] + x[i + 64])


@vc.kernel
def above_the_first(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 1)
    i = vc.global_id.x
    vc.atomic_add(out, 0, x[i] - x[0])


@vc.kernel
def below_too_many(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, 1)
    i = vc.global_id.x
    if i < x.size // 2 and x[i] % 2 == 0:
        vc.atomic_add(out, 0, x[i])


@vc.kernel
def inside(x: vc.In[vc.u32]):
    out = vc.output(vc.u32, x.size - 488)
    i = vc.global_id.x
    if 1 <= i < x.size - 487:
        out[i - 1] = x[i - 1] + x[i] + x[i + 1]


REFUSED: list[tuple[Any, tuple[Any, ...]]] = [
    (histogram, (X,)),
    (sums_of_blocks, (X,)),
    (sums_with_the_block_written_out, (X,)),
    (total_first, (X,)),
    (folded, (X,)),
    (bins_by_branches, (X,)),
    (given_counts, (X, np.zeros(4, np.uint32))),
    (pairs, (X,)),
    (joint_histogram, (IMAGE,)),
    (sums_of_columns, (IMAGE,)),
    (rows_of_one_thread(), (IMAGE,)),
    (four_a_thread, (np.arange(1025, dtype=np.uint32),)),
    (two_tiles_a_block, (X,)),
    (above_the_first, (X,)),
    (below_too_many, (X,)),
    (inside, (X,)),
]


def name_of(value: Any) -> str:
    return getattr(value, "__name__", "") or getattr(value, "name", "")


@pytest.mark.parametrize(("kernel", "arguments"), REFUSED, ids=name_of)
def test_elements_that_no_thread_would_reach_are_an_error(kernel: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"the rest of x would be left out; .*vc\.work\(.*x\.(size|shape)"):
        vc.evaluate(kernel, *arguments)


@pytest.mark.parametrize(("kernel", "arguments"), REFUSED, ids=name_of)
def test_a_grid_says_how_many_threads_there_are(kernel: Any, arguments: tuple[Any, ...]) -> None:
    vc.evaluate(kernel, *arguments, grid=(8, 20))


def test_the_error_has_the_numbers_and_the_way_out() -> None:
    with pytest.raises(
        ValueError, match=r"histogram: x\.size is 1000, but the launch has 256 threads along x"
    ) as found:
        vc.evaluate(histogram, X)

    assert "vc.work(x.size)" in str(found.value)
    assert "grid=" in str(found.value)


def test_the_error_has_the_work_of_each_axis() -> None:
    with pytest.raises(ValueError, match=r"1 thread along y, .*vc\.work\(x\.shape\[1\], x\.shape\[0\]\)"):
        vc.evaluate(joint_histogram, np.zeros((20, 10), np.uint32))


@vc.kernel
def rows_by_hand(w: vc.i32, h: vc.i32):
    out = vc.output(vc.u32, w * h)
    y, x = vc.global_id.yx
    if x < w and y < h:
        out[y * w + x] = vc.u32(x + 1)


@vc.kernel
def sums_of_rows_along_y(x: vc.In[vc.u32, 2]):
    out = vc.output(vc.u32, x.shape[0])
    i = vc.global_id.y
    for j in range(x.shape[1]):
        out[i] += x[i, j]


@pytest.mark.parametrize(
    ("kernel", "arguments", "work"),
    [
        (rows_by_hand, (30, 20), "w, out.size // w"),
        (sums_of_rows_along_y, (IMAGE,), "1, x.shape[0]"),
    ],
    ids=name_of,
)
def test_rows_that_no_thread_would_reach_are_an_error(kernel: Any, arguments: tuple[Any, ...], work: str) -> None:
    with pytest.raises(ValueError, match=r"1 thread along y, so the rest of .* would be left out") as found:
        vc.evaluate(kernel, *arguments)

    assert f"write vc.work({work}) in the kernel" in str(found.value)
    vc.evaluate(rows_by_hand, 30, 1)


def test_as_python_it_is_the_same_error() -> None:
    with pytest.raises(ValueError, match="the rest of x would be left out"):
        histogram.python(X)


def test_one_block_for_as_many_elements_as_it_has_threads_is_enough() -> None:
    assert vc.evaluate(histogram, X[:256]).sum() == 256
    with pytest.raises(ValueError, match=r"x\.size is 257"):
        vc.evaluate(histogram, X[:257])


def test_elements_that_threads_read_behind_their_own_count_as_reached() -> None:
    assert vc.evaluate(pairs, X[:257]).sum() == 256
    with pytest.raises(ValueError, match=r"x\.size is 258"):
        vc.evaluate(pairs, X[:258])


def test_a_program_that_names_its_work_is_not_looked_at() -> None:
    b = vc.Builder("some")
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=1)
    b.work(10)
    b.atomic_add(out, 0, x[vc.global_id.x])
    program = b.build()

    assert walks(program) == ()
    assert vc.evaluate(program, X) == [sum(range(256))]


def test_several_elements_a_thread_are_counted() -> None:
    assert vc.evaluate(four_a_thread, np.arange(1024, dtype=np.uint32)).sum() == 1024
    assert vc.evaluate(two_tiles_a_block, X[:128]) == X[:128].sum()


def test_what_a_program_walks_through() -> None:
    x = Size(i32, "x")

    assert walks(histogram.program()) == (Walk(x, 0, ((reach.of(x, 0),),)),)
    assert walks(pairs.program()) == (Walk(x, 0, ((reach.of(x, -1),),)),)
    rows = Size(i32, "x", axis=0)
    assert walks(sums_of_columns.program()) == (Walk(rows, 1, ((reach.of(rows, 0),),)),)


def calls_for(values: int) -> int:
    """Function calls that find the walks of a program of so many values, each of which is used by the next and added
    to a result."""
    b = vc.Builder("sums", block=64)
    x, out = b.input("x", vc.f32), b.output("out", vc.f32)
    value = b.let("first", x[b.let("i", vc.global_id.x)])
    for k in range(values):
        value = b.let(f"v{k}", value + 1.0)
        b.atomic_add(out, k % 7, value)
    program, calls = b.build(), 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    with uncollected():
        sys.setprofile(count)
        try:
            assert len(walks(program)) == 1
        finally:
            sys.setprofile(None)
    return calls


def test_the_work_grows_with_the_program_alone() -> None:
    assert calls_for(200) < 5 * calls_for(50)


def test_a_place_for_each_block_may_be_for_more_blocks_than_there_are():
    b = vc.Builder("counts", block=64)
    x, done = b.inout("x", vc.u32), b.inout("done", vc.u32)
    with b.if_(vc.thread_id.x == 0):
        x[1] = vc.block_id.x
        b.atomic_add(done, vc.block_id.x, 1)

    assert walks(b.build()) == ()


def test_a_bitcast_of_a_number_is_no_place():
    b = vc.Builder("bits")
    x = b.inout("x", vc.u32)
    at = b.let("at", vc.bitcast(vc.u32(3), vc.u32))
    x[at] = 1

    assert walks(b.build()) == ()
