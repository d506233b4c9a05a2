"""Control flow in the interpreter: loops, early exits, barriers and assertions, each against a plain Python loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_cuda.errors import KernelAssertionError, ProgramError
from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.interp.execute import Execution, Scope
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Atomic,
    Barrier,
    Const,
    For,
    If,
    Let,
    Load,
    Local,
    Parameter,
    Return,
    Scalar,
    Size,
    Stmt,
    Store,
    While,
)
from vyre_cuda.ir.core.nodes import Id as IdNode
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INTEGERS, Type, bool_, i32, u32
from vyre_cuda.ir.read.parse import parse


def x32(*values: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return np.array(values, dtype=np.uint32)


def body_program(body: str, *, block: str = "4", extra: str = "") -> Program:
    """One value of x per thread in, one value of r out."""
    return parse(f"program p\nblock {block}\nindex u32\nin x: u32\nout r: u32[size(x)]\n{extra}\n{body}")


# ---- for ------------------------------------------------------------------------------------------------------------


def range_program(type_: Type) -> Program:
    """Per thread: the number of trips of range(start, stop, step), and the sum of start - counter, at most 40 trips."""
    i = IdNode(u32, "global_id", 0)
    one = Const(u32, 1)
    k, trips = Local(type_, "k"), Local(u32, "trips")
    element = [Load(type_, name, i) for name in ("start", "stop", "step")]
    capped = If(Apply(bool_, "equal", (Load(u32, "n", i), Const(u32, 40))), (Return(),))
    count = Store("n", i, Apply(u32, "add", (trips, one)))
    last = Store("last", i, k)
    loop = For("k", *element, (capped, Let("trips", Load(u32, "n", i)), count, last))
    ins = [Parameter(name, "in", type_) for name in ("start", "stop", "step")]
    size = Size(u32, "start")
    outs = [Parameter("n", "out", u32, size), Parameter("last", "out", type_, size)]
    return Program("ranges", (*ins, *outs), (loop,))


def near_ends(type_: Type) -> st.SearchStrategy[int]:
    low, high = type_.minimum, type_.maximum
    return st.one_of(*(st.integers(max(low, c - 9), min(high, c + 9)) for c in (low, 0, high)), st.integers(low, high))


@pytest.mark.thin
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_for_trips_are_those_of_pythons_range(type_: Type, data: st.DataObject) -> None:
    one = st.tuples(near_ends(type_), near_ends(type_), near_ends(type_))
    rows = data.draw(st.lists(one, min_size=1, max_size=6))
    ranges = [list(range(a, b, c)[:40]) if c else [] for a, b, c in rows]
    columns = [np.array(column, dtype=type_.dtype) for column in zip(*rows, strict=True)]

    n, last = evaluate(range_program(type_), *columns)

    assert [len(r) for r in ranges] == n.tolist()
    assert [r[-1] if r else 0 for r in ranges] == last.tolist()


def test_for_bounds_are_evaluated_once() -> None:
    program = body_program("""
        var stop = u32:3
        var n = u32:0
        for k = u32:0 to stop step u32:1
          stop = u32:100
          n = add(n, u32:1)
        end
        store r[global_id.x], n
    """)

    assert evaluate(program, x32(0)).tolist() == [3]


# ---- leaving --------------------------------------------------------------------------------------------------------


def simulated(thread: Callable[[int], int], values: list[int]) -> list[int]:
    return [thread(value) for value in values]


def test_break_and_continue_are_per_thread_and_leave_the_inner_loop_only() -> None:
    program = body_program("""
        let v = load(x[global_id.x])
        var acc = u32:0
        for i = u32:0 to u32:6 step u32:1
          for j = u32:0 to u32:6 step u32:1
            if equal(j, v)
              break
            end
            if equal(remainder(add(i, j), u32:3), u32:0)
              continue
            end
            acc = add(multiply(acc, u32:3), add(i, j))
          end
          if greater(i, v)
            break
          end
          acc = add(acc, u32:1)
        end
        store r[global_id.x], acc
    """)

    def thread(v: int) -> int:
        acc = 0
        for i in range(6):
            for j in range(6):
                if j == v:
                    break
                if (i + j) % 3 == 0:
                    continue
                acc = acc * 3 + i + j
            if i > v:
                break
            acc += 1
        return acc % 2**32

    values = [0, 1, 2, 3, 4, 5, 6, 7, 3]
    assert simulated(thread, values) == evaluate(program, x32(*values)).tolist()


def test_return_inside_a_loop_ends_the_thread_for_good() -> None:
    program = body_program("""
        let v = load(x[global_id.x])
        for i = u32:0 to u32:8 step u32:1
          store r[global_id.x], i
          if equal(i, v)
            return
          end
        end
        store r[global_id.x], u32:99
    """)

    assert evaluate(program, x32(0, 3, 7, 8, 50)).tolist() == [0, 3, 7, 99, 99]


def test_while_runs_its_setup_before_each_test() -> None:
    program = body_program("""
        var v = load(x[global_id.x])
        var steps = u32:0
        while
          let odd = bitwise_and(v, u32:1)
        test logical_and(not_equal(v, u32:1), less_equal(steps, u32:1000))
          steps = add(steps, u32:1)
          if equal(odd, u32:1)
            v = add(multiply(v, u32:3), u32:1)
            continue
          end
          v = floor_divide(v, u32:2)
        end
        store r[global_id.x], steps
    """)

    def collatz(v: int) -> int:
        steps = 0
        while v != 1 and steps <= 1000:
            steps, v = steps + 1, v * 3 + 1 if v % 2 else v // 2
        return steps

    values = [1, 2, 3, 7, 27, 97, 871, 0]
    assert simulated(collatz, values) == evaluate(program, x32(*values)).tolist()


def test_variables_of_inactive_threads_keep_their_values() -> None:
    program = body_program("""
        let v = load(x[global_id.x])
        var a = u32:10
        if less(v, u32:3)
          a = add(a, v)
        else
          if less(v, u32:5)
            a = multiply(a, v)
          end
        end
        store r[global_id.x], a
    """)

    assert evaluate(program, x32(0, 1, 2, 3, 4, 5)).tolist() == [10, 11, 12, 30, 40, 10]


# ---- barriers -------------------------------------------------------------------------------------------------------


def test_barrier_makes_shared_writes_visible_to_the_block() -> None:
    program = body_program(
        """
        store tile[thread_id.x], load(x[global_id.x])
        barrier
        store r[global_id.x], load(tile[subtract(u32:3, thread_id.x)])
        """,
        extra="shared tile: u32[4]",
    )

    assert evaluate(program, x32(1, 2, 3, 4, 5, 6, 7, 8)).tolist() == [4, 3, 2, 1, 8, 7, 6, 5]


def test_block_that_returned_as_a_whole_does_not_disturb_the_barrier_of_others() -> None:
    program = body_program("""
        if equal(block_id.x, u32:1)
          return
        end
        barrier
        store r[global_id.x], u32:1
    """)

    assert evaluate(program, np.zeros(12, np.uint32)).tolist() == [1] * 4 + [0] * 4 + [1] * 4


def test_barrier_in_a_loop_with_trips_by_block() -> None:
    program = body_program(
        """
        store tile[thread_id.x], load(x[global_id.x])
        for k = u32:0 to block_id.x step u32:1
          barrier
          let next = load(tile[remainder(add(thread_id.x, u32:1), u32:4)])
          barrier
          store tile[thread_id.x], next
        end
        store r[global_id.x], load(tile[thread_id.x])
        """,
        extra="shared tile: u32[4]",
    )
    expected = [np.roll(np.arange(4 * b, 4 * b + 4), -b) for b in range(3)]

    assert np.concatenate(expected).tolist() == evaluate(program, np.arange(12, dtype=np.uint32)).tolist()


def test_part_of_a_block_at_a_barrier_is_an_error() -> None:
    """The validator refuses such a program; what it might let through is checked again while it runs."""
    few = Apply(bool_, "less", (IdNode(u32, "thread_id", 0), Const(u32, 3)))
    program = Program("split", (), (If(few, (Barrier(source=("model.py", 3)),)),), block=(4, 1, 1))
    lanes = Lanes(Geometry((2, 1, 1), (4, 1, 1), (8, 1, 1)), 0, 2)

    with pytest.raises(ProgramError) as raised:
        Execution(program, Scope(lanes, {}, {})).run(program.body, Mask.full(8))

    assert raised.value.diagnostics[0].source == ("model.py", 3)


# ---- assertions -----------------------------------------------------------------------------------------------------

ASSERTING = """
    let v = load(x[global_id.x])
    if greater(v, u32:100)
      assert less(v, u32:200), "below 200"
    end
    assert not_equal(v, u32:7), "not seven"
    store r[global_id.x], v
