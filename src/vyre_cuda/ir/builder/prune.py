"""Drops the results of atomics that nothing reads: without a result, an atomic lowers to a cheaper form."""

from __future__ import annotations

from collections.abc import Iterable

from vyre_cuda.ir.core.nodes import Atomic, For, If, Local, Stmt, While
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.records import replace


def drop_unread_results(body: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """The statements, where atomics whose old value no expression reads have no result."""
    whole = tuple(body)
    if not any(isinstance(s, Atomic) and s.result is not None for s in statements(whole)):
        return whole
    read = {e.name for s in statements(whole) for e in expressions(operands(s)) if isinstance(e, Local)}
    return tuple(_pruned(s, read) for s in whole)


def _pruned(statement: Stmt, read: set[str]) -> Stmt:
    match statement:
        case Atomic() if statement.result is not None and statement.result not in read:
            return replace(statement, result=None)
        case If():
            return replace(statement, then=_all(statement.then, read), orelse=_all(statement.orelse, read))
        case For():
            return replace(statement, body=_all(statement.body, read))
        case While():
            return replace(statement, setup=_all(statement.setup, read), body=_all(statement.body, read))
        case _:
            return statement


def _all(body: tuple[Stmt, ...], read: set[str]) -> tuple[Stmt, ...]:
    return tuple(_pruned(s, read) for s in body)
