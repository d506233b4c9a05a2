"""Forms of terms that need more other terms than are counted: what is computed already decides."""

from __future__ import annotations

import re

import pytest

import vyre_cuda as vc

STEPS = 66


def chain(type_: vc.Type, steps: int = STEPS) -> vc.Program:
    """In 8 bits coefficients of the linear forms vanish, so that they seem to be shorter."""
    b = vc.Builder("chain")
    x, y = b.input("x", type_), b.input("y", type_)
    out = b.output("out", type_, size=x.size)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        value, other = b.let("value", x[i]), b.let("other", y[i])
        for step in range(steps):
            value = b.let(f"v{step}", value * type_(step + 2) + (other ^ value))
        out[i] = value
    return b.build()


@pytest.mark.parametrize("type_", [vc.u8, vc.i8, vc.u16, vc.u32])
@pytest.mark.parametrize("steps", [20, 21, 24, 40, STEPS])
def test_a_step_of_a_long_chain_costs_what_it_is_written_with(type_: vc.Type, steps: int) -> None:
    text = vc.ptx(chain(type_, steps), target="sm_90")

    assert len(re.findall(r"^ *mul\.lo\.", text, re.MULTILINE)) <= steps
    assert len(re.findall(r"^ *add\.u32", text, re.MULTILINE)) <= steps


@pytest.mark.parametrize("type_", [vc.u8, vc.i8])
def test_no_step_of_it_is_reported_as_rewritten(type_: vc.Type) -> None:
    rules = {step.rule for step in vc.rewrites(chain(type_), target="sm_90")}

    assert "linear_form" not in rules
