"""Programs as text, and diagnostics placed inside that text.

`parse` is the exact inverse of `format_program` on valid programs, and equal programs give equal text. A program that
is not valid is printed as well as its nodes allow, because its diagnostics are shown there.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda.errors import Diagnostic, counted
from vyre_cuda.ir.core.nodes import (
    AXES,
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
    LocalArray,
    OwnArray,
    Parameter,
    Position,
    Print,
    Return,
    Scalar,
    SharedArray,
    Size,
    Source,
    Stmt,
    Store,
    Table,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.walk import Path, assert_never
from vyre_cuda.ir.text.literals import format_literal, format_string

if TYPE_CHECKING:
    from vyre_cuda.ir.core.program import Program

MAX_SHOWN = 100
WHOLE_PROGRAM_LINES = 60
CONTEXT_LINES = 3
SHOWN_COLUMNS = 120  # of a line, behind the last operand that a message is about
# What follows the declaration of an out whose contents are unspecified where no thread writes.
UNZEROED = "unzeroed"
# What follows the threads of a block, before the blocks that a multiprocessor should hold.
MIN_BLOCKS = "min_blocks"
_INDENT = "  "
_MARGIN = "    "

Pieces: TypeAlias = "Sequence[str | Expr]"
# One printed line: where it belongs, its indentation and its contents.
Line: TypeAlias = "tuple[Path, int, Pieces]"


def format_program(program: Program) -> str:
    """The program as text, ending in a newline."""
    return "".join(f"{_INDENT * depth}{_join(pieces)}\n" for _, depth, pieces in _lines(program))


def format_statement(statement: Stmt, *, depth: int = 0) -> str:
    """One statement with its nested bodies, without a final newline."""
    lines = _statement_lines((statement,), (), depth)
    return "\n".join(f"{_INDENT * at}{_join(pieces)}" for _, at, pieces in lines)


def format_expr(expr: Expr) -> str:
    """One expression."""
    return _join((expr,))


def render_diagnostics(program: Program, diagnostics: Sequence[Diagnostic]) -> str:
    """The program's text with every message under the line that it is about, and a caret under the operand.

    Where the Python or text line that built the node is known, it follows. Of a long program only the surroundings
    of messages are shown, a long line, such as that of a table, is cut behind them, and after MAX_SHOWN messages the
    rest is only counted.
    """
    count = len(diagnostics)
    lines = list(_lines(program))
    placed = _place(lines, diagnostics[:MAX_SHOWN])
    whole = len(lines) <= WHOLE_PROGRAM_LINES
    near = {at + step for at in placed for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
    out = [f"{counted(count, 'error')} in program {program.name}"]
    for number, (_, depth, pieces) in enumerate(lines):
        if whole or number in near:
            here = placed.get(number, ())
            end = max((_caret(diagnostic, pieces) for diagnostic in here), default=0) + SHOWN_COLUMNS
            line = _join(pieces)
            out.append(_MARGIN + _INDENT * depth + (line if len(line) <= end else f"{line[:end]}..."))
            for diagnostic in here:
                out.extend(_marked(diagnostic, len(_MARGIN + _INDENT * depth), pieces))
        elif out[-1] != _MARGIN + "...":
            out.append(_MARGIN + "...")
    out.extend(_MARGIN + diagnostic.message for diagnostic in placed.get(-1, ()))
    if count > MAX_SHOWN:
        out.append(f"{_MARGIN}and {count - MAX_SHOWN} more")
    return "\n".join(line.rstrip() for line in out)


def format_source(source: Source | None) -> str:
    """`file:line`, empty if it is not known. A node made by hand may hold anything there."""
    known: Any = source
    if isinstance(known, tuple) and len(known) == 2 and isinstance(known[0], str) and isinstance(known[1], int):
        return f"{known[0]}:{known[1]}"
    return ""


def format_source_line(source: Source | None) -> str:
    """`file:line: code`, as much of it as is known."""
    place = format_source(source)
    if source is None or not place:
        return ""
    try:
        linecache.checkcache(source[0])
        code = linecache.getline(*source).strip()
    except ValueError:  # not a possible file name
        code = ""
    return f"{place}: {code}" if code else place


def _place(lines: list[Line], diagnostics: Sequence[Diagnostic]) -> dict[int, list[Diagnostic]]:
    """Diagnostics by the number of the line that they go under; -1 for those whose path leads nowhere."""
    candidates: dict[Path, list[int]] = {diagnostic.path: [] for diagnostic in diagnostics}
    for number, (path, _, _) in enumerate(lines):
        if path in candidates:
            candidates[path].append(number)
    placed: dict[int, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        numbers = candidates[diagnostic.path]
        # The condition of a while is not on its first line.
        fitting = (n for n in numbers if diagnostic.operand is None or _column(lines[n][2], diagnostic.operand) >= 0)
        placed.setdefault(next(fitting, numbers[0] if numbers else -1), []).append(diagnostic)
    return placed


def _caret(diagnostic: Diagnostic, pieces: Pieces) -> int:
    """The column of the line that the message points at."""
    return 0 if diagnostic.operand is None else max(_column(pieces, diagnostic.operand), 0)


def _marked(diagnostic: Diagnostic, margin: int, pieces: Pieces) -> Iterator[str]:
    lead = " " * (margin + _caret(diagnostic, pieces))
    yield f"{lead}^ {diagnostic.message}"
    source_line = format_source_line(diagnostic.source)
    if source_line:
        yield f"{lead}  {source_line}"


def _column(pieces: Pieces, operand: int) -> int:
    """Where the operand-th expression of a line begins, counted as `walk.expressions` does; -1 if there is none."""
    column = 0
    stack = list(reversed(pieces))
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            column += len(piece)
        elif operand == 0:
            return column
        else:
            operand -= 1
            stack.extend(reversed(_pieces(piece)))
    return -1


def _lines(program: Program) -> Iterator[Line]:
    yield ("name",), 0, (f"program {program.name}",)
    block: tuple[int, ...] = program.block
    while len(block) > 1 and block[-1] == 1:
        block = block[:-1]
    least = f" {MIN_BLOCKS} {program.min_blocks}" if program.min_blocks else ""
    yield ("block",), 0, ("block " + " ".join(str(extent) for extent in block) + least,)
    yield ("index",), 0, (f"index {program.index}",)
    if program.work is not None:
        yield ("work",), 0, ("work ", *_separated(program.work))
    for number, parameter in enumerate(program.parameters):
        yield ("parameters", number), 0, _parameter(parameter)
    for number, shared in enumerate(program.shared):
        yield ("shared", number), 0, _shared(shared)
    for number, array in enumerate(program.arrays):
        yield ("arrays", number), 0, _own_array(array)
    if program.body:
        yield (), 0, ("",)
        yield from _statement_lines(program.body, (), 0)


def _parameter(parameter: Parameter) -> Pieces:
    declared = f"{parameter.kind} {parameter.name}: {parameter.type}"
    end = "" if parameter.zeroed else f" {UNZEROED}"
    if not parameter.shape:
        return (declared + end,) if parameter.size is None else (f"{declared}[", parameter.size, f"]{end}")
    extents = _separated([":" if extent is None else extent for extent in parameter.shape])
    return (f"{declared}[", *extents, f"]{end}")


def _shared(shared: SharedArray) -> Pieces:
    return (f"shared {shared.name}: {shared.type}[{_extents(shared)}]",)


def _extents(array: SharedArray | LocalArray | Table) -> str:
    return ", ".join(str(extent) for extent in array.shape or (array.size,))


def _own_array(array: OwnArray) -> Pieces:
    match array:
        case LocalArray():
            return (f"local {array.name}: {array.type}[{_extents(array)}]",)
        case Table():
            elements = ", ".join(format_literal(array.type, bits) for bits in array.patterns)
            shape = f"[{_extents(array)}]" if array.shape else ""
            return (f"table {array.name}: {array.type}{shape} = {elements}",)
        case _:
            assert_never(array)


def _statement_lines(body: tuple[Stmt, ...], prefix: Path, depth: int) -> Iterator[Line]:
    """Lines of a body; every line of a statement carries its path."""
    stack: list[tuple[Path, int, Pieces | Stmt]] = list(_entries(body, prefix, depth))
    stack.reverse()
    while stack:
        path, depth, entry = stack.pop()
        if isinstance(entry, Sequence):
            yield path, depth, entry
            continue
        yield path, depth, _head(entry)
        if isinstance(entry, (If, For, While)):
            stack.extend(reversed(_inside(entry, path, depth)))


def _entries(body: tuple[Stmt, ...], prefix: Path, depth: int) -> Iterator[tuple[Path, int, Pieces | Stmt]]:
    return (((*prefix, number), depth, statement) for number, statement in enumerate(body))


def _inside(statement: If | For | While, path: Path, depth: int) -> list[tuple[Path, int, Pieces | Stmt]]:
    """The lines after the first of a statement with bodies."""
    out: list[tuple[Path, int, Pieces | Stmt]] = []
    match statement:
        case If():
            out.extend(_entries(statement.then, (*path, "then"), depth + 1))
            if statement.orelse:
                out.append((path, depth, ("else",)))
                out.extend(_entries(statement.orelse, (*path, "orelse"), depth + 1))
        case For():
            out.extend(_entries(statement.body, (*path, "body"), depth + 1))
        case While():
            out.extend(_entries(statement.setup, (*path, "setup"), depth + 1))
            out.append((path, depth, ("test ", statement.condition)))
            out.extend(_entries(statement.body, (*path, "body"), depth + 1))
        case _:
            assert_never(statement)
    out.append((path, depth, ("end",)))
    return out


def _head(statement: Stmt) -> Pieces:
    match statement:
        case Let():
            return (f"let {statement.name} = ", statement.value)
        case Var():
            return (f"var {statement.name} = ", statement.value)
        case Assign():
            return (f"{statement.name} = ", statement.value)
        case Store():
            return (f"store {statement.buffer}[", statement.index, "], ", statement.value)
        case Atomic():
            start = "" if statement.result is None else f"let {statement.result} = "
            operands = [piece for operand in statement.operands for piece in (", ", operand)]
            end = f" order {statement.order} scope {statement.scope}"
            return (f"{start}atomic {statement.op} {statement.buffer}[", statement.index, "]", *operands, end)
        case Warp():
            combine = f" combine {statement.combine}" if statement.combine else ""
            return (f"let {statement.result} = warp {statement.op} ", *_separated(statement.operands), combine)
        case If():
            return ("if ", statement.condition)
        case For():
            return (f"for {statement.name} = ", statement.start, " to ", statement.stop, " step ", statement.step)
        case While():
            return ("while",)
        case Break():
            return ("break",)
        case Continue():
            return ("continue",)
        case Return():
            return ("return",)
        case Barrier():
            return ("barrier",)
        case GridBarrier():
            return ("grid_barrier",)
        case Assert():
            return ("assert ", statement.condition, f", {format_string(statement.message)}")
        case Print():
            values = [piece for value in statement.values for piece in (", ", value)]
            return (f"print {format_string(statement.format)}", *values)
        case _:
            assert_never(statement)


def _pieces(expr: Expr) -> Pieces:
    match expr:
        case Const():
            return (f"{expr.type}:{format_literal(expr.type, expr.bits)}",)
        case Local() | Scalar():
            return (expr.name,)
        case Size():
            return (f"size({expr.buffer})" if expr.axis is None else f"size({expr.buffer}, {expr.axis})",)
        case Id():
            return (expr.kind if expr.kind == "lane_id" else f"{expr.kind}.{AXES[expr.axis]}",)
        case Load():
            return (f"load({expr.buffer}[", expr.index, "])")
        case Position():
            return _separated(expr.indices)
        case Apply():
            target = f".{expr.type}" if OPS[expr.op].result == "explicit" else ""
            return (f"{expr.op}{target}(", *_separated(expr.operands), ")")
        case _:
            assert_never(expr)


def _separated(operands: Pieces) -> list[str | Expr]:
    out: list[str | Expr] = []
    for operand in operands:
        if out:
            out.append(", ")
        out.append(operand)
    return out


def _join(pieces: Pieces) -> str:
    out: list[str] = []
    stack = list(reversed(pieces))
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
        else:
            stack.extend(reversed(_pieces(piece)))
    return "".join(out)
