"""Loop invariants: what moves out of a loop, and what must not."""

from __future__ import annotations

from textwrap import dedent

import pytest

import vyre_cuda as vc
from vyre_cuda.passes.licm import hoist_invariants

from .texts import body

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


def hoisted(text: str, *, move_loads: bool = True) -> str:
    result = hoist_invariants(vc.parse(HEADER + dedent(text)), move_loads=move_loads)
    vc.parse(result.text())
    return body(result)


CHANGED = {
    "lets, and those that follow from them": (
        """
        for j = u32:0 to a step u32:1
          let t = multiply(a, u32:3)
          let u = load(x[t])
          store h[j], add(u, j)
        end
        """,
        """
        let t = multiply(a, u32:3)
        let u = load(x[t])
        for j = u32:0 to a step u32:1
          store h[j], add(u, j)
        end
        """,
    ),
    "the largest parts of other statements": (
        """
        for j = u32:0 to a step u32:1
          store h[add(j, multiply(a, u32:3))], load(x[global_id.x])
        end
        """,
        """
        let invariant0 = multiply(a, u32:3)
        let invariant1 = load(x[global_id.x])
        for j = u32:0 to a step u32:1
          store h[add(j, invariant0)], invariant1
        end
        """,
    ),
    "out of two loops": (
        """
        for j = u32:0 to a step u32:1
          for l = j to a step u32:1
            store h[add(l, j)], add(multiply(a, a), multiply(j, u32:7))
          end
        end
        """,
        """
        let invariant1 = multiply(a, a)
        for j = u32:0 to a step u32:1
          let invariant0 = add(invariant1, multiply(j, u32:7))
          for l = j to a step u32:1
            store h[add(l, j)], invariant0
          end
        end
        """,
    ),
    "setup and test of a while": (
        """
        var v = a
        while
          let t = add(a, u32:1)
          let s = load(h[t])
        test less(s, multiply(a, a))
          v = s
        end
        """,
        """
        var v = a
        let t = add(a, u32:1)
        let invariant0 = multiply(a, a)
        while
          let s = load(h[t])
        test less(s, invariant0)
          v = s
        end
        """,
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
        """
        var v = a
        v = load(h[a])
        let t = v
        let invariant0 = add(t, u32:1)
        for j = u32:0 to a step u32:1
          store h[j], invariant0
        end
        """,
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
    "what runs under a branch": """
        for j = u32:0 to a step u32:1
          if less(load(h[j]), j)
            let t = floor_divide(a, u32:7)
            store h[t], t
          end
        end
        """,
    "results of atomics and warp operations": """
        for j = u32:0 to a step u32:1
          let old = atomic add h[a], u32:1 order relaxed scope device
          store h[add(old, u32:1)], j
        end
        while
          let s = warp reduce a combine add
        test less(s, u32:5)
          store h[add(s, u32:1)], a
        end
        """,
    "a loop of one trip": """
        for j = u32:0 to u32:1 step u32:1
          store h[multiply(a, a)], j
        end
        """,
}


@pytest.mark.parametrize("name", CHANGED)
def test_invariants_move_out(name: str) -> None:
    before, after = CHANGED[name]

    assert hoisted(before) == dedent(after).strip()


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_stays_in_the_same_program(name: str) -> None:
    program = vc.parse(HEADER + dedent(KEPT[name]))

    assert hoist_invariants(program) is program


def test_loads_stay_where_they_might_be_refused_or_fault() -> None:
    text = "for j = u32:0 to a step u32:1\n  store h[add(j, a)], add(load(x[a]), multiply(a, a))\nend\n"

    assert hoisted(text, move_loads=False) == (
        "let invariant0 = multiply(a, a)\n"
        "for j = u32:0 to a step u32:1\n  store h[add(j, a)], add(load(x[a]), invariant0)\nend"
    )


def test_new_names_are_none_of_the_program() -> None:
    text = "let invariant0 = a\nfor j = u32:0 to a step u32:1\n  store h[j], multiply(invariant0, a)\nend\n"

    assert "let invariant1 = multiply(invariant0, a)" in hoisted(text)
