"""Programs put together from the wrong objects, and programs beyond a limit, are program errors and nothing worse."""

from __future__ import annotations

from typing import Any

import pytest

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.check.validate import check, validate
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Const,
    Expr,
    For,
    Id,
    If,
    Let,
    Load,
    Local,
    Parameter,
    Print,
    Return,
    Scalar,
    SharedArray,
    Size,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_, f32, u32

ZERO = Const(u32, 0)
TRUE = Const(bool_, 1)


def program(**fields: Any) -> Program:
    return Program(**{"name": "p", "parameters": (), "body": (), **fields})


def holding(value: Any) -> Program:
    return program(body=(Let("v", value),))


COPY_OF_U32 = Type("u32", "unsigned", 32, 6)
MALFORMED: list[Program] = [
    program(name=None),
    program(name=b"p"),
    program(parameters=[]),
    program(parameters=(None,)),
    program(parameters=(SharedArray("t", f32, 1),)),
    program(parameters=(Parameter(3, "in", f32),)),  # type: ignore[arg-type]
    program(parameters=(Parameter("x", "const", f32),)),  # type: ignore[arg-type]
    program(parameters=(Parameter("x", ["in"], f32),)),  # type: ignore[arg-type]
    program(parameters=(Parameter("x", "in", "f32"),)),  # type: ignore[arg-type]
    program(parameters=(Parameter("x", "out", f32, 4),)),  # type: ignore[arg-type]
    program(body=None),
    program(body=[Return()]),
    program(body=(None,)),
    program(body=(ZERO,)),
    program(body=(Return,)),
    program(block=256),
    program(block=(256,)),
    program(block=(1.0, 1, 1)),
    program(block=(True, 1, 1)),
    program(block=(10**6000, 1, 1)),
    program(index="u32"),
    program(index=COPY_OF_U32),
    program(work=ZERO),
    program(work=(None,)),
    program(shared=None),
    program(shared=(Parameter("x", "in", f32),)),
    program(shared=(SharedArray("t", f32, ZERO),)),  # type: ignore[arg-type]
    holding(None),
    holding(7),
    holding(Return()),
    holding(Const(u32, -1)),
    holding(Const(u32, 1 << 32)),
    holding(Const(bool_, 2)),
    holding(Const(u32, 1.0)),  # type: ignore[arg-type]
    holding(Const(u32, None)),  # type: ignore[arg-type]
    holding(Const(COPY_OF_U32, 1)),
    holding(Const(None, 1)),  # type: ignore[arg-type]
    holding(Local(u32, None)),  # type: ignore[arg-type]
    holding(Scalar(u32, 1)),  # type: ignore[arg-type]
    holding(Size(u32, 1)),  # type: ignore[arg-type]
    holding(Id(u32, "lane", 0)),  # type: ignore[arg-type]
    holding(Id(u32, "lane_id", 1)),
    holding(Id(u32, [], 0)),  # type: ignore[arg-type]
    holding(Id(u32, "thread_id", 3)),
    holding(Id(u32, "thread_id", -1)),
    holding(Load(u32, "x", 0)),  # type: ignore[arg-type]
    holding(Load(u32, None, ZERO)),  # type: ignore[arg-type]
    holding(Apply(u32, "plus", (ZERO, ZERO))),
    holding(Apply(u32, {}, (ZERO, ZERO))),  # type: ignore[arg-type]
    holding(Apply(u32, "add", [ZERO, ZERO])),  # type: ignore[arg-type]
    holding(Apply(u32, "add", (ZERO, "zero"))),  # type: ignore[arg-type]
    program(body=(Let(None, ZERO),)),  # type: ignore[arg-type]
    program(body=(Var(1, ZERO),)),  # type: ignore[arg-type]
    program(body=(Assign([], ZERO),)),  # type: ignore[arg-type]
    program(body=(Store(None, ZERO, ZERO),)),  # type: ignore[arg-type]
    program(body=(Store("x", ZERO, None),)),  # type: ignore[arg-type]
    program(body=(Atomic(3, "add", "x", ZERO, (ZERO,)),)),  # type: ignore[arg-type]
    program(body=(Atomic(None, None, "x", ZERO, (ZERO,)),)),  # type: ignore[arg-type]
    program(body=(Atomic(None, "add", "x", ZERO, ZERO),)),  # type: ignore[arg-type]
    program(body=(Atomic(None, "add", "x", ZERO, (ZERO,), None),)),  # type: ignore[arg-type]
    program(body=(Atomic(None, "add", "x", ZERO, (ZERO,), "relaxed", 3),)),  # type: ignore[arg-type]
    program(body=(Warp(None, "any", (TRUE,)),)),  # type: ignore[arg-type]
    program(body=(Warp("v", 1, (TRUE,)),)),  # type: ignore[arg-type]
    program(body=(Warp("v", "any", TRUE),)),  # type: ignore[arg-type]
    program(body=(Warp("v", "reduce", (ZERO,), None),)),  # type: ignore[arg-type]
    program(body=(If(TRUE, Return()),)),  # type: ignore[arg-type]
    program(body=(If(TRUE, (), None),)),  # type: ignore[arg-type]
    program(body=(If(True, ()),)),  # type: ignore[arg-type]
    program(body=(For(None, ZERO, ZERO, ZERO, ()),)),  # type: ignore[arg-type]
    program(body=(For("j", 0, ZERO, ZERO, ()),)),  # type: ignore[arg-type]
    program(body=(For("j", ZERO, ZERO, ZERO, [Return()]),)),  # type: ignore[arg-type]
    program(body=(While(None, TRUE, ()),)),  # type: ignore[arg-type]
    program(body=(While((), None, ()),)),  # type: ignore[arg-type]
    program(body=(While((), TRUE, (If(TRUE, (3,)),)),)),  # type: ignore[arg-type]
    program(body=(Assert(TRUE, None),)),  # type: ignore[arg-type]
    program(body=(Print(None),)),  # type: ignore[arg-type]
    program(body=(Print("{}", TRUE),)),  # type: ignore[arg-type]
    program(body=(Print("{}", (1,)),)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("malformed", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_program_is_a_program_error(malformed: Program) -> None:
    with pytest.raises(ProgramError) as caught:
        check(malformed)

    assert len(caught.value.diagnostics) == 1


def test_all_malformed_parts_are_found() -> None:
    body = (Let(None, ZERO), If(TRUE, (Store("x", 1, 2),)))  # type: ignore[arg-type]

    places = [(d.path, d.operand) for d in validate(program(body=body, block=(1, 1, 1)))]

    assert places == [((0,), None), ((1, "then", 0), 0), ((1, "then", 0), 1)]


def test_source_of_a_node_may_be_anything() -> None:
    with pytest.raises(ProgramError):
        check(program(body=(Break(source=("a\0b", 1)), Break(source=3), Break(source=("f", "g")))))  # type: ignore


# ---- limits ---------------------------------------------------------------------------------------------------------


def deep(levels: int) -> Expr:
    expr: Expr = ZERO
    for _ in range(levels - 1):
        expr = Apply(u32, "invert", (expr,))
    return expr


@pytest.mark.parametrize("levels, valid", [(128, True), (129, False), (50_000, False)])
def test_expressions_are_at_most_128_deep(levels: int, valid: bool) -> None:
    assert (validate(holding(deep(levels))) == []) is valid


@pytest.mark.parametrize("levels, valid", [(64, True), (65, False), (20_000, False)])
def test_statements_are_at_most_64_deep(levels: int, valid: bool) -> None:
    body: tuple[Stmt, ...] = ()
    for _ in range(levels):
        body = (If(TRUE, body),)

    assert (validate(program(body=body)) == []) is valid


@pytest.mark.thin
@pytest.mark.slow
@pytest.mark.parametrize("count, valid", [(65_536, True), (65_537, False)])
def test_statements_are_at_most_65536(count: int, valid: bool) -> None:
    assert (validate(program(body=(Barrier(),) * count)) == []) is valid


@pytest.mark.thin
@pytest.mark.slow
def test_expression_that_doubles_is_refused() -> None:
    expr: Expr = ZERO
    for _ in range(100):
        expr = Apply(u32, "add", (expr, expr))

    assert [d.path for d in validate(holding(expr))] == [(0,)]
