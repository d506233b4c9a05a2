"""The grid barrier in the interpreter: all blocks wait for each other, and keep their locals and shared arrays."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_cuda.errors import KernelAssertionError, ProgramError
from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.interp.execute import Execution, Scope
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import Apply, Const, GridBarrier, Id, If, Stmt
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import bool_, u32
from vyre_cuda.ir.read.parse import parse


def test_writes_of_every_block_are_seen_after_the_barrier() -> None:
    """More threads than the interpreter advances together without a grid barrier."""
    program = parse("""
        program reverse
        block 128
        index u32
        in x: u32
        inout kept: u32
        out r: u32[size(x)]
        store kept[global_id.x], multiply(load(x[global_id.x]), u32:3)
        grid_barrier
        store r[global_id.x], load(kept[subtract(subtract(size(x), u32:1), global_id.x)])
    """)
    x = np.random.default_rng(1).integers(0, 2**32, 150_000, dtype=np.uint32)

    kept, r = evaluate(program, x, np.zeros_like(x))

    assert np.array_equal(x * np.uint32(3), kept)
    assert np.array_equal(x[::-1] * np.uint32(3), r)


def test_barriers_in_a_loop_make_a_scan_of_the_whole_grid() -> None:
    """Hillis and Steele over all blocks: in each pass every thread reads what another wrote in the pass before."""
    program = parse("""
        program scan
        block 8
        index u32
        inout sums: u32
        for k = u32:0 to u32:7 step u32:1
          let distance = left_shift(u32:1, k)
          let mine = load(sums[global_id.x])
          let left = load(sums[subtract(global_id.x, distance)])
          grid_barrier
          store sums[global_id.x], add(mine, left)
          grid_barrier
        end
    """)
    x = np.random.default_rng(2).integers(0, 2**32, 100, dtype=np.uint32)

    assert np.add.accumulate(x, dtype=np.uint32).tolist() == evaluate(program, x).tolist()


def test_locals_and_shared_arrays_outlive_the_barrier() -> None:
    program = parse("""
        program p
        block 4
        index u32
        in x: u32
        inout total: u32
        out r: u32[size(x)]
        shared tile: u32[4]
        var mine = multiply(load(x[global_id.x]), u32:10)
        store tile[thread_id.x], load(x[global_id.x])
        atomic add total[u32:0], load(x[global_id.x]) order relaxed scope device
        grid_barrier
        mine = add(mine, load(total[u32:0]))
        store r[global_id.x], add(mine, load(tile[subtract(u32:3, thread_id.x)]))
    """)
    x = np.arange(1, 13, dtype=np.uint32)
    expected = [10 * v + 78 + o for v, o in zip(x.tolist(), x.reshape(3, 4)[:, ::-1].ravel().tolist(), strict=True)]

    total, r = evaluate(program, x, np.zeros(1, np.uint32))

    assert total.tolist() == [78]
    assert expected == r.tolist()


def test_work_of_size_zero_meets_no_barrier() -> None:
    program = parse("program p\nblock 4\nindex u32\nin x: u32\nout r: u32[size(x)]\ngrid_barrier")

    assert evaluate(program, np.zeros(0, np.uint32)).tolist() == []


def executed(body: tuple[Stmt, ...]) -> None:
    """Run statements that the validator would refuse, on three blocks of 4 threads."""
    program = Program("split", (), body, block=(4, 1, 1))
    lanes = Lanes(Geometry((3, 1, 1), (4, 1, 1), (12, 1, 1)), 0, 3)
    Execution(program, Scope(lanes, {}, {})).run(program.body, Mask.full(12))


@pytest.mark.parametrize(("kind", "fewer", "all_"), [("block_id", 2, 3), ("global_id", 11, 12)])
def test_part_of_the_grid_at_a_grid_barrier_is_an_error(kind: str, fewer: int, all_: int) -> None:
    barrier = GridBarrier(source=("model.py", 5))

    executed((If(Apply(bool_, "less", (Id(u32, kind, 0), Const(u32, all_))), (barrier,)),))
    with pytest.raises(ProgramError) as raised:
        executed((If(Apply(bool_, "less", (Id(u32, kind, 0), Const(u32, fewer))), (barrier,)),))

    assert raised.value.diagnostics[0].source == ("model.py", 5)


def test_thread_that_failed_an_assertion_does_not_count_at_a_grid_barrier() -> None:
    program = parse("""
        program p
        block 4
        index u32
        in x: u32
        out r: u32[size(x)]
        assert not_equal(load(x[global_id.x]), u32:7), "not seven"
        grid_barrier
        assert not_equal(load(x[global_id.x]), u32:9), "not nine"
        store r[global_id.x], u32:1
    """)

    with pytest.raises(KernelAssertionError) as raised:
        evaluate(program, np.array([1, 2, 9, 4, 5, 7, 7, 8], dtype=np.uint32))

    assert (raised.value.thread, raised.value.message) == (2, "not nine")
