"""Pieces of syntax trees, each placed where the user's syntax stands, and the error for syntax that has no meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeVar

from vyre_cuda.errors import ProgramError
from vyre_cuda.frontend.source import located, text_between

# No name of a user's function has a dot.
ACTIVATION = ".activation"

Node = TypeVar("Node", bound=ast.AST)


def children(node: ast.AST) -> list[ast.AST]:
    """What is directly in a node, in the order of its fields. `ast.iter_child_nodes` gives the same, and takes most of
    the time of a rewriting."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
    return found


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The tree and all that is in it, in the order of the fields."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        left += reversed(children(node))


def at(node: Node, place: ast.AST) -> Node:
    """The node and all below it, placed at `place`, but for what has a place already, and so all that is in it."""
    unplaced: list[ast.AST] = [node]
    while unplaced:
        inner = unplaced.pop()
        if "lineno" in inner._attributes:
            if hasattr(inner, "lineno"):
                continue
            ast.copy_location(inner, place)
        unplaced += children(inner)
    return node


def name(identifier: str, place: ast.AST) -> ast.Name:
    return at(ast.Name(identifier, ast.Load()), place)


def store(identifier: str, value: ast.expr, place: ast.AST) -> ast.Assign:
    """`identifier = value`"""
    return at(ast.Assign([ast.Name(identifier, ast.Store())], value), place)


def method(receiver: str, called: str, *arguments: ast.expr, place: ast.AST) -> ast.Call:
    """`receiver.called(*arguments)`"""
    function = ast.Attribute(ast.Name(receiver, ast.Load()), called, ast.Load())
    return at(ast.Call(function, list(arguments), []), place)


def run(called: str, *arguments: ast.expr, place: ast.AST) -> ast.Call:
    """`activation.called(*arguments)`"""
    return method(ACTIVATION, called, *arguments, place=place)


def later(value: ast.expr) -> ast.Lambda:
    """`lambda: value`"""
    return at(ast.Lambda(ast.arguments([], [], None, [], [], None, []), value), value)


def text(value: str, place: ast.AST) -> ast.Constant:
    return at(ast.Constant(value), place)


class Refusals:
    """Raises errors at the syntax of one file."""

    def __init__(self, filename: str) -> None:
        self.filename = filename

    def refused(self, node: ast.AST, message: str) -> ProgramError:
        return refused(self.filename, node, message)


def refused(filename: str, node: ast.AST, message: str) -> ProgramError:
    """The error for syntax that has no meaning in a kernel."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
    if isinstance(getattr(node, "body", None), list):  # of a compound statement, its first line
        end_line, end_column = line, 1 << 20
    expression = text_between(filename, line, column, end_line or line, end_column or column)
    return located(message, filename, line, column + 1, expression)
