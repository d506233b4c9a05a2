"""Any valid program lowers, to the same text each time, and ptxas takes the text."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vyre_cuda as vc
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import KNOWN_SM, Target
from vyre_cuda.codegen.forms.precision import PRECISIONS
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.core.ops import OPS, Op
from vyre_cuda.passes.pipeline import optimize
from vyre_cuda.testing.assembler import assemble
from vyre_cuda.testing.strategies import programs, programs_using

EVERYTHING = vc.parse(Path(__file__).with_name("programs").joinpath("everything.vir").read_text(encoding="utf-8"))


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(program=programs(), sm=st.sampled_from(KNOWN_SM))
def test_random_programs_lower_and_assemble(program: vc.Program, sm: int) -> None:
    target = Target.parse(f"sm_{sm}")
    verified = lower(program, target, debug=True)
    plain = lower(vc.parse(program.text()), target)

    assert plain.ptx == lower(program, target).ptx
    assert _but_text(verified) == _but_text(plain)
    assemble(plain.ptx, sm)


def _but_text(lowered: Lowered) -> tuple[object, ...]:
    sites = tuple((site.kind, site.message, site.buffer, site.statement) for site in lowered.sites)
    return lowered.entry, lowered.parameters, lowered.covered, dict(lowered.access), lowered.shared_bytes, sites


SHARED = """program p
block 32
inout x: f32
in y: f32
out out: f32[size(x)]

let i = global_id.x
store out[i], add(fmod(load(x[i]), load(y[i])), multiply(load(x[i]), fmod(load(x[i]), load(y[i]))))
"""


def test_equal_expressions_are_evaluated_once_whether_or_not_they_are_one_object() -> None:
    b = vc.Builder("p", block=32)
    x, y = b.inout("x", vc.f32), b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    rest = vc.fmod(y[i], 3.0)
    out[i] = rest + rest
    built = b.build()
    parsed = lower(vc.parse(SHARED), Target.parse("sm_90")).ptx

    assert lower(built, Target.parse("sm_90")).ptx == lower(vc.parse(built.text()), Target.parse("sm_90")).ptx
    assert parsed.count("ld.global.f32") == 2
    assert parsed.count("sub.rn.f32") == 1


@pytest.mark.parametrize("array", ["table", "inout", "local"])
def test_a_load_is_shared_whether_or_not_it_is_one_object(array: str) -> None:
    b = vc.Builder("p", block=32)
    x = b.inout("x", vc.i32)
    if array == "table":
        t = b.table("t", np.array([1, 2, 3], np.int32))
    else:
        t = x if array == "inout" else b.local("t", vc.i32, 3)
    i = b.let("i", vc.global_id.x)
    element = vc.u8(t[i + vc.u32(1)])
    b.assert_((element <= 7) | (element > 7), "never")
    program = b.build()
    parsed = vc.parse(program.text())

    text = lower(program, Target.parse("sm_90")).ptx

    assert text == lower(parsed, Target.parse("sm_90")).ptx
    assert len(re.findall(r"ld\.(global|const|local)", text)) == 1


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_passes_do_the_same_to_equal_programs(program: vc.Program) -> None:
    assert optimize(program) == optimize(vc.parse(program.text()))


@pytest.mark.thin(70)
@pytest.mark.slow
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_programs_of_one_op_assemble(op: Op, data: st.DataObject) -> None:
    program, _ = data.draw(programs_using(op))
    sm = data.draw(st.sampled_from(KNOWN_SM))

    assemble(lower(program, Target.parse(f"sm_{sm}"), debug=True).ptx, sm)


@pytest.mark.thin(77)
@pytest.mark.slow
@pytest.mark.parametrize("bounds", ["check", "off", "trap"])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("sm", KNOWN_SM)
def test_the_whole_language_assembles(sm: int, precision: str, bounds: str) -> None:
    """A program with every kind of statement and expression."""
    assemble(lower(EVERYTHING, Target.parse(f"sm_{sm}"), precision=precision, bounds=bounds, debug=True).ptx, sm)


def nested(depth: int, inner: str) -> str:
    opened = "".join(f"if less(load(x[i]), u32:{level})\n" for level in range(depth))
    header = "program n\nblock 32\nin x: u32\nout out: u32[size(x)]\n\nlet i = global_id.x\n"
    return f"{header}{opened}{inner}\n" + "end\n" * depth


def test_the_deepest_nesting_lowers() -> None:
    program = vc.parse(nested(60, "store out[i], u32:1"))

    assemble(lower(program, Target.parse("sm_90"), debug=True).ptx, 90)


@pytest.mark.thin
def test_long_chains_of_conditions_lower() -> None:
    """Facts are bounded: thousands of conditions that imply each other neither recurse nor explode."""
    names = [f"c{number}" for number in range(3000)]
    chain = "".join(
        f"let {new} = logical_and({old}, less(i, load(x[u32:{number}])))\n"
        for number, (old, new) in enumerate(itertools.pairwise(names))
    )
    body = f"let c0 = less(i, size(x))\n{chain}if {names[-1]}\nstore out[i], u32:1\nend"

    lowered = lower(vc.parse(nested(0, body)), Target.parse("sm_90"))

    assert lowered.ptx.count("and.pred") == 2999
