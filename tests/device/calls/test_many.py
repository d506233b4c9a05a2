"""Many calls as one: each row returns what a call of its own does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from .. import programs

F32 = np.float32
SIZES = (1024, 0, 5, 300, 0, 77, 4000, 1, 256, 257)


def assert_like_calls(kernel: vc.Kernel, rows: list[Any], **options: Any) -> None:
    """The same arrays, in the same form, of their own, and with the arguments left as they were."""
    before = [[np.copy(a) if isinstance(a, np.ndarray) else a for a in row] for row in rows]
    wanted = [kernel(*row, **options) for row in rows]

    found = kernel.many(rows, **options)

    assert type(found) is list
    assert len(found) == len(wanted)
    for want, have in zip(wanted, found, strict=True):
        assert type(have) is type(want)
        wants, haves = (want, have) if isinstance(want, tuple) else ((want,), (have,))
        for w, h in zip(wants, haves, strict=True):
            assert (type(h), h.dtype, h.shape) == (type(w), w.dtype, w.shape)
            assert h.flags.owndata == w.flags.owndata
            assert h.flags.writeable
        assert_same(want, have)
    for row, kept in zip(rows, before, strict=True):
        for argument, was in zip(row, kept, strict=True):
            if isinstance(was, np.ndarray):
                assert_same(was, argument)


def saxpy_rows(sizes: tuple[int, ...] = SIZES) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(len(sizes))
    return [
        (rng.standard_normal(n, dtype=F32), rng.standard_normal(n, dtype=F32), float(a)) for a, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("sizes", [SIZES, (), (0, 0), (7,), (512,) * 30, (1 << 17, 3, 1 << 16)])
def test_rows_return_what_calls_do(device: vc.Device, sizes: tuple[int, ...]) -> None:
    assert_like_calls(device.compile(programs.saxpy()), saxpy_rows(sizes))


def test_rows_are_one_launch(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    before = device.stats().kernel_launches

    kernel.many(saxpy_rows())

    assert device.stats().kernel_launches == before + 1


def test_several_results_are_a_tuple(device: vc.Device) -> None:
    rows = [(np.arange(n, dtype=np.uint64),) for n in (100, 8, 3000, 9)]

    assert_like_calls(device.compile(programs.first_eight()), rows)


def test_inouts_start_as_their_arguments(device: vc.Device) -> None:
    rng = np.random.default_rng(3)
    rows = [
        (rng.integers(0, 9, 16).astype(np.uint32), rng.integers(0, 2**32, n, dtype=np.uint32))
        for n in (100, 0, 3000, 9)
    ]

    assert_like_calls(device.compile(programs.histogram()), rows)


def test_the_same_array_in_all_rows_is_copied_once(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x = np.arange(5000, dtype=F32)
    before = device.stats().host_to_device_bytes

    found = kernel.many([(x, x, float(a)) for a in range(20)])

    for a, out in enumerate(found):
        np.testing.assert_array_equal(F32(a) * x + x, out)
    assert device.stats().host_to_device_bytes - before < 3 * x.nbytes + 4096


def test_results_are_clear_where_the_program_does_not_write(device: vc.Device) -> None:
    rows = [(np.arange(1, n + 1, dtype=np.uint32),) for n in (50, 1, 0, 300)]
    kernel = device.compile(programs.every_second())
    device.array(np.full(10_000, 9, np.uint32)).free()

    assert_like_calls(kernel, rows)


def test_a_given_grid_is_that_of_each_row(device: vc.Device) -> None:
    assert_like_calls(device.compile(programs.saxpy()), saxpy_rows((600, 10, 1000)), grid=1)


def test_any_arguments_of_calls_are_taken(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x = np.arange(40, dtype=F32)
    pinned = device.pinned_empty(40, vc.f32)
    pinned[:] = x
    rows = [
        (x[::2], x[::-2], np.float64(2)),
        (device.array(x), x, 3),
        (pinned, pinned[:], F32(0.1)),
        [x.reshape(5, 8), x, 2.0],
    ]

    assert_like_calls(kernel, rows)
    (found,) = kernel.many([{"a": 2.0, "y": x, "x": x}])
    np.testing.assert_array_equal(F32(2) * x + x, found)


def test_a_structure_of_arrays_has_a_column_for_each_argument(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    x = np.random.default_rng(0).standard_normal((6, 50), dtype=F32)

    found = kernel.many({"x": x, "y": list(x[::-1]), "a": 2.0})

    for row, other, out in zip(x, x[::-1], found, strict=True):
        np.testing.assert_array_equal(F32(2) * row + other, out)


def test_assertions_name_the_row(device: vc.Device) -> None:
    kernel = device.compile(programs.guarded(10))
    good, bad = np.zeros(40, np.uint32), np.arange(40, dtype=np.uint32)
    assert_like_calls(kernel, [(good,), (good[:3],)])

    with pytest.raises(vc.KernelAssertionError, match="row 1: x must be below 10") as caught:
        kernel.many([(good,), (bad,), (good,)])
    assert caught.value.thread == 10


def test_kernels_with_barriers_of_the_grid_are_called_row_by_row(device: vc.Device) -> None:
    assert_like_calls(device.compile(programs.rotate_in_place()), [(np.arange(n, dtype=F32),) for n in (64, 32, 96)])


@pytest.mark.parametrize(
    ("spoil", "error", "match"),
    [
        (lambda row: row[:2], TypeError, "row 2: saxpy takes 3 arguments"),
        (lambda row: (row[0].astype(np.float64), row[1], 1.0), TypeError, "row 2: .*float64"),
        (lambda row: (row[0], row[1], 1e300), OverflowError, "row 2: .*scalar a"),
        (lambda row: "xy", TypeError, "row 2: .*a row is a sequence of arguments, not a str"),
    ],
)
def test_what_is_wrong_with_a_row_names_it(device: vc.Device, spoil: Any, error: type[Exception], match: str) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows((10,) * 4)
    rows[2] = spoil(rows[2])
    with pytest.raises(error, match=match):
        kernel.many(rows)


def test_calls_that_wait_are_refused_in_a_recording(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    with pytest.raises(vc.RecordingError, match="saxpy"), device.record():
        kernel.many(saxpy_rows())
