"""Which outs a launch is said to fill. A wrong claim would show a user memory that nobody has written.

Every program stores ones, so that the interpreter's zeros are the elements that were not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.codegen.core.lowered import Cover
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower

SM_90 = Target.parse("sm_90")
ONE = Cover((1,), False)
FOUR = Cover((4,), False)
ANY = Cover((0,), True)

LINE = """program k
block 8
index {index}
in y: u32
out out: u8[size(y)]

let i = global_id.x
let t = thread_id.x
let n = size(out)
let grid = multiply(grid_dim.x, block_dim.x)
let tile = add(multiply(block_id.x, {index}:32), t)
let four = multiply(i, {index}:4)
{body}
"""


def line(body: str, index: str = "u32") -> vc.Program:
    """A program with one out of one axis; `store E` stores a one at E, numbers have the index type."""
    lines = []
    for text in body.splitlines():
        indent = text[: len(text) - len(text.lstrip())]
        words = text.strip()
        lines.append(f"{indent}store out[{words[6:]}], u8:1" if words.startswith("store ") else text)
    return vc.parse(LINE.format(index=index, body="\n".join(lines).replace("#", f"{index}:")))


def cover_of(program: vc.Program) -> Cover | None:
    return lower(program, SM_90).covered.get("out")


def fills(cover: Cover, extents: tuple[int, ...], grid: tuple[int, ...], block: tuple[int, ...]) -> bool:
    """Whether a launch is said to fill the out: what `vyc__launch_fills` works out."""
    threads = [g * b for g, b in zip((*grid, 1, 1), (*block, 1, 1), strict=False)]
    if len(extents) == 1 and cover.loops:
        return threads[0] * cover.elements[0] < 1 << 31
    return all(
        each == 0 or count * each >= extent
        for each, count, extent in zip(cover.elements, threads, reversed(extents), strict=False)
    )


def unrolled(count: int, index: str, indent: str = "") -> str:
    return "\n".join(f"{indent}store {index.replace('K', f'#{k}')}" for k in range(count))


COVERED = [
    ("store i", ONE),
    ("store add(multiply(block_id.x, #8), t)", ONE),
    ("if less(i, n)\n  store i\nend", ONE),
    ("if greater_equal(i, n)\n  return\nend\nstore i", ONE),
    # Several elements a thread, next to each other or a block apart.
    (unrolled(4, "add(four, K)"), FOUR),
    (unrolled(4, "add(tile, multiply(K, #8))"), FOUR),
    (unrolled(4, "subtract(add(four, #3), K)"), FOUR),
    (unrolled(3, "add(four, K)") + "\nstore add(left_shift(i, #2), #3)", FOUR),
    ("for k = #0 to #4 step #1\n  store add(four, k)\nend", FOUR),
    ("for k = #0 to #32 step #8\n  store add(tile, k)\nend", FOUR),
    ("for k = #0 to #4 step #1\n  if less(add(four, k), n)\n    store add(four, k)\n  end\nend", FOUR),
    (
        "for k = #0 to #2 step #1\n  for j = #0 to #2 step #1\n"
        "    store add(four, add(multiply(k, #2), j))\n  end\nend",
        FOUR,
    ),
    # From the end of the array.
    ("store subtract(subtract(n, #1), i)", ONE),
    ("if less(i, n)\n  store subtract(n, add(i, #1))\nend", ONE),
    ("store add(invert(i), n)", ONE),
    (unrolled(4, "subtract(subtract(n, #1), add(four, K))"), FOUR),
    ("for k = #0 to #32 step #8\n  store subtract(subtract(n, #1), add(tile, k))\nend", FOUR),
    ("for j = i to n step grid\n  store subtract(subtract(n, #1), j)\nend", Cover((1,), True)),
    ("for j = t to n step #8\n  store subtract(subtract(n, #1), j)\nend", ANY),
    ("store subtract(n, i)\nstore subtract(subtract(n, #1), i)", ONE),
    # Their tails.
    (
        "if less(add(four, #3), n)\n"
        + unrolled(4, "add(four, K)", "  ")
        + "\nelse\n  for k = #0 to #4 step #1\n    if less(add(four, k), n)\n      store add(four, k)\n    end\n"
        "  end\nend",
        FOUR,
    ),
    (
        "if less(add(four, #3), n)\n"
        + unrolled(4, "add(four, K)", "  ")
        + "\nelse\n"
        + unrolled(3, "add(four, K)", "  ")
        + "\nend",
        FOUR,
    ),
    ("if less(four, n)\n" + unrolled(4, "add(four, K)", "  ") + "\nend", FOUR),
    ("if greater_equal(four, n)\n  return\nend\n" + unrolled(4, "add(four, K)"), FOUR),
    # Loops over the grid, over a block, and by each thread.
    ("for j = i to n step grid\n  store j\nend", Cover((1,), True)),
    (
        "for j = four to n step multiply(grid, #4)\n" + unrolled(4, "add(j, K)", "  ") + "\nend",
        Cover((4,), True),
    ),
    (
        "for j = tile to n step multiply(grid_dim.x, #32)\n  for k = #0 to #4 step #1\n"
        "    store add(j, multiply(k, #8))\n  end\nend",
        Cover((4,), True),
    ),
    ("for j = t to n step #8\n  store j\nend", ANY),
    ("for j = #0 to n step #1\n  store j\nend", ANY),
    (
        "for j = i to n step grid\n  if equal(load(y[j]), u32:5)\n    store j\n  else\n    store j\n  end\nend",
        Cover((1,), True),
    ),
    ("for j = i to n step grid\n  if greater_equal(j, n)\n    continue\n  end\n  store j\nend", Cover((1,), True)),
]

NOT_COVERED = [
    "store subtract(n, i)",
    "store subtract(subtract(n, #2), i)",
    "store subtract(#39, i)",
    "store subtract(subtract(n, i), i)",
    "if less(i, subtract(n, #1))\n  store subtract(subtract(n, #1), i)\nend",
    "store multiply(i, #2)\nstore subtract(subtract(n, #1), add(multiply(i, #2), #1))",
    "store subtract(subtract(n, #1), multiply(i, #2))\nstore add(multiply(i, #2), #1)",
    "for j = i to subtract(n, #1) step grid\n  store subtract(subtract(n, #1), j)\nend",
    # Gaps.
    unrolled(3, "add(four, K)"),
    unrolled(4, "add(multiply(i, #5), K)"),
    unrolled(4, "add(add(four, #1), K)"),
    "for k = #0 to #3 step #1\n  store add(four, k)\nend",
    "for k = #1 to #4 step #1\n  store add(four, k)\nend",
    "for k = #0 to #32 step #16\n  store add(tile, k)\nend",
    "store multiply(i, #2)",
    "store subtract(i, #1)",
    "store t",
    "store block_id.x",
    "store add(i, grid_dim.x)",
    # One of the sides, or nobody knows who.
    "if less(add(four, #3), n)\n" + unrolled(4, "add(four, K)", "  ") + "\nend",
    "if less(add(four, #3), n)\n"
    + unrolled(4, "add(four, K)", "  ")
    + "\nelse\n"
    + unrolled(2, "add(four, K)", "  ")
    + "\nend",
    "if less(add(i, #1), n)\n  store i\nend",
    "if less(i, subtract(n, #1))\n  store i\nend",
    "if less(n, i)\n  store i\nend",
    "if less(i, n)\n  if equal(load(y[i]), u32:5)\n    store i\n  end\nend",
    "if equal(load(y[i]), u32:5)\n  return\nend\nstore i",
    "if logical_and(less(i, n), equal(load(y[i]), u32:5))\n  store i\nend",
    # Loops that end early, begin late, leave out trips, or wrap.
    "for j = i to n step grid\n  store j\n  if equal(load(y[j]), u32:5)\n    break\n  end\nend",
    "for j = i to n step grid\n  store j\n  if equal(load(y[j]), u32:5)\n    return\n  end\nend",
    "for j = i to n step grid\n  if equal(load(y[j]), u32:5)\n    continue\n  end\n  store j\nend",
    "for j = i to subtract(n, #1) step grid\n  store j\nend",
    "for j = add(i, #1) to n step grid\n  store j\nend",
    "for j = subtract(i, #3) to n step grid\n  store add(j, #3)\nend",
    "for j = i to n step add(grid, #1)\n  store j\nend",
    "for j = i to n step multiply(grid, #2)\n  store j\nend",
    "for j = i to n step #8\n  store multiply(j, #2)\nend",
    "for j = four to n step grid\n  store j\nend",
    "for j = t to n step #9\n  store j\nend",
    "for j = t to n step grid\n  store j\nend",
    "for k = #0 to load(y[#0]) step #1\n  store i\nend",
    "while\ntest less(load(y[i]), u32:5)\n  store i\nend",
    # Zeros that a clear leaves are read.
    "if equal(load(out[i]), u8:0)\n  store i\nelse\n  store i\nend",
    "for j = i to n step grid\n  store j\n  if equal(load(out[j]), u8:0)\n    continue\n  end\nend",
]


def check(program: vc.Program, cover: Cover, sizes: tuple[int, ...], grids: tuple[int, ...]) -> int:
    """How many launches were said to fill the out. Each of them does."""
    said = 0
    for size in sizes:
        y = np.arange(size, dtype=np.uint32) % 7
        for grid in grids:
            if fills(cover, (size,), (grid,), program.block):
                said += 1
                assert vc.evaluate(program, y, grid=grid).all(), (size, grid)
    return said


@pytest.mark.thin(3)
@pytest.mark.parametrize("index", ["u32", "i64"])
@pytest.mark.parametrize(("body", "cover"), COVERED)
def test_an_out_is_covered(body: str, cover: Cover, index: str) -> None:
    program = line(body, index)

    assert cover_of(program) == cover
    assert check(program, cover, (1, 7, 32, 33), (1, 2, 5)) > 4


def test_a_loop_may_count_down() -> None:
    assert cover_of(line("for k = #3 to #-1 step #-1\n  store add(four, k)\nend", "i32")) == FOUR
    assert cover_of(line("for k = #3 to #0 step #-1\n  store add(four, k)\nend", "i32")) is None


@pytest.mark.parametrize("body", NOT_COVERED)
def test_an_out_is_cleared_first_where_an_element_may_be_left_out(body: str) -> None:
    assert cover_of(line(body)) is None


def test_products_that_can_wrap_are_no_sums_of_more_bits() -> None:
    narrow = "let w = cast.u64(multiply(cast.u32(i), u32:4))\n" + unrolled(4, "add(w, K)")
    fits = "let w = cast.u64(multiply(cast.u32(t), u32:4))\n" + unrolled(4, "add(add(w, multiply(block_id.x, #32)), K)")

    assert cover_of(line(narrow, "u64")) is None
    assert cover_of(line(fits, "u64")) == FOUR


# ---- several axes ---------------------------------------------------------------------------------------------------

PLANE = """program k
block 4 2
in y: u32
out out: u8[size(y), u32:5]
work size(y), u32:5

