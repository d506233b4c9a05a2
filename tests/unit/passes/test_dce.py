"""Dead code: what nothing observes goes, every effect and every assertion stays."""

from __future__ import annotations

from textwrap import dedent

import pytest

import vyre_cuda as vc
from vyre_cuda.passes.dce import remove_dead_code

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


def alive(text: str, *, keep_checks: bool = False) -> str:
    result = remove_dead_code(vc.parse(HEADER + dedent(text)), keep_checks=keep_checks)
    vc.parse(result.text())
    return body(result)


CHANGED = {
    "a chain of lets": (
        "let t = load(x[a])\nlet u = add(t, t)\nlet v = u\nstore h[a], t",
        "let t = load(x[a])\nstore h[a], t",
    ),
    "a var that only feeds itself": (
        """
        var v = a
        for j = u32:0 to a step u32:1
          v = add(v, j)
        end
        """,
        "",
    ),
    "a var that is written but never read": (
        """
        var v = a
        let t = load(h[a])
        v = t
        store h[a], a
        """,
        "store h[a], a",
    ),
    "branches without effects": (
        """
        if b
          let t = load(h[a])
        else
          if less(a, u32:3)
            let u = a
          end
        end
        """,
        "",
    ),
    "one arm without effects": (
        """
        if b
          store h[a], a
        else
          let t = load(h[a])
        end
        """,
        """
        if b
          store h[a], a
        end
        """,
    ),
    "a loop without effects that is left": (
        """
        for j = u32:0 to a step u32:1
          if b
            break
          end
          if less(j, u32:3)
            continue
          end
        end
        """,
        "",
    ),
    "behind a return": ("return\nstore h[a], a", ""),
    "behind two returns": (
        """
        if b
          store h[a], a
          return
        else
          return
        end
        store h[a], u32:0
        """,
        """
        if b
          store h[a], a
        end
        """,
    ),
    "behind a break": (
        """
        while
        test b
          store h[a], a
          break
          store h[a], u32:0
        end
        """,
        """
        while
        test b
          store h[a], a
          break
        end
        """,
    ),
    "jumps to where one is going": (
        """
        for j = u32:0 to a step u32:1
          store h[j], j
          if b
            store h[j], a
            continue
          end
          continue
        end
        if b
          store h[a], a
        else
          return
        end
        return
        """,
        """
        for j = u32:0 to a step u32:1
          store h[j], j
          if b
            store h[j], a
          end
        end
        if b
          store h[a], a
        end
        """,
    ),
    "a warp operation that nobody looks at": ("let s = warp ballot b\nstore h[a], a", "store h[a], a"),
    "results of atomics that nobody looks at": (
        """
        let one = atomic add h[a], u32:1 order relaxed scope device
        let two = atomic exchange h[a], u32:1 order acquire scope system
        let three = atomic compare_exchange h[a], u32:1, u32:2 order acquire scope block
        """,
        """
        atomic add h[a], u32:1 order relaxed scope device
        atomic exchange h[a], u32:1 order acquire scope system
        atomic compare_exchange h[a], u32:1, u32:2 order acquire scope block
        """,
    ),
    "the setup of a while": (
        """
        while
          let t = load(h[a])
          let u = add(t, u32:1)
        test less(t, u32:5)
        end
        """,
        """
        while
          let t = load(h[a])
        test less(t, u32:5)
        end
        """,
    ),
}

KEPT = {
    "all effects": """
        let one = atomic load h[a] order acquire scope device
        atomic store h[a], a order release scope device
        barrier
        grid_barrier
        store tile[a], a
        assert b, "kept"
        """,
    "a while may never end": """
        while
        test b
        end
        """,
    "a while inside a loop without effects": """
        for j = u32:0 to a step u32:1
          while
          test b
          end
        end
        """,
    "a return is an effect": """
        for j = u32:0 to a step u32:1
          if less(load(x[j]), a)
            return
          end
        end
        store h[a], a
        """,
    "a break decides about effects": """
        var v = u32:0
        for j = u32:0 to a step u32:1
          let t = v
          if less(t, u32:5)
            break
          end
          store h[j], j
          let u = v
          v = add(u, load(x[j]))
        end
        """,
    "a continue decides about effects": """
        for j = u32:0 to a step u32:1
          if less(j, u32:5)
            continue
          end
          store h[j], j
        end
        """,
    "a return in the middle": """
        if b
          return
        end
        store h[a], a
        """,
    "an assertion that nothing reaches": """
        return
        assert b, "never"
        """,
    "what a warp operation gives": """
        let s = warp reduce a combine add
        if less(s, u32:9)
          let t = warp shuffle_up s, u32:1
          store h[t], s
        end
        """,
    "a var read on the next pass": """
        var v = u32:0
        for j = u32:0 to a step u32:1
          let t = v
          store h[t], t
          v = j
        end
        """,
}


@pytest.mark.parametrize("name", CHANGED)
def test_dead_code_goes(name: str) -> None:
    before, after = CHANGED[name]

    assert alive(before) == dedent(after).strip()


@pytest.mark.parametrize("name", KEPT)
def test_what_is_observed_is_the_same_program(name: str) -> None:
    program = vc.parse(HEADER + dedent(KEPT[name]))

    assert remove_dead_code(program) is program


def test_checked_loads_stay_with_what_surrounds_them() -> None:
    text = "let t = a\nlet u = b\nfor j = u32:0 to t step u32:1\n  let v = load(x[j])\nend"

    assert alive(text) == ""
    assert alive(text, keep_checks=True) == "let t = a\nfor j = u32:0 to t step u32:1\n  let v = load(x[j])\nend"


def test_a_checked_load_keeps_the_var_that_it_is_assigned_to() -> None:
    text = "var v = a\nv = load(x[a])"

    assert alive(text) == ""
    assert alive(text, keep_checks=True) == text


def test_one_statement_object_in_two_places_is_two_statements() -> None:
    program = vc.parse(f"{HEADER}let t = a\nif b\n  store h[t], t\nend\n")
    let, branch = program.body
    twice = vc.Program("k", program.parameters, (let, branch, branch), program.block, shared=program.shared)

    assert remove_dead_code(twice) is twice
