"""Errors of a kernel function, at the user's file, line and column, with the text of the expression."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from vyre_cuda.errors import Diagnostic, ProgramError
from vyre_cuda.frontend.source import located, text_between
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.frontend import wording
else:
    wording = later("vyre_cuda.frontend.wording")

# What a body may raise while it runs to build a program; other exceptions are the user's own.
BUILD_ERRORS = (
    ProgramError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
# Files of this package that run while a program is built, and Cython's frames, which have relative names. Other rooms
# of this package may have kernels, as users have.
_PACKAGE = sys.modules["vyre_cuda"].__path__[0]
_BUILDING = ("__init__", "ir", "frontend", "functions", "records", "later", "errors")
_NOT_THE_USERS = (*(os.path.join(_PACKAGE, name) for name in _BUILDING), "vyre_cuda/")


def relocated(error: Exception, tree: ast.FunctionDef, filename: str) -> ProgramError:
    """The same mistake at the innermost line that is not ours."""
    message = wording.message_of(error)
    if isinstance(error, ProgramError) and error.diagnostics:
        if error.diagnostics[0].column is not None:
            return error
        if len(error.diagnostics) > 1 or error.diagnostics[0].path:
            return _findings(error.diagnostics, tree, filename)
        message = error.diagnostics[0].message
    place = _innermost(error.__traceback__)
    if place is None:
        return located(wording.reworded(message), filename, tree.lineno, tree.col_offset + 1, f"def {tree.name}(...)")
    file, line, column, end_line, end_column = place
    if column is None or end_line is None or end_column is None:
        return _at_statement(wording.reworded(message), file, line, tree, filename)
    return located(
        wording.reworded(message), file, line, column + 1, text_between(file, line, column, end_line, end_column)
    )


def _innermost(trace: TracebackType | None) -> tuple[str, int, int | None, int | None, int | None] | None:
    """File, line, column, last line and last column of the innermost frame that is not ours."""
    found = None
    while trace is not None:
        if _is_the_users(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    if found is None:
        return None
    code = found.tb_frame.f_code
    if sys.version_info >= (3, 11):
        positions = list(code.co_positions())[found.tb_lasti // 2]
        line, end_line, column, end_column = positions
        return code.co_filename, line or found.tb_lineno, column, end_line, end_column
    return code.co_filename, found.tb_lineno, None, None, None


def _is_the_users(filename: str) -> bool:
    """Of names in angle brackets, only those whose lines are known: what is typed at a prompt or in a cell."""
    if filename.startswith("<"):
        return bool(linecache.getline(filename, 1))
    return not filename.startswith(_NOT_THE_USERS)


def _at_statement(message: str, file: str, line: int, tree: ast.FunctionDef, filename: str) -> ProgramError:
    """The mistake at the statement of a line, where only the line is known."""
    if (file, line) == (filename, tree.lineno):
        return located(message, file, line, tree.col_offset + 1, f"def {tree.name}(...)")
    node = _statement(tree, line) if file == filename else None
    if node is None:
        return located(message, file, line, 1, text_between(file, line, 0, line, 1 << 20))
    end = (node.lineno, 1 << 20) if node.end_lineno != node.lineno else (node.lineno, node.end_col_offset or 0)
    text = text_between(file, node.lineno, node.col_offset, *end)
    return located(message, file, node.lineno, node.col_offset + 1, text)


def _statement(tree: ast.FunctionDef, line: int) -> ast.stmt | None:
    """The innermost statement that has the line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node is not tree and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node
    return found


def _findings(diagnostics: Iterable[Diagnostic], tree: ast.FunctionDef, filename: str) -> ProgramError:
    """What the validation of a whole program found, each with its column."""
    found = []
    for diagnostic in diagnostics:
        file, line = diagnostic.source or (filename, tree.lineno)
        error = _at_statement(wording.reworded(diagnostic.message), file, line, tree, filename)
        at = error.diagnostics[0]
        row = Diagnostic(at.message, diagnostic.path, diagnostic.operand, at.source, at.column, at.expression)
        found.append((str(error), row))
    return ProgramError("\n".join(text for text, _ in found), [row for _, row in found])
