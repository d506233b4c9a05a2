"""Atomics, warp operations and wide indices in the builder: each method becomes its node, and computes what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Apply, Atomic, Const, GridBarrier, Id, Let, Local, Warp
from vyre_cuda.ir.core.types import INTEGERS, Type
from vyre_cuda.ir.core.walk import statements


def program(write: Callable[[vc.Builder, vc.Buffer, vc.Value], Any], type_: Type = vc.u32) -> vc.Program:
    """A program whose one inout is `h`; what `write` returns is stored in `out`."""
    b = vc.Builder("p", block=64)
    h = b.inout("h", type_)
    i = b.let("i", vc.global_id.x)
    result = write(b, h, i)
    if result is not None:
        out = b.output("out", result.type, size=h.size)
        out[i] = result
    return b.build()


def only(kind: type, of: vc.Program) -> Any:
    (found,) = (s for s in statements(of.body) if isinstance(s, kind))
    return found


# ---- atomics --------------------------------------------------------------------------------------------------------

NINE = Const(vc.u32, 9)
ATOMIC_CALLS: list[tuple[str, str, tuple[int, ...], int]] = [
    # method, op, values, new value of an element that was 5
    ("atomic_add", "add", (9,), 14),
    ("atomic_sub", "subtract", (9,), 2**32 - 4),
    ("atomic_min", "minimum", (9,), 5),
    ("atomic_max", "maximum", (9,), 9),
    ("atomic_and", "bitwise_and", (9,), 1),
    ("atomic_or", "bitwise_or", (9,), 13),
    ("atomic_xor", "bitwise_xor", (9,), 12),
    ("atomic_exchange", "exchange", (9,), 9),
    ("atomic_compare_exchange", "compare_exchange", (5, 9), 9),
    ("atomic_load", "load", (), 5),
]


@pytest.mark.parametrize(("method", "op", "values", "new"), ATOMIC_CALLS, ids=[call[0] for call in ATOMIC_CALLS])
def test_an_atomic_is_its_node_and_gives_the_old_value(method: str, op: str, values: tuple[int, ...], new: int) -> None:
    built = program(lambda b, h, i: getattr(b, method)(h, i, *values, order="acquire", scope="block"))
    expected = Atomic("old", op, "h", Local(vc.u32, "i"), tuple(Const(vc.u32, v) for v in values), "acquire", "block")
    h, old = vc.evaluate(built, np.full(3, 5, np.uint32))

    assert expected == only(Atomic, built)
    assert h.tolist() == [new] * 3
    assert old.tolist() == [5] * 3


def test_an_atomic_store_has_no_result() -> None:
    built = program(lambda b, h, i: b.atomic_store(h, i, 9, order="release", scope="system"))

    assert only(Atomic, built) == Atomic(None, "store", "h", Local(vc.u32, "i"), (NINE,), "release", "system")
    assert vc.evaluate(built, np.zeros(2, np.uint32)).tolist() == [9, 9]


def test_float_atomics_order_zeros_and_keep_nan() -> None:
    least = program(lambda b, h, i: b.atomic_min(h, i, -0.0), vc.f64)
    h, _ = vc.evaluate(least, np.array([0.0, np.nan, -1.0]))

    assert np.signbit(h[0])
    assert np.isnan(h[1])
    assert h[2] == -1


# ---- warps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "op"),
    [
        *(("add", "add"), ("sum", "add"), ("min", "minimum"), ("minimum", "minimum"), ("max", "maximum")),
        *(("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("bitwise_xor", "bitwise_xor")),
    ],
)
def test_combining_ops_have_short_names(given: str, op: str) -> None:
    built = program(lambda b, h, i: b.warp_reduce(i, given))

    assert only(Warp, built) == Warp("reduce", "reduce", (Local(vc.u32, "i"),), op)


def test_warp_operations_compute_what_they_say() -> None:
    lanes = np.arange(64) % 32
    cases: list[tuple[Callable[..., Any], Any]] = [
        (lambda b, h, i: b.shuffle(i, 5), lanes * 0 + 5 + np.repeat([0, 32], 32)),
        (lambda b, h, i: b.shuffle(i, 40), np.zeros(64)),
        (lambda b, h, i: b.shuffle_up(i, 1), np.arange(64) - (lanes > 0)),
        (lambda b, h, i: b.shuffle_down(i, 1), np.arange(64) + (lanes < 31)),
        (lambda b, h, i: b.shuffle_xor(i, 1), np.arange(64) ^ 1),
        (lambda b, h, i: b.broadcast(i, 3), 3 + np.repeat([0, 32], 32)),
        (lambda b, h, i: b.any(i == 33), np.repeat([False, True], 32)),
        (lambda b, h, i: b.all(i < 40), np.repeat([True, False], 32)),
        (lambda b, h, i: b.ballot(i == 33), np.repeat([0, 2], 32)),
        (lambda b, h, i: b.match(i % 32 < 3), np.where(lanes < 3, 7, 2**32 - 8)),
        (lambda b, h, i: b.warp_reduce(i, "max"), np.repeat([31, 63], 32)),
        (lambda b, h, i: b.warp_scan(vc.u64(1) + 0 * vc.u64(i), "add"), lanes + 1),
        (lambda b, h, i: b.warp_scan(vc.f64(1), "add", inclusive=False), lanes),
    ]
    for write, expected in cases:
        _, out = vc.evaluate(program(write), np.zeros(64, np.uint32))
        np.testing.assert_array_equal(expected, out)


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_a_lane_of_any_integer_type_becomes_u32(type_: Type) -> None:
    built = program(lambda b, h, i: b.shuffle(i, type_(i)))
    lane = only(Warp, built).operands[1]

    assert lane.type is vc.u32
    _, out = vc.evaluate(built, np.zeros(32, np.uint32))
    assert out.tolist() == list(range(32))


def test_grid_barrier_is_a_statement() -> None:
    assert only(GridBarrier, program(lambda b, h, i: b.grid_barrier())) == GridBarrier()


# ---- ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [vc.u32, vc.u64], ids=str)
def test_lane_id_has_the_index_type(index: Type) -> None:
    b = vc.Builder("p", block=(8, 8), index=index)
    h = b.output("h", index, size=64)
    b.work(8, 8)
    h[vc.thread_id.x + 8 * vc.thread_id.y] = vc.lane_id
    built = b.build()
    (store,) = built.body

    assert store.value == Id(index, "lane_id", 0)  # type: ignore[union-attr]
    assert vc.evaluate(built).tolist() == [*range(32), *range(32)]


def test_ids_are_shown_by_their_names() -> None:
    assert [repr(each) for each in (vc.lane_id, vc.global_id)] == ["<lane_id>", "<global_id>"]


def test_a_local_named_lane_id_gets_a_number() -> None:
    b = vc.Builder("p")
    value = b.let("lane_id", vc.lane_id + 1)
    b.let("v", value)

    assert [s.name for s in b.build().body if isinstance(s, Let)] == ["lane_id_1", "v"]
    with pytest.raises(vc.ProgramError):
        vc.Builder("q").input("lane_id", vc.u32)


def test_a_wide_index_makes_ids_sizes_and_literals_wide() -> None:
    b = vc.Builder("p", block=32, index=vc.u64)
    x = b.input("x", vc.u8)
    out = b.output("out", vc.u64, size=x.size + 2**33 - 2**33)
    with b.for_(0, 3) as j:
        out[j] = vc.global_id.x + x.size
    built = b.build()
    (loop,) = built.body

    assert loop.start == Const(vc.u64, 0)  # type: ignore[union-attr]
    assert isinstance(loop.body[0].value, Apply)  # type: ignore[union-attr]
    assert loop.body[0].value.type is vc.u64  # type: ignore[union-attr]
    assert vc.parse(built.text()) == built
