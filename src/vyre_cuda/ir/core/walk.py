"""Traversals of programs, shared by everything that reads one.

The orders are fixed here. Statements: pre-order, `setup` before `body`, `then` before `orelse`. Expressions: operands
left to right, a parent before its operands. None of these recurses, so a tree of any depth can be walked. Classes of
nodes have no subclasses, and where nodes are many their class is compared: `isinstance` takes long to say no.

A path alternates between a statement index and the name of a nested body: `(3, "then", 0)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn, TypeAlias

from vyre_cuda.errors import InternalError
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

Path: TypeAlias = "tuple[int | str, ...]"
Body: TypeAlias = "tuple[Stmt, ...]"

# Expressions without others inside.
_ALONE = frozenset({Const, Local, Scalar, Size, Id})
_NESTING = frozenset({If, For, While})


def assert_never(value: NoReturn) -> NoReturn:
    """Ends a match that names every node class; a type checker reports a class that is missing."""
    raise InternalError(f"unknown class of node {type(value).__name__}")


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of one expression."""
    if type(expr) is Apply:
        return expr.operands
    if type(expr) in _ALONE:
        return ()
    match expr:
        case Load():
            return (expr.index,)
        case Position():
            return expr.indices
        case Const() | Local() | Scalar() | Size() | Id():
            return ()
        case _:
            assert_never(expr)


def expressions(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every expression of these trees."""
    stack = list(roots)
    stack.reverse()
    while stack:
        expr = stack.pop()
        yield expr
        if type(expr) is Apply:
            stack += expr.operands[::-1]
        elif type(expr) not in _ALONE:
            stack += children(expr)[::-1]


def in_any_order(roots: Iterable[Expr]) -> list[Expr]:
    """The same ones, in less time."""
    found = list(roots)
    for expr in found:  # and what is appended meanwhile
        if type(expr) is Apply:
            found += expr.operands
        elif type(expr) not in _ALONE:
            found += children(expr)
    return found


def locals_read(roots: Iterable[Expr]) -> list[str]:
    """The names of locals in these trees, as often as they are there, in any order."""
    names = []
    found = list(roots)
    for expr in found:  # and what is appended meanwhile
        if type(expr) is Local:
            names.append(expr.name)
        elif type(expr) is Apply:
            found += expr.operands
        elif type(expr) not in _ALONE:
            found += children(expr)
    return names


def operands(statement: Stmt) -> tuple[Expr, ...]:
    """The expressions that the statement itself evaluates, in evaluation order, without those of nested bodies.

    `Diagnostic.operand` counts `expressions(operands(statement))`.
    """
    if type(statement) is Store:
        return (statement.index, statement.value)
    if type(statement) is Let:
        return (statement.value,)
    match statement:
        case Let() | Var() | Assign():
            return (statement.value,)
        case Store():
            return (statement.index, statement.value)
        case Atomic():
            return (statement.index, *statement.operands)
        case Warp():
            return statement.operands
        case Print():
            return statement.values
        case If() | While() | Assert():
            return (statement.condition,)
        case For():
            return (statement.start, statement.stop, statement.step)
        case Break() | Continue() | Return() | Barrier() | GridBarrier():
            return ()
        case _:
            assert_never(statement)


def bodies(statement: Stmt) -> tuple[tuple[str, Body], ...]:
    """The nested bodies of a statement with their names in paths."""
    if type(statement) is Store or type(statement) is Let:
        return ()
    match statement:
        case If():
            return (("then", statement.then), ("orelse", statement.orelse))
        case For():
            return (("body", statement.body),)
        case While():
            return (("setup", statement.setup), ("body", statement.body))
        case Let() | Var() | Assign() | Store() | Atomic() | Warp() | Assert() | Print():
            return ()
        case Break() | Continue() | Return() | Barrier() | GridBarrier():
            return ()
        case _:
            assert_never(statement)


def statements(body: Body) -> Iterator[Stmt]:
    """Every statement of a body and of the bodies nested in it."""
    stack: list[Iterator[Stmt]] = [iter(body)]
    while stack:
        for statement in stack[-1]:
            yield statement
            if type(statement) in _NESTING:
                stack.extend(iter(inner) for _, inner in reversed(bodies(statement)))
                break
        else:
            stack.pop()


def located(body: Body, prefix: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Like `statements`, each with its path."""
    stack: list[tuple[Path, Iterator[tuple[int, Stmt]]]] = [(prefix, enumerate(body))]
    while stack:
        at, remaining = stack[-1]
        for number, statement in remaining:
            path = (*at, number)
            yield path, statement
            nested = bodies(statement)
            if nested:
                stack.extend(((*path, name), enumerate(inner)) for name, inner in reversed(nested))
                break
        else:
            stack.pop()


def declared_name(statement: Stmt) -> str | None:
    """The local that a statement declares: a let, var, warp operation, atomic with a result, or for."""
    match statement:
        case Let() | Var() | For():
            return statement.name
        case Atomic() | Warp():
            return statement.result
        case Assign() | Store() | If() | While() | Assert() | Print():
            return None
        case Break() | Continue() | Return() | Barrier() | GridBarrier():
            return None
        case _:
            assert_never(statement)


def buffers_written(body: Body) -> set[str]:
    """Names of the buffers and shared arrays that a store or an atomic changes."""
    return {
        statement.buffer
        for statement in statements(body)
        if isinstance(statement, Store) or (isinstance(statement, Atomic) and statement.op != "load")
    }


def assert_sites(body: Body) -> tuple[tuple[Path, Assert], ...]:
    """Every assert in order: its position here is the site number that a failing thread reports."""
    return tuple((path, statement) for path, statement in located(body) if isinstance(statement, Assert))
