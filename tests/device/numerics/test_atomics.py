"""Every atomic on every type it takes, in every order and scope, global and shared, with and without its old value:
device and interpreter agree on every bit over edge values and random ones.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import ATOMICS, SCOPES, AtomicOp
from vyre_cuda.ir.core.types import Type
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.conformance import Count
from vyre_cuda.testing.edges import EDGES, from_bits
from vyre_cuda.testing.statements import atomic, commuting

pytestmark = pytest.mark.conformance
BLOCK = 32
EDGE_ROWS, RANDOM_ROWS = 600, 200
CASES = [(op, type_) for op in ATOMICS.values() for type_ in op.types]


def each_on_its_own(op: AtomicOp, type_: Type, *, keep_old: bool, shared: bool) -> vc.Program:
    """Thread i applies the atomic in each order and scope to elements of its own; old values, if kept, are results."""
    ways = list(itertools.product(op.orders, SCOPES))
    b = vc.Builder(f"own_{op.name}", block=BLOCK)
    operands = [b.input(f"x{n}", type_) for n in range(op.operands)]
    own = b.inout("own", type_)
    old = b.output("old", type_, size=own.size)
    b.work(own.size // len(ways))
    i = b.let("i", vc.global_id.x)
    values = [x[i] for x in operands]
    tile = b.shared("tile", type_, BLOCK * len(ways)) if shared else None
    for way, (order, scope) in enumerate(ways):
        at = i * len(ways) + way
        place = vc.thread_id.x * len(ways) + way
        if tile is not None:
            tile[place] = own[at]
        target = (own, at) if tile is None else (tile, place)
        found = atomic(b, op.name, *target, *values, order=order, scope=scope)
        if keep_old and found is not None:
            old[at] = found
        if tile is not None:
            own[at] = tile[place]
    return b.build()


def columns(op: AtomicOp, type_: Type) -> list[np.ndarray]:
    """Operands and elements: combinations of edge values, some of them equal to each other, then random patterns."""
    count = op.operands + 1
    rng = np.random.default_rng(op.code * 100 + type_.code)
    edges = np.array(EDGES[type_], type_.unsigned)
    chosen = [rng.choice(edges, EDGE_ROWS) for _ in range(count)]
    chosen[-1][::3] = chosen[0][::3]  # what a compare-exchange expects
    random = [rng.integers(0, 2**type_.bits - 1, RANDOM_ROWS, np.uint64, endpoint=True) for _ in range(count)]
    return [
        np.concatenate([c, r.astype(type_.unsigned)]).view(type_.dtype) for c, r in zip(chosen, random, strict=True)
    ]


@pytest.mark.thin(25)
@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize(("op", "type_"), CASES, ids=lambda row: row.name)
def test_atomic_agrees_with_the_interpreter(
    device: vc.Device, op: AtomicOp, type_: Type, shared: bool, count_device: Count
) -> None:
    *operands, element = columns(op, type_)
    own = np.repeat(element, len(op.orders) * len(SCOPES))

    for keep_old in (True, False) if op.result else (False,):
        program = each_on_its_own(op, type_, keep_old=keep_old, shared=shared)
        expected = vc.evaluate(program, *operands, own)
        assert_same(expected, device.run(program, *operands, own))
        count_device("shared atomics" if shared else "atomics", op.name, type_.name, own.size * (1 + keep_old))


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("op", "type_"),
    [(op, t) for op, t in CASES if t.is_integer and any(op.name in group for group in commuting(t))],
    ids=lambda row: row.name,
)
def test_threads_that_meet_at_an_element_all_count(
    device: vc.Device, op: AtomicOp, type_: Type, count_device: Count
) -> None:
    """Where the order does not matter, threads of several blocks share three elements, also by way of shared memory."""
    b = vc.Builder(f"meet_{op.name}", block=96)
    x = b.input("x", type_)
    few = b.inout("few", type_)
    tile = b.shared("tile", type_, 1)
    b.work(x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(vc.thread_id.x == 0):
        tile[0] = x[0]
    b.barrier()
    atomic(b, op.name, tile, 0, x[i], order="relaxed", scope="block")
    atomic(b, op.name, few, i % 3, x[i], order="relaxed", scope="device")
    b.barrier()
    with b.if_(vc.thread_id.x == 0):
        atomic(b, op.name, few, 3, tile[0], order="relaxed", scope="device")
    program = b.build()
    values = from_bits(type_, [EDGES[type_][n * 7 % len(EDGES[type_])] for n in range(960)])
    start = from_bits(type_, [int(bits) for bits in np.arange(5)])

    assert_same(vc.evaluate(program, values, start), device.run(program, values, start))
    count_device("atomics", op.name, type_.name, start.size)
