"""Rows of launches that are refused, each in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.runtime.memory.interop import adopt

from .. import programs
from ..foreign_library import Library
from .row_checks import F32, assert_saxpy, launches, saxpy_rows


def refused(
    device: vc.Device, rows: Any, error: type[Exception], match: str, program: vc.Program | None = None
) -> None:
    """Nothing is launched or cleared."""
    kernel = device.compile(programs.saxpy())
    before = launches(device)
    with pytest.raises(error, match=match):
        kernel.launch_many(rows)
    assert launches(device) == before


def test_rows_that_write_the_same_memory_are_refused(device: vc.Device) -> None:
    rows = saxpy_rows(device, (100,) * 8)
    rows[6] = (*rows[6][:2], rows[2][2], 1.0)

    refused(device, rows, ValueError, "rows 2 and 6 share memory that one of them writes: `out` of row 2 and `out`")
    np.testing.assert_array_equal(7, rows[2][2].numpy())


def test_a_row_that_reads_what_another_writes_is_refused(device: vc.Device) -> None:
    rows = saxpy_rows(device, (100,) * 8)
    rows[1] = (rows[5][2], *rows[1][1:])

    refused(device, rows, ValueError, "rows 1 and 5 share memory")


@pytest.mark.parametrize(("first", "second", "meet"), [((0, 10), (10, 20), False), ((0, 11), (10, 20), True)])
def test_ranges_meet_by_bytes(device: vc.Device, first: Any, second: Any, *, meet: bool) -> None:
    x, out = device.zeros(50, vc.f32), device.zeros(50, vc.f32)
    rows = [(x[a:b], x[a:b], out[a:b], 1.0) for a, b in (first, (30, 40), second)]
    if meet:
        refused(device, rows, ValueError, "rows 0 and 2 share")
    else:
        device.compile(programs.saxpy()).launch_many(rows)


def test_rows_may_read_the_same_memory(device: vc.Device) -> None:
    rows = saxpy_rows(device, (100,) * 8)
    rows = [(rows[0][0], rows[0][0], out, a) for _, _, out, a in rows]

    device.compile(programs.saxpy()).launch_many(rows)

    assert_saxpy(rows)


def mixed_rows(device: vc.Device, rows: int) -> list[tuple[Any, ...]]:
    """Arrays of their own, in an order in which no row stands above or below all before it."""
    made = saxpy_rows(device, (100,) * rows)
    return [made[i] for i in np.random.default_rng(rows).permutation(rows)]


@pytest.mark.parametrize("shares", [False, True])
def test_rows_with_arrays_of_their_own_are_compared_by_array(device: vc.Device, *, shares: bool) -> None:
    rows = mixed_rows(device, 70)
    if shares:
        rows = [(rows[0][0], *row[1:]) for row in rows]

    for _ in range(2):
        device.compile(programs.saxpy()).launch_many(rows)

    assert_saxpy(rows)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_array_of_another_row_is_refused_among_many_of_their_own(device: vc.Device, place: int) -> None:
    rows = mixed_rows(device, 70)
    row = list(rows[61])
    row[place] = rows[9][2]
    rows[61] = tuple(row)

    refused(device, rows, ValueError, "rows 9 and 61 share memory that one of them writes")


def test_views_of_one_array_among_many_of_their_own_are_compared_by_bytes(device: vc.Device) -> None:
    rows = mixed_rows(device, 70)
    both = device.zeros(200, vc.f32)
    rows[9], rows[61] = (*rows[9][:2], both[:100], 1.0), (*rows[61][:2], both[100:], 1.0)

    device.compile(programs.saxpy()).launch_many(rows)

    assert_saxpy(rows)


@pytest.mark.emulator
def test_memory_of_others_is_compared_by_address(device: vc.Device, library: Library) -> None:
    rows = mixed_rows(device, 70)
    stream = library.stream()
    theirs = library.array(np.zeros(100, np.float32), stream)
    rows[9] = (*rows[9][:2], adopt(device, theirs), 1.0)
    device.compile(programs.saxpy()).launch_many(rows)
    assert_saxpy(rows)

    rows[61] = (adopt(device, theirs), *rows[61][1:])
    refused(device, rows, ValueError, "rows 9 and 61 share memory that one of them writes")
    del rows
    device.synchronize()
    stream.destroy()


def test_whether_ranges_meet_is_what_comparing_all_pairs_says(device: vc.Device) -> None:
    kernel = device.compile(programs.saxpy())
    rng = np.random.default_rng(5)
    arena = device.zeros(4000, vc.f32)
    refusals = 0
    for _ in range(200):
        rows, taken = [], []
        for _ in range(int(rng.integers(2, 7))):
            n = int(rng.integers(0, 60))
            out, x, y = (int(at) for at in rng.choice(4000 // 60, 3, replace=False) * 60)
            x += int(rng.integers(0, 60 - n + 1))  # not into the next place: rows themselves are right
            rows.append((arena[x : x + n], arena[y : y + n], arena[out : out + n], 1.0))
            taken.append([range(out, out + n), range(x, x + n), range(y, y + n)])
        meet = any(
            one is not other and set(one[0]) & set(touched) for one in taken for other in taken for touched in other
        )
        refusals += meet
        if meet:
            refused(device, rows, ValueError, r"rows \d+ and \d+ share memory that one of them writes")
        else:
            kernel.launch_many(rows)
    assert 20 < refusals < 180


@pytest.mark.parametrize(
    ("spoil", "error", "match"),
    [
        (lambda row: row[:3], TypeError, "row 2: saxpy takes 4 parameters"),
        (lambda row: (*row[:2], np.zeros(5, F32), 1.0), TypeError, "row 2: .*out"),
        (lambda row: (*row[:3], "a"), TypeError, "row 2: .*scalar a"),
        (lambda row: (*row[:3], vc.symbol("a")), TypeError, "row 2: .*"),
        (lambda row: (row[0], row[1], row[1], 1.0), ValueError, "row 2: .*overlap"),
        (lambda row: 5, TypeError, "row 2: .*a row is a sequence of arguments, not an int"),
    ],
)
def test_what_is_wrong_with_a_row_names_it(device: vc.Device, spoil: Any, error: type[Exception], match: str) -> None:
    rows = saxpy_rows(device, (10,) * 4)
    rows[2] = spoil(rows[2])

    refused(device, rows, error, match)


@pytest.mark.parametrize("wrong", [None, vc.symbol("x", 3), ()])
def test_a_wrong_row_in_a_recording_is_named_and_none_is_recorded(device: vc.Device, wrong: object) -> None:
    kernel, rows = device.compile(programs.saxpy()), saxpy_rows(device, (10,) * 4)
    spoiled = [*rows[:2], (wrong, *rows[2][1:]) if wrong != () else (), rows[3]]
    with device.record() as graph:
        kernel.launch(*rows[3])
        with pytest.raises(TypeError, match=r"^row 2: saxpy"):
            kernel.launch_many(spoiled)
    assert (len(graph), graph.symbols) == (1, ())

    graph.replay()

    assert_saxpy(rows[3:])


def test_columns_must_be_those_of_the_program_and_as_long(device: vc.Device) -> None:
    x, y, out, _ = saxpy_rows(device, (10,))[0]
    refused(device, {"x": [x], "y": [y]}, TypeError, "takes the columns x, y, out, a; missing: out, a")
    refused(device, {"x": [x], "y": [y, y], "out": out, "a": 1.0}, ValueError, "different lengths: x 1, y 2")
    refused(device, {"x": x, "y": y, "out": out, "a": 1.0}, ValueError, "how many rows")
    refused(device, 5, TypeError, "rows are a sequence")


def test_freed_arrays_are_refused(device: vc.Device) -> None:
    rows = saxpy_rows(device, (10,) * 3)
    rows[1][0].free()

    refused(device, rows, ValueError, "row 1: .*freed")


@pytest.mark.parametrize("spread", [1, 4096])
@pytest.mark.parametrize("size", [1, 7, 64, 300])
def test_many_rows_in_any_order_are_compared_by_bytes(device: vc.Device, size: int, spread: int) -> None:
    """`spread`: of so many places one is used."""
    kernel = device.compile(programs.saxpy())
    rng = np.random.default_rng(size)
    count = 100 if spread == 1 else 9
    arena = device.zeros(3 * count * size * spread, vc.f32)
    begins = rng.permutation(3 * count) * size * spread
    rows = [(*(arena[at : at + size] for at in begins[3 * k : 3 * k + 3]), 1.0) for k in range(count)]
    kernel.launch_many(rows)
    for place in range(3):
        for shift in (-1, 1):
            spoiled = list(rows)
            *arrays, a = rows[4]
            at = int(begins[3 * 7 + 2]) + shift * (size - 1)  # one element of the output of row 7
            at = min(max(at, 0), arena.size - size)
            arrays[place] = arena[at : at + size]
            spoiled[4] = (*arrays, a)
            refused(device, spoiled, ValueError, r"rows \d+ and \d+ share memory that one of them writes")
