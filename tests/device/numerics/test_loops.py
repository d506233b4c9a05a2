"""Counted loops at the ends of their types: device, interpreter and Python's own `range` agree on every pass.

Bounds and steps are literals, scalars or differ by thread; bodies break and continue on what they know of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from examples import examples
from vyre_cuda.ir.core.types import INTEGERS, Type
from vyre_cuda.testing.compare import assert_same

EXAMPLES = examples(2)
THREADS = 3
MOST_TRIPS = 12
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
NAMES = ("start", "stop", "step", "counter")


@dataclass(frozen=True)
class Turn:
    """if left `compare` right: `action`, where right is another name or a number."""

    left: str
    compare: str
    right: str | int
    action: str  # "continue", "break", "return" or "mark"


@dataclass(frozen=True)
class Loop:
    """Values by thread; `kinds` says how each of start, stop and step is given."""

    type_: Type
    kinds: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    turns: tuple[Turn, ...]


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    type_ = draw(st.sampled_from(INTEGERS))
    kinds = tuple(draw(st.sampled_from(("literal", "scalar", "element"))) for _ in range(3))
    ends = st.sampled_from((type_.minimum, type_.maximum, 0)).flatmap(
        lambda end: st.integers(max(end - 20, type_.minimum), min(end + 20, type_.maximum))
    )
    values = ends | st.integers(type_.minimum, type_.maximum)

    def column(kind: str, source: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(source) for _ in range(THREADS)) if kind == "element" else (draw(source),) * THREADS

    start, stop = column(kinds[0], values), column(kinds[1], values)
    farthest = max(abs(a - b) for a, b in zip(start, stop, strict=True))
    least = max(1, -(-farthest // MOST_TRIPS))
    up = st.integers(least, type_.maximum) if least <= type_.maximum else st.just(type_.maximum)
    near = st.integers(least, min(least + 3, type_.maximum)) if least <= type_.maximum else up
    steps = near | up
    if type_.kind == "signed":
        steps |= steps.map(operator.neg) | st.just(type_.minimum)
    if kinds[2] != "literal":
        steps |= st.just(0)
    step = column(kinds[2], steps)
    if any(len(range(a, b, c)) > MOST_TRIPS for a, b, c in zip(start, stop, step, strict=True) if c):
        step = (type_.maximum,) * THREADS  # of a distance beyond the largest step: two or three trips
    turns = st.builds(
        Turn,
        st.sampled_from(NAMES),
        st.sampled_from(tuple(COMPARISONS)),
        st.sampled_from(NAMES) | values,
        st.sampled_from(("continue", "continue", "break", "return", "mark")),
    )
    return Loop(type_, kinds, (start, stop, step), tuple(draw(st.lists(turns, max_size=3))))


def program(cases: list[Loop]) -> vc.Program:
    """trace[i] = what the passes of all loops of thread i leave."""
    b = vc.Builder("loops", block=THREADS)
    trace = b.output("trace", vc.u64, size=THREADS)
    given_: list[list[Any]] = []
    for at, case in enumerate(cases):
        names: list[Any] = []
        for name, kind, column in zip(NAMES, case.kinds, case.columns, strict=False):
            if kind == "literal":
                names.append(case.type_(column[0]))
            elif kind == "scalar":
                names.append(b.scalar(f"{name}{at}", case.type_))
            else:
                names.append(b.input(f"{name}{at}", case.type_))
        given_.append(names)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < THREADS):
        total = b.var("total", vc.u64(1))
        for case, names in zip(cases, given_, strict=True):
            start, stop, step = (x[i] if k == "element" else x for x, k in zip(names, case.kinds, strict=True))
            with b.for_(start, stop, step) as counter:
                known = dict(zip(NAMES, (start, stop, step, counter), strict=True))
                total.set(total * 31 + vc.u64(counter))
                for turn in case.turns:
                    right = known[turn.right] if isinstance(turn.right, str) else case.type_(turn.right)
                    with b.if_(COMPARISONS[turn.compare](known[turn.left], right)):
                        _act(b, turn.action, total, trace, i)
                total.set(total * 7 + 3)
            total.set(total * 5 + 1)
        trace[i] = total
    return b.build()


def _act(b: vc.Builder, action: str, total: vc.Variable, trace: Any, i: vc.Value) -> None:
    match action:
        case "continue":
            b.continue_()
        case "break":
            b.break_()
        case "return":
            trace[i] = total
            b.return_()
        case _:
            total.set(total + 1)


def expected(cases: list[Loop], thread: int) -> int:
    """The trace of a thread, by Python's integers and `range`."""
    total = 1
    for case in cases:
        start, stop, step = (column[thread] for column in case.columns)
        for counter in range(start, stop, step) if step else ():
            known = dict(zip(NAMES, (start, stop, step, counter), strict=True))
            total = total * 31 + counter % 2**64
            leave = ""
            for turn in case.turns:
                right = known[turn.right] if isinstance(turn.right, str) else turn.right
                if not COMPARISONS[turn.compare](known[turn.left], right):
                    continue
                if turn.action != "mark":
                    leave = turn.action
                    break
                total += 1
            if leave == "return":
                return total % 2**64
            if leave == "break":
                break
            if not leave:
                total = total * 7 + 3
        total = total * 5 + 1
    return total % 2**64


def arguments(cases: list[Loop]) -> list[Any]:
    found: list[Any] = []
    for case in cases:
        for kind, column in zip(case.kinds, case.columns, strict=True):
            if kind != "literal":
                array = np.array(column, case.type_.dtype)
                found.append(array[0] if kind == "scalar" else array)
    return found


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(loops(), min_size=1, max_size=4))
def test_loops_make_the_passes_of_range(shared_device: vc.Device, cases: list[Loop]) -> None:
    wanted = np.array([expected(cases, thread) for thread in range(THREADS)], np.uint64)
    made = program(cases)
    note(made.text())

    assert_same(wanted, vc.evaluate(made, *arguments(cases)))
    assert_same(wanted, shared_device.run(made, *arguments(cases)))
