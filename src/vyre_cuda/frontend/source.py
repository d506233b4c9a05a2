"""The source of a function: its syntax tree with the lines and columns of the user's file."""

from __future__ import annotations

import ast
import inspect
import linecache
from types import CodeType, FunctionType
from typing import Any

from vyre_cuda.errors import Diagnostic, ProgramError, type_name
from vyre_cuda.records import FrozenRecord

# Of an expression that an error shows.
MOST_TEXT = 120


class FunctionSource(FrozenRecord, eq=False):
    """Where a function stands: `lines`, to the end of the file, begin with `first_line`, that of its first decorator.

    As far as the indentation tells, the definition has `count` lines.
    """

    filename: str
    first_line: int
    lines: list[str]
    count: int

    def tree(self, name: str) -> ast.FunctionDef:
        """The definition, whose nodes have the positions of the file."""
        indented = self.lines[0][:1] in (" ", "\t")
        # Behind as many lines as in the file, so that the nodes have its positions.
        before = "\n" * (self.first_line - 2) + "if 1:\n" if indented else "\n" * (self.first_line - 1)
        try:
            module = ast.parse(before + "".join(self.lines[: self.count]), self.filename)
        except SyntaxError:  # a string or an expression that is indented less
            module = ast.parse(before + "".join(inspect.getblock(self.lines)), self.filename)
        first = module.body[0]
        found = first.body[0] if isinstance(first, ast.If) else first
        if not isinstance(found, ast.FunctionDef) or found.name != name:
            raise without_source(name, self.filename, self.first_line)
        return found


def source_of(function: Any, what: str) -> FunctionSource:
    """The source of a plain function. ProgramError if there is none, TypeError if it is another kind of function."""
    if not isinstance(function, FunctionType):
        way = f": write @{type(function).__name__} above @{what}" if isinstance(function, staticmethod) else ""
        if isinstance(function, (int, tuple)) and what != "vc.func":
            way = f": write @{what}(block={function})"
        raise TypeError(f"{what} takes a function, not {type_name(function)}{way}")
    code = function.__code__
    if code.co_name == "<lambda>":
        raise _at_first_line(code, f"{what} takes a function with a name: write it with def, not as a lambda")
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise _at_first_line(code, f"{what} {code.co_name}: no coroutine can run on a device: write def, without async")
    if code.co_flags & inspect.CO_GENERATOR:
        message = f"{what} {code.co_name}: no generator can run on a device: write to an array, and no yield"
        raise _at_first_line(code, message)
    if hasattr(function, "__wrapped__"):
        message = f"{what} {function.__name__}: another decorator is between: write @{what} directly above the def"
        raise _at_first_line(code, message)
    try:
        lines, begin = inspect.findsource(function)
    except (OSError, TypeError):
        raise without_source(code.co_name, code.co_filename, code.co_firstlineno) from None
    rest = lines[begin:]
    return FunctionSource(code.co_filename, begin + 1, rest, _lines_of_definition(rest, code))


def _at_first_line(code: CodeType, message: str) -> ProgramError:
    """The error at the `def` of a function, or at the line of a lambda."""
    line = first = code.co_firstlineno
    text = linecache.getline(code.co_filename, line)
    if code.co_name != "<lambda>":  # behind its decorators
        while text and not text.lstrip().startswith(("def ", "async ")):
            line += 1
            text = linecache.getline(code.co_filename, line)
    if not text:
        return without_source(code.co_name, code.co_filename, first)
    return located(message, code.co_filename, line, len(text) - len(text.lstrip()) + 1, text.strip())


def _lines_of_definition(lines: list[str], code: CodeType) -> int:
    """How many of these lines are those of the definition that begins with the first.

    It ends before the first line, behind its last line of code, that is not indented more than its own first. What
    `inspect` does instead takes milliseconds in a process that has tokenized nothing yet.
    """
    least = _width(lines[0])
    end = max(_last_line(code) - code.co_firstlineno, 0) + 1
    while end < len(lines) and (_is_bare(lines[end]) or _width(lines[end]) > least):
        end += 1
    while _is_bare(lines[end - 1]):
        end -= 1
    return end


def _is_bare(line: str) -> bool:
    return line.lstrip()[:1] in ("", "#")


def _width(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _last_line(code: CodeType) -> int:
    """The last line that has code, also that of inner functions."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    inner = [_last_line(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return max((code.co_firstlineno, *lines, *inner))


def without_source(name: str, filename: str, line: int) -> ProgramError:
    message = (
        f"{name} has no source that can be read, as a function made by exec or typed at a prompt that keeps no lines: "
        "write it to a file, or build the program with vc.Builder"
    )
    return ProgramError(f"{message} ({filename}:{line})", [Diagnostic(message, source=(filename, line))])


def text_between(filename: str, line: int, column: int, end_line: int, end_column: int) -> str:
    """The text from one place of a file to another; lines are counted from 1, columns in bytes of UTF-8 from 0."""
    rows = [linecache.getline(filename, number).encode() for number in range(line, end_line + 1)]
    if not rows:
        return ""
    rows[-1] = rows[-1][:end_column]
    rows[0] = rows[0][column:]
    return " ".join(row.decode(errors="replace").strip() for row in rows)


def located(message: str, filename: str, line: int, column: int, expression: str) -> ProgramError:
    """The error for one mistake, with its place and its text; columns are counted from 1."""
    shown = expression if len(expression) <= MOST_TEXT else expression[: MOST_TEXT - 3] + "..."
    diagnostic = Diagnostic(message, source=(filename, line), column=column, expression=shown)
    return ProgramError(f"{message} ({filename}:{line}:{column}: {shown})", [diagnostic])
