"""What is computed before a loop, because it is the same in each trip, and what must not be."""

from __future__ import annotations

from itertools import takewhile
from textwrap import dedent

import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.lowering.invariants import invariants
from vyre_cuda.ir.core.nodes import For, While
from vyre_cuda.ir.text.text import format_expr

HEADER = """\
program k
block 64
index u32
in x: u32
inout h: u32
scalar a: u32
scalar b: bool_
shared tile: u32[8]

"""


def program(text: str) -> vc.Program:
    return vc.parse(HEADER + dedent(text))


def moved(text: str) -> list[str]:
    """The expressions that the outermost loop of these statements leaves to what is before it."""
    (loop,) = (s for s in program(text).body if isinstance(s, (For, While)))
    return [format_expr(expr) for _, expr in invariants(loop, frozenset({"x"}))]


MOVED = {
    "lets, and what follows from them": (
        """
        for j = u32:0 to a step u32:1
          let t = multiply(a, u32:3)
          let u = load(x[t])
          store h[j], add(u, j)
        end
        """,
        ["multiply(a, u32:3)", "load(x[t])"],
    ),
    "the largest parts of other statements": (
        """
        for j = u32:0 to a step u32:1
          store h[add(j, multiply(a, u32:3))], load(x[global_id.x])
        end
        """,
        ["multiply(a, u32:3)", "load(x[global_id.x])"],
    ),
    "those of inner loops": (
        """
        for j = u32:0 to a step u32:1
          for l = j to a step u32:1
            store h[add(l, j)], add(multiply(a, a), multiply(j, u32:7))
          end
        end
        """,
        ["multiply(a, a)"],
    ),
    "setup and test of a while": (
        """
        var v = a
        while
          let t = add(a, u32:1)
          let s = load(h[t])
        test less(s, multiply(a, t))
          v = s
        end
        """,
        ["add(a, u32:1)", "multiply(a, t)"],
    ),
    "a var that the loop leaves alone": (
        """
        var v = a
        v = load(h[a])
        for j = u32:0 to a step u32:1
          let t = v
          store h[j], add(t, u32:1)
        end
        """,
        ["v", "add(t, u32:1)"],
    ),
    "a condition, but nothing of the branch": (
        """
        for j = u32:0 to a step u32:1
          if less(load(x[a]), u32:5)
            let t = floor_divide(a, u32:7)
            store h[t], load(x[t])
          end
        end
        """,
        ["less(load(x[a]), u32:5)"],
    ),
}

KEPT = {
    "what depends on the counter": """
        for j = u32:0 to a step u32:1
          let t = multiply(j, u32:3)
          store h[t], load(x[t])
        end
        """,
    "a var that the loop assigns later": """
        var v = a
        for j = u32:0 to a step u32:1
          let t = v
          store h[j], add(t, u32:1)
          v = j
        end
        """,
    "memory that may change": """
        for j = u32:0 to a step u32:1
          store tile[j], j
          let t = load(h[a])
          let s = load(tile[a])
          store h[j], t
          store h[s], t
        end
        """,
    "results of atomics": """
        for j = u32:0 to a step u32:1
          let old = atomic add h[a], u32:1 order relaxed scope device
          store h[add(old, u32:1)], j
        end
        """,
    "results of warp operations": """
        while
          let s = warp reduce a combine add
        test less(s, u32:5)
          store h[add(s, u32:1)], a
        end
        """,
}


@pytest.mark.parametrize("name", MOVED)
def test_what_is_the_same_in_each_trip_goes_before_the_loop(name: str) -> None:
    text, expected = MOVED[name]

    assert moved(text) == expected


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_stays(name: str) -> None:
    assert moved(KEPT[name]) == []


LOOP_WITH_A_LOAD = """
    for j = u32:0 to a step u32:1
      store h[j], add(load(x[a]), j)
    end
    """


def loads_before_the_loop(bounds: str) -> int:
    """How many loads of the global memory the text has before the first label."""
    lines = vc.ptx(program(LOOP_WITH_A_LOAD), bounds=bounds).splitlines()
    return sum("ld.global" in line for line in takewhile(lambda line: not line.startswith("$L"), lines))


@pytest.mark.parametrize(("bounds", "expected"), [("check", 1), ("off", 0), ("trap", 0)])
def test_only_a_load_that_is_harmless_goes_before_the_loop(bounds: str, expected: int) -> None:
    assert loads_before_the_loop(bounds) == expected


def test_a_moved_load_belongs_to_its_statement() -> None:
    lines = vc.ptx(program(LOOP_WITH_A_LOAD)).splitlines()
    place = next(number for number, line in enumerate(lines) if "ld.global" in line)

    assert [line.strip() for line in lines[:place] if line.startswith("  // s")][-1] == "// s1"
