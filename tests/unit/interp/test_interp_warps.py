"""Warp operations in the interpreter: every row of the table for every type, against the lanes of each warp one by one.

Combining two values is the op of that name, which `ops/` tests; here it is who combines with whom, and who is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vyre_cuda.errors import KernelAssertionError, ProgramError
from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.interp.execute import Execution, Scope
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Id, If, Let, Load, Local, Parameter, Size, Stmt, Store, Warp
from vyre_cuda.ir.core.ops import OPS, WARP_OPS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import TYPES, Type, bool_, u32
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.ir.semantics.elementwise import function
from vyre_cuda.testing.conformance import Count, warp_row

from .simulator import reduced, scanned, shuffled

pytestmark = pytest.mark.conformance
Array = np.ndarray[Any, np.dtype[Any]]
# Whole warps, a short last warp, less than one warp, several axes.
BLOCKS = [(64, 1, 1), (75, 1, 1), (7, 1, 1), (1, 1, 1), (10, 3, 2)]
SHUFFLES = ["shuffle", "shuffle_up", "shuffle_down", "shuffle_xor"]
COMBINING = [
    (op, combine, t)
    for op, row in WARP_OPS.items()
    for combine in row.combines
    for t in row.types
    if t in OPS[combine].types
]


# ---- one warp -------------------------------------------------------------------------------------------------------


def shuffled_warp(op: str, values: Array, operands: list[int]) -> Array:
    brought = [[value, operand] for value, operand in zip(values, operands, strict=True)]
    return np.array([shuffled(op, brought, lane) for lane in range(values.size)], dtype=values.dtype)


def voted(op: str, values: Array) -> list[Any]:
    lanes = range(values.size)
    match op:
        case "any" | "all":
            return [{"any": any, "all": all}[op](values.tolist())] * values.size
        case "ballot":
            return [sum(1 << lane for lane in lanes if values[lane])] * values.size
        case _:
            raw = [values[lane : lane + 1].tobytes() for lane in lanes]
            return [sum(1 << other for other in lanes if raw[other] == raw[lane]) for lane in lanes]


def neutral(combine: str, t: Type) -> int:
    """The bit pattern that an exclusive scan begins with."""
    if combine in ("bitwise_or", "bitwise_xor") or (combine == "add" and not t.is_float):
        return 0
    if t.is_float:
        return bits_of(t, {"add": -0.0, "minimum": float("inf"), "maximum": float("-inf")}[combine])
    ends = {"bitwise_and": -1, "minimum": t.maximum, "maximum": t.minimum}
    return ends[combine] & ((1 << t.bits) - 1)


# ---- launches -------------------------------------------------------------------------------------------------------


def linear_id() -> Expr:
    """The linear id of the thread in a launch on one axis of blocks."""
    total: Expr = Id(u32, "block_id", 0)
    for axis in (2, 1, 0):
        scaled = Apply(u32, "multiply", (total, Id(u32, "block_dim", axis)))
        total = Apply(u32, "add", (scaled, Id(u32, "thread_id", axis)))
    return total


def warp_program(op: str, t: Type, block: tuple[int, int, int], combine: str = "") -> Program:
    """r[thread] = op(x[thread], lane[thread])."""
    row = WARP_OPS[op]
    me = Local(u32, "me")
    lane: tuple[Expr, ...] = (Load(u32, "lane", me),) if row.lane else ()
    result = {"same": t, "bool": bool_, "u32": u32}[row.result]
    body = (
        Let("me", linear_id()),
        Warp("got", op, (Load(t, "x", me), *lane), combine),
        Store("r", me, Local(result, "got")),
    )
    parameters = (Parameter("x", "in", t), Parameter("lane", "in", u32), Parameter("r", "out", result, Size(u32, "x")))
    return Program("p", parameters, body, block)


def values_of(t: Type, count: int, rng: np.random.Generator) -> Array:
    """As storage: few different values, so that some match, or any; floats now and then infinite or NaN."""
    if t is bool_:
        return rng.integers(0, 4, count) > 0
    if not t.is_float:
        return rng.choice(rng.integers(t.minimum, t.maximum, 20, dtype=t.storage, endpoint=True), count)
    special = [bits_of(t, v) for v in (0.0, -0.0, 1.5, -1e-4, float("inf"), float("nan"))]
    usual = [bits_of(t, float(v)) for v in rng.standard_normal(16) * 100]
    chosen = np.where(rng.integers(0, 20, count) == 0, rng.choice(special, count), rng.choice(usual, count))
    return chosen.astype(t.unsigned).view(t.storage)


def warps_of(x: Array, block: tuple[int, int, int]) -> list[Array]:
    threads = block[0] * block[1] * block[2]
    rows = x.reshape(-1, threads)
    return [row[start : start + 32] for row in rows for start in range(0, threads, 32)]


def launched(program: Program, t: Type, x: Array, lane: Array) -> Array:
    threads = program.block[0] * program.block[1] * program.block[2]
    found = evaluate(program, x.view(t.dtype), lane, grid=x.size // threads)
    assert isinstance(found, np.ndarray)
    return found


def assert_same_bits(t: Type, expected: Array, found: Array) -> None:
    """Any NaN equals any other."""
    nan = [function("isnan", t)(x) if t.is_float else np.zeros(x.size, np.bool_) for x in (expected, found)]
    assert nan[0].tolist() == nan[1].tolist()
    assert expected.view(t.unsigned)[~nan[0]].tolist() == found.view(t.unsigned)[~nan[0]].tolist()


@pytest.mark.thin(5)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("op", SHUFFLES)
def test_shuffle_reads_the_lane_that_it_names(
    op: str, t: Type, block: tuple[int, int, int], count_interpreter: Count
) -> None:
    rng = np.random.default_rng(3)
    count = 3 * block[0] * block[1] * block[2]
    x = values_of(t, count, rng)
    lane = np.where(rng.integers(0, 9, count) == 0, 2**32 - 1, rng.integers(0, 36, count)).astype(np.uint32)
    lane[rng.integers(0, count, count // 20)] = 2**31
    pairs = zip(warps_of(x, block), warps_of(lane, block), strict=True)
    expected = np.concatenate([shuffled_warp(op, values, lanes.tolist()) for values, lanes in pairs])

    found = launched(warp_program(op, t, block), t, x, lane)

    assert expected.tobytes() == found.tobytes()
    count_interpreter("warp operations", op, t.name, expected.size)


@pytest.mark.thin(5)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_broadcast_gives_all_the_value_of_one_lane(
    t: Type, block: tuple[int, int, int], count_interpreter: Count
) -> None:
    count = 2 * block[0] * block[1] * block[2]
    x = values_of(t, count, np.random.default_rng(5))
    at = np.array([6, 31, 40], dtype=np.uint32)
    for which in range(3):
        expected = np.concatenate(
            [shuffled_warp("broadcast", v, [int(at[which])] * v.size) for v in warps_of(x, block)]
        )
        program = warp_program("broadcast", t, block)
        warp = Warp("got", "broadcast", (Load(t, "x", Local(u32, "me")), Load(u32, "lane", Const(u32, which))))
        program = Program("p", program.parameters, (program.body[0], warp, program.body[2]), block)

        assert expected.tobytes() == launched(program, t, x, at).tobytes()
        count_interpreter("warp operations", "broadcast", t.name, expected.size)


@pytest.mark.thin(5)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize(
    ("op", "t"), [(op, t) for op in ("any", "all", "ballot", "match") for t in WARP_OPS[op].types], ids=str
)
def test_votes_count_the_lanes_that_are_there(
    op: str, t: Type, block: tuple[int, int, int], count_interpreter: Count
) -> None:
    x = values_of(t, 40 * block[0] * block[1] * block[2], np.random.default_rng(8))
    if t is bool_:
        x[: x.size // 2] = True  # warps that agree
    expected = [vote for values in warps_of(x, block) for vote in voted(op, values)]

    assert expected == launched(warp_program(op, t, block), t, x, np.zeros(1, np.uint32)).tolist()
    count_interpreter("warp operations", op, t.name, len(expected))


@pytest.mark.thin(15)
@pytest.mark.parametrize(("op", "combine", "t"), COMBINING, ids=str)
def test_reductions_and_scans_combine_in_the_order_of_their_steps(
    op: str, combine: str, t: Type, count_interpreter: Count
) -> None:
    apply = function(combine, t)
    for block in BLOCKS:
        x = values_of(t, 2 * block[0] * block[1] * block[2], np.random.default_rng(block[0]))
        expected: list[Array] = []
        with np.errstate(all="ignore"):
            for values in warps_of(x, block):
                lanes = [values[i : i + 1] for i in range(values.size)]
                scan = scanned(apply, lanes)
                start = np.array([neutral(combine, t)], dtype=t.unsigned).view(t.storage)
                if op == "reduce":
                    expected += [reduced(apply, lanes, 0)] * values.size
                else:
                    expected += scan if op == "inclusive_scan" else [start, *scan[:-1]]

        found = launched(warp_program(op, t, block, combine), t, x, np.zeros(1, np.uint32))

        assert_same_bits(t, np.concatenate(expected), found.view(t.storage))
        count_interpreter("warp operations", warp_row(op, combine), t.name, found.size)


def test_lane_id_counts_the_linear_thread_modulo_32() -> None:
    me = linear_id()
    body = (Store("r", me, Id(u32, "lane_id", 0)),)
    program = Program("p", (Parameter("r", "out", u32, Const(u32, 120)),), body, (10, 3, 2))

    assert [*range(32), *range(28)] * 2 == evaluate(program, grid=2).tolist()


# ---- control flow ---------------------------------------------------------------------------------------------------


def test_warps_of_a_block_may_take_different_ways() -> None:
    program = parse("""
        program p
        block 96
        index u32
        in x: u32
        out r: u32[size(x)]
        let warp_number = floor_divide(thread_id.x, u32:32)
        let v = load(x[global_id.x])
        var total = u32:0
        for k = u32:0 to warp_number step u32:1
          let s = warp reduce v combine add
          total = add(total, s)
        end
        if equal(warp_number, u32:2)
          let first = warp broadcast v, u32:3
          total = add(total, first)
        end
        store r[global_id.x], total
    """)
    x = np.random.default_rng(2).integers(0, 1000, 192, dtype=np.uint32)
    expected: list[int] = []
    for start in range(0, 192, 32):
        warp = x[start : start + 32].tolist()
        number = start // 32 % 3
        expected += [number * sum(warp) + (warp[3] if number == 2 else 0)] * 32

    assert expected == evaluate(program, x).tolist()


def executed(body: tuple[Stmt, ...]) -> None:
    """Run statements that the validator would refuse, on two blocks of 40 threads."""
    program = Program("split", (), body, block=(40, 1, 1))
    lanes = Lanes(Geometry((2, 1, 1), (40, 1, 1), (80, 1, 1)), 0, 2)
    Execution(program, Scope(lanes, {}, {})).run(program.body, Mask.full(80))


def test_part_of_a_warp_at_a_warp_operation_is_an_error() -> None:
    vote = Warp("v", "any", (Const(bool_, 1),), source=("model.py", 3))
    whole_first_warp = Apply(bool_, "less", (Id(u32, "thread_id", 0), Const(u32, 32)))
    part_of_second = Apply(bool_, "less", (Id(u32, "thread_id", 0), Const(u32, 39)))

    executed((If(whole_first_warp, (vote,)),))
    with pytest.raises(ProgramError) as raised:
        executed((If(part_of_second, (vote,)),))

    assert raised.value.diagnostics[0].source == ("model.py", 3)


def test_broadcast_from_lanes_that_differ_is_an_error() -> None:
    by_block = Warp("v", "broadcast", (Const(u32, 1), Id(u32, "block_id", 0)))
    by_lane = Warp("v", "broadcast", (Const(u32, 1), Id(u32, "lane_id", 0)), source=("model.py", 4))

    executed((by_block,))
    with pytest.raises(ProgramError) as raised:
        executed((by_lane,))

    assert raised.value.diagnostics[0].source == ("model.py", 4)


def test_thread_that_failed_an_assertion_does_not_count_for_its_warp() -> None:
    program = parse("""
        program p
        block 64
        index u32
        in x: u32
        out r: u32[size(x)]
        assert not_equal(load(x[global_id.x]), u32:7), "not seven"
        let s = warp reduce load(x[global_id.x]) combine add
        store r[global_id.x], s
    """)
    x = np.ones(64, dtype=np.uint32)
    x[40] = 7

    with pytest.raises(KernelAssertionError) as raised:
        evaluate(program, x)

    assert raised.value.thread == 40
