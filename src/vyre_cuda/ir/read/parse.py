"""Program text to `Program`, the inverse of `text.format_program`.

All errors of a text are reported at once, each with its line and a caret; a text whose lines can all be read is then
validated. Every node gets the file and line that it came from. Hostile text raises a ProgramError: work and memory
are linear in its length, and recursion is bounded by the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

from vyre_cuda.errors import Diagnostic, ProgramError, counted, type_name
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.limits import MAX_AXES, MAX_PARAMETERS
from vyre_cuda.ir.core.nodes import (
    AXES,
    Expr,
    LocalArray,
    OwnArray,
    Parameter,
    ParameterKind,
    SharedArray,
    Source,
    Table,
    elements,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.read.lexer import Fault, Scanner, lines
from vyre_cuda.ir.read.parse_body import BodyReader
from vyre_cuda.ir.read.parse_expr import Names, Stop, read_expr, read_list
from vyre_cuda.ir.text.text import MIN_BLOCKS, UNZEROED
from vyre_cuda.records import replace

_MAX_ERRORS = 100
_SHOWN_COLUMNS = 120
_HEADER = frozenset({"program", "block", "index", "work", "in", "inout", "out", "scalar", "shared", "local", "table"})
_DEFAULT_BLOCK = (256,)

T = TypeVar("T")


def parse(text: str, *, filename: str = "<text>") -> Program:
    """The program that a text describes.

    Parameters
    ----------
    text
        A program as text, as `Program.text` writes it.
    filename
        What errors call the text.

    Returns
    -------
    Program
        The program.

    Raises
    ------
    ProgramError
        It is not a program, with every diagnostic.
    """
    if not isinstance(text, str):
        raise TypeError(f"parse takes a str, not {type_name(text)}")
    return _Parser(filename).read(text)


class _Parser:
    """Reads header lines up to the first statement, hands the rest to a BodyReader and collects the errors."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.errors: list[tuple[Diagnostic, str]] = []
        self.names = Names(source=(filename, 1))
        self.body = BodyReader(self.names)
        self.in_header = True
        self.name: str | None = None
        self.source: Source = (filename, 1)
        self.block: tuple[int, ...] | None = None
        self.min_blocks = 0
        self.index: Type | None = None
        self.work: tuple[Expr, ...] | None = None
        self.work_line: tuple[Scanner, Source] | None = None
        self.parameters: list[Parameter] = []
        self.size_lines: dict[int, tuple[Scanner, Source]] = {}
        self.shared: list[SharedArray] = []
        self.arrays: list[OwnArray] = []

    # ---- the whole text ----

    def read(self, text: str) -> Program:
        stopped = self._read_lines(text)
        if not stopped:
            for frame in self.body.open:
                self.names.source = frame.source
                self._error(f"`{frame.keyword}` is not closed by `end`", frame.line, 0)
        if self.errors:
            self.errors.sort(key=lambda error: _line_of(error[0]))
            raise ProgramError(self._render(stopped), [diagnostic for diagnostic, _ in self.errors])
        program = Program(
            name=self.name or "",
            parameters=tuple(self.parameters),
            body=tuple(self.body.body),
            block=cast("tuple[int, int, int]", (*(self.block or _DEFAULT_BLOCK), 1, 1)[:3]),
            index=self.names.index,
            work=self.work,
            shared=tuple(self.shared),
            source=self.source,
            arrays=tuple(self.arrays),
            min_blocks=self.min_blocks,
        )
        check(program)
        return program

    def _read_lines(self, text: str) -> bool:
        """Read every line; True if a limit stopped it."""
        line = ""
        try:
            for number, line in lines(text):
                self.names.source = (self.filename, number)
                try:
                    self._read_line(line)
                except Fault as fault:
                    self._error(fault.message, line, fault.column)
                    if len(self.errors) >= _MAX_ERRORS:
                        return True
            if self.in_header:
                self._end_header()
        except Stop as stop:
            self._error(stop.message, line, 0)
            return True
        return False

    def _read_line(self, line: str) -> None:
        scan = Scanner(line)
        if not scan.word:
            return
        if not scan.at_name():
            raise scan.fault("a statement")
        if self.in_header and scan.word in _HEADER and scan.following() != "=":
            self._header_line(scan)
            return
        if self.in_header:
            self._end_header()
        self.body.read(scan)

    def _error(self, message: str, line: str, column: int) -> None:
        self.body.broken = True
        start = max(0, column - _SHOWN_COLUMNS // 2)
        shown = line[start : start + _SHOWN_COLUMNS].replace("\t", " ").rstrip()
        caret = " " * (column - start)
        self.errors.append((Diagnostic(message, source=self.names.source), f"    {shown}\n    {caret}^ {message}"))

    def _render(self, stopped: bool) -> str:
        count = len(self.errors)
        out = [f"{counted(count, 'error')} in {self.filename}"]
        out.extend(f"  {self.filename}:{_line_of(diagnostic)}\n{shown}" for diagnostic, shown in self.errors)
        if stopped:
            out.append("  the rest of the text was not read")
        return "\n".join(out)

    # ---- header ----

    def _header_line(self, scan: Scanner) -> None:
        column, word = scan.column, scan.take()
        if self.name is None and word != "program":
            self.name = ""
            self._error("the text must begin with `program NAME`", scan.line, 0)
        given = {"program": self.name, "block": self.block, "index": self.index, "work": self.work_line}
        if given.get(word) is not None:
            raise Fault(f"`{word}` is given twice", column)
        match word:
            case "program":
                self.name = scan.name("the name of the program")
                self.source = self.names.source
            case "block":
                self._read_block(scan)
            case "index":
                self.index = self.names.index = scan.type()
            case "work":
                self.work_line = (scan, self.names.source)
                return
            case "shared":
                name, type_, shape = self._read_sized(scan, "a shared array", MAX_AXES)
                self.shared.append(SharedArray(name, type_, math.prod(shape), self.names.source, _several(shape)))
            case "local":
                name, type_, shape = self._read_sized(scan, "a local array", MAX_AXES)
                self.arrays.append(LocalArray(name, type_, math.prod(shape), self.names.source, _several(shape)))
            case "table":
                self.arrays.append(self._read_table(scan))
            case _:
                self._read_parameter(cast(ParameterKind, word), scan)
                return
        scan.end()

    def _read_block(self, scan: Scanner) -> None:
        extents = [scan.integer("a number of threads")]
        while scan.word and scan.word != MIN_BLOCKS and len(extents) < 3:
            extents.append(scan.integer("a number of threads"))
        if scan.accept(MIN_BLOCKS):
            self.min_blocks = scan.integer("a number of blocks")
        self.block = tuple(extents)

    def _read_sized(self, scan: Scanner, what: str, most: int) -> tuple[str, Type, tuple[int, ...]]:
        name = scan.name(f"the name of {what}")
        scan.expect(":")
        type_ = scan.type()
        scan.expect("[")
        shape = self._read_extents(scan, most)
        self.names.buffers.setdefault(name, type_)
        return name, type_, shape

    def _read_extents(self, scan: Scanner, most: int) -> tuple[int, ...]:
        """The numbers behind a bracket, up to the closing one."""
        shape = [scan.integer("a number of elements")]
        while len(shape) < most and scan.accept(","):
            shape.append(scan.integer("a number of elements"))
        scan.expect("]")
        return tuple(shape)

    def _read_table(self, scan: Scanner) -> Table:
        name = scan.name("the name of a table")
        scan.expect(":")
        type_ = scan.type()
        shape = self._read_extents(scan, MAX_AXES) if scan.accept("[") else ()
        scan.expect("=")
        values = [scan.element(type_)]
        while scan.accept(","):
            values.append(scan.element(type_))
        self.names.buffers.setdefault(name, type_)
        data = b"".join(bits.to_bytes(type_.itemsize, "little") for bits in values)
        return Table(name, type_, data, self.names.source, _several(shape))

    def _read_parameter(self, kind: ParameterKind, scan: Scanner) -> None:
        if len(self.parameters) == MAX_PARAMETERS:
            raise Stop(f"a program has at most {MAX_PARAMETERS} parameters")
        name = scan.name("the name of a parameter")
        scan.expect(":")
        type_ = scan.type()
        (self.names.scalars if kind == "scalar" else self.names.buffers).setdefault(name, type_)
        zeroed = True
        if scan.accept("["):
            self.size_lines[len(self.parameters)] = (scan, self.names.source)
        else:
            zeroed = not scan.accept(UNZEROED)
            scan.end()
        self.parameters.append(Parameter(name, kind, type_, source=self.names.source, zeroed=zeroed))

    def _end_header(self) -> None:
        """Read the sizes and the work, which may use parameters declared below them."""
        self.in_header = False
        here = self.names.source
        if self.name is None:
            self._error("the text must begin with `program NAME`", "", 0)
        for number, (scan, source) in self.size_lines.items():
            found = self._header_list(scan, source, self._sized)
            if found is not None:
                shape, zeroed = found
                size, several = (shape[0], ()) if len(shape) == 1 else (elements(shape), shape)
                known = self.parameters[number]
                self.parameters[number] = replace(known, size=size, shape=several, zeroed=zeroed)
        if self.work_line is not None:
            self.work = self._header_list(*self.work_line, lambda scan: read_list(scan, self.names, len(AXES)))
        self.names.source = here

    def _sized(self, scan: Scanner) -> tuple[tuple[Expr | None, ...], bool]:
        """The extents of a buffer, and whether it is zeroed."""
        shape = self._extents(scan)
        return shape, not scan.accept(UNZEROED)

    def _extents(self, scan: Scanner) -> tuple[Expr | None, ...]:
        """A size, or an extent or `:` for each of several axes."""
        shape: list[Expr | None] = []
        while not shape or (len(shape) < MAX_AXES and scan.accept(",")):
            several = bool(shape) or scan.following() == ","
            shape.append(None if several and scan.accept(":") else read_expr(scan, self.names))
        scan.expect("]")
        return tuple(shape)

    def _header_list(self, scan: Scanner, source: Source, read: Callable[[Scanner], T]) -> T | None:
        self.names.source = source
        try:
            found = read(scan)
            scan.end()
        except Fault as fault:
            self._error(fault.message, scan.line, fault.column)
            return None
        return found


def _several(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as nodes have it: () for one axis."""
    return shape if len(shape) > 1 else ()


def _line_of(diagnostic: Diagnostic) -> int:
    return diagnostic.source[1] if diagnostic.source else 0
