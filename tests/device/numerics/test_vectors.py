"""Neighbors that a thread accesses at once give what they give one by one: at every offset, size, bound and order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from .edge_values import edge_values
from .vector_programs import BLOCK, INDEX_TYPES, TYPES, check, lanes, reversed_blocks, text_of


@pytest.fixture(scope="module")
def device(device_name: int | str) -> Iterator[vc.Device]:
    with vc.Device(device_name) as opened:
        yield opened


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_views_at_every_offset(device: vc.Device, type_: vc.Type) -> None:
    kernel = device.compile(reversed_blocks(type_, lanes(type_), vc.u32, guarded=False))

    assert kernel.lowered.aligned == (("x", 16), ("out", 16))
    for begin in range(16 // type_.itemsize + 1):
        check(kernel, begin, 5 * lanes(type_) + 1)


@pytest.mark.thin(15)
@pytest.mark.parametrize("guarded", (False, True))
@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
@pytest.mark.parametrize("type_", (vc.u8, vc.f16, vc.f32, vc.i64), ids=str)
def test_sizes_around_every_block(device: vc.Device, type_: vc.Type, index: vc.Type, guarded: bool) -> None:
    for count in (2, 4, 8, 16):
        kernel = device.compile(reversed_blocks(type_, count, index, guarded=guarded))
        assert kernel.lowered.aligned
        for size in {*range(2 * count + 1), count * BLOCK - 1, count * BLOCK, count * BLOCK + 1}:
            check(kernel, 0, size)


@pytest.mark.parametrize("offset", range(1, 6))
def test_blocks_that_begin_between_multiples(device: vc.Device, offset: int) -> None:
    for count in (2, 4, 8):
        kernel = device.compile(reversed_blocks(vc.u16, count, vc.u32, guarded=False, offset=offset))
        for begin in (0, 1, 8 - offset):
            check(kernel, begin, 3 * count + 5)


@pytest.mark.thin
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_elements_are_the_numbers_that_they_are_alone(device: vc.Device, type_: vc.Type) -> None:
    """In memory an element has no sign that reaches further, and a bool is any byte but 0."""
    count = lanes(type_)
    b = vc.Builder("numbers", block=BLOCK)
    x = b.input("x", type_)
    out = b.output("out", vc.f64, size=x.size)
    back = b.output("back", type_, size=x.size)
    i = b.let("i", vc.global_id.x * count)
    values = [b.let(f"v{k}", value) for k, value in enumerate(x.vector(i, count))]
    for k, value in enumerate(values):
        out[i + k] = vc.f64(value)
    wider = [value if type_ is vc.bool_ else value + value for value in values]
    back.vector(i, count).set(*wider)
    b.work(x.size)
    kernel = device.compile(b.build())
    x_ = edge_values(type_, 101, 5)

    with np.errstate(all="ignore"):
        wanted = vc.evaluate(kernel.program, x_)
    for want, have in zip(wanted, kernel(x_), strict=True):
        assert_same(want, have)


def test_indices_that_wrap_around(device: vc.Device) -> None:
    """The numbers from 2^32 - 8 on are outside; those that follow are from 0 on."""
    b = vc.Builder("wrapping", block=BLOCK, index=vc.u32)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x * 4 + (2**32 - 8))
    values = [x[i + k] for k in range(4)]
    for k in range(4):
        out[i + k] = values[k] + 1.0
    b.work(x.size)
    kernel = device.compile(b.build())

    assert kernel.lowered.aligned
    for size in (1, 5, 8, 21):
        check(kernel, 0, size)


# ---- blocks that begin where the launch says -------------------------------------------------------------------------


@pytest.mark.thin(6)
@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
@pytest.mark.parametrize("type_", (vc.u8, vc.bf16, vc.f32, vc.f64), ids=str)
def test_rows_of_every_width(device: vc.Device, type_: vc.Type, index: vc.Type) -> None:
    """A block reverses the vectors of a row; whether they begin at multiples depends on row times width."""
    count = lanes(type_)
    b = vc.Builder("rows", block=4, index=index)
    x = b.input("x", type_, ndim=2)
    y = b.inout("y", type_)
    row, column = b.let("row", vc.block_id.x), b.let("column", vc.thread_id.x * count)
    values = list(x.vector((row, column), count))
    begin = b.let("begin", row * x.shape[1] + column)
    with b.if_(column + (count - 1) < x.shape[1]):
        y.vector(begin, count).set(*reversed(values))
    kernel = device.compile(b.build())

    assert sum(".v" in line for line in kernel.ptx.splitlines() if "global" in line) == 2
    for width in (*range(1, 2 * count + 2), 3 * count, 4 * count):
        for begin_ in (0, 1):
            x_, y_ = (edge_values(type_, 3 * width + 1, seed)[begin_ : begin_ + 3 * width] for seed in (width, 99))
            given = device.array(np.concatenate([x_[:begin_], x_]))[begin_:].reshape(3, width)
            written = device.array(y_)
            kernel.launch(given, written, grid=3)
            assert_same(vc.evaluate(kernel.program, x_.reshape(3, width), y_, grid=3), written.numpy())


@pytest.mark.parametrize("backwards", (False, True))
@pytest.mark.parametrize("type_", (vc.i8, vc.f16, vc.i64), ids=str)
def test_blocks_that_begin_at_any_number(device: vc.Device, type_: vc.Type, backwards: bool) -> None:
    count = lanes(type_)
    order = range(count)[:: -1 if backwards else 1]
    b = vc.Builder("start", block=4, index=vc.u32)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    start = b.scalar("start", vc.u32)
    i = b.let("i", vc.global_id.x * count + start)
    values = [b.let(f"v{k}", x[i + k]) for k in order]
    for k in order:
        out[i + k] = values[k]
    b.work(x.size)
    kernel = device.compile(b.build())
    x_ = edge_values(type_, 5 * count + 3, 1)

    assert ".v" in kernel.ptx
    for start_ in (*range(2 * count + 1), 2**32 - 1, 2**32 - count, 2**32 - count - 1):
        assert_same(vc.evaluate(kernel.program, x_, start_), kernel(x_, start_))


@pytest.mark.thin(5)
@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
@pytest.mark.parametrize(("first", "step"), ((8, 64), (8, 40), (4, 64), (8, 36), (2, 6), (3, 24)))
def test_loops_over_blocks(device: vc.Device, index: vc.Type, first: int, step: int) -> None:
    """The counter is a multiple of what its start and its step are multiples of, up or down, also past the end."""
    b = vc.Builder("loop", block=4, index=index)
    x = b.input("x", vc.f16)
    out, back = b.output("out", vc.f16, size=2048), b.output("back", vc.f16, size=2048)
    own = b.let("own", vc.thread_id.x * 512)
    with b.for_(vc.thread_id.x * first, x.size, step) as i:
        out.vector(own + i, 8).set(*reversed(list(x.vector(i, 8))))
    if index.minimum < 0:
        with b.for_(vc.thread_id.x * first + 5 * step, -1, -step) as i:
            back.vector(own + i, 8).set(*x.vector(i, 8))
    kernel = device.compile(b.build())
    words = {8: "v4.b32", 4: "v4.b16", 2: "v2.b16", 1: ""}
    widest = next(word for count, word in words.items() if not (first | step) % count)

    assert widest in kernel.ptx
    assert ("global.v" in kernel.ptx) == bool(widest)
    for size in (1, 7, 8, 63, 64, 65, 300):
        x_ = edge_values(vc.f16, size, size)
        for want, have in zip(vc.evaluate(kernel.program, x_, grid=1), kernel(x_, grid=1), strict=True):
            assert_same(want, have)


def test_what_is_known_later_is_not_known_before(device: vc.Device) -> None:
    """The threads that are left know `start` and `wide`; those that loaded and stored before did not."""
    b = vc.Builder("later", block=1)
    x, wide = b.input("x", vc.u8), b.scalar("wide", vc.u32)
    out, last = b.output("out", vc.u8, size=64), b.output("last", vc.u32, size=1)
    start = b.scalar("start", vc.u32)
    i = b.let("i", vc.global_id.x * 16 + start)
    values = list(x.vector(i, 16))
    out.vector(vc.global_id.x * 16, 16).set(*[vc.u8(wide), *values[1:]])
    with b.if_((i > 0) | (wide > 255)):
        b.return_()
    last[0] = start + wide + 1
    b.work(1)
    kernel = device.compile(b.build())
    x_ = edge_values(vc.u8, 50, 3)

    for start_ in (0, 1, 4, 16):
        for wide_ in (3, 255, 256, 0x01020304, 2**32 - 1):
            for want, have in zip(
                vc.evaluate(kernel.program, x_, wide_, start_), kernel(x_, wide_, start_), strict=True
            ):
                assert_same(want, have)


def test_what_differs_between_threads_is_not_looked_at() -> None:
    stencil = "store y[global_id.x], add(load(x[global_id.x]), load(x[add(global_id.x, u32:1)]))"
    rows = "let r = multiply(global_id.x, size(z))\nstore y[i], add(load(x[r]), load(x[add(r, u32:1)]))"

    assert ".v2" not in text_of(stencil)
    assert ".v2" not in text_of(rows)


# ---- order -----------------------------------------------------------------------------------------------------------


def drawn(seed: int) -> vc.Program:
    """Loads and stores of one thread, at neighbors and elsewhere in the same arrays, under guards and in loops."""
    rng = np.random.default_rng(seed)
    type_ = TYPES[1 + int(rng.integers(len(TYPES) - 1))]
    index = INDEX_TYPES[int(rng.integers(4))]
    b = vc.Builder("drawn", block=1, index=index)
    arrays = [b.input("x", type_), b.inout("y", type_), b.inout("z", type_)]
    if rng.integers(2):
        arrays.append(b.shared("s", type_, 32))
    count = int(rng.choice([2, 4, 8, 16]))
    i = b.let("i", b.scalar("start", index) * count)
    elsewhere = b.scalar("elsewhere", index)
    values = [arrays[0][i]]
    order = list(rng.permutation(count)) if rng.integers(2) else list(range(count))

    def place(k: int) -> Any:
        kind = rng.integers(20)
        if kind == 0:
            return i - 2 + int(rng.integers(count + 5))
        return elsewhere + k if kind == 1 else i + k

    def step() -> None:
        array = arrays[int(rng.integers(len(arrays)))]
        writes = array is not arrays[0] and rng.integers(2)
        for k in order[: int(rng.integers(1, count + 1))]:
            if writes:
                array[place(int(k))] = values[int(rng.integers(len(values)))]
            else:
                values.append(b.let(f"v{len(values)}", array[place(int(k))]))
            if rng.integers(8) == 0:
                arrays[1 + int(rng.integers(len(arrays) - 1))][place(int(k))] = values[-1]

    for _ in range(int(rng.integers(2, 7))):
        kind, kept = rng.integers(6), len(values)
        if kind == 0:
            with b.if_(i + int(rng.integers(count)) < arrays[1].size):
                step()
            del values[kept:]
        elif kind == 1:
            with b.for_(0, 2):
                step()
            del values[kept:]
        else:
            step()
    for k in range(count):
        arrays[2][i + k] = values[-1 - k % len(values)]
    b.work(1)
    return b.build()


@pytest.mark.thin
@pytest.mark.parametrize("part", range(8))
def test_random_orders(device: vc.Device, part: int) -> None:
    vectors = 0
    for seed in range(part * 100, part * 100 + 100):
        program = drawn(seed)
        kernel = device.compile(program)
        vectors += any(word in kernel.ptx for word in (".v2.", ".v4."))
        type_ = program.parameters[0].type
        rng = np.random.default_rng(seed)
        for _ in range(6):
            begins = [int(v) * int(rng.choice([1, lanes(type_), lanes(type_)])) for v in rng.integers(0, 4, 3)]
            sizes = [int(v) for v in rng.integers(1, 40, 3)]
            arrays = [edge_values(type_, begin + n, seed + n) for begin, n in zip(begins, sizes, strict=True)]
            scalars = int(rng.integers(3)), int(rng.integers(20))
            wanted = vc.evaluate(program, *[a[at:] for a, at in zip(arrays, begins, strict=True)], *scalars)
            given = [device.array(a) for a in arrays]

            kernel.launch(*[a[at:] for a, at in zip(given, begins, strict=True)], *scalars)

            for at, want, have in zip(begins[1:], wanted, given[1:], strict=True):
                assert_same(want, have.numpy()[at:])
    assert vectors > 40


def test_a_load_is_not_moved_over_a_store_that_is_moved_behind_its_place(device: vc.Device) -> None:
    """The first store is made where the second one stands, after the first load and before the second."""
    b = vc.Builder("between", block=1)
    y, out = b.inout("y", vc.i32), b.output("out", vc.i32, size=2)
    i = b.let("i", vc.global_id.x * 2)
    y[i] = 5
    second = y[i + 1]
    y[i + 1] = 6
    first = y[i]
    out.vector(i, 2).set(first, second)
    b.work(1)

    written, found = device.compile(b.build())(np.array([1, 2], np.int32))

    assert found.tolist() == [5, 2]
    assert written.tolist() == [5, 6]


def test_a_load_is_not_moved_over_a_store_that_many_others_follow(device: vc.Device) -> None:
    b = vc.Builder("many", block=1)
    y, z = b.inout("y", vc.i32), b.inout("z", vc.i32)
    out = b.output("out", vc.i32, size=2)
    i = b.let("i", vc.global_id.x * 2)
    first = y[i]
    y[y[i + 2]] = 9
    for k in range(100):
        z[vc.global_id.x * 3 + k] = k  # not in blocks
    out.vector(i, 2).set(first, y[i + 1])
    b.work(1)

    _, _, found = device.compile(b.build())(np.array([1, 2, 1], np.int32), np.zeros(300, np.int32))

    assert found.tolist() == [1, 9]


def test_rows_that_end_within_a_vector(device: vc.Device) -> None:
    b = vc.Builder("row", block=4)
    x = b.input("x", vc.f32, ndim=2)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x * 4)
    out.vector(i, 4).set(*x.vector((0, i), 4))
    b.work(x.size)
    kernel = device.compile(b.build())

    assert "ld.global.v4" in kernel.ptx
    for columns in range(1, 14):
        x_ = edge_values(vc.f32, 2 * columns, columns).reshape(2, columns)
        assert_same(vc.evaluate(kernel.program, x_), kernel(x_))


def test_columns_that_wrap_around_within_a_vector(device: vc.Device) -> None:
    """The first two columns are 2^32 - 2 and 2^32 - 1, the others 0 and 1; the elements' numbers do not show it."""
    b = vc.Builder("columns", block=1)
    x = b.input("x", vc.f32, shape=(4, 6))
    s = b.scalar("s", vc.u32)
    out = b.output("out", vc.f32, size=16)
    t = b.let("t", vc.global_id.x)
    out.vector(t * 4, 4).set(*x.vector((t, t * 2 + s * 4), 4))
    b.work(4)
    kernel = device.compile(b.build())
    x_ = np.arange(24, dtype=np.float32).reshape(4, 6)

    assert "ld.global.v4" in kernel.ptx
    for s_ in (0, 1, 2**30 - 1, 2**30 - 2):
        assert_same(vc.evaluate(kernel.program, x_, s_), kernel(x_, s_))
    assert kernel(x_, 2**30 - 1)[4:8].tolist() == [0, 0, 6, 7]
