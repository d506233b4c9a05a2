"""Loads programs from files: the text form, or the module-level programs of a Python file.

A Python file is executed with its directory importable, as `python FILE` would, but not as `__main__`.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vyre_cuda as vc
from vyre_cuda.cli.failures import UsageError
from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.core.program import Program, ProgramSource
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.bundles import layout
else:
    layout = later("vyre_cuda.bundles.layout")

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
    return _built(_defined(path))


def load_program(path: Path, name: str | None) -> Program:
    """The program called `name`, or the only one; the others may be wrong."""
    defined = _defined(path)
    names = list(dict.fromkeys(map(_name_of, defined)))
    if name is None:
        if len(names) > 1:
            raise _several(path, names)
        built = _built(defined)
        if len(built) > 1:
            raise _several(path, [program.name for program in built])
        return built[0]
    chosen = [each for each in defined if _name_of(each) == name]
    if not chosen:
        raise UsageError(f"{path} defines no program {name} without open parameters; it has {', '.join(names)}")
    return _built(chosen)[0]


def _several(path: Path, names: Sequence[str]) -> UsageError:
    return UsageError(f"{path} defines {len(names)} programs ({', '.join(names)}): choose one with --program NAME")


def _defined(path: Path) -> list[Program | ProgramSource]:
    """What the file defines, each object once."""
    if path.suffix != ".py":
        return [vc.parse(_text(path), filename=str(path))]
    _text(path)
    values = _executed(path).values()
    found = [
        value
        for value in values
        if isinstance(value, Program) or (isinstance(value, ProgramSource) and not value.is_open)
    ]
    if not found:
        raise UsageError(
            f"{path} defines no program at module level (a vc.Program, what Builder.build() returns, or a kernel "
            "function without open parameters)"
        )
    return list({id(value): value for value in found}.values())


def _name_of(defined: Program | ProgramSource) -> str:
    return defined.name if isinstance(defined, Program) else defined.__name__


def _built(defined: Sequence[Program | ProgramSource]) -> list[Program]:
    """The programs, of which equal ones count as one. ProgramError with what is wrong in all of them."""
    built: list[Program] = []
    errors: list[ProgramError] = []
    for each in defined:
        try:
            built.append(each if isinstance(each, Program) else each.program())
        except ProgramError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        findings = [finding for error in errors for finding in error.diagnostics]
        raise ProgramError("\n".join(map(str, errors)), findings)
    return list(dict.fromkeys(built))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        if path.read_bytes().startswith(layout.MAGIC):
            raise UsageError(f"{path} is a bundle: this command takes the programs that it was made of") from None
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}: save it as UTF-8") from None
    except OSError as error:
        file, _, name = str(path).rpartition(":")
        way = f" (to choose a program, write {file} --program {name})" if file and Path(file).is_file() else ""
        raise UsageError(f"{path}: {error.strerror}{way}") from None


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
