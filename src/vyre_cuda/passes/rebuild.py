"""Nodes rebuilt with other parts. If nothing is different, the node itself is returned.

Source positions stay. A loop keeps its step where the new one would be a literal 0, which no program may have.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_

from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Const,
    Continue,
    Expr,
    For,
    GridBarrier,
    Id,
    If,
    Let,
    Load,
    Local,
    Position,
    Print,
    Return,
    Scalar,
    Size,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import (
    Body,
    assert_never,
    bodies,
    children,
    declared_name,
    expressions,
    operands,
    statements,
)

# The statements that have bodies.
NESTING = (If, For, While)


def is_same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    """Whether both hold the same objects."""
    return len(old) == len(new) and all(map(is_, old, new))


def unless_same(old: Body, new: Body) -> Body:
    """The new statements, or the old tuple if it holds the same."""
    return old if is_same(old, new) else new


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """The expression with these operands."""
    if is_same(children(expr), new):
        return expr
    match expr:
        case Apply():
            return Apply(expr.type, expr.op, new, expr.source)
        case Load():
            return Load(expr.type, expr.buffer, new[0], expr.source)
        case Position():
            return Position(expr.type, new, expr.source)
        case Const() | Local() | Scalar() | Size() | Id():
            return expr
        case _:
            assert_never(expr)


def with_operands(statement: Stmt, new: tuple[Expr, ...]) -> Stmt:
    """The statement with these in place of `walk.operands`."""
    if is_same(operands(statement), new):
        return statement
    s = statement
    match s:
        case Let():
            return Let(s.name, new[0], s.source)
        case Var():
            return Var(s.name, new[0], s.source)
        case Assign():
            return Assign(s.name, new[0], s.source)
        case Store():
            return Store(s.buffer, new[0], new[1], s.source)
        case Atomic():
            return Atomic(s.result, s.op, s.buffer, new[0], new[1:], s.order, s.scope, s.source)
        case Warp():
            return Warp(s.result, s.op, new, s.combine, s.source)
        case If():
            return If(new[0], s.then, s.orelse, s.source)
        case For():
            step = s.step if isinstance(new[2], Const) and new[2].bits == 0 else new[2]
            return s if is_same(operands(s), (*new[:2], step)) else For(s.name, new[0], new[1], step, s.body, s.source)
        case While():
            return While(s.setup, new[0], s.body, s.source)
        case Assert():
            return Assert(new[0], s.message, s.source)
        case Print():
            return Print(s.format, new, s.source)
        case Break() | Continue() | Return() | Barrier() | GridBarrier():
            return s
        case _:
            assert_never(s)


def with_bodies(statement: Stmt, new: tuple[Body, ...]) -> Stmt:
    """The statement with these in place of the bodies that `walk.bodies` names."""
    if is_same(tuple(body for _, body in bodies(statement)), new):
        return statement
    s = statement
    match s:
        case If():
            return If(s.condition, new[0], new[1], s.source)
        case For():
            return For(s.name, s.start, s.stop, s.step, new[0], s.source)
        case While():
            return While(new[0], s.condition, new[1], s.source)
        case Let() | Var() | Assign() | Store() | Atomic() | Warp() | Assert() | Print():
            return s
        case Break() | Continue() | Return() | Barrier() | GridBarrier():
            return s
        case _:
            assert_never(s)


def with_body(program: Program, body: Body) -> Program:
    """The program with these statements."""
    if is_same(program.body, body):
        return program
    p = program
    head = (p.name, p.parameters, body, p.block, p.index, p.work, p.shared, p.source, p.auto_block, p.arrays)
    return Program(*head, p.min_blocks)


def has_load(*roots: Expr) -> bool:
    """Whether one of these expressions reads memory."""
    return any(isinstance(expr, Load) for expr in expressions(roots))


def has_assert(body: Body) -> bool:
    """Whether an assertion is in the body. Assertions are never removed: a failing thread reports their number."""
    return any(isinstance(statement, Assert) for statement in statements(body))


class Names:
    """Names for new locals, different from every name of a program. Reads the program when the first one is needed."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that begins with `stem`."""
        if not self._taken:
            self._taken.update(_names(self._program))
        number = self._numbers.get(stem, 0)
        while (name := f"{stem}{number}") in self._taken:
            number += 1
        self._numbers[stem] = number + 1
        self._taken.add(name)
        return name


def _names(program: Program) -> Iterable[str]:
    yield program.name
    yield from (parameter.name for parameter in program.parameters)
    yield from (array.name for array in (*program.shared, *program.arrays))
    yield from filter(None, map(declared_name, statements(program.body)))
