"""Programs as text: one canonical form for each node, and errors shown in the place they are about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vyre_cuda.errors import Diagnostic, ProgramError
from vyre_cuda.ir.core import types
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
    Atomic,
    Barrier,
    Const,
    Expr,
    For,
    Id,
    If,
    Let,
    Load,
    Local,
    Return,
    Scalar,
    Size,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, f32, i32, u32
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.ir.text.literals import format_literal, format_string, parse_literal, parse_string
from vyre_cuda.ir.text.text import format_expr, format_program, format_statement, render_diagnostics

EVERYTHING = Path(__file__).with_name("programs") / "everything.vir"
A = Local(u32, "a")
TRUE = Const(bool_, 1)

EXPRESSIONS = [
    ("u32:7", Const(u32, 7)),
    ("i32:-3", Const(i32, 0xFFFFFFFD)),
    ("f32:1.5", Const(f32, 0x3FC00000)),
    ("f32:-0.0", Const(f32, 0x80000000)),
    ("f32:inf", Const(f32, 0x7F800000)),
    ("f32:-inf", Const(f32, 0xFF800000)),
    ("f32:nan", Const(f32, 0x7FC00000)),
    ("f32:bits(0xffc00000)", Const(f32, 0xFFC00000)),
    ("f32:1e-45", Const(f32, 1)),
    ("bool_:true", TRUE),
    ("bool_:false", Const(bool_, 0)),
    ("a", A),
    ("n", Scalar(u32, "n")),
    ("size(x)", Size(u32, "x")),
    ("thread_id.z", Id(u32, "thread_id", 2)),
    ("load(x[a])", Load(f32, "x", A)),
    ("add(a, a)", Apply(u32, "add", (A, A))),
    ("cast.f32(a)", Apply(f32, "cast", (A,))),
    ("bitcast.i32(a)", Apply(i32, "bitcast", (A,))),
]
STATEMENTS = [
    ("let b = a", Let("b", A)),
    ("var b = a", Var("b", A)),
    ("b = a", Assign("b", A)),
    ("store x[a], a", Store("x", A, A)),
    ("atomic add x[a], a order relaxed scope device", Atomic(None, "add", "x", A, (A,))),
    (
        "let b = atomic compare_exchange x[a], a, a order acq_rel scope block",
        Atomic("b", "compare_exchange", "x", A, (A, A), "acq_rel", "block"),
    ),
    ("if bool_:true\n  return\nend", If(TRUE, (Return(),))),
    ("if bool_:true\nelse\n  return\nend", If(TRUE, (), (Return(),))),
    ("for j = a to a step a\n  barrier\nend", For("j", A, A, A, (Barrier(),))),
    ("while\n  let c = a\ntest bool_:true\n  return\nend", While((Let("c", A),), TRUE, (Return(),))),
]


@pytest.mark.parametrize("text, expr", EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_expression_has_one_text(text: str, expr: Expr) -> None:
    assert text == format_expr(expr)


@pytest.mark.parametrize("text, statement", STATEMENTS, ids=[text.split("\n")[0] for text, _ in STATEMENTS])
def test_statement_has_one_text(text: str, statement: Stmt) -> None:
    assert text == format_statement(statement)


def test_program_with_every_node_prints_as_it_was_written() -> None:
    text = EVERYTHING.read_text()

    assert text == parse(text).text()


def test_block_leaves_out_trailing_ones() -> None:
    lines = [format_program(Program("p", (), (), block=block)).split("\n")[1] for block in ((1, 1, 1), (4, 1, 2))]

    assert lines == ["block 1", "block 4 1 2"]


def test_expression_of_any_depth_is_printed() -> None:
    expr: Expr = A
    for _ in range(20_000):
        expr = Apply(u32, "invert", (expr,))

    assert format_expr(expr) == "invert(" * 20_000 + "a" + ")" * 20_000


@given(st.integers(0, 2**32 - 1), st.sampled_from([u32, i32, f32]))
def test_literal_comes_back_to_the_bit(bits: int, type_: Type) -> None:
    assert parse_literal(type_, format_literal(type_, bits)) == bits


@given(st.integers(0, 2**31 - 1))
def test_float_literal_has_no_digit_too_many(bits: int) -> None:
    value = np.uint32(bits).view(np.float32)
    digits = format_literal(f32, bits).split("e")[0].replace(".", "").strip("0")
    assume(np.isfinite(value) and len(digits) > 1)

    assert np.float32(f"{float(value):.{len(digits) - 2}e}") != value


@pytest.mark.thin
@given(st.text())
def test_string_comes_back_on_one_line(value: str) -> None:
    quoted = format_string(value)

    assert parse_string(quoted) == value
    assert len(quoted.splitlines()) == 1


def test_every_type_has_literals() -> None:
    assert all(parse_literal(t, format_literal(t, 1)) == 1 for t in types.TYPES)


# ---- diagnostics ----------------------------------------------------------------------------------------------------


def error_of(text: str) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        parse(text, filename="demo.vir")
    return caught.value


def test_messages_stand_under_what_they_are_about() -> None:
    text = """program saxpy
