"""Warp operations on every type, in full and partial last warps: device and interpreter agree, and so does NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.ops import COMBINES, WARP_OPS, warp_result_type
from vyre_cuda.ir.core.types import NUMBERS, TYPES, Type, bool_, u32
from vyre_cuda.testing.compare import assert_same
from vyre_cuda.testing.conformance import Count, warp_row
from vyre_cuda.testing.edges import EDGES
from vyre_cuda.testing.expressions import without_nan

pytestmark = pytest.mark.conformance
BLOCKS = (32, 33, 64, 95)


def inputs(type_: Type, n: int) -> np.ndarray:
    """Half random numbers, half edge values, some of them alike; only a few warps have a NaN."""
    rng = np.random.default_rng(type_.code)
    if type_ is bool_:
        return rng.integers(0, 2, n).astype(bool)
    edges = rng.choice(np.array(EDGES[type_][:12], type_.unsigned), n).view(type_.dtype)
    if type_.is_float:
        random = rng.integers(-40, 40, n).astype(np.float32).astype(type_.dtype)
    else:
        random = rng.integers(0, 2**type_.bits - 1, n, np.uint64, True).astype(type_.unsigned).view(type_.dtype)
    mixed: np.ndarray = np.where(rng.integers(0, 2, n) == 1, edges, random)
    if type_.is_float:
        mixed[-1] = np.nan
        mixed[n // 2 : n // 2 + 2] = [np.inf, -np.inf]
    return mixed


def shuffles(name: str, type_: Type, block: int) -> vc.Program:
    b = vc.Builder(name, block=block)
    x, lane = b.input("x", type_), b.input("lane", vc.u32)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    out[i] = getattr(b, name)(x[i], lane[i])
    return b.build()


@pytest.mark.thin(5)
@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("name", [name for name, op in WARP_OPS.items() if op.lane and name != "broadcast"])
def test_shuffles_agree(device: vc.Device, name: str, type_: Type, count_device: Count) -> None:
    for block in BLOCKS:
        program = shuffles(name, type_, block)
        n = 2 * block
        lane = np.random.default_rng(block).integers(0, 36, n, dtype=np.uint32)
        lane[:3] = [0, 31, 2**32 - 1]

        assert_same(vc.evaluate(program, inputs(type_, n), lane), device.run(program, inputs(type_, n), lane))
        count_device("warp operations", name, type_.name, n)


def of_a_warp(name: str, type_: Type, block: int) -> vc.Program:
    """A vote, a match or the broadcast of a lane that the first thread of each warp names."""
    b = vc.Builder(name, block=block)
    x = b.input("x", type_)
    lane = b.input("lane", vc.u32)
    out = b.output("out", warp_result_type(WARP_OPS[name], type_), size=x.size)
    i = b.let("i", vc.global_id.x)
    value = without_nan(x[i]) if name == "match" else x[i]
    out[i] = b.broadcast(value, b.broadcast(lane[i], 0)) if name == "broadcast" else getattr(b, name)(value)
    return b.build()


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("name", "type_"),
    [(name, t) for name in ("broadcast", "any", "all", "ballot", "match") for t in WARP_OPS[name].types],
    ids=str,
)
def test_votes_matches_and_broadcasts_agree(device: vc.Device, name: str, type_: Type, count_device: Count) -> None:
    for block in BLOCKS:
        program = of_a_warp(name, type_, block)
        n = 4 * block
        x = inputs(type_, n)
        x[:block] = x[0]  # a block that agrees
        lane = np.random.default_rng(block).integers(0, 34, n, dtype=np.uint32)

        assert_same(vc.evaluate(program, x, lane), device.run(program, x, lane))
        count_device("warp operations", name, type_.name, n)


def reductions(name: str, combine: str, type_: Type, block: int) -> vc.Program:
    b = vc.Builder(name, block=block)
    x = b.input("x", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    if name == "reduce":
        out[i] = b.warp_reduce(x[i], combine)
    else:
        out[i] = b.warp_scan(x[i], combine, inclusive=name == "inclusive_scan")
    return b.build()


@pytest.mark.thin(35)
@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("type_", NUMBERS, ids=str)
@pytest.mark.parametrize("name", ["reduce", "inclusive_scan", "exclusive_scan"])
def test_reductions_and_scans_agree(
    device: vc.Device, name: str, type_: Type, combine: str, count_device: Count
) -> None:
    if type_.is_float and combine.startswith("bitwise"):
        with pytest.raises(vc.ProgramError):
            reductions(name, combine, type_, 32)
        return
    for block in BLOCKS:
        program = reductions(name, combine, type_, block)
        x = inputs(type_, 4 * block)

        assert_same(vc.evaluate(program, x), device.run(program, x))
        count_device("warp operations", warp_row(name, combine), type_.name, x.size)


def test_reductions_of_integers_equal_numpy(device: vc.Device) -> None:
    x = inputs(vc.i64, 64)

    total = device.run(reductions("reduce", "add", vc.i64, 32), x)
    scan = device.run(reductions("inclusive_scan", "add", vc.i64, 32), x)

    np.testing.assert_array_equal(np.repeat(x.reshape(2, 32).sum(axis=1), 32), total)
    np.testing.assert_array_equal(x.reshape(2, 32).cumsum(axis=1).ravel(), scan)


def votes(block: int) -> vc.Program:
    b = vc.Builder("votes", block=block)
    x = b.input("x", vc.u32)
    outs = [b.output(name, vc.u32, size=x.size) for name in ("any", "all", "ballot", "match", "first", "lane")]
    i = b.let("i", vc.global_id.x)
    odd = b.let("odd", x[i] % 2 == 1)
    one, zero = vc.u32(1), vc.u32(0)
    values = (
        vc.where(b.any(odd), one, zero),
        vc.where(b.all(odd), one, zero),
        b.ballot(odd),
        b.match(x[i]),
        b.broadcast(x[i], 0),
        vc.lane_id,
    )
    for out, value in zip(outs, values, strict=True):
        out[i] = value
    return b.build()


def test_votes_equal_numpy(device: vc.Device) -> None:
    x = np.random.default_rng(5).integers(0, 4, 96, dtype=np.uint32)
    x[32:64] = 1
    warps = x.reshape(3, 32)
    weights = np.uint64(1) << np.arange(32, dtype=np.uint64)

    any_, all_, ballot, match, first, lane = device.run(votes(32), x)

    odd = warps % 2 == 1
    np.testing.assert_array_equal(np.repeat(odd.any(1), 32), any_)
    np.testing.assert_array_equal(np.repeat(odd.all(1), 32), all_)
    np.testing.assert_array_equal(np.repeat((odd * weights).sum(1), 32), ballot)
    equal = warps[:, :, None] == warps[:, None, :]
    np.testing.assert_array_equal((equal * weights).sum(2).ravel(), match)
    np.testing.assert_array_equal(np.repeat(warps[:, 0], 32), first)
    np.testing.assert_array_equal(np.tile(np.arange(32), 3), lane)


@pytest.mark.parametrize("block", BLOCKS)
def test_votes_agree_in_partial_warps(device: vc.Device, block: int) -> None:
    x = np.random.default_rng(block).integers(0, 3, block * 2, dtype=np.uint32)

    assert_same(vc.evaluate(votes(block), x), device.run(votes(block), x))


def test_warp_operations_in_divergent_flow_are_refused() -> None:
    b = vc.Builder("divergent", block=64)
    x = b.input("x", u32)
    out = b.output("out", u32, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < 5):
        out[i] = b.warp_reduce(x[i], "add")

    with pytest.raises(vc.ProgramError, match="warp"):
        b.build()
