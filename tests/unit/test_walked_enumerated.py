"""Small programs of every form in which threads go through an array, over small sizes: a launch is refused exactly
where more threads would have read elements that it leaves out.

What is read is seen from the result alone: element k is 2^k, and the result is the union of all that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.call.geometry import host_size
from vyre_cuda.ir.call.walked import work_of
from vyre_cuda.ir.core.types import Type

BLOCK = 4
SIZES, NUMBERS = (1, 3, 4, 5, 8, 9, 12), (1, 3, 5, 7)
Form = Callable[[Any, Any, Any], Any]

# Of the thread i, the array x and the number n.
FORMS: dict[str, Form] = {
    "i": lambda i, x, n: i,
    "i + 2": lambda i, x, n: i + 2,
    "i - 2": lambda i, x, n: i - 2,
    "i + n": lambda i, x, n: i + n,
    "i - n": lambda i, x, n: i - n,
    "size - 1 - i": lambda i, x, n: x.size - 1 - i,
    "size - 3 - i": lambda i, x, n: x.size - 3 - i,
    "size - 1 - 2i": lambda i, x, n: x.size - 1 - i * 2,
    "n - 1 - i": lambda i, x, n: n - 1 - i,
    "~i + size": lambda i, x, n: ~i + x.size,
    "-i + size - 1": lambda i, x, n: -i + x.size - 1,
    "2i": lambda i, x, n: i * 2,
    "i << 1": lambda i, x, n: i << 1,
    "i * n": lambda i, x, n: i * n,
    "i // 2": lambda i, x, n: i // 2,
    "i >> 1": lambda i, x, n: i >> 1,
    "minimum(i, size - 1)": lambda i, x, n: vc.minimum(i, x.size - 1),
    "maximum(i - 1, 0)": lambda i, x, n: vc.maximum(i - 1, 0),
    "clipped": lambda i, x, n: vc.maximum(vc.minimum(x.size - 1 - i, x.size - 1), 0),
    "u32(i)": lambda i, x, n: vc.u32(i),
    "i16(i)": lambda i, x, n: vc.i16(i),
    "i32(i64(i) * 2)": lambda i, x, n: vc.i32(vc.i64(i) * 2),
    "i | 0": lambda i, x, n: i | 0,
    "block and thread": lambda i, x, n: vc.block_id.x * 4 + vc.thread_id.x,
    "size - 1 - block and thread": lambda i, x, n: x.size - 1 - (vc.block_id.x * vc.block_dim.x + vc.thread_id.x),
    "descending in a block": lambda i, x, n: vc.block_id.x * 4 + 3 - vc.thread_id.x,
    "block": lambda i, x, n: vc.block_id.x,
    "y * n + i": lambda i, x, n: vc.global_id.y * n + i,
    "(y + 1) * n + i": lambda i, x, n: (vc.global_id.y + 1) * n + i,
    "y * n + (n - 1 - i)": lambda i, x, n: vc.global_id.y * n + (n - 1 - i),
    "y * n + n - 1 - i": lambda i, x, n: vc.global_id.y * n + n - 1 - i,
    "n - 1 - i + y * n": lambda i, x, n: n - 1 - i + vc.global_id.y * n,
    "i // n * n + i % n": lambda i, x, n: i // n * n + i % n,
    "i % 3 + 3 * (i // 3)": lambda i, x, n: i % 3 + 3 * (i // 3),
}
CONDITIONS: dict[str, Form] = {
    "": lambda i, x, n: None,
    "i < size": lambda i, x, n: i < x.size,
    "i < n": lambda i, x, n: i < n,
    "i < size // 2": lambda i, x, n: i < x.size // 2,
    "i < size - n": lambda i, x, n: i < x.size - n,
    "i + n < size": lambda i, x, n: i + n < x.size,
    "size - 1 - i >= n": lambda i, x, n: x.size - 1 - i >= n,
    "block < 2": lambda i, x, n: vc.block_id.x < 2,
    "2i < n": lambda i, x, n: i * 2 < n,
}
# Refused though nothing is missing: the places of the threads that are missing are all outside of x, or were reached by
# others.
REFUSED_TOO = {"i - n", "n - 1 - i", "descending in a block", "y * n + i", "(y + 1) * n + i"}


def program(index: Type, condition: str, *places: Form) -> vc.Program:
    b = vc.Builder("walk", block=BLOCK, index=index)
    x, n, out = b.input("x", vc.u64), b.scalar("n", index), b.output("out", vc.u64, size=1)
    i = b.let("i", vc.global_id.x)

    def read() -> None:
        for place in places:
            b.atomic_or(out, 0, x[place(i, x, n)])

    holds = CONDITIONS[condition](i, x, n)
    if holds is None:
        read()
    else:
        with b.if_(holds):
            read()
    return b.build()


def elements(size: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.uint64(1) << np.arange(size, dtype=np.uint64)


def launches(walk: vc.Program, array: Any, *numbers: int) -> tuple[bool, bool]:
    """Whether a launch leaves out elements, and whether it is refused."""
    every = vc.evaluate(walk, array, *numbers, grid=(16, 16))[0]
    try:
        result, refused = vc.evaluate(walk, array, *numbers)[0], False
    except ValueError:
        result, refused = vc.evaluate(walk, array, *numbers, grid=1)[0], True
    return bool(result != every), refused


def is_refused_by_a_reader_in_c(walk: vc.Program, size: int, number: int) -> bool:
    (primary,) = [each for each in walk.parameters if each.name == "out"]
    try:
        host_size("the work", work_of(walk, primary), {"x": size, "out": 1}, {"n": number})
    except ValueError:
        return True
    return False


def cases(walk: vc.Program) -> Iterator[tuple[str, bool, bool]]:
    for size in SIZES:
        for number in NUMBERS:
            missing, refused = launches(walk, elements(size), number)
            assert is_refused_by_a_reader_in_c(walk, size, number) == refused
            yield f"size {size}, n {number}", missing, refused


@pytest.mark.thin(7)
@pytest.mark.parametrize("index", [vc.i32, vc.u32], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_a_launch_is_refused_where_it_leaves_out_elements(form: str, index: Type) -> None:
    for condition in CONDITIONS:
        if index is vc.u32 and "size - " in condition:
            continue  # wraps around in small arrays: below
        for case, missing, refused in cases(program(index, condition, FORMS[form])):
            assert missing == refused or (refused and form in REFUSED_TOO), (condition, case)


PAIRS: dict[str, tuple[str, str]] = {
    "neighbors": ("i", "i + 2"),
    "from both ends": ("i", "size - 1 - i"),
    "clipped neighbors": ("maximum(i - 1, 0)", "minimum(i, size - 1)"),
    "half of it": ("i", "i // 2"),
    "one of each block": ("i", "block"),
    "every n-th": ("i", "i * n"),
    "from n on": ("i", "i + n"),
    "from n on too": ("i + 2", "i + n"),
    "from n before": ("i", "i - n"),
    "rows by hand, twice": ("i // n * n + i % n", "i + n"),
    "backwards twice": ("size - 1 - i", "size - 3 - i"),
}


@pytest.mark.thin(3)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_places_reach_elements_together(pair: str) -> None:
    for condition in ("", "i < n", "i < size // 2"):
        for case, missing, refused in cases(program(vc.i32, condition, *[FORMS[form] for form in PAIRS[pair]])):
            assert missing == refused, (condition, case)


SEVERAL: dict[str, tuple[Form, ...]] = {
    "from multiples of n": (FORMS["i"], FORMS["i + n"], lambda i, x, n: i + 2 * n),
    "from multiples of n, in any order": (lambda i, x, n: i + 3 * n, FORMS["i"], lambda i, x, n: i + 2 * n),
    "behind multiples of n": (FORMS["i"], FORMS["i + n"], lambda i, x, n: i + n + 3),
    "four of them": (FORMS["i"], FORMS["i + n"], lambda i, x, n: i + 2 * n, lambda i, x, n: i + 4 * n),
    "of two lengths": (FORMS["i"], FORMS["i + n"], lambda i, x, n: i + n + x.size // 4),
    "before and behind": (FORMS["i - n"], FORMS["i"], FORMS["i + n"]),
    "several each": (FORMS["i"], FORMS["i + 2"], FORMS["i + n"], lambda i, x, n: i + 2 * n),
    "rows": (FORMS["y * n + i"], FORMS["(y + 1) * n + i"], lambda i, x, n: (vc.global_id.y + 2) * n + i),
}


# Launches that leave out elements in silence: numbers that may be negative, or several places from one of them on, need
# not be in order. And one that is refused though rows of one element reach those of others.
NOT_SEEN = {"of two lengths", "several each"}
REFUSED_ONCE = {("rows", "i < size // 2", "size 4, n 1")}


@pytest.mark.thin(3)
@pytest.mark.parametrize("index", [vc.i32, vc.u32], ids=str)
@pytest.mark.parametrize("places", SEVERAL)
def test_several_places_reach_elements_together(places: str, index: Type) -> None:
    left_out = 0
    for condition in ("", "i < n", "i < size // 2"):
        for case, missing, refused in cases(program(index, condition, *SEVERAL[places])):
            known = (places, condition, case) in REFUSED_ONCE or (places in NOT_SEEN and missing)
            assert missing == refused or known, (condition, case)
            left_out += refused
    assert left_out or places in NOT_SEEN


def test_two_rows_that_leave_out_others_are_seen() -> None:
    walk = program(vc.i32, "i < n", FORMS["y * n + i"], FORMS["(y + 1) * n + i"])

    assert launches(walk, elements(9), 3) == (True, True)
    assert launches(walk, elements(6), 3) == (False, False)


@pytest.mark.parametrize("first_is_second", [False, True])
def test_elements_before_a_second_row_beyond_the_array_are_not_left_out(first_is_second: bool) -> None:
    rows = FORMS["y * n + i"], FORMS["(y + 1) * n + i"]
    walk = program(vc.i32, "", *rows[:: -1 if first_is_second else 1])

    assert launches(walk, elements(9), 12) == (True, True)
    assert launches(walk, elements(9), 5) == (True, True)
    assert launches(walk, elements(4), 12) == (False, False)
    assert launches(walk, elements(8), 4) == (False, False)


def test_the_next_one_in_a_circle_is_no_other_place() -> None:
    walk = program(vc.i32, "", lambda i, x, n: i, lambda i, x, n: (i + 1) % x.size)
    missing, refused = launches(walk, elements(9), 1)

    assert missing
    assert refused


def test_one_thread_may_be_enough() -> None:
    walk = program(vc.i32, "", lambda i, x, n: i)
    alone = vc.Builder("alone", block=BLOCK, index=vc.i32)
    x, n, out = alone.input("x", vc.u64), alone.scalar("n", vc.i32), alone.output("out", vc.u64, size=1)
    i = alone.let("i", vc.global_id.x)
    with alone.if_(i == n):
        alone.atomic_or(out, 0, x[i])
    one = alone.build()

    assert launches(walk, elements(9), 1) == (True, True)
    assert [launches(one, elements(9), number) for number in (3, 4)] == [(False, False), (True, True)]


def test_a_table_that_is_read_over_and_over_again_may_be_longer() -> None:
    walk = program(vc.i32, "", lambda i, x, n: i % x.size)

    assert vc.evaluate(walk, elements(9), 1) == [0b1111]


def test_a_difference_of_unsigned_numbers_that_wraps_around_is_no_bound() -> None:
    for size, number in [(5, 1), (9, 1), (9, 4), (9, 5), (9, 12)]:
        walk = program(vc.u32, "i < size - n", FORMS["i"])
        missing, refused = launches(walk, elements(size), number)

        assert missing == refused == is_refused_by_a_reader_in_c(walk, size, number), (size, number)


def of_two_axes(place: Callable[[Any, Any, Any], Any]) -> vc.Program:
    b = vc.Builder("walk", block=BLOCK, index=vc.i32)
    x, out = b.input("x", vc.u64, ndim=2), b.output("out", vc.u64, size=1)
    b.atomic_or(out, 0, x[place(vc.global_id.y, vc.global_id.x, x)])
    return b.build()


def test_a_width_may_be_a_number_of_the_call() -> None:
    b = vc.Builder("walk", block=BLOCK, index=vc.i32)
    x, w, out = b.input("x", vc.u64, ndim=2), b.scalar("w", vc.i32), b.output("out", vc.u64, size=1)
    i = b.let("i", vc.global_id.x)
    b.atomic_or(out, 0, x[i // w, i % w])
    walk = b.build()

    for shape in [(1, 1), (1, 4), (1, 5), (4, 1), (5, 1), (2, 3), (6, 5)]:
        for width in (1, shape[1]):
            missing, refused = launches(walk, elements(shape[0] * shape[1]).reshape(shape), width)
            assert missing == refused, (shape, width)


def test_a_multiple_beyond_all_numbers_is_nothing_to_count() -> None:
    b = vc.Builder("walk", block=BLOCK, index=vc.i64)
    x, out = b.input("x", vc.u64), b.output("out", vc.u64, size=1)
    i = b.let("i", vc.global_id.x)
    for _ in range(8):
        i = i * 2**20
    b.atomic_or(out, 0, x[i])
    walk = b.build()

    assert launches(walk, elements(9)) == (False, False)
    assert not is_refused_by_a_reader_in_c(walk, 9, 1)


@pytest.mark.parametrize(
    "place",
    [
        lambda y, x, a: (y, x),
        lambda y, x, a: (a.shape[0] - 1 - y, x),
        lambda y, x, a: (x // a.shape[1], x % a.shape[1]),
        lambda y, x, a: (x, 0),
        lambda y, x, a: (0, a.shape[1] - 1 - x),
        lambda y, x, a: (x, x),
    ],
    ids=["each", "upwards", "by one number", "column", "row backwards", "diagonal"],
)
def test_arrays_with_two_axes(place: Callable[[Any, Any, Any], Any]) -> None:
    walk = of_two_axes(place)
    for shape in [(1, 1), (1, 4), (1, 5), (4, 1), (5, 1), (2, 3), (6, 5)]:
        missing, refused = launches(walk, elements(shape[0] * shape[1]).reshape(shape))
        assert missing == refused, shape
