"""Constant folding: ops on constants become their result, computed by the functions that define the ops.

Constants, scalars and lets that only rename another one replace the locals that hold them; a var that is never
assigned becomes a let; ops that change nothing are removed (`identities.py`). Only expressions change; statements stay.
"""

from __future__ import annotations

from operator import is_

import numpy as np

from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Id, Let, Load, Local, Position, Scalar, Size, Stmt, Var
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, f32
from vyre_cuda.ir.core.walk import Body, assert_never, bodies, operands
from vyre_cuda.ir.semantics.elementwise import apply, constant
from vyre_cuda.passes.identities import simpler
from vyre_cuda.passes.rebuild import (
    NESTING,
    assigned,
    at,
    has_load,
    is_same,
    unless_same,
    with_bodies,
    with_body,
    with_children,
    with_operands,
)

_LEAST_NORMAL_F32 = 0x00800000
# Ops whose result has exactly the bits of an operand, even of a NaN.
_MOVES = frozenset({"bitcast", "where"})


def fold(program: Program, *, keep_checks: bool = False, precision: str = "ieee") -> Program:
    """The program with everything that is known computed.

    `keep_checks`: no load is removed. `precision` other than "ieee": nothing is computed from or to a subnormal f32.
    """
    folder = _Folder(program, keep_checks, precision == "ieee")
    with np.errstate(all="ignore"):
        return with_body(program, folder.body(program.body))


class _Folder:
    def __init__(self, program: Program, keep_checks: bool, keeps_subnormals: bool) -> None:
        self._keep_checks = keep_checks
        self._keeps_subnormals = keeps_subnormals
        self._block = program.block
        self._arrays = {array.name: array for array in (*program.shared, *program.arrays)}
        self._assigned = assigned(program.body)
        # Locals whose value is also that of a constant, a scalar or another immutable local.
        self._known: dict[str, Expr] = {}

    # ---- statements ----

    def body(self, body: Body) -> Body:
        return unless_same(body, tuple([self._statement(statement) for statement in body]))

    def _statement(self, statement: Stmt) -> Stmt:
        """Nested bodies first, because the condition of a while may name what its setup declares."""
        if isinstance(statement, NESTING):
            statement = with_bodies(statement, tuple([self.body(body) for _, body in bodies(statement)]))
        old = operands(statement)
        new = tuple([self._expr(expr) for expr in old])
        if not is_same(old, new):
            statement = with_operands(statement, new)
        if isinstance(statement, Var) and statement.name not in self._assigned:
            statement = Let(statement.name, statement.value, statement.source)
        if isinstance(statement, Let) and self._is_fixed(statement.value):
            self._known[statement.name] = statement.value
        return statement

    def _is_fixed(self, value: Expr) -> bool:
        if isinstance(value, Local):
            return value.name not in self._assigned
        return isinstance(value, (Const, Scalar))

    # ---- expressions ----

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Apply():
                return self._apply(expr)
            case Local():
                known = self._known.get(expr.name)
                return expr if known is None else at(known, expr.source)
            case Const() | Scalar():
                return expr
            case Load():
                index = self._expr(expr.index)
                return expr if index is expr.index else Load(expr.type, expr.buffer, index, expr.source)
            case Size():
                array = self._arrays.get(expr.buffer)
                if array is None:
                    return expr
                return Const(expr.type, array.size if expr.axis is None else array.shape[expr.axis], expr.source)
            case Position():
                return with_children(expr, tuple([self._expr(index) for index in expr.indices]))
            case Id():
                return self._id(expr)
            case _:
                assert_never(expr)

    def _id(self, expr: Id) -> Expr:
        if expr.kind == "block_dim":
            return Const(expr.type, self._block[expr.axis], expr.source)
        if expr.kind == "thread_id" and self._block[expr.axis] == 1:
            return Const(expr.type, 0, expr.source)
        return expr

    def _apply(self, expr: Apply) -> Expr:
        old = expr.operands
        new = tuple([self._expr(operand) for operand in old])
        if not all(map(is_, old, new)):
            expr = Apply(expr.type, expr.op, new, expr.source)
        for operand in new:
            if type(operand) is not Const:
                break
        else:
            return self._evaluate(expr, [operand for operand in new if isinstance(operand, Const)])
        if self._keep_checks and has_load(*new):
            return expr
        found = simpler(expr, keeps_subnormals=self._keeps_subnormals)
        return expr if found is None else found

    def _evaluate(self, expr: Apply, values: list[Const]) -> Expr:
        if not self._keeps_subnormals and any(_is_subnormal(value.type, value.bits) for value in values):
            return expr
        result = apply(expr.op, values[-1].type, expr.type, [constant(value.type, value.bits) for value in values])
        bits = int(result.view(expr.type.unsigned)[0])
        if expr.type.is_float and expr.op not in _MOVES:
            bits = _one_nan(expr.type, bits)
        if not self._keeps_subnormals and _is_subnormal(expr.type, bits):
            return expr
        return Const(expr.type, bits, expr.source)


def _is_subnormal(type_: Type, bits: int) -> bool:
    """Also true for the least normal number, which a flushed value may round to."""
    return type_ is f32 and 0 < bits & ~(1 << 31) <= _LEAST_NORMAL_F32


def _one_nan(type_: Type, bits: int) -> int:
    """The same bits for every NaN, because processors make different ones."""
    magnitude = bits & ((1 << (type_.bits - 1)) - 1)
    return bits_of(type_, float("nan")) if magnitude > bits_of(type_, float("inf")) else bits
