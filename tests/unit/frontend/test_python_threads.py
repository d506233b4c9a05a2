"""The threads of a launch that runs as Python: barriers, warp operations and what ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.frontend.python.builder import RunningBuilder
from vyre_cuda.frontend.python.launch import Launch
from vyre_cuda.frontend.python.scalar import Scalar
from vyre_cuda.ir.call.call import bind

Body = Callable[[RunningBuilder], None]


def run(program: vc.Program, body: Body, *args: object) -> object:
    builder = RunningBuilder(program)
    return Launch(bind(program, args, {}), builder.scope, lambda: body(builder)).run()


def waiting_program(statement: str, block: int = 64) -> vc.Program:
    """A program with this statement, so that its threads take turns, and one inout `x`."""
    b = vc.Builder("waits", block=block)
    b.inout("x", vc.u32)
    if statement == "barrier":
        b.barrier()
    elif statement == "grid_barrier":
        b.grid_barrier()
    else:
        b.warp_reduce(vc.u32(1), "add")
    return b.build()


def test_threads_of_a_block_see_what_others_wrote_before_the_barrier() -> None:
    b = vc.Builder("reverse", block=8)
    x = b.inout("x", vc.i32)
    tile = b.shared("tile", vc.i32, 8)
    t = b.let("t", vc.thread_id.x)
    tile[t] = x[vc.global_id.x]
    b.barrier()
    x[vc.global_id.x] = tile[7 - t]
    program = b.build()

    def body(b: RunningBuilder) -> None:
        x, tile = b.parameter("x"), b.shared("tile", vc.i32, 8)
        t, i = vc.thread_id.x, vc.global_id.x
        tile[t] = x[i]
        b.barrier()
        x[i] = tile[7 - t]

    given = np.arange(16, dtype=np.int32)
    assert np.array_equal(run(program, body, given), vc.evaluate(program, given))


def test_a_grid_barrier_lets_every_block_see_the_others() -> None:
    program = waiting_program("grid_barrier", block=4)

    def body(b: RunningBuilder) -> None:
        x, i = b.parameter("x"), vc.global_id.x
        value = x[i]
        b.grid_barrier()
        x[15 - i] = value

    assert np.array_equal(run(program, body, np.arange(16, dtype=np.uint32)), np.arange(16)[::-1])


def test_more_threads_than_can_wait_for_a_grid_barrier_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"8192 threads meet at a grid barrier.*at most 4096"):
        run(waiting_program("grid_barrier"), lambda b: b.grid_barrier(), np.zeros(8192, np.uint32))


def test_a_warp_operation_gets_the_operand_of_every_thread_of_its_warp() -> None:
    def body(b: RunningBuilder) -> None:
        x, i = b.parameter("x"), vc.global_id.x
        x[i] = b.warp_reduce(x[i], "add")

    given = np.arange(64, dtype=np.uint32)
    assert np.array_equal(
        run(waiting_program("reduce"), body, given), np.repeat([given[:32].sum(), given[32:].sum()], 32)
    )


def test_part_of_a_warp_in_a_warp_operation_is_refused_with_both_numbers() -> None:
    def body(b: RunningBuilder) -> None:
        if vc.lane_id < 3:
            b.warp_reduce(vc.u32(1), "add")

    with pytest.raises(vc.ProgramError, match="reduce reached by 3 of the 32 threads of warp 0 of block 0"):
        run(waiting_program("reduce"), body, np.zeros(64, np.uint32))


def test_part_of_a_block_at_a_barrier_is_refused_with_both_numbers() -> None:
    def body(b: RunningBuilder) -> None:
        if vc.thread_id.x < 5:
            b.barrier()

    with pytest.raises(vc.ProgramError, match="barrier reached by 5 of the 64 threads of block 0"):
        run(waiting_program("barrier"), body, np.zeros(64, np.uint32))


def test_threads_at_different_barriers_are_refused() -> None:
    def body(b: RunningBuilder) -> None:
        if vc.thread_id.x < 5:
            b.barrier()
        else:
            b.barrier()

    with pytest.raises(vc.ProgramError, match="of the 64 threads of block 0"):
        run(waiting_program("barrier"), body, np.zeros(64, np.uint32))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_a_thread_raises_ends_the_others_and_comes_out_with_its_line(error: type[BaseException]) -> None:
    def body(b: RunningBuilder) -> None:
        if vc.thread_id.x == 40:
            raise error("mine")
        b.barrier()

    before = set(threading.enumerate())
    with pytest.raises(error, match="mine") as caught:
        run(waiting_program("barrier"), body, np.zeros(64, np.uint32))
    assert caught.traceback[-1].name == "body"
    assert set(threading.enumerate()) <= before


def test_a_failed_assertion_ends_its_thread_and_not_the_others() -> None:
    b = vc.Builder("checks", block=4)
    x = b.inout("x", vc.u32)
    b.assert_(x[vc.global_id.x] < 10, "too big")
    b.barrier()
    program = b.build()
    arrived = []

    def body(b: RunningBuilder) -> None:
        b.assert_(b.parameter("x")[vc.global_id.x] < 10, "too big")
        b.barrier()
        arrived.append(int(vc.global_id.x))

    with pytest.raises(vc.KernelAssertionError, match=r"too big.*in thread 1"):
        run(program, body, np.array([0, 10, 11, 0], np.uint32))
    assert arrived == [0, 3]


def test_numbers_have_their_type_and_can_be_looked_at() -> None:
    seen = []

    def body(b: RunningBuilder) -> None:
        x = b.parameter("x")[0]
        seen.extend([x, x // 2, vc.f32(x) / 3, vc.lane_id + 1, ~x, x == 7, vc.bf16(x)])

    b = vc.Builder("looks", block=1)
    b.inout("x", vc.u32)
    run(b.build(), body, np.array([7], np.uint32))
    assert all(isinstance(value, Scalar) for value in seen)
    assert list(map(repr, seen)) == [
        "u32(7)", "u32(3)", "f32(2.3333333)", "u32(1)", "u32(4294967288)", "bool_(True)", "bf16(7.0)"
    ]  # fmt: skip
    assert f"{seen[2]:.2f}" == "2.33"
    assert [10, 20][seen[3]] == 20
    with pytest.raises(TypeError, match="no truth value"):
        bool(seen[0])
    with pytest.raises(TypeError, match="not an integer"):
        [10, 20][seen[2]]


def test_numbers_of_different_types_do_not_mix() -> None:
    def body(b: RunningBuilder) -> None:
        b.parameter("x")[0] + vc.f32(1)

    with pytest.raises(vc.ProgramError, match="add needs operands of one type"):
        run(waiting_program("barrier", block=1), body, np.zeros(1, np.uint32))


def test_each_thread_has_its_own_local_array_and_all_read_one_table() -> None:
    constants = np.array([5, 6, 7, 8], np.uint32)

    def body(b: RunningBuilder) -> None:
        x, i = b.parameter("x"), vc.global_id.x
        own, other, table = b.local("own", vc.u32, 4), b.local("own", vc.u32, 4), b.table("constants", constants)
        own[i] = i
        b.barrier()
        x[i] = own[i] + own[i - 1] + other[i] + table[i] * 10 + table[i + 100] + own.size

    given = np.zeros(4, np.uint32)
    assert run(waiting_program("barrier", block=4), body, given).tolist() == [54, 65, 76, 87]
