"""Loads programs from files: the text form, or the module-level programs of a Python file.

A Python file is executed with its directory importable, as `python FILE` would, but not as `__main__`.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import vyre_cuda as vc
from vyre_cuda.cli.failures import UsageError
from vyre_cuda.ir.core.program import Program, ProgramSource

# What a script may raise; a ProgramError is reported with its own place and text.
_SCRIPT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)


def load_programs(path: Path) -> list[Program]:
    """The programs of a file, in order, at least one. UsageError if it cannot be read, ProgramError if invalid."""
    if path.suffix != ".py":
        return [vc.parse(_text(path), filename=str(path))]
    _text(path)
    found = _module_level_programs(_executed(path))
    if not found:
        raise UsageError(
            f"{path} defines no program at module level (a vc.Program, what Builder.build() returns, or a kernel "
            "function without open parameters)"
        )
    return found


def load_program(path: Path, name: str | None) -> Program:
    """The program called `name`, or the only one."""
    programs = load_programs(path)
    names = ", ".join(program.name for program in programs)
    if name is None:
        if len(programs) > 1:
            raise UsageError(f"{path} defines {len(programs)} programs ({names}): choose one with --program NAME")
        return programs[0]
    for program in programs:
        if program.name == name:
            return program
    raise UsageError(f"{path} defines no program {name}; it has {names}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _executed(path: Path) -> dict[str, Any]:
    directory = str(path.resolve().parent)
    sys.path.insert(0, directory)
    try:
        return runpy.run_path(str(path), run_name=path.stem)
    except _SCRIPT_ERRORS as error:
        raise UsageError(f"{path}{_line_in(path, error)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(directory)


def _line_in(path: Path, error: BaseException) -> str:
    """`:LINE` of the innermost frame in the file itself, empty if there is none."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _module_level_programs(names: dict[str, Any]) -> list[Program]:
    """The programs in order of definition, those of kernel functions too, unless they have open parameters; an object
    with two names, or two equal ones, count as one program."""
    sources = (value for value in names.values() if isinstance(value, ProgramSource) and not value.is_open)
    programs = {id(source): source.program() for source in sources}
    found = (programs.get(id(value), value) for value in names.values())
    return list(dict.fromkeys(value for value in found if isinstance(value, Program)))