"""


@pytest.mark.parametrize(
    ("bad", "thread", "statement", "message"),
    [
        ({5: 7}, 5, 3, "not seven"),
        ({9: 300}, 9, 2, "below 200"),
        ({9: 300, 3: 7}, 3, 3, "not seven"),
        ({3: 300, 9: 7}, 3, 2, "below 200"),
        ({70_000: 300, 69_999: 7}, 69_999, 3, "not seven"),
    ],
)
def test_lowest_thread_that_fails_an_assertion_is_reported(
    bad: dict[int, int], thread: int, statement: int, message: str
) -> None:
    values = np.ones(70_003, dtype=np.uint32)
    for at, value in bad.items():
        values[at] = value

    with pytest.raises(KernelAssertionError) as raised:
        evaluate(body_program(ASSERTING), values)

    error = raised.value
    assert (thread, statement, message, "p") == (error.thread, error.statement, error.message, error.program)


def test_assertion_error_carries_the_source_of_the_statement() -> None:
    source = ("model.py", 12)
    check = Assert(Scalar(bool_, "ok"), "must hold", source=source)
    program = Program("p", (Parameter("r", "out", u32, Const(u32, 1)), Parameter("ok", "scalar", bool_)), (check,))

    with pytest.raises(KernelAssertionError) as raised:
        evaluate(program, False)

    assert source == raised.value.source
    assert evaluate(program, True).tolist() == [0]


def test_failed_assertion_leaves_out_unwritten() -> None:
    out = x32(4, 4)

    with pytest.raises(KernelAssertionError):
        evaluate(body_program(ASSERTING), x32(1, 7), out=out)

    assert out.tolist() == [4, 4]


def test_thread_that_failed_does_not_count_at_a_barrier() -> None:
    program = body_program("""
        assert not_equal(load(x[global_id.x]), u32:7), "not seven"
        barrier
        store r[global_id.x], u32:1
    """)

    with pytest.raises(KernelAssertionError) as raised:
        evaluate(program, x32(0, 0, 7, 0, 0, 7))

    assert raised.value.thread == 2


# ---- validity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        (Store("x", Const(u32, 0), Const(u32, 1)),),
        (Store("r", Const(u32, 0), Local(u32, "nowhere")),),
        (Let("a", Apply(u32, "add", (Const(u32, 1), Const(i32, 1)))),),
        (Atomic(None, "add", "x", Const(u32, 0), (Const(u32, 1),)),),
        (While((), Const(u32, 1), ()),),
        (If(Apply(bool_, "less", (IdNode(u32, "thread_id", 0), Const(u32, 1))), (Barrier(),)),),
    ],
    ids=["store to in", "unknown local", "mixed types", "atomic on in", "condition not bool", "divergent barrier"],
)
def test_program_that_is_not_valid_is_refused(body: tuple[Stmt, ...]) -> None:
    program = Program("bad", (Parameter("x", "in", u32), Parameter("r", "out", u32, Size(u32, "x"))), body)

    with pytest.raises(ProgramError):
        evaluate(program, x32(1, 2))
