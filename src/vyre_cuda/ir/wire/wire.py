"""Programs as bytes: canonical, versioned, and safe to decode from untrusted sources.

A valid program has one encoding, and every accepted byte string is the encoding of what it decodes to.

Layout: MAGIC, the version, then the sections header, parameters, sizes, shared, work, body. Numbers are unsigned LEB128
varints, constants little-endian in the width of their type. Strings are numbered in order of first use; the first use
has the length and UTF-8, later ones only the number. Types are not written where declarations determine them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from vyre_cuda.errors import type_name
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.nodes import (
    AXES,
    ID_KINDS,
    ORDERS,
    PARAMETER_KINDS,
    SCOPES,
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
    OwnArray,
    Parameter,
    Position,
    Print,
    Return,
    Scalar,
    Size,
    Stmt,
    Store,
    Table,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import ATOMICS, OPS, WARP_OPS
from vyre_cuda.ir.core.walk import assert_never
from vyre_cuda.ir.wire.wire_tags import (
    ARRAYS,
    FIRST_VERSION,
    MAGIC,
    MIN_BLOCKS,
    PRINT,
    SHAPED_ARRAYS,
    UNZEROED,
    UNZEROED_OUT,
    WITH_MIN_BLOCKS,
    ExprTag,
    StatementTag,
    first_version,
)
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.core.program import Program
    from vyre_cuda.ir.wire import wire_read
else:
    wire_read = later("vyre_cuda.ir.wire.wire_read")

P = TypeVar("P", bound="Program")


def encode(program: Program) -> bytes:
    """The wire bytes of a program. Raises ProgramError if it is not valid."""
    check(program)
    writer = _Writer()
    writer.program(program)
    return writer.finished()


def decode(data: bytes, make: Callable[..., P]) -> P:
    """The program of these bytes; `make` is the class Program. Raises ProgramError."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"wire bytes are bytes, not {type_name(data)}")
    return wire_read.Reader(bytes(data)).program(make)


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray()
        self.names: dict[str, int] = {}
        self.version = FIRST_VERSION

    def finished(self) -> bytes:
        return MAGIC + bytes([self.version]) + self.out

    def needs(self, version: int) -> None:
        """What is written now exists from this version on."""
        self.version = max(self.version, version)

    def name(self, name: str) -> None:
        number = self.names.get(name)
        if number is not None:
            self.numbers(number)
            return
        raw = name.encode()
        self.numbers(len(self.names), len(raw))
        self.out += raw
        self.names[name] = len(self.names)

    def numbers(self, *values: int) -> None:
        for value in values:
            while value > 0x7F:
                self.out.append(value & 0x7F | 0x80)
                value >>= 7
            self.out.append(value)

    def program(self, program: Program) -> None:
        self.name(program.name)
        if program.index.kind == "signed":
            self.needs(2)
        if program.min_blocks:
            self.needs(MIN_BLOCKS)
            self.numbers(program.index.code + WITH_MIN_BLOCKS, program.min_blocks)
        else:
            self.numbers(program.index.code)
        self.numbers(*program.block, len(program.parameters))
        for parameter in program.parameters:
            self.name(parameter.name)
            kind = PARAMETER_KINDS.index(parameter.kind)
            if not parameter.zeroed:
                self.needs(UNZEROED)
                kind = UNZEROED_OUT
            self.numbers(kind, parameter.type.code)
            self.axes(parameter)
        for parameter in program.parameters:
            self.exprs(parameter.declared)
        self.numbers(len(program.shared))
        for shared in program.shared:
            self.name(shared.name)
            self.numbers(shared.type.code)
            if shared.shape:
                self.needs(3)
                self.numbers(0, shared.ndim)
            self.numbers(*(shared.shape or (shared.size,)))
        if program.arrays:
            self.needs(ARRAYS)
            self.arrays(program.arrays)
        arrays_at = len(self.out)
        work = program.work or ()
        self.numbers(len(work))
        self.exprs(work)
        self.body(program.body)
        if self.version >= ARRAYS and not program.arrays:  # the section is there, and empty
            self.out.insert(arrays_at, 0)

    def axes(self, parameter: Parameter) -> None:
        """0 without a size, 1 with one; with several axes their number, and a bit for each extent that is given."""
        if parameter.shape or (parameter.size is not None and parameter.kind != "out"):
            self.needs(3)
        if not parameter.shape:
            self.numbers(int(parameter.size is not None))
            return
        given = sum(1 << axis for axis, extent in enumerate(parameter.shape) if extent is not None)
        self.numbers(parameter.ndim, given)

    def arrays(self, arrays: tuple[OwnArray, ...]) -> None:
        """With the size 0, which no local array has, the elements of a table follow.

        With several axes, 0 elements, which no table has, then whether it is a table, and the extents.
        """
        self.numbers(len(arrays))
        for array in arrays:
            self.name(array.name)
            self.numbers(array.type.code)
            is_table = isinstance(array, Table)
            if array.shape:
                self.needs(SHAPED_ARRAYS)
                self.numbers(0, 0, is_table, array.ndim, *array.shape)
            else:
                self.numbers(*((0, array.size) if is_table else (array.size,)))
            if isinstance(array, Table):
                self.out += array.data

    def exprs(self, exprs: Iterable[Expr]) -> None:
        for expr in exprs:
            self.expr(expr)

    def expr(self, expr: Expr) -> None:
        match expr:
            case Const():
                self.numbers(ExprTag.CONST, expr.type.code)
                self.out += expr.bits.to_bytes(expr.type.itemsize, "little")
            case Local() | Scalar():
                self.numbers(ExprTag.NAME)
                self.name(expr.name)
            case Size() if expr.axis is not None:
                self.numbers(ExprTag.EXTENT)
                self.name(expr.buffer)
                self.numbers(expr.axis)
            case Size():
                self.numbers(ExprTag.SIZE)
                self.name(expr.buffer)
            case Position():
                self.numbers(ExprTag.POSITION, len(expr.indices))
                self.exprs(expr.indices)
            case Id():
                self.numbers(ExprTag.ID, ID_KINDS.index(expr.kind) * len(AXES) + expr.axis)
            case Load():
                self.numbers(ExprTag.LOAD)
                self.name(expr.buffer)
                self.expr(expr.index)
            case Apply():
                op = OPS[expr.op]
                self.needs(first_version(op, expr.operands[-1].type))
                self.numbers(ExprTag.APPLY, op.code)
                if op.result == "explicit":
                    self.numbers(expr.type.code)
                self.exprs(expr.operands)
            case _:
                assert_never(expr)

    def body(self, body: tuple[Stmt, ...]) -> None:
        self.numbers(len(body))
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        match statement:
            case Let():
                self.named(StatementTag.LET, statement.name, statement.value)
            case Var():
                self.named(StatementTag.VAR, statement.name, statement.value)
            case Assign():
                self.named(StatementTag.ASSIGN, statement.name, statement.value)
            case Store():
                self.numbers(StatementTag.STORE)
                self.name(statement.buffer)
                self.exprs((statement.index, statement.value))
            case Atomic():
                self.atomic(statement)
            case Warp():
                self.warp(statement)
            case If():
                self.numbers(StatementTag.IF)
                self.expr(statement.condition)
                self.body(statement.then)
                self.body(statement.orelse)
            case For():
                self.numbers(StatementTag.FOR)
                self.name(statement.name)
                self.exprs((statement.start, statement.stop, statement.step))
                self.body(statement.body)
            case While():
                self.numbers(StatementTag.WHILE)
                self.body(statement.setup)
                self.expr(statement.condition)
                self.body(statement.body)
            case Break():
                self.numbers(StatementTag.BREAK)
            case Continue():
                self.numbers(StatementTag.CONTINUE)
            case Return():
                self.numbers(StatementTag.RETURN)
            case Barrier():
                self.numbers(StatementTag.BARRIER)
            case GridBarrier():
                self.numbers(StatementTag.GRID_BARRIER)
            case Assert():
                self.numbers(StatementTag.ASSERT)
                self.expr(statement.condition)
                self.name(statement.message)
            case Print():
                self.needs(PRINT)
                self.numbers(StatementTag.PRINT)
                self.name(statement.format)
                self.numbers(len(statement.values))
                self.exprs(statement.values)
            case _:
                assert_never(statement)

    def named(self, tag: int, name: str, value: Expr) -> None:
        self.numbers(tag)
        self.name(name)
        self.expr(value)

    def atomic(self, statement: Atomic) -> None:
        self.numbers(StatementTag.ATOMIC, ATOMICS[statement.op].code, int(statement.result is not None))
        if statement.result is not None:
            self.name(statement.result)
        self.name(statement.buffer)
        self.exprs((statement.index, *statement.operands))
        self.numbers(ORDERS.index(statement.order), SCOPES.index(statement.scope))

    def warp(self, statement: Warp) -> None:
        self.numbers(StatementTag.WARP, WARP_OPS[statement.op].code)
        self.name(statement.result)
        self.exprs(statement.operands)
        if statement.combine:
            self.numbers(OPS[statement.combine].code)
