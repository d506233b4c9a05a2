"""`return value` in a `vc.func`: what follows an `if` that returns moves into its other arm, so that every return is
the last statement of its path."""

from __future__ import annotations

import ast
import copy
from typing import Any

from vyre_cuda.frontend.rewriting.syntax import refused


def tail_returns(filename: str, function: ast.FunctionDef) -> list[ast.stmt]:
    """The body with every return at the end of its path. ProgramError for a return in a loop or a missing one."""
    for loop in (node for node in ast.walk(function) if isinstance(node, (ast.For, ast.While))):
        inside = next((node for node in ast.walk(loop) if isinstance(node, ast.Return)), None)
        if inside is not None:
            raise refused(filename, inside, "`return` in a loop of a vc.func: set a variable, and `break`")
    body = _tail(function.body)
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    valued = [node for node in returns if node.value is not None]
    if valued and (len(valued) < len(returns) or not _always(body)):
        message = f"{function.name} returns a value on some of its paths only: return one on every path"
        raise refused(filename, valued[-1], message)
    return body


def _tail(statements: list[ast.stmt]) -> list[ast.stmt]:
    for position, statement in enumerate(statements):
        if isinstance(statement, ast.Return):
            return statements[: position + 1]
        if isinstance(statement, ast.If) and _returns(statement):
            rest = statements[position + 1 :]
            statement.body = _tail(_followed(statement.body, rest))
            statement.orelse = _tail(_followed(statement.orelse, rest))
            return statements[: position + 1]
    return statements


def _followed(arm: list[ast.stmt], rest: list[ast.stmt]) -> list[ast.stmt]:
    return arm if _always(arm) else [*arm, *copy.deepcopy(rest)]


def _returns(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Return) for inner in ast.walk(node))


def _always(statements: list[Any]) -> bool:
    """Whether every path through the statements returns."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return isinstance(last, ast.Return)