block 256
index u32
in x: f32
out out: f32[size(x)]

let i = global_id.x
if less(i, size(out))
  let inner = load(x[i])
  let b = add(inner, i)
end
store out[i], inner
"""
    expected = """2 errors in program saxpy
    program saxpy
    block 256
    index u32
    in x: f32
    out out: f32[size(x)]

    let i = global_id.x
    if less(i, size(out))
      let inner = load(x[i])
      let b = add(inner, i)
                         ^ operand 1 is u32, operand 0 is f32; add needs operands of one type (write vc.f32(...))
                           demo.vir:10
    end
    store out[i], inner
                  ^ inner is not defined here; it is defined in the block that ended above
                    demo.vir:12"""

    assert expected == str(error_of(text))


def test_condition_of_while_is_marked_on_its_own_line() -> None:
    expected = """1 error in program p
    program p
    block 256
    index u32

    while
    test f32:1.0
         ^ the condition is f32; it must be bool_
           demo.vir:3
    end"""

    assert expected == str(error_of("program p\nwhile\ntest f32:1.0\nend"))


def test_header_line_is_marked() -> None:
    expected = """1 error in program p
    program p
    block 256
    index u32
    out o: u32[load(o[u32:0])]
               ^ an element of o is not known before the launch; sizes and work use only scalars and sizes of buffers
                 demo.vir:2"""

    assert expected == str(error_of("program p\nout o: u32[load(o[u32:0])]"))


def test_source_line_of_a_file_is_quoted() -> None:
    program = Program("p", (), (Return(source=(str(EVERYTHING), 1)),))
    found = Diagnostic("message", (0,), None, (str(EVERYTHING), 1))

    rendered = render_diagnostics(program, [found])

    assert rendered.endswith(f"return\n    ^ message\n      {EVERYTHING}:1: program everything")


def test_long_program_is_shown_around_the_message_only() -> None:
    text = "program p\n" + "".join(f"let v{n} = u32:{n}\n" for n in range(200)) + "break\n"

    shown = str(error_of(text)).split("\n")

    assert shown[1] == "    ..."
    assert shown[2:6] == ["    let v197 = u32:197", "    let v198 = u32:198", "    let v199 = u32:199", "    break"]


def test_a_long_line_of_a_program_is_cut_behind_what_the_message_is_about() -> None:
    elements = ", ".join(["0"] * 2000)
    sums = "add(u32:1, " * 40 + "load(o[u32:0])" + ")" * 40

    table = str(error_of(f"program p\ntable t: u8 = {elements}\nbreak")).split("\n")
    size = str(error_of(f"program p\nout o: u32[{sums}]")).split("\n")

    assert table[4].startswith("    table t: u8 = 0, 0, 0,")
    assert table[4].endswith("...")
    assert len(table[4]) < 130
    assert size[4][size[5].index("^") :].startswith("load(o[u32:0])")


def test_messages_beyond_the_hundredth_are_counted() -> None:
    error = error_of("program p\n" + "break\n" * 130)

    assert len(error.diagnostics) == 130
    assert str(error).endswith("\n    and 30 more")


def test_syntax_error_shows_the_line_and_a_caret() -> None:
    expected = """2 errors in demo.vir
  demo.vir:2
    let i = = u32:4
            ^ expected an expression, found `=`
  demo.vir:4
      store x[u32:0] u32:1
                     ^ expected `,`, found `u32`"""

    assert expected == str(error_of("program p\nlet i = = u32:4\nif bool_:true\n  store x[u32:0] u32:1\nend\n"))


def test_long_line_is_cut_around_the_caret() -> None:
    line = "let v = " + "add(u32:1, " * 40 + "?"

    shown = str(error_of("program p\n" + line)).split("\n")

    assert len(shown[2]) < 130
    assert shown[2][shown[3].index("^")] == "?"
