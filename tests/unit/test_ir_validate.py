"""Every rule of a valid program, each broken once, and programs put together from the wrong objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.check.validate import check, validate
from vyre_cuda.ir.core.nodes import (
    Apply,
    Atomic,
    Break,
    Const,
    Id,
    Let,
    Load,
    Local,
    Parameter,
    Scalar,
    Size,
    Stmt,
    Warp,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import bool_, f32, i32, u32
from vyre_cuda.ir.read.parse import parse
from vyre_cuda.testing.strategies import programs

EVERYTHING = parse((Path(__file__).with_name("programs") / "everything.vir").read_text())
HEADER = """program p
in x: f32
inout h: u32
inout g: f32
out o: f32[size(x)]
scalar n: u32
scalar a: f32
shared tile: f32[4]
shared flags: bool_[4]
inout wide: f64
scalar half: f16
scalar b: bool_
"""
ZERO = Const(u32, 0)
TRUE = Const(bool_, 1)

# Body, what the message says, path, operand.
BAD_BODIES: list[tuple[str, str, tuple[int | str, ...], int | None]] = [
    # names
    ("let if = u32:1", "is a keyword", (0,), None),
    ("let n = u32:1", "declared twice", (0,), None),
    ("let tile = u32:1", "declared twice", (0,), None),
    ("let v = u32:1\nlet v = u32:1", "declared twice", (1,), None),
    ("if bool_:true\nlet v = u32:1\nelse\nlet v = u32:1\nend", "declared twice", (0, "orelse", 0), None),
    ("let v = w", "w is not defined", (0,), 0),
    ("let v = add(n, w)\nlet w = u32:1", "w is not defined here; it is defined below", (0,), 2),
    ("let v = v", "v is not defined here", (0,), 0),
    ("if bool_:true\nlet v = n\nend\nlet w = v", "defined in the block that ended above", (1,), 0),
    ("for j = n to n step n\nend\nlet w = j", "defined in the block that ended above", (1,), 0),
    ("while\nlet v = n\ntest bool_:true\nend\nlet w = v", "defined in the block that ended above", (1,), 0),
    ("let v = x", "x is a buffer", (0,), 0),
    ("let v = size(q)", "there is no buffer or shared array q", (0,), 0),
    ("let v = size(n)", "n is a by-value scalar", (0,), 0),
    ("let v = n\nlet w = load(v[n])", "v is a local", (1,), 0),
    ("let v = load(q[n])", "there is no buffer or shared array q", (0,), 0),
    # ops
    ("let v = add(n, a)", "operand 1 is f32, operand 0 is u32", (0,), 2),
    ("let v = fma(a, a, n)", "operand 2 is u32", (0,), 3),
    ("let v = where(n, a, a)", "operand 0 of where is u32", (0,), 1),
    ("let v = where(bool_:true, a, n)", "operand 2 is u32", (0,), 3),
    ("let v = add(n)", "add takes 2 operands, 1 given", (0,), 0),
    ("let v = add(bool_:true, bool_:true)", "not defined for bool_", (0,), 0),
    ("let v = divide(n, n)", "not defined for u32", (0,), 0),
    ("let v = bitcast.bool_(n)", "bitcast from u32 to bool_", (0,), 0),
    ("let v = multiply(n, add(n, negative(a)))", "operand 1 is f32", (0,), 4),
    # memory
    ("let v = load(x[a])", "the index is f32", (0,), 1),
    ("store g[bool_:true], a", "the index is bool_", (0,), 0),
    ("store x[n], a", "x is an `in` buffer", (0,), None),
    ("store n[n], n", "n is a by-value scalar", (0,), None),
    ("store q[n], n", "there is no buffer or shared array q", (0,), None),
    ("store g[n], n", "the value stored to g is u32; it must be f32", (0,), 1),
    ("store tile[add(n, n)], n", "the value stored to tile is u32", (0,), 3),
    # atomics
    ("atomic add x[n], a order relaxed scope device", "x is an `in` buffer", (0,), None),
    ("atomic add h[a], n order relaxed scope device", "the index is f32", (0,), 0),
    ("atomic add h[n], a order relaxed scope device", "the operand is f32; it must be u32", (0,), 1),
    ("atomic add h[n] order relaxed scope device", "takes 1 operand, 0 given", (0,), None),
    ("atomic compare_exchange h[n], n order relaxed scope device", "takes 2 operands, 1 given", (0,), None),
    ("atomic compare_exchange g[n], a, a order relaxed scope device", "not defined for f32", (0,), None),
    ("atomic add flags[n], bool_:true order relaxed scope block", "not defined for bool_", (0,), None),
    ("atomic add h[n], n order seq_cst scope device", "no memory order seq_cst", (0,), None),
    ("let v = atomic store h[n], n order relaxed scope device", "returns no result", (0,), None),
    ("atomic load x[n] order relaxed scope device", "x is an `in` buffer", (0,), None),
    ("atomic load h[n] order release scope device", "load has no order release", (0,), None),
    ("atomic store h[n], n order acquire scope device", "store has no order acquire", (0,), None),
    ("atomic subtract wide[n], f64:1.0 order relaxed scope device", "not defined for f64", (0,), None),
    ("atomic bitwise_or g[n], a order relaxed scope device", "not defined for f32", (0,), None),
    ("atomic minimum flags[n], bool_:true order relaxed scope device", "not defined for bool_", (0,), None),
    ("atomic exchange wide[n], a order relaxed scope device", "the operand is f32; it must be f64", (0,), 1),
    # warp operations
    ("let v = warp any n", "not defined for u32", (0,), None),
    ("let v = warp ballot half", "not defined for f16", (0,), None),
    ("let v = warp reduce b combine add", "not defined for bool_", (0,), None),
    ("let v = warp reduce half combine bitwise_xor", "bitwise_xor is not defined for f16", (0,), None),
    ("let v = warp reduce n combine multiply", "no combining op 'multiply'", (0,), None),
    ("let v = warp inclusive_scan n combine fmin", "no combining op 'fmin'", (0,), None),
    ("let v = warp shuffle half, i32:1", "the lane operand is i32; it must be u32", (0,), 1),
    ("let v = warp shuffle add(n, n), half", "the lane operand is f16; it must be u32", (0,), 3),
    ("let v = warp match q", "q is not defined", (0,), 0),
    ("let n = warp match half", "declared twice", (0,), None),
    ("let v = warp any b\nlet w = add(v, v)", "not defined for bool_", (1,), 0),
    ("let v = warp ballot b\nlet w = add(v, half)", "operand 1 is f16", (1,), 2),
    ("let v = warp broadcast n, lane_id", "the lane of this broadcast may differ within a warp", (0,), None),
    ("if less(thread_id.x, n)\nlet v = warp any b\nend", "some threads of a warp", (0, "then", 0), None),
    ("if less(block_id.x, n)\ngrid_barrier\nend", "some threads of the grid", (0, "then", 0), None),
    # types
    ("let v = add(half, bf16:1.0)", "operand 1 is bf16, operand 0 is f16", (0,), 2),
    ("let v = bitcast.bf16(a)", "bitcast from f32 to bf16", (0,), 0),
    ("let v = bitwise_count(half)", "not defined for f16", (0,), 0),
    ("let v = copysign(n, n)", "not defined for u32", (0,), 0),
    ("for j = u8:0 to n step u8:1\nend", "the stop is u32; it must be u8", (0,), 1),
    ("atomic add h[n], n order relaxed scope warp", "no memory scope warp", (0,), None),
    ("let v = atomic add h[n], n order relaxed scope device\nv = n", "v is a let", (1,), None),
    # control
    ("if n\nend", "the condition is u32", (0,), 0),
    ("while\ntest a\nend", "the condition is f32", (0,), 0),
    ('assert n, "m"', "the condition is u32", (0,), 0),
    ('assert bool_:true, "\\u{d800}"', "half of a surrogate pair", (0,), None),
    ("let v = n\nv = n", "v is a let", (1,), None),
    ("for j = n to n step n\nj = n\nend", "j is a loop counter", (0, "body", 0), None),
    ("n = u32:1", "n is not a var", (0,), None),
    ("v = u32:1", "v is not a var", (0,), None),
    ("if bool_:true\nvar v = n\nend\nv = n", "v is not a var that is defined here", (1,), None),
    ("var v = n\nv = a", "the new value of v is f32; it must be u32", (1,), 0),
    ("break", "`break` is outside of any loop", (0,), None),
    ("if bool_:true\ncontinue\nend", "`continue` is outside of any loop", (0, "then", 0), None),
    ("while\nif bool_:true\nbreak\nend\ntest bool_:true\nend", "in the setup", (0, "setup", 0, "then", 0), None),
    (
        "for j = n to n step n\nwhile\ncontinue\ntest bool_:true\nend\nend",
        "in the setup",
        (0, "body", 0, "setup", 0),
        None,
    ),
    ("for j = a to a step a\nend", "the start is f32", (0,), 0),
    ("for j = n to i32:1 step n\nend", "the stop is i32; it must be u32", (0,), 1),
    ("for j = n to n step a\nend", "the step is f32; it must be u32", (0,), 2),
    ("for j = n to add(n, n) step u32:0\nend", "a step of 0", (0,), 4),
    ("if less(thread_id.x, n)\nbarrier\nend", "some threads of a block", (0, "then", 0), None),
]

BAD_HEADERS: list[tuple[str, str, tuple[int | str, ...], int | None]] = [
    ("block 0", "a block of 0 x 1 x 1", ("block",), None),
    ("block 32 33", "a block of 32 x 33 x 1", ("block",), None),
    ("block 1024 1 2", "a block of 1024 x 1 x 2", ("block",), None),
    ("index i16", "i16 is not an index type", ("index",), None),
    ("in x: f32\nscalar x: u32", "declared twice", ("parameters", 1), None),
    ("in x: f32\nshared x: u32[1]", "declared twice", ("shared", 0), None),
    ("in while: f32", "is a keyword", ("parameters", 0), None),
    ("shared t: f32[0]", "of 0 elements", ("shared", 0), None),
    ("shared t: f32[58112]\nshared u: bool_[1]", "232449 bytes", ("shared", 1), None),
    ("shared u: bool_[1]\nshared t: f32[58112]", "232452 bytes", ("shared", 1), None),
    ("scalar x: f32[u32:4]", "only buffers have sizes", ("parameters", 0), None),
    ("out o: f32[f32:4.0]", "the size is f32", ("parameters", 0), 0),
    ("out o: f32[v]", "v is not a parameter", ("parameters", 0), 0),
    ("out o: f32[add(u32:1, global_id.x)]", "global_id is not known", ("parameters", 0), 2),
    ("in x: u32\nout o: f32[load(x[u32:0])]", "an element of x is not known", ("parameters", 1), 0),
    ("shared t: f32[4]\nout o: f32[size(t)]", "t is a shared array", ("parameters", 0), 0),
    ("out o: f32[size(q)]", "there is no buffer or shared array q", ("parameters", 0), 0),
    ("out o: f32[add(u32:1, i32:1)]", "operand 1 is i32", ("parameters", 0), 2),
    ("out o: f32[size(b)]\nout b: f32", "known only once an array is passed by out=", ("parameters", 0), 0),
    ("out o: f32[size(o)]", "depends on itself", ("parameters", 0), None),
    ("work size(q)", "there is no buffer or shared array q", ("work",), 0),
    ("work u32:1, f32:4.0", "the work is f32", ("work",), 1),
    ("work add(u32:1, u32:1), block_dim.x", "block_dim is not known", ("work",), 3),
]


def found(text: str) -> list[tuple[str, tuple[int | str, ...], int | None]]:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    return [(d.message, d.path, d.operand) for d in caught.value.diagnostics]


@pytest.mark.thin(3)
@pytest.mark.parametrize("body, fragment, path, operand", BAD_BODIES, ids=[body[:60] for body, *_ in BAD_BODIES])
def test_broken_rule_is_found_once(body: str, fragment: str, path: tuple[int | str, ...], operand: int | None) -> None:
    ((message, *place),) = found(HEADER + body)

    assert place == [path, operand]
    assert fragment in message


@pytest.mark.parametrize("lines, fragment, path, operand", BAD_HEADERS, ids=[lines[:60] for lines, *_ in BAD_HEADERS])
def test_broken_declaration_is_found_once(
    lines: str, fragment: str, path: tuple[int | str, ...], operand: int | None
) -> None:
    ((message, *place),) = found("program p\n" + lines)

    assert place == [path, operand]
    assert fragment in message


def test_everything_is_found_at_once() -> None:
    text = HEADER + "block 0\nbreak\nlet v = add(w, u)\nlet y = v\nif n\nend"
    places = [(path, operand) for _, path, operand in found(text)]

    assert places == [(("block",), None), ((0,), None), ((1,), 1), ((1,), 2), ((3,), 0)]


def test_sizes_in_a_circle_are_all_named() -> None:
    text = "program p\nout o: f32[size(q)]\nout q: f32[size(r)]\nout r: f32[size(o)]\nout s: f32[size(o)]\n"

    assert [path for _, path, _ in found(text)] == [("parameters", 0), ("parameters", 1), ("parameters", 2)]


@pytest.mark.parametrize(
    "lines",
    [
        "out o: f32[size(q)]\nout q: f32[n]\nscalar n: u32",
        "out o: f32\nwork size(o)",
        "out o: f32[cast.i32(n)]\nscalar n: f32",
        "block 1024",
        "block 1 1 1024",
        "shared t: f32[58112]",
        "var v = u32:1\nif bool_:true\nv = u32:2\nend",
        "while\nlet go = bool_:true\ntest go\nlet w = go\nbreak\nend",
        "return\nlet v = u32:1",
        "for j = i32:5 to i32:-5 step i32:-1\nend",
    ],
)
def test_is_valid(lines: str) -> None:
    assert validate(parse("program p\n" + lines)) == []


@pytest.mark.thin
@settings(max_examples=30)
@given(programs())
def test_what_the_builder_makes_is_valid(program: Program) -> None:
    assert validate(program) == []


def test_changed_copy_of_a_valid_program_is_checked_anew() -> None:
    check(EVERYTHING)

    with pytest.raises(ProgramError):
        check(replace(EVERYTHING, body=(Break(),)))


def test_program_name_is_an_identifier() -> None:
    assert [d.path for d in validate(Program("a b", (), ()))] == [("name",)]


def test_work_has_one_to_three_axes() -> None:
    assert [d.path for d in validate(Program("p", (), (), work=()))] == [("work",)]
    assert [d.path for d in validate(Program("p", (), (), work=(ZERO,) * 4))] == [("work",)]


def test_parameters_are_at_most_256() -> None:
    parameters = tuple(Parameter(f"x{n}", "in", f32) for n in range(257))

    assert [d.path for d in validate(Program("p", parameters, ()))] == [("parameters", 256)]
    assert validate(Program("p", parameters[:256], ())) == []


# ---- nodes that claim what they are not ------------------------------------------------------------------------------

CLAIMS: list[Stmt] = [
    Let("v", Scalar(f32, "n")),
    Let("v", Scalar(u32, "x")),
    Let("v", Local(u32, "n")),
    Let("v", Size(i32, "x")),
    Let("v", Id(i32, "thread_id", 0)),
    Let("v", Load(u32, "x", ZERO)),
    Let("v", Apply(f32, "add", (ZERO, ZERO))),
    Let("v", Apply(u32, "less", (ZERO, ZERO))),
    Let("1v", ZERO),
    Let("", ZERO),
    Let("v\n", ZERO),
    Atomic(None, "divide", "h", ZERO, (ZERO,)),
    Atomic("v", "load", "h", ZERO, (ZERO,)),
    Warp("v", "vote", (TRUE,)),
    Warp("v", "any", ()),
    Warp("v", "any", (TRUE, ZERO)),
    Warp("v", "any", (TRUE,), "add"),
    Warp("v", "reduce", (ZERO,)),
    Warp("v", "shuffle", (ZERO,)),
]


@pytest.mark.parametrize("statement", CLAIMS, ids=repr)
def test_claim_of_a_node_is_found(statement: Stmt) -> None:
    parameters = (Parameter("x", "in", f32), Parameter("h", "inout", u32), Parameter("n", "scalar", u32))

    assert [d.path for d in validate(Program("p", parameters, (statement,)))] == [(0,)]


def test_local_of_another_type_is_found() -> None:
    body = (Let("v", ZERO), Let("w", Local(f32, "v")))

    assert [(d.path, d.operand) for d in validate(Program("p", (), body))] == [((1,), 0)]
