"""What goes wrong on the command line, as text for the person who typed it.

A `UsageError` is the caller's mistake: exit code 2. Errors of the package itself mean that the program or the device
failed: exit code 1. Neither shows a traceback.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vyre_cuda.errors import CompileError, Error, ProgramError


class UsageError(Exception):
    """The command line asks for something that does not exist or does not fit."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of writes name the file, as those of opening one do."""
    try:
        yield
    except OSError as error:  # NumPy's has a text alone, such as "3000 requested and 992 written"
        raise OSError(error.errno, error.strerror or str(error), error.filename or str(path)) from None


def text_of(error: Error | OSError | MemoryError) -> str:
    """The error as one paragraph; a program's diagnostics and a compiler's log are shown whole."""
    if isinstance(error, ProgramError):
        return _with_source_line(error)
    if isinstance(error, CompileError) and error.log:
        return f"{error}\n{error.log.rstrip()}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _with_source_line(error: ProgramError) -> str:
    """A single finding at a line of Python is followed by that line; several are already shown in the program text."""
    text = str(error)
    if "\n" in text or len(error.diagnostics) != 1 or error.diagnostics[0].source is None:
        return text
    line = linecache.getline(*error.diagnostics[0].source).strip()
    return f"{text}\n    {line}" if line else text
