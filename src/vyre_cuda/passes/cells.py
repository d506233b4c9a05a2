"""Scalars that a program reads from memory: from a buffer of one element each, where an earlier kernel has put them.

A thread reads each of them once, at its beginning. Scalars of which the work or a declared size is made stay by value:
the host computes with them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vyre_cuda.ir.call.walked import walks
from vyre_cuda.ir.core.nodes import Const, Expr, Let, Load, Local, Parameter, Scalar, Stmt
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import Body, bodies, children, declared_name, expressions, operands, statements
from vyre_cuda.passes.rebuild import NESTING, unless_same, with_bodies, with_children, with_operands
from vyre_cuda.records import replace


def of_geometry(program: Program) -> set[str]:
    """The scalars that decide how many threads a launch has, whether they suffice, or what sizes its arrays have."""
    if all(p.is_buffer for p in program.parameters):
        return set()
    declared = [e for p in program.parameters if p.is_buffer for e in p.declared]
    enough = [part for walk in walks(program) for part in walk.computed()]
    return {part.name for part in expressions((*(program.work or ()), *declared, *enough)) if isinstance(part, Scalar)}


def with_cells(program: Program, names: Collection[str]) -> Program:
    """The valid program with a buffer of one element in place of each of these scalars, behind its other parameters."""
    cells = [p for p in program.parameters if not p.is_buffer and p.name in names]
    if not cells:
        return program
    one = Const(program.index, 1)
    kept = [p for p in program.parameters if p not in cells]
    buffers = [Parameter(p.name, "in", p.type, one, p.source) for p in cells]
    taken = {p.name for p in program.parameters}
    taken.update(array.name for array in (*program.shared, *program.arrays))
    taken.update(name for s in statements(program.body) if (name := declared_name(s)) is not None)
    read = {p.name: (_unused(f"{p.name}_cell", taken), p.type) for p in cells}
    first = Const(program.index, 0)
    loads = tuple([Let(name, Load(type_, cell, first)) for cell, (name, type_) in read.items()])
    body = _Read(read).body(program.body)
    return replace(program, parameters=(*kept, *buffers), body=(*loads, *body))


def _unused(stem: str, taken: set[str]) -> str:
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name


class _Read:
    """Statements with locals in place of scalars."""

    def __init__(self, read: Mapping[str, tuple[str, Type]]) -> None:
        self._read = read

    def body(self, body: Body) -> Body:
        return unless_same(body, tuple([self._statement(statement) for statement in body]))

    def _statement(self, statement: Stmt) -> Stmt:
        if isinstance(statement, NESTING):
            statement = with_bodies(statement, tuple([self.body(body) for _, body in bodies(statement)]))
        return with_operands(statement, tuple([self._expr(expr) for expr in operands(statement)]))

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Scalar) and expr.name in self._read:
            name, type_ = self._read[expr.name]
            return Local(type_, name, expr.source)
        parts = children(expr)
        return with_children(expr, tuple([self._expr(part) for part in parts])) if parts else expr
