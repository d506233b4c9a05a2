"""Tables, arrays of threads, printed values, random numbers and index types, counted for the page of conformance."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import INDEX_TYPES, TYPES, Type
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.conformance import CELLS, Count
from vyre_cuda.testing.edges import EDGES, from_bits

pytestmark = pytest.mark.conformance
PAGE = "tables, arrays of threads, prints, random numbers, indices"
BLOCK = 64
Array = np.ndarray


def types_of(row: str) -> list[Type]:
    return [type_ for type_ in TYPES if type_.name in CELLS[PAGE][row]]


def edges(type_: Type) -> Array:
    return from_bits(type_, [*EDGES[type_]])


def places(n: int) -> Array:
    """Indices in an array of n elements, and some before and behind it."""
    return np.random.default_rng(n).integers(-3, n + 3, 300).astype(np.int32)


def taken(array: Array, at: Array) -> Array:
    """The elements at these places; 0 outside."""
    inside = (at >= 0) & (at < array.size)
    return np.where(inside, array[np.where(inside, at, 0)], np.zeros(1, array.dtype))


def agree(
    device: vc.Device, program: vc.Program, arguments: Sequence[object], expected: Array, cell: tuple[str, Type],
    count_interpreter: Count, count_device: Count,
) -> None:  # fmt: skip
    """NumPy, interpreter and device have the same bits, and are counted."""
    row, type_ = cell
    interpreted = vc.evaluate(program, *arguments)
    assert isinstance(interpreted, np.ndarray)
    assert interpreted.tobytes() == expected.astype(interpreted.dtype).tobytes()
    count_interpreter(PAGE, row, type_.name, interpreted.size)
    assert_same(interpreted, device.run(program, *arguments))
    count_device(PAGE, row, type_.name, interpreted.size)


@pytest.mark.parametrize("type_", types_of("table"), ids=str)
def test_tables_have_their_elements(
    device: vc.Device, type_: Type, count_interpreter: Count, count_device: Count
) -> None:
    b = vc.Builder("lookup", block=BLOCK)
    at = b.input("at", vc.i32)
    table = b.table("t", edges(type_))
    out = b.output("out", type_, size=at.size)
    i = b.let("i", vc.global_id.x)
    out[i] = table[at[i]]
    at_ = places(len(EDGES[type_]))

    expected = taken(edges(type_), at_)
    agree(device, b.build(), [at_], expected, ("table", type_), count_interpreter, count_device)


@pytest.mark.parametrize("type_", types_of("array of a thread"), ids=str)
def test_arrays_of_threads_have_what_was_written(
    device: vc.Device, type_: Type, count_interpreter: Count, count_device: Count
) -> None:
    """Each thread writes all edge values, in an order of its own, and reads one place."""
    values = edges(type_)
    b = vc.Builder("held", block=BLOCK)
    x, at = b.input("x", type_), b.input("at", vc.i32)
    out = b.output("out", type_, size=at.size)
    held = b.local("held", type_, values.size)
    i = b.let("i", vc.global_id.x)
    with b.for_(values.size) as k:
        held[(k + i) % values.size] = x[k]
    out[i] = held[at[i]]
    at_ = places(values.size)

    turned = (at_ - np.arange(at_.size)) % values.size
    expected = np.where((at_ >= 0) & (at_ < values.size), values[turned], np.zeros(1, values.dtype))
    agree(device, b.build(), [values, at_], expected, ("array of a thread", type_), count_interpreter, count_device)


@pytest.mark.parametrize("type_", types_of("print"), ids=str)
def test_printed_values_are_the_values(
    device: vc.Device, type_: Type, capfd: pytest.CaptureFixture[str], count_interpreter: Count, count_device: Count
) -> None:
    values = edges(type_)
    b = vc.Builder("told", block=BLOCK)
    x = b.input("x", type_)
    b.work(x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < x.size):
        b.print("{} {}", i, x[i])
    program = b.build()

    def lines() -> list[list[str]]:
        ctypes.CDLL(None).fflush(None)  # the driver may write through the buffer of C's stdout
        return sorted((line.split() for line in capfd.readouterr().out.splitlines()), key=lambda words: int(words[0]))

    vc.evaluate(program, values)
    interpreted = lines()
    of_word = float if type_.is_float else int
    read = [int(word) if type_ is vc.bool_ else bits_of(type_, of_word(word)) for _, word in interpreted]
    assert_same(values, from_bits(type_, read))
    count_interpreter(PAGE, "print", type_.name, values.size)
    device.run(program, values)
    assert lines() == interpreted
    count_device(PAGE, "print", type_.name, values.size)


def philox(seed: int, counters: Array) -> Array:
    """Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011; a row for each counter."""
    mask = np.uint64(0xFFFFFFFF)
    words = [counters & mask, counters >> np.uint64(32), np.zeros_like(counters), np.zeros_like(counters)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(key[0]),
            second & mask,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(key[1]),
            first & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(words, axis=1).astype(np.uint32)


@pytest.mark.parametrize("row", ["philox", "uniform"])
def test_random_numbers(device: vc.Device, row: str, count_interpreter: Count, count_device: Count) -> None:
    type_, make = (vc.u32, vc.philox) if row == "philox" else (vc.f32, vc.uniform)
    counters = np.random.default_rng(9).integers(0, 2**64, 1000, np.uint64)
    b = vc.Builder(row, block=BLOCK)
    counter = b.input("counter", vc.u64)
    out = b.output("out", type_, shape=(counter.size, 4))
    seed = b.scalar("seed", vc.u64)
    i = b.let("i", vc.global_id.x)
    b.work(counter.size)
    with b.if_(i < counter.size):
        for number, value in enumerate(make(seed, counter[i])):
            out[i, number] = value
    program = b.build()

    for seed_ in (0, 0x299F31D0A4093822, 2**64 - 1):
        words = philox(seed_, counters)
        expected = words if row == "philox" else (words >> 8).astype(np.float32) * np.float32(2**-24)
        agree(device, program, [counters, seed_], expected, (row, type_), count_interpreter, count_device)


@pytest.mark.parametrize("type_", INDEX_TYPES, ids=str)
def test_indices_of_every_type(device: vc.Device, type_: Type, count_interpreter: Count, count_device: Count) -> None:
    """Neighbors of each element, one of which lies outside of the array at its ends."""
    x = np.random.default_rng(3).integers(0, 2**32, 1001, np.uint32)
    b = vc.Builder("neighbors", block=BLOCK, index=type_)
    given = b.input("x", vc.u32)
    out = b.output("out", vc.u32, size=given.size)
    i = b.let("i", vc.global_id.x)
    out[i] = given[i - 1] * 3 + given[i + 1] + vc.u32(i // 7) + vc.u32(i % 7)

    at = np.arange(x.size, dtype=np.int64)
    expected = taken(x, at - 1) * np.uint32(3) + taken(x, at + 1) + (at // 7 + at % 7).astype(np.uint32)
    agree(device, b.build(), [x], expected, ("index", type_), count_interpreter, count_device)
