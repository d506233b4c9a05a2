"""Every line of PTX belongs to the statement that it was made for, which a mark before it says."""

from __future__ import annotations

import pytest
from hypothesis import given

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit.lines import statements_of_lines
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import Stmt, Store
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.text.text import format_statement
from vyre_cuda.testing.strategies import programs

TARGET = Target.parse("sm_90")


def lines_of(program: Program, bounds: str = "check") -> list[tuple[str, Stmt | None]]:
    text = lower(program, TARGET, bounds=bounds).ptx
    statements = statements_of_lines(program, text)
    return list(zip(text.splitlines(), statements, strict=True))


@pytest.mark.thin
@given(program=programs())
@pytest.mark.parametrize("bounds", ["check", "off", "trap"])
def test_mark_of_a_random_program_has_an_instruction_behind_it(bounds: str, program: Program) -> None:
    lines = lower(program, TARGET, bounds=bounds).ptx.splitlines()
    marks = [place for place, line in enumerate(lines) if line.startswith("  // ")]

    assert [lines[place] for place in marks if lines[place + 1].startswith("  // ") or lines[place + 1] == "}"] == []


@pytest.mark.thin
@given(program=programs())
def test_every_line_of_a_random_program_is_of_a_statement_of_it(program: Program) -> None:
    known = {id(statement) for statement in walk.statements(program.body)}

    assert all(statement is None or id(statement) in known for _, statement in lines_of(program))


def build() -> Program:
    b = vc.Builder("two")
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    i = b.let("i", vc.global_id.x)
    total = b.var("total", vc.f32(0))
    with b.for_(0, x.size) as j:
        total.set(total + x[j])
    with b.if_(i < out.size):
        out[i] = total
    return b.build()


def test_stores_loads_and_loops_are_of_their_statements() -> None:
    found = [(line, "" if of is None else format_statement(of).splitlines()[0]) for line, of in lines_of(build())]

    (store,) = [of for line, of in found if "st.global" in line]
    (load,) = [of for line, of in found if "ld.global" in line]
    back = [of for line, of in found if "bra" in line and "for" in of]
    assert store.startswith("store out[i]")
    assert load.startswith("total =")
    assert back != []


def test_header_and_end_are_of_no_statement() -> None:
    found = lines_of(build())

    assert found[0] == (".version 7.8", None)
    assert found[-1] == ("}", None)


def test_text_without_marks_is_of_no_statement() -> None:
    assert statements_of_lines(build(), "a\nb\n") == [None, None]


def test_statement_keeps_its_line_of_python() -> None:
    stores = [of for _, of in lines_of(build()) if isinstance(of, Store)]

    assert {of.source for of in stores if of.source} == {(__file__, build.__code__.co_firstlineno + 9)}
