"""Many launches as one: each row has the results of a launch of its own, and what may not run together is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .. import programs
from ..foreign_library import ForeignStream
from ..foreign_ptx import SAXPY
from .row_checks import F32, SIZES, assert_saxpy, launches, saxpy_rows

# ---- results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [SIZES, (512,) * 40, (0, 0), (), (900,), tuple(range(0, 700, 9)), (1,) * 300])
def test_rows_of_any_sizes_have_the_results_of_launches(device: vc.Device, sizes: tuple[int, ...]) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, sizes)

    kernel.launch_many(rows)

    assert_saxpy(rows)


def test_rows_are_one_launch(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device)
    before = launches(device)

    kernel.launch_many(rows)

    assert launches(device) == before + 1


def test_launches_follow_each_other_in_call_order(device: vc.Device) -> None:
    kernel = device.compile(programs.add_to())
    one = device.array(np.ones(300, np.int32))
    sums = [device.zeros(300, vc.i32) for _ in range(9)]

    for _ in range(20):
        kernel.launch_many([(h, one) for h in sums])
        kernel.launch(sums[0], one)

    np.testing.assert_array_equal(np.full(300, 40), sums[0].numpy())
    for h in sums[1:]:
        np.testing.assert_array_equal(np.full(300, 20), h.numpy())


def test_rows_may_be_views_of_one_array(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    data = np.random.default_rng(0).standard_normal((3, 600), dtype=F32)
    x, y, out = device.array(data[0]), device.array(data[1]), device.zeros(600, vc.f32)
    bounds = [0, 1, 3, 100, 100, 359, 600]

    kernel.launch_many([(x[a:b], y[a:b], out[a:b], 3.0) for a, b in pairwise(bounds)])

    np.testing.assert_array_equal(F32(3) * data[0] + data[1], out.numpy())


def test_outs_are_cleared_where_the_program_does_not_write(device: vc.Device) -> None:
    kernel = device.compile(programs.every_second())
    sizes = (50, 1, 0, 300, 50, 50)
    inputs = [np.arange(1, n + 1, dtype=np.uint32) for n in sizes]
    arena = device.array(np.full(200, 9, np.uint32))
    outs = [device.array(np.full(2 * n, 9, np.uint32)) for n in sizes[:4]] + [arena[:100], arena[100:]]

    kernel.launch_many([(device.array(x), out) for x, out in zip(inputs, outs, strict=True)])

    for x, out in zip(inputs, outs, strict=True):
        np.testing.assert_array_equal(x, out.numpy()[::2])
        np.testing.assert_array_equal(0, out.numpy()[1::2])


def test_rows_have_the_parameters_of_the_kernel_whatever_its_other_entry_reads(device: vc.Device) -> None:
    """The form with several elements a thread reads an extent that the other one does not need."""
    b = vc.Builder("diagonal_and_copy", block=32, index=vc.i32)
    a, x, z = b.scalar("a", vc.i32), b.input("x", vc.u8, ndim=2), b.input("z", vc.u32)
    copy = b.output("copy", vc.u32, shape=(x.shape[0], x.shape[1]))
    diagonal = b.output("diagonal", vc.u8, size=50)
    i = b.let("i", vc.global_id.x)
    copy[i // copy.shape[1], i % copy.shape[1]] = z[i]
    with b.if_(i < diagonal.size):
        diagonal[i] = x[i, i] + vc.u8(a)
    kernel = device.compile(b.build())
    rng = np.random.default_rng(2)
    arrays = [(rng.integers(0, 99, (3 + n, 8), np.uint8), rng.integers(0, 99, 90, np.uint32)) for n in range(4)]
    wanted = [kernel(n, x, z) for n, (x, z) in enumerate(arrays)]
    rows = [
        (n, device.array(x), device.array(z), device.empty(x.shape, vc.u32), device.empty(50, vc.u8))
        for n, (x, z) in enumerate(arrays)
    ]

    kernel.launch_many(rows)
    found = kernel.many([(n, *row) for n, row in enumerate(arrays)])

    for want, row, have in zip(wanted, rows, found, strict=True):
        for one, launched, called in zip(want, row[3:], have, strict=True):
            np.testing.assert_array_equal(one, launched.numpy())
            np.testing.assert_array_equal(one, called)


def every_third(type_: vc.Type) -> vc.Program:
    b = vc.Builder(f"every_third_{type_.name}", block=64)
    n, out = b.scalar("n", vc.u32), b.output("out", type_)
    b.work(n)
    with b.if_(vc.global_id.x < n):
        out[vc.global_id.x * 3] = type_(1)
    return b.build()


@pytest.mark.parametrize("type_", [vc.u8, vc.f16, vc.f32, vc.f64], ids=str)
def test_many_outs_are_cleared_whatever_their_alignment(device: vc.Device, type_: vc.Type) -> None:
    kernel, rng = device.compile(every_third(type_)), np.random.default_rng(type_.itemsize)
    arena = device.array(np.full(4000, 7, type_.dtype))
    outs = [device.array(np.full(int(n), 7, type_.dtype)) for n in rng.integers(0, 300, 40)]
    outs += [arena[100 * i + int(rng.integers(0, 9)) : 100 * i + 80] for i in range(40)]
    outside = np.full(4000, 7, type_.dtype)

    kernel.launch_many([(-(-out.size // 3), out) for out in outs])

    for i, out in enumerate(outs):
        wanted = np.zeros(out.size, type_.dtype)
        wanted[::3] = 1
        np.testing.assert_array_equal(wanted, out.numpy(), err_msg=f"row {i}")
        if i >= 40:
            first = 100 * (i - 39) - 20 - out.size
            outside[first : first + out.size] = wanted
    np.testing.assert_array_equal(outside, arena.numpy())


def test_many_outs_are_cleared_by_one_launch(device: vc.Device) -> None:
    kernel = device.compile(every_third(vc.f32))
    outs = [device.array(np.full(90, 7, F32)) for _ in range(50)]
    rows = [(30, out) for out in outs[::2]]
    kernel.launch_many(rows)
    before = device.stats()

    kernel.launch_many(rows)

    after = device.stats()
    assert after.kernel_launches == before.kernel_launches + 2
    assert after.fill_operations == before.fill_operations
    for out in outs[1::2]:
        np.testing.assert_array_equal(7, out.numpy())


def test_a_given_grid_is_that_of_each_row(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, (600, 100, 1000))

    kernel.launch_many(rows, grid=1)

    for x, y, out, a in rows:
        wanted = F32(a) * x.numpy() + y.numpy()
        wanted[256:] = 0
        np.testing.assert_array_equal(wanted, out.numpy())


def blocks_and_grid() -> vc.Program:
    """Where each thread of a launch with three axes is, and how large its grid is."""
    b = vc.Builder("blocks_and_grid", block=(4, 2, 1))
    extents = [b.scalar(name, vc.u32) for name in ("width", "height", "depth")]
    out = b.output("out", vc.u32)
    b.work(*extents)
    g = b.let("g", (vc.global_id.z * extents[1] + vc.global_id.y) * extents[0] + vc.global_id.x)
    with b.if_((vc.global_id.x < extents[0]) & (vc.global_id.y < extents[1]) & (vc.global_id.z < extents[2])):
        place = (vc.block_id.z * 100 + vc.block_id.y) * 100 + vc.block_id.x
        size = (vc.grid_dim.z * 100 + vc.grid_dim.y) * 100 + vc.grid_dim.x
        out[g] = place + size * 1_000_000
    return b.build()


@pytest.mark.parametrize("alike", [False, True])
def test_block_numbers_and_grid_are_those_of_the_row(device: vc.Device, *, alike: bool) -> None:
    kernel = device.compile(blocks_and_grid())
    extents = (
        [(9, 5, 3)] * 7 if alike else [(9, 5, 3), (1, 1, 1), (40, 1, 1), (1, 9, 1), (3, 3, 7), (0, 4, 4), (8, 4, 2)]
    )
    apart = [device.zeros(int(np.prod(e)), vc.u32) for e in extents]
    together = [device.zeros(int(np.prod(e)), vc.u32) for e in extents]
    for out, e in zip(apart, extents, strict=True):
        kernel.launch(*e, out)

    kernel.launch_many([(*e, out) for out, e in zip(together, extents, strict=True)])

    for wanted, found in zip(apart, together, strict=True):
        np.testing.assert_array_equal(wanted.numpy(), found.numpy())


def test_numpy_scalars_lists_and_names_are_rows_too(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, (10, 20, 30))
    x, y, out, a = rows[0]
    kernel.launch_many([{"out": out, "a": np.float32(a), "y": y, "x": x}, list(rows[1]), iter(rows[2])])
    assert_saxpy(rows)


def test_a_structure_of_arrays_has_a_column_for_each_parameter(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, (10, 10, 10))
    x = rows[0][0]
    rows = [(x, y, out, float(n + 2)) for n, (_, y, out, _) in enumerate(rows)]

    kernel.launch_many(
        {"x": x, "y": [row[1] for row in rows], "out": tuple(row[2] for row in rows), "a": np.arange(2, 5, dtype=F32)}
    )

    assert_saxpy(rows)


def test_rows_on_a_stream_are_ordered_there(device: vc.Device) -> None:
    kernel, rows, stream = device.compile(programs.saxpy()), saxpy_rows(device), device.stream()

    kernel.launch_many(rows, stream=stream)
    stream.synchronize()

    assert_saxpy(rows)


def test_rows_on_the_stream_of_another_library(device: vc.Device, stream: ForeignStream) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device)

    for _ in range(3):
        kernel.launch_many(rows, stream=stream)

    assert_saxpy(rows)


def test_arrays_may_be_dropped_at_once(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    rows = saxpy_rows(device, (700,) * 30)
    wanted = [F32(a) * x.numpy() + y.numpy() for x, y, _, a in rows]
    outs = [row[2] for row in rows]

    for _ in range(10):
        kernel.launch_many(rows)
    del rows
    device.array(np.full(700 * 90, 1e9, F32))

    for want, out in zip(wanted, outs, strict=True):
        np.testing.assert_array_equal(want, out.numpy())


def test_the_entry_comes_from_the_disk_cache_the_next_time(opened: Any) -> None:
    for wanted in (2, 0):  # the kernel and its entry; nothing
        device = opened()
        kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device)
        kernel.launch_many(rows)
        kernel.launch_many(rows)
        assert_saxpy(rows)
        assert device.stats().compiles == wanted
        device.close()


def test_known_values_are_held_to_in_each_row(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy(), specialize={"a": 3.0}), saxpy_rows(device, (10, 600, 30))
    kernel.launch_many([(*row[:3], 3.0) for row in rows])
    assert_saxpy([(*row[:3], 3.0) for row in rows])

    with pytest.raises(ValueError, match=r"row 1: .*a"):
        kernel.launch_many([(*row[:3], float(3 + n)) for n, row in enumerate(rows)])


# ---- what is launched row by row ----------------------------------------------------------------------------------


def test_kernels_with_assertions_are_launched_row_by_row(device: vc.Device) -> None:
    kernel = device.compile(programs.guarded(10))
    good, bad = device.array(np.zeros(40, np.uint32)), device.array(np.arange(40, dtype=np.uint32))
    outs = [device.zeros(40, vc.u32) for _ in range(3)]
    before = launches(device)

    kernel.launch_many([(x, out) for x, out in zip((good, bad, good), outs, strict=True)])

    assert launches(device) == before + 3
    with pytest.raises(vc.KernelAssertionError) as caught:
        device.synchronize()
    assert caught.value.thread == 10


def test_kernels_that_trap_out_of_bounds_are_launched_row_by_row(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy(), bounds="trap"), saxpy_rows(device)

    kernel.launch_many(rows)

    assert_saxpy(rows)


def test_kernels_with_barriers_of_the_grid_are_launched_row_by_row(device: vc.Device) -> None:
    kernel = device.compile(programs.rotate_in_place())
    data = [np.arange(n, dtype=F32) for n in (64, 32, 96)]
    apart, together = ([device.array(x) for x in data] for _ in range(2))
    for x in apart:
        kernel.launch(x)

    kernel.launch_many([(x,) for x in together])

    for wanted, found in zip(apart, together, strict=True):
        np.testing.assert_array_equal(wanted.numpy(), found.numpy())


def test_a_kernel_without_its_source_is_launched_row_by_row(device: vc.Device, tmp_path: Path) -> None:
    for source, wanted in ((True, 1), (False, len(SIZES) - SIZES.count(0))):
        path = tmp_path / f"{source}.vyre"
        vc.bundle(programs.saxpy(), path, targets=[str(device.target)], source=source, cubins=False)
        kernel, rows = vc.load_bundle(path).on(device)["saxpy"], saxpy_rows(device)
        before = launches(device)

        kernel.launch_many(rows)

        assert_saxpy(rows)
        assert launches(device) == before + wanted


def test_loaded_kernels_are_launched_row_by_row(device: vc.Device) -> None:
    kernel = device.load(SAXPY, "saxpy", signature="const_ptr ptr f32 u32")
    x = np.arange(100, dtype=F32)
    rows = [(device.array(x), device.array(x), float(a), 100) for a in range(3)]

    kernel.launch_many(rows, grid=1, block=128)

    for (_, y, a, _), wanted in zip(rows, (x, 2 * x, 3 * x), strict=True):
        np.testing.assert_array_equal(wanted, y.numpy(), err_msg=str(a))
    with pytest.raises(TypeError, match="row 1: "):
        kernel.launch_many([rows[0], (1.5, *rows[1][1:])], grid=1, block=128)


def test_a_recording_has_the_launches_of_the_rows(device: vc.Device) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, (10, 300, 20))
    with device.record() as graph:
        kernel.launch_many([(*row[:3], vc.symbol(f"a{n}")) for n, row in enumerate(rows)])

    graph.replay(a0=0.0, a1=1.0, a2=2.0)

    assert_saxpy(rows)


# ---- driver --------------------------------------------------------------------------------------------------------


@pytest.mark.emulator
def test_a_captured_launch_has_the_rows_in_the_capture(device: vc.Device, stream: ForeignStream) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, (10, 300, 20))
    stream.begin_capture()
    kernel.launch_many(rows, stream=stream)
    graph = stream.end_capture()
    for _, _, out, _ in rows:
        np.testing.assert_array_equal(7, out.numpy())

    graph.replay(stream)
    stream.synchronize()

    assert_saxpy(rows)


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("function", "before"), [("cuMemcpyHtoDAsync", 1), ("cuLaunchKernel", 0), ("cuGraphLaunch", 2)]
)
def test_a_failed_launch_leaves_the_next_one_working(device: vc.Device, function: str, before: int) -> None:
    kernel, rows = device.compile(programs.saxpy(96 + 32 * before)), saxpy_rows(device)  # not launched before
    for _ in range(before):
        kernel.launch_many(rows)
    with Emulator().steered() as emulator:
        emulator.fail(function, result=1)
        with pytest.raises(vc.Error):
            kernel.launch_many(rows)

    kernel.launch_many(rows)

    assert_saxpy(rows)


def test_outs_in_neighboring_allocations_are_cleared(device: vc.Device) -> None:
    """The driver puts such arrays side by side, and fills none together with its neighbor."""
    b = vc.Builder("positive", block=32)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    with b.if_(x[vc.global_id.x] > 0):
        out[vc.global_id.x] = x[vc.global_id.x]
    values = np.random.default_rng(1).standard_normal((200, 128), dtype=F32)
    rows = [(device.array(each), device.array(np.full(128, 7, F32))) for each in values]

    device.compile(b.build()).launch_many(rows)

    for each, (_, result) in zip(values, rows, strict=True):
        np.testing.assert_array_equal(np.where(each > 0, each, F32(0)), result.numpy())
