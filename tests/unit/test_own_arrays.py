"""Tables and the arrays of a thread: text, bytes, meaning, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Atomic, Const, LocalArray, Store, Table
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import TYPES, Type, bool_, f32, i32, u32
from vyre_cuda.testing.edges import EDGES, from_bits


def looked_up(array: np.ndarray) -> Program:
    """table[at[i]], and how many elements the table has."""
    b = vc.Builder("lookup", block=32)
    at = b.input("at", vc.i32)
    table = b.table("taps", array)
    out = b.output("out", table.type, size=at.size)
    count = b.output("count", vc.u32, size=table.size)
    i = b.let("i", vc.global_id.x)
    out[i] = table[at[i]]
    count[i] = table.size
    return b.build()


def sorted_digits() -> Program:
    """Counts the digits of each number in an array of the thread, and gives the most frequent one."""
    b = vc.Builder("digits", block=32)
    x = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=x.size)
    i = b.let("i", vc.global_id.x)
    counts = b.local("counts", vc.u32, 10)
    left = b.var("left", x[i])
    with b.while_(lambda: left > 0):
        counts[left % 10] = counts[left % 10] + 1
        left.set(left // 10)
    best = b.var("best", vc.u32(0))
    with b.for_(10) as digit, b.if_(counts[digit] > counts[best]):
        best.set(digit)
    with b.if_(i < out.size):
        out[i] = best
    return b.build()


@pytest.mark.parametrize("type_", [t for t in TYPES if t.name != "bf16"], ids=str)
def test_text_and_bytes_keep_every_bit(type_: Type) -> None:
    program = looked_up(from_bits(type_, [*EDGES[type_]]))

    assert vc.parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program


def test_local_arrays_come_back_too() -> None:
    program = sorted_digits()

    assert "local counts: u32[10]" in program.text()
    assert vc.parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program


def test_the_elements_are_part_of_the_fingerprint() -> None:
    first, second = (looked_up(np.array([1, last], np.int32)) for last in (2, 3))

    assert first.fingerprint != second.fingerprint


def test_a_table_is_read_like_a_buffer() -> None:
    program = looked_up(np.array([10, 20, 30], np.int16))

    out, count = vc.evaluate(program, np.array([2, 0, -1, 3, 1], np.int32))

    np.testing.assert_array_equal([30, 10, 0, 0, 20], out)
    np.testing.assert_array_equal([3, 3, 3], count)


def test_a_table_keeps_what_the_array_was() -> None:
    array = np.array([1, 2], np.int32)
    program = looked_up(array)
    array[:] = 7

    np.testing.assert_array_equal([2], vc.evaluate(program, np.array([1], np.int32))[0])


def test_each_thread_has_its_own_array_of_zeros() -> None:
    x = np.array([1223334444, 999, 0, 1010, 4294967295] * 20, np.uint32)
    expected = [4, 9, 0, 0, 9] * 20

    np.testing.assert_array_equal(expected, vc.evaluate(sorted_digits(), x))


def turned(matrices: np.ndarray) -> Program:
    """matrices[k[i]] times the row i of x, by way of an array of the thread of shape (2, 3)."""
    b = vc.Builder("turned", block=32)
    x = b.input("x", vc.f32, ndim=2)
    k = b.input("k", vc.i32)
    out = b.output("out", vc.f32, shape=(k.size, 3))
    b.work(k.size)
    table = b.table("matrices", matrices)
    sums = b.local("sums", vc.f32, (2, 3))
    i = b.let("i", vc.global_id.x)
    with b.for_(table.shape[1]) as row, b.for_(table.shape[2]) as column:
        sums[1, row] = sums[1, row] + table[k[i], row, column] * x[i, column]
    with b.for_(sums.shape[1]) as row:
        out[i, row] = sums[1, row] + sums[0, row] + sums[2, row] + sums[1, row + 3]
    return b.build()


MATRICES = np.arange(18, dtype=np.float32).reshape(2, 3, 3)


def test_several_axes_come_back() -> None:
    program = turned(MATRICES)

    assert "local sums: f32[2, 3]" in program.text()
    assert "table matrices: f32[2, 3, 3] = 0.0, 1.0" in program.text()
    assert program.to_bytes()[4] == 5
    assert vc.parse(program.text()) == program
    assert Program.from_bytes(program.to_bytes()) == program
    assert program.fingerprint != turned(MATRICES.reshape(3, 3, 2)).fingerprint


def test_out_of_bounds_in_one_axis_is_out_of_bounds() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    k = np.array([0, 1, 2, -1], np.int32)

    expected = np.zeros((4, 3), np.float32)
    expected[:2] = [MATRICES[0] @ x[0], MATRICES[1] @ x[1]]
    np.testing.assert_array_equal(expected, vc.evaluate(turned(MATRICES), x, k))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b: b.table("t", [1, 2]), "NumPy array"),
        (lambda b: b.local("t", vc.f32, (2, "3")), "must be an int"),
        (lambda b: b.table("t", np.zeros(2, np.complex64)), "complex64"),
        (lambda b: b.local("t", vc.f32, 2.0), "must be an int"),
    ],
)
def test_what_is_no_array_is_a_type_error(make: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(vc.Builder("p"))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b: b.table("t", np.zeros(0)), "no elements"),
        (lambda b: b.table("t", np.zeros(())), "0 axes"),
        (lambda b: b.table("t", np.zeros((1, 1, 1, 1, 1))), "5 axes"),
        (lambda b: b.local("t", vc.f32, (4, 0)), "at least 1"),
        (lambda b: b.local("t", vc.f32, (1, 1, 1, 1, 1)), "5 axes"),
        (lambda b: b.table("t", np.zeros((2, 2)))[0], "2 axes"),
        (lambda b: b.local("t", vc.f32, 0), "at least 1"),
        (lambda b: b.table("t", np.zeros(3)).__setitem__(0, 1.0), "is a table"),
        (lambda b: b.atomic_add(b.table("t", np.zeros(3)), 0, 1.0), "is a table"),
        (lambda b: b.atomic_add(b.local("t", vc.u32, 3), 0, 1), "no atomics"),
    ],
)
def test_misuse_is_a_program_error(make: object, message: str) -> None:
    with pytest.raises(vc.ProgramError, match=message):
        make(vc.Builder("p"))  # type: ignore[operator]


ONE = Const(u32, 0)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("arrays", "body", "message"),
    [
        ((Table("t", u32, b""),), (), "0 elements"),
        ((LocalArray("t", u32, 0),), (), "0 elements"),
        ((LocalArray("t", f32, 1 << 15),), (), "131072 bytes"),
        ((Table("t", u32, bytes(1 << 21)),), (), "2097152 bytes"),
        ((Table("t", bool_, b"\x02"),), (), "neither 0 nor 1"),
        ((Table("t", u32, b"\0\0\0"),), (), "not a multiple"),
        ((Table("t", u32, bytes(4)), LocalArray("t", u32, 1)), (), "declared twice"),
        ((Table("t", u32, bytes(4)),), (Store("t", ONE, ONE),), "cannot be written"),
        ((LocalArray("t", u32, 4),), (Atomic(None, "add", "t", ONE, (ONE,)),), "no atomics"),
        ((Table("t", u32, bytes(16), shape=(2, 3)),), (), r"4 elements in the shape \(2, 3\)"),
        ((LocalArray("t", u32, 4, shape=(4,)),), (), "2 to 4 ints"),
        (("t",), (), "neither a LocalArray"),
    ],
)
def test_validation_finds(arrays: tuple, body: tuple, message: str) -> None:  # type: ignore[type-arg]
    program = Program("p", (), body, arrays=arrays)

    with pytest.raises(vc.ProgramError, match=message):
        program.to_bytes()


def test_a_table_in_constant_memory_until_that_is_full() -> None:
    b = vc.Builder("spaces", block=32)
    out = b.inout("out", vc.f32)
    small, large = b.table("small", np.ones(16, np.float32)), b.table("large", np.ones(1 << 14, np.float32))
    i = vc.global_id.x
    out[i] = small[i] + large[i]
    text = vc.ptx(b.build(), "sm_90")

    assert ".const .align 16 .u32 t_0_small[16]" in text
    assert ".global .align 16 .u32 t_1_large[16384]" in text


def test_tables_and_arrays_that_nothing_reads_take_no_room() -> None:
    b = vc.Builder("unused", block=32)
    out = b.inout("out", vc.i32)
    b.table("t", np.ones(16, np.float32))
    b.local("l", i32, 16)
    out[vc.global_id.x] = 1
    text = vc.ptx(b.build(), "sm_90")

    assert "t_0" not in text
    assert ".local" not in text