let i = global_id.x
let j = global_id.y
{body}
"""


@pytest.mark.parametrize(
    ("body", "cover"),
    [
        ("store out[j, i], u8:1", Cover((1, 1), False)),
        ("if logical_and(less(j, size(y)), less(i, u32:5))\n  store out[j, i], u8:1\nend", Cover((1, 1), False)),
        ("for k = u32:0 to u32:5 step u32:1\n  store out[j, k], u8:1\nend", Cover((0, 1), False)),
        (
            "let tile = add(multiply(block_id.y, u32:4), thread_id.y)\n"
            "for k = u32:0 to u32:4 step u32:2\n  store out[add(tile, k), i], u8:1\nend",
            Cover((1, 2), False),
        ),
        ("for r = j to size(y) step multiply(grid_dim.y, u32:2)\n  store out[r, i], u8:1\nend", Cover((1, 0), True)),
        ("store out[j, subtract(u32:4, i)], u8:1", Cover((1, 1), False)),
        ("store out[subtract(subtract(size(y), u32:1), j), subtract(u32:4, i)], u8:1", Cover((1, 1), False)),
        ("if less(i, u32:5)\n  store out[j, subtract(u32:4, i)], u8:1\nend", Cover((1, 1), False)),
        ("store out[i, j], u8:1", None),
        ("store out[j, subtract(u32:5, i)], u8:1", None),
        ("store out[subtract(u32:4, j), i], u8:1", None),
        ("store out[j, j], u8:1", None),
        ("store out[j, add(i, u32:1)], u8:1", None),
        ("store out[u32:0, i], u8:1", None),
        ("if less(i, size(y))\n  store out[j, i], u8:1\nend", None),
        ("if less(i, u32:4)\n  store out[j, i], u8:1\nend", None),
        ("for k = u32:0 to u32:4 step u32:1\n  store out[j, k], u8:1\nend", None),
        (
            "store out[j, multiply(i, u32:2)], u8:1\nstore out[add(j, u32:1), add(multiply(i, u32:2), u32:1)], u8:1",
            None,
        ),
    ],
)
def test_outs_of_several_axes(body: str, cover: Cover | None) -> None:
    program = vc.parse(PLANE.format(body=body))

    assert cover_of(program) == cover
    said = 0
    for rows in (1, 3, 8):
        for grid in ((1, 1), (2, 1), (2, 2), (1, 4)) if cover else ():
            if fills(cover, (rows, 5), grid, program.block):
                said += 1
                assert vc.evaluate(program, np.zeros(rows, np.uint32), grid=grid).all(), (rows, grid)
    assert said > 2 or cover is None


# ---- programs that nobody wrote -------------------------------------------------------------------------------------


BASES = ["i", "t", "four", "tile", "multiply(i, #2)", "subtract(i, #2)", "left_shift(t, #1)", "#0"]
BASES += ["subtract(subtract(n, #1), i)", "subtract(n, four)", "subtract(n, tile)", "subtract(#39, t)"]
LIMITS = ["n", "n", "n", "subtract(n, #1)", "#9", "#40"]
STEPS = ["grid", "grid", "multiply(grid, #2)", "multiply(grid, #4)", "#8", "#1", "multiply(grid_dim.x, #32)"]
KINDS = ["store", "unrolled", "if", "tail", "for", "grid", "leave"]


class Body:
    """Stores with ids, counters and constants near those that leave no gap, in loops and branches near those that
    help.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        self._counters = 0

    def _one(self, of: list[str]) -> str:
        return self._draw(st.sampled_from(of))

    def _index(self, names: list[str]) -> str:
        text = self._one(BASES if not names or self._draw(st.booleans()) else names)
        if self._draw(st.booleans()):
            text = f"add({text}, {self._one([*names, f'multiply({names[-1]}, #8)'] if names else ['#0', '#1'])})"
        return f"add({text}, #{self._draw(st.integers(0, 4))})" if self._draw(st.booleans()) else text

    def _condition(self, names: list[str]) -> str:
        if self._draw(st.integers(0, 5)) == 0:
            return "equal(load(y[t]), u32:5)"
        op = self._one(["less", "less", "greater_equal"])
        return f"{op}({self._index(names)}, {self._one(LIMITS)})"

    def _inner(self, names: list[str], depth: int, in_loop: bool) -> list[str]:
        return ["  " + text for text in self.block(names, depth - 1, in_loop)]

    def block(self, names: list[str], depth: int, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self._draw(st.integers(1, 2))):
            lines += self._statement(self._one(KINDS) if depth else "store", names, depth, in_loop)
        return lines

    def _statement(self, kind: str, names: list[str], depth: int, in_loop: bool) -> list[str]:
        match kind:
            case "store":
                return [f"store {self._index(names)}"]
            case "unrolled":
                index = f"add({self._index(names)}, {self._one(['K', 'multiply(K, #8)'])})"
                return unrolled(self._draw(st.integers(2, 5)), index).splitlines()
            case "leave":
                way = self._one(["return", "break", "continue"] if in_loop else ["return"])
                return [f"if {self._condition(names)}", f"  {way}", "end"]
            case "if" | "tail":
                lines = [f"if {self._condition(names)}", *self._inner(names, depth, in_loop)]
                return [*lines, *(["else", *self._inner(names, depth, in_loop)] if kind == "tail" else []), "end"]
        ends = f"{self._index(names)} to {self._one(LIMITS)} step {self._one(STEPS)}"
        if kind == "for":
            start = self._draw(st.integers(0, 2))
            ends = f"#{start} to {self._one(['#2', '#4', '#5', '#32'])} step {self._one(['#1', '#2', '#8'])}"
        name = f"k{self._counters}"
        self._counters += 1
        return [f"for {name} = {ends}", *self._inner([*names, name], depth, True), "end"]


@given(st.data(), st.sampled_from(["u32", "i32", "u64"]))
def test_what_is_said_of_random_programs_is_true(data: st.DataObject, index: str) -> None:
    program = line("\n".join(Body(data.draw).block([], 2, False)), index)
    note(program.text())
    cover = cover_of(program)
    if cover is not None:
        check(program, cover, (1, 9, 30, 40), (1, 2, 3))
