"""Branches: control flow that is decided goes, control flow that is roundabout becomes plain, assertions stay."""

from __future__ import annotations

from textwrap import dedent

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Const, For
from vyre_cuda.ir.core.types import i8, u64
from vyre_cuda.passes.branches import branches, trips

from .texts import body

HEADER = """\
program k
block 64
index u32
in x: u32
inout h: u32
scalar a: u32
scalar b: bool_
scalar c: bool_

"""


def made_plain(text: str, *, keep_checks: bool = False) -> str:
    result = branches(vc.parse(HEADER + dedent(text)), keep_checks=keep_checks)
    vc.parse(result.text())
    return body(result)


CHANGED = {
    "true condition": (
        """
        if bool_:true
          let t = a
          store h[t], a
        else
          store h[a], u32:0
        end
        """,
        """
        let t = a
        store h[t], a
        """,
    ),
    "a branch in the else arm alone": (
        """
        if b
        else
          if c
            return
          end
        end
        store h[a], a
        """,
        """
        if logical_and(logical_not(b), c)
          return
        end
        store h[a], a
        """,
    ),
    "false condition in a loop": (
        """
        for j = u32:0 to a step u32:1
          if bool_:false
            store h[a], u32:0
          else
            break
          end
        end
        """,
        """
        for j = u32:0 to a step u32:1
          break
        end
        """,
    ),
    "equal arms": (
        """
        if b
          store h[a], load(x[a])
        else
          store h[a], load(x[a])
        end
        """,
        "store h[a], load(x[a])",
    ),
    "no arms": ("if less(load(h[a]), a)\nend", ""),
    "empty then": (
        """
        if less(a, u32:3)
        else
          store h[a], a
        end
        """,
        """
        if greater_equal(a, u32:3)
          store h[a], a
        end
        """,
    ),
    "nested ifs": (
        """
        if b
          if c
            if less(a, u32:3)
              store h[a], a
            end
          end
        end
        """,
        """
        if logical_and(b, logical_and(c, less(a, u32:3)))
          store h[a], a
        end
        """,
    ),
    "arms that become equal": (
        """
        if b
          if bool_:true
            return
          end
        else
          return
        end
        """,
        "return",
    ),
    "no trip": ("for j = u32:5 to u32:5 step u32:1\n  store h[j], a\nend", ""),
    "no trip downward": ("for j = i32:-5 to i32:5 step i32:-1\n  store h[j], a\nend", ""),
    "one trip": (
        """
        for j = u32:5 to u32:7 step u32:2
          if b
            return
          end
          store h[j], a
        end
        """,
        """
        let j = u32:5
        if b
          return
        end
        store h[j], a
        """,
    ),
    "one trip around a loop that is left": (
        """
        for j = u32:0 to u32:1 step u32:1
          for l = u32:0 to a step u32:1
            break
          end
        end
        """,
        """
        let j = u32:0
        for l = u32:0 to a step u32:1
          break
        end
        """,
    ),
    "while that never runs": (
        """
        while
          atomic add h[a], u32:1 order relaxed scope device
        test bool_:false
          store h[a], a
        end
        """,
        "atomic add h[a], u32:1 order relaxed scope device",
    ),
}

KEPT = {
    "loads are not made where they were not": """
        if b
          if less(load(x[a]), a)
            store h[a], a
          end
        end
        """,
    "more than one statement inside": """
        if b
          let t = load(x[a])
          if c
            store h[t], t
          end
        end
        """,
    "an arm of the inner if": """
        if b
          if c
            store h[a], a
          else
            store h[a], u32:0
          end
        end
        """,
    "one trip that is left": """
        for j = u32:0 to u32:1 step u32:1
          if b
            break
          end
          store h[j], a
        end
        """,
    "two trips": """
        for j = u32:0 to u32:2 step u32:1
          store h[j], a
        end
        """,
    "an assertion that nothing reaches": """
        if bool_:true
          store h[a], a
        else
          assert b, "never"
        end
        """,
    "equal assertions": """
        if b
          assert c, "twice"
        else
          assert c, "twice"
        end
        """,
    "an assertion without a trip": """
        for j = u32:0 to u32:0 step u32:1
          assert b, "never"
        end
        """,
    "every statement": """
        var v = a
        barrier
        grid_barrier
        let s = warp shuffle a, u32:1
        let old = atomic compare_exchange h[a], u32:0, u32:1 order acq_rel scope device
        atomic store h[a], s order release scope system
        while
          let t = load(h[v])
        test less(t, old)
          if b
            v = t
            continue
          end
          if c
            return
          else
            break
          end
        end
        """,
}


@pytest.mark.parametrize("name", CHANGED)
def test_control_flow_becomes_plain(name: str) -> None:
    before, after = CHANGED[name]

    assert made_plain(before) == dedent(after).strip()


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_plainer_is_the_same_program(name: str) -> None:
    program = vc.parse(HEADER + dedent(KEPT[name]))

    assert branches(program) is program


def test_a_checked_load_in_a_condition_stays() -> None:
    text = "if less(load(x[a]), a)\n  return\nelse\n  return\nend"

    assert made_plain(text) == "return"
    assert made_plain(text, keep_checks=True) == text


@pytest.mark.parametrize(
    "bounds, expected",
    [
        ((0, 10, 3), 4),
        ((0, 9, 3), 3),
        ((0, 0, 1), 0),
        ((5, 0, 1), 0),
        ((5, 0, -2), 3),
        ((-128, 127, 1), 255),
        ((127, -128, -128), 2),
        ((0, 5, 0), 0),
    ],
)
def test_trips_are_those_of_range(bounds: tuple[int, int, int], expected: int) -> None:
    start, stop, step = (Const(i8, value & 0xFF) for value in bounds)

    assert trips(For("j", start, stop, step, ())) == expected


def test_trips_of_a_whole_type_do_not_wrap() -> None:
    start, stop, step = (Const(u64, value) for value in (0, 2**64 - 1, 1))

    assert trips(For("j", start, stop, step, ())) == 2**64 - 1
