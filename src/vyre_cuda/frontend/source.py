"""The source of a function: its syntax tree with the lines and columns of the user's file."""

from __future__ import annotations

import ast
import inspect
import linecache
from types import FunctionType

from vyre_cuda.errors import Diagnostic, ProgramError
from vyre_cuda.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """Where a function stands: `lines` begin with `first_line`, that of its first decorator."""

    filename: str
    first_line: int
    lines: tuple[str, ...]

    def tree(self, name: str) -> ast.FunctionDef:
        """The definition, whose nodes have the positions of the file."""
        indented = self.lines[0][:1] in (" ", "\t")
        text = ("if 1:\n" if indented else "") + "".join(self.lines)
        module = ast.parse(text, self.filename)
        first = module.body[0]
        found = first.body[0] if isinstance(first, ast.If) else first
        if not isinstance(found, ast.FunctionDef) or found.name != name:
            raise without_source(name, self.filename, self.first_line)
        ast.increment_lineno(found, self.first_line - (2 if indented else 1))
        return found


def source_of(function: FunctionType, what: str) -> FunctionSource:
    """The source of a plain function. ProgramError if there is none, TypeError if it is no such function."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"{what} takes a function, not a {type(function).__name__}")
    code = function.__code__
    if code.co_name == "<lambda>":
        raise ProgramError(f"{what} takes a function with a name: write it with def, not as a lambda")
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise ProgramError(f"{what} {code.co_name}: neither a generator nor a coroutine can run on a device")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise without_source(code.co_name, code.co_filename, code.co_firstlineno) from None
    return FunctionSource(code.co_filename, first, tuple(lines))


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
