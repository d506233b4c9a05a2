"""Common subexpressions: what is computed once, and where a value is not the same or not at hand."""

from __future__ import annotations

from textwrap import dedent

import pytest

import vyre_cuda as vc
from vyre_cuda.ir.core.nodes import Store
from vyre_cuda.passes.cse import share_subexpressions

from .texts import body

HEADER = """\
program k
block 64
index u32
in x: u32
inout h: u32
scalar a: u32
scalar b: bool_
scalar f: f32
shared tile: u32[8]

"""


def shared(text: str, *, keep_checks: bool = False) -> str:
    result = share_subexpressions(vc.parse(HEADER + dedent(text)), keep_checks=keep_checks)
    vc.parse(result.text())
    return body(result)


CHANGED = {
    "a let holds it": (
        """
        let t = multiply(a, a)
        store h[a], add(multiply(a, a), load(x[multiply(a, a)]))
        """,
        """
        let t = multiply(a, a)
        store h[a], add(t, load(x[t]))
        """,
    ),
    "nothing holds it yet": (
        """
        store h[a], add(load(x[a]), u32:1)
        store h[u32:0], subtract(add(load(x[a]), u32:1), load(x[a]))
        """,
        """
        let common1 = load(x[a])
        let common0 = add(common1, u32:1)
        store h[a], common0
        store h[u32:0], subtract(common0, common1)
        """,
    ),
    "twice in one expression": (
        "store h[multiply(a, a)], add(multiply(a, a), u32:1)",
        """
        let common0 = multiply(a, a)
        store h[common0], add(common0, u32:1)
        """,
    ),
    "operands exchanged": (
        """
        let t = multiply(a, add(a, u32:1))
        store h[a], multiply(add(u32:1, a), a)
        """,
        """
        let t = multiply(a, add(a, u32:1))
        store h[a], t
        """,
    ),
    "a let of the same": (
        """
        let t = global_id.x
        let s = global_id.x
        store h[s], add(t, s)
        """,
        """
        let t = global_id.x
        let s = global_id.x
        store h[t], add(t, t)
        """,
    ),
    "inside a branch and a loop": (
        """
        if less(multiply(a, a), u32:9)
          for j = u32:0 to multiply(a, a) step u32:1
            store h[j], multiply(a, a)
          end
        end
        """,
        """
        let common0 = multiply(a, a)
        if less(common0, u32:9)
          for j = u32:0 to common0 step u32:1
            store h[j], common0
          end
        end
        """,
    ),
    "a var between two assignments": (
        """
        var v = load(h[a])
        let t = v
        let s = v
        v = add(t, s)
        let u = v
        store h[u], add(t, s)
        v = u32:3
        let w = v
        store h[w], u
        """,
        """
        var v = load(h[a])
        let t = v
        let s = t
        v = add(t, t)
        let u = v
        store h[u], u
        v = u32:3
        let w = u32:3
        store h[u32:3], u
        """,
    ),
    "a var that the other arm assigns": (
        """
        var v = load(h[a])
        if b
          v = u32:3
        else
          let t = v
          store h[t], v
        end
        let s = v
        store h[s], s
        """,
        """
        var v = load(h[a])
        if b
          v = u32:3
        else
          let t = v
          store h[t], t
        end
        let s = v
        store h[s], s
        """,
    ),
    "the test of a while": (
        """
        while
          let t = load(h[a])
        test less(add(t, u32:1), multiply(t, t))
          store h[add(t, u32:1)], t
        end
        """,
        """
        while
          let t = load(h[a])
          let common0 = add(t, u32:1)
        test less(common0, multiply(t, t))
          store h[common0], t
        end
        """,
    ),
}

KEPT = {
    "memory that may change": """
        let t = load(h[a])
        let s = load(h[a])
        let u = load(tile[a])
        store h[s], add(t, load(tile[a]))
        barrier
        store h[u], load(h[a])
        """,
    "made under a branch, wanted behind it": """
        if b
          let t = multiply(a, a)
          store h[t], t
        else
          store h[a], multiply(a, a)
        end
        store h[a], multiply(a, a)
        """,
    "made in a loop, wanted behind it": """
        for j = u32:0 to a step u32:1
          store h[j], multiply(a, a)
        end
        store h[a], multiply(a, a)
        """,
    "a var that one arm assigns": """
        var v = a
        v = load(h[a])
        let t = v
        if b
          v = u32:3
        else
          barrier
        end
        let s = v
        store h[s], t
        """,
    "a var that the loop assigns": """
        var v = u32:0
        for j = u32:0 to a step u32:1
          let t = v
          store h[t], t
          v = add(t, u32:1)
        end
        let s = v
        store h[s], s
        """,
    "a var that the setup assigns": """
        var v = u32:0
        while
          let t = v
          v = add(t, u32:1)
          let s = v
        test less(s, a)
          store h[s], t
        end
        let u = v
        store h[u], u
        """,
    "order of operands": "store h[subtract(a, u32:1)], subtract(u32:1, a)",
    "casts to other types": "store h[cast.u8(a)], add(cast.u32(cast.i8(a)), u32:1)",
    "zeros of different sign": "store h[cast.u32(add(f, f32:0.0))], cast.u32(add(f, f32:-0.0))",
    "results of atomics and warp operations": """
        let t = atomic add h[a], u32:1 order relaxed scope device
        let s = atomic add h[a], u32:1 order relaxed scope device
        let p = warp shuffle a, u32:1
        let q = warp shuffle a, u32:1
        store h[add(t, s)], add(p, q)
        """,
}


@pytest.mark.parametrize("name", CHANGED)
def test_values_are_computed_once(name: str) -> None:
    before, after = CHANGED[name]

    assert shared(before) == dedent(after).strip()


@pytest.mark.parametrize("name", KEPT)
def test_what_may_differ_stays_in_the_same_program(name: str) -> None:
    program = vc.parse(HEADER + dedent(KEPT[name]))

    assert share_subexpressions(program) is program


def test_checked_loads_keep_their_order() -> None:
    text = "let t = load(x[a])\nstore h[load(x[u32:7])], add(load(x[u32:9]), load(x[u32:7]))\nstore h[a], load(x[a])"

    assert shared(text, keep_checks=True) == text.replace("store h[a], load(x[a])", "store h[a], t")


def test_an_expression_object_in_two_places_is_computed_once() -> None:
    program = vc.parse(f"{HEADER}store h[a], multiply(a, a)\n")
    (store,) = program.body
    assert isinstance(store, Store)
    twice = vc.Program("k", program.parameters, (store, Store("h", store.value, store.value)), shared=program.shared)

    assert (
        body(share_subexpressions(twice))
        == "let common0 = multiply(a, a)\nstore h[a], common0\nstore h[common0], common0"
    )


def test_new_names_are_none_of_the_program() -> None:
    text = "let common0 = a\nstore h[multiply(a, u32:3)], multiply(a, u32:3)"

    assert "let common1 = multiply(a, u32:3)" in shared(text)
