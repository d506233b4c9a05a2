"""Expressions of program text to nodes.

Errors in names and types are left to `validate`, which sees the whole program: a node whose type cannot be
known gets a likely one.
"""

from __future__ import annotations

import difflib

from vyre_cuda.errors import counted
from vyre_cuda.ir.core.limits import MAX_AXES, MAX_DEPTH, MAX_EXPRESSIONS
from vyre_cuda.ir.core.nodes import AXES, ID_KINDS, Apply, Const, Expr, Id, Load, Local, Position, Scalar, Size, Source
from vyre_cuda.ir.core.ops import OPS, Op, result_type
from vyre_cuda.ir.core.types import BY_NAME, Type, bool_, u32
from vyre_cuda.ir.read.lexer import Fault, Scanner
from vyre_cuda.records import Record, field


class Stop(Exception):
    """A limit is exceeded: its line is reported, and no further line is read."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Names(Record):
    """The types of what has been declared so far, the program's index type and the line being read."""

    source: Source
    index: Type = u32
    buffers: dict[str, Type] = field(default_factory=dict)
    scalars: dict[str, Type] = field(default_factory=dict)
    locals: dict[str, Type] = field(default_factory=dict)
    expressions: int = 0


def read_expr(scan: Scanner, names: Names, depth: int = 1) -> Expr:
    """Read one expression. Raises Fault where the text stops being one."""
    if depth > MAX_DEPTH:
        raise Fault(f"the expression is more than {MAX_DEPTH} levels deep; bind parts of it with a `let`", scan.column)
    names.expressions += 1
    if names.expressions > MAX_EXPRESSIONS:
        raise Stop(f"the text has more than {MAX_EXPRESSIONS} expressions")
    column = scan.column
    name = scan.name("an expression")
    match scan.word:
        case "(" if name == "size":
            scan.take()
            buffer = scan.name("the name of a buffer")
            number = scan.integer("the number of an axis") if scan.accept(",") else None
            scan.expect(")")
            return Size(names.index, buffer, names.source, number)
        case "(" if name == "load":
            return _load(scan, names, depth)
        case "(":
            return _apply(_op(name, column), None, scan, names, depth)
        case "[":
            raise Fault(f"write load({name}[...]) to read an element", column)
        case ":":
            if name not in BY_NAME:
                raise Fault(f"{name} is not a type; a literal is written as `u32:7`", column)
            return Const(BY_NAME[name], scan.literal(BY_NAME[name]), names.source)
        case ".":
            scan.take()
            if name == "lane_id":
                raise Fault("lane_id has no axes; write lane_id", column)
            if name in ID_KINDS:
                return Id(names.index, name, _axis(scan), names.source)
            op = _op(name, column)
            target = scan.type()
            if op.result != "explicit":
                raise Fault(f"{name} takes no type; write {name}(...)", column)
            return _apply(op, target, scan, names, depth)
        case _ if name == "lane_id":
            return Id(names.index, "lane_id", 0, names.source)
        case _:
            if name in names.scalars:
                return Scalar(names.scalars[name], name, names.source)
            return Local(names.locals.get(name, u32), name, names.source)


def read_list(scan: Scanner, names: Names, most: int) -> tuple[Expr, ...]:
    """Read up to `most` expressions separated by commas."""
    out = [read_expr(scan, names)]
    while len(out) < most and scan.accept(","):
        out.append(read_expr(scan, names))
    return tuple(out)


def read_element(scan: Scanner, names: Names, depth: int = 0) -> tuple[str, Expr]:
    """Read the name of a buffer and its index in brackets, one for each axis."""
    buffer = scan.name("the name of a buffer")
    scan.expect("[")
    index = read_expr(scan, names, depth + 1)
    if scan.word == ",":
        indices = [index]
        while len(indices) < MAX_AXES and scan.accept(","):
            indices.append(read_expr(scan, names, depth + 2))
        index = Position(names.index, tuple(indices), names.source)
    scan.expect("]")
    return buffer, index


def _load(scan: Scanner, names: Names, depth: int) -> Load:
    scan.expect("(")
    buffer, index = read_element(scan, names, depth)
    scan.expect(")")
    return Load(names.buffers.get(buffer, u32), buffer, index, names.source)


def _op(name: str, column: int) -> Op:
    op = OPS.get(name)
    if op is None:
        close = difflib.get_close_matches(name[:40], OPS, n=1)
        raise Fault(f"there is no op {name[:40]}" + (f"; did you mean {close[0]}?" if close else ""), column)
    return op


def _axis(scan: Scanner) -> int:
    if scan.word not in AXES:
        raise scan.fault("an axis (x, y or z)")
    return AXES.index(scan.take())


def _apply(op: Op, target: Type | None, scan: Scanner, names: Names, depth: int) -> Expr:
    if op.result == "explicit" and target is None:
        raise Fault(f"{op.name} needs its target type, as in {op.name}.f32(x)", scan.column)
    scan.expect("(")
    operands: list[Expr] = []
    while not scan.accept(")"):
        if len(operands) == op.arity:
            raise scan.fault(f"`)` after {counted(op.arity, 'operand')}")
        if operands:
            scan.expect(",")
        operands.append(read_expr(scan, names, depth + 1))
    return Apply(_type_of(op, operands, target), op.name, tuple(operands), names.source)


def _type_of(op: Op, operands: list[Expr], target: Type | None) -> Type:
    try:
        return result_type(op, tuple(operand.type for operand in operands), target)
    except TypeError:
        if op.result == "bool":
            return bool_
        return target or (operands[-1].type if operands else u32)
