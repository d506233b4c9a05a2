"""Known values in place of the scalars, sizes and extents that have them: first of all, so that everything folds.

The parameters stay, and with them the arguments of a call. The result means the same for these values alone; whoever
compiles it has each call refused that brings others.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyre_cuda.ir.call.geometry import size_key
from vyre_cuda.ir.call.known import Known, settled
from vyre_cuda.ir.core.nodes import Const, Expr, Parameter, Scalar, Size, Stmt, elements
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import Body, bodies, children, operands
from vyre_cuda.passes.rebuild import NESTING, unless_same, with_bodies, with_children, with_operands
from vyre_cuda.records import replace


def specialized(program: Program, known: tuple[Known, ...]) -> Program:
    """The valid program for these values alone; the program itself if there are none."""
    if not known:
        return program
    sizes, scalars = settled(program, known)
    values = _Values(sizes, scalars)
    parameters = tuple([_sized(program, p, sizes) if p.is_buffer else p for p in program.parameters])
    return replace(program, parameters=parameters, body=values.body(program.body))


def _sized(program: Program, parameter: Parameter, sizes: Mapping[str | tuple[str, int], int]) -> Parameter:
    """The buffer, with what is known of it as its declaration."""

    def known(key: str | tuple[str, int], declared: Expr | None) -> Expr | None:
        return declared if key not in sizes else Const(program.index, sizes[key])

    if not parameter.shape:
        return replace(parameter, size=known(parameter.name, parameter.size))
    shape = tuple([known((parameter.name, axis), extent) for axis, extent in enumerate(parameter.shape)])
    return (
        parameter
        if parameter.kind == "out" and None in shape
        else replace(parameter, shape=shape, size=elements(shape))
    )


class _Values:
    def __init__(self, sizes: Mapping[str | tuple[str, int], int], scalars: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._scalars = scalars

    def body(self, body: Body) -> Body:
        return unless_same(body, tuple([self._statement(statement) for statement in body]))

    def _statement(self, statement: Stmt) -> Stmt:
        if isinstance(statement, NESTING):
            statement = with_bodies(statement, tuple([self.body(body) for _, body in bodies(statement)]))
        return with_operands(statement, tuple([self._expr(expr) for expr in operands(statement)]))

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Scalar) and expr.name in self._scalars:
            return Const(expr.type, self._scalars[expr.name], expr.source)
        if isinstance(expr, Size) and size_key(expr) in self._sizes:
            return Const(expr.type, self._sizes[size_key(expr)], expr.source)
        parts = children(expr)
        return with_children(expr, tuple([self._expr(part) for part in parts])) if parts else expr
