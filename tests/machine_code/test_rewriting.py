"""Rewriting costs nothing where it saves nothing: the text is the one without it, or the machine code is no longer."""

from __future__ import annotations

import re

import pytest
from as_written import without_rewriting
from disassembly import has_tools
from gathered import SETS, Source
from rewriting import compared

import vyre_cuda as vc
from vyre_cuda.ir.core.types import Type

HEADER = """program k
block 32
in x: u32
inout h: u32
scalar w: u32
scalar c: u32
work size(x)

let i = global_id.x
"""


def text(body: str) -> str:
    """The PTX, with the operands of each sum in order: they may be exchanged."""

    def in_order(found: re.Match[str]) -> str:
        return ", ".join([found[1], *sorted(found.groups()[1:])])

    return re.sub(r"(add\.\w+ %\w+), (%\w+), (%\w+)", in_order, vc.ptx(vc.parse(HEADER + body)))


AS_WRITTEN = {
    "a let that is a sum stands where it is written": """
let further = add(i, w)
store h[i], load(x[i])
store h[further], c
""",
    "so does one that another takes up": """
let one = add(load(x[i]), w)
let two = add(one, c)
store h[i], c
store h[w], two
store h[c], one
""",
    "operands are computed in order": """
if logical_and(logical_and(less(add(i, u32:7), w), less(i, c)), less(load(x[i]), w))
  store h[i], c
end
""",
    "also those of a comparison the other way round": """
if greater(add(i, c), multiply(w, u32:3))
  store h[i], c
end
""",
    "bits of a number that is used are taken from it": """
let masked = bitwise_and(load(x[i]), u32:4095)
store h[i], masked
store h[w], bitwise_and(masked, u32:1)
""",
    "a sum with two constants is not one with the first that both sides need": """
if less_equal(add(add(i, u32:1024), u32:4), c)
  store h[add(i, u32:1024)], u32:1
else
  store h[add(i, u32:1024)], u32:2
end
""",
}


@pytest.mark.parametrize("body", AS_WRITTEN.values(), ids=AS_WRITTEN)
def test_where_nothing_is_saved_the_text_is_as_written(body: str) -> None:
    with without_rewriting():
        written = text(body)

    assert text(body) == written


def test_a_sum_is_made_of_sums_that_have_values() -> None:
    lets = """
let first = add(add(load(x[i]), u32:1), multiply(load(x[add(i, u32:1)]), w))
store h[i], first
let last = load(x[add(i, u32:2)])
let other = load(x[add(i, u32:3)])
store h[w], other
"""
    long = text(f"{lets}store h[i], subtract(add(subtract(other, first), last), other)\n")

    assert long == text(f"{lets}store h[i], subtract(last, first)\n")


def test_the_complement_of_a_narrow_number_is_in_the_range_of_its_type() -> None:
    program = vc.parse(f"""{HEADER.replace("in x: u32", "in x: u16")}
let one = load(x[i])
store h[i], cast.u32(where(less(i, c), invert(one), one))
""")
    ops = [line.split()[0] for line in vc.ptx(program).splitlines() if ".b32 " in line]

    assert "xor.b32" in ops
    assert not {"not.b32", "and.b32"} & set(ops)


@pytest.mark.parametrize("sum_", ["add_saturate(one, i32:2)", "add_saturate(i32:2, one)"])
def test_a_saturating_sum_with_a_constant_has_a_constant_limit(sum_: str) -> None:
    header = HEADER.replace("in x: u32", "in x: i32").replace("inout h: u32", "inout h: i32")
    ptx = vc.ptx(vc.parse(f"{header}let one = load(x[i])\nstore h[i], {sum_}\n"))

    assert "shr.s32" not in ptx


def index_of_three_axes(index: Type, height: int, width: int, order: str) -> vc.Program:
    b = vc.Builder("k", index=index)
    x, out = b.input("x", vc.f32, ndim=3), b.output("out", vc.f32, size=b.scalar("n", index))
    i = vc.global_id.x
    places = {"z": i // width // height, "y": i // width % height, "x": i % width}
    lets = {name: b.let(name, places[name]) for name in order}
    out[i] = x[lets["z"], lets["y"], lets["x"]]
    return b.build()


@pytest.mark.thin(5)
@pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")
@pytest.mark.parametrize("order", ["zyx", "xyz"])
@pytest.mark.parametrize("extents", [(7, 5), (14, 2), (8, 5)], ids=str)
@pytest.mark.parametrize("index", [vc.u32, vc.u64], ids=str)
def test_places_by_constant_extents_are_no_longer(index: Type, extents: tuple[int, int], order: str) -> None:
    found = compared(Source("k", index_of_three_axes(index, *extents, order)))

    assert found.rewritten.instructions <= found.written.instructions


@pytest.mark.skipif(not has_tools(), reason="no ptxas or no nvdisasm")
@pytest.mark.long
@pytest.mark.parametrize("name", ["corpus", "examples"])
def test_no_kernel_has_more_instructions_with_rewriting(name: str) -> None:
    worse = [row for row in map(compared, SETS[name](0, 0)) if row.is_worse]

    assert worse == []
