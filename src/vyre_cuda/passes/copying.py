"""The statements of a part once more, with names that nothing else in the program has.

As `Renamed`, but what a part knows is not found out again: sizes are numbers already, what has no names in it is the
same object, and what lets and conditions say is noted as the part has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
    Atomic,
    Const,
    Expr,
    For,
    Id,
    If,
    Let,
    Load,
    Local,
    Position,
    Scalar,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.core.walk import Body, operands
from vyre_cuda.passes.part import Part
from vyre_cuda.passes.places import Places
from vyre_cuda.passes.rebuild import with_operands
from vyre_cuda.passes.renaming import UniqueNames
from vyre_cuda.records import replace


class Copied:
    """`names` are those of the arrays and scalars. `alike`: the launch has the part's blocks and threads."""

    def __init__(
        self, part: Part, names: Mapping[str, str], taken: UniqueNames, places: Places, *, alike: bool
    ) -> None:
        self._part = part
        self._taken = taken
        self._places = places
        self._alike = alike
        self._locals: dict[str, str] = {}
        self._names = {**names, **{array.name: taken.take(array.name) for array in part.own}}
        self.own = [replace(array, name=self._names[array.name]) for array in part.own]
        self.made = self._body(part.body)

    def _body(self, body: Body) -> Body:
        return tuple([self._statement(statement) for statement in body])

    def _statement(self, s: Stmt) -> Stmt:
        if type(s) is Let:
            value = self.expr(s.value)
            name = self._declared(s.name)
            whole = self._part.places.lets.get(s.name)
            self._places.note_known(name, None if whole is None else self.expr(whole))
            return Let(name, value, s.source)
        if type(s) is Store:
            return Store(self._names[s.buffer], self.expr(s.index), self.expr(s.value), s.source)
        if type(s) is Assign:
            return Assign(self._locals[s.name], self.expr(s.value), s.source)
        if type(s) is Var:
            value = self.expr(s.value)
            return Var(self._declared(s.name), value, s.source)
        if type(s) is If:
            return self._if(s)
        if type(s) is Atomic:
            parts = tuple([self.expr(e) for e in operands(s)])
            result = None if s.result is None else self._counter(s.result)
            return Atomic(result, s.op, self._names[s.buffer], parts[0], parts[1:], s.order, s.scope, s.source)
        if type(s) is For:
            bounds = self.expr(s.start), self.expr(s.stop), self.expr(s.step)
            return For(self._counter(s.name), *bounds, self._body(s.body), s.source)
        if type(s) is While:
            setup = self._body(s.setup)
            condition = self.expr(s.condition)
            return While(setup, condition, self._body(s.body), s.source)
        return with_operands(s, tuple([self.expr(e) for e in operands(s)]))

    def _if(self, s: If) -> If:
        condition = self.expr(s.condition)
        said = self._part.said.get(id(s.condition)) if self._alike else None
        if said is not None:
            self._places.note_said(condition, said)
        return If(condition, self._body(s.then), self._body(s.orelse), s.source)

    def _declared(self, name: str) -> str:
        self._locals[name] = self._taken.take(name)
        return self._locals[name]

    def _counter(self, name: str) -> str:
        self._places.note_counter(self._declared(name))
        return self._locals[name]

    def expr(self, expr: Expr) -> Expr:
        if type(expr) is Const or type(expr) is Id:
            return expr
        if type(expr) is Local:
            return Local(expr.type, self._locals[expr.name], expr.source)
        if type(expr) is Apply:
            some = [self.expr(part) for part in expr.operands]
            for old, new in zip(expr.operands, some, strict=True):
                if old is not new:
                    return Apply(expr.type, expr.op, tuple(some), expr.source)
            return expr
        if type(expr) is Load:
            return Load(expr.type, self._names[expr.buffer], self.expr(expr.index), expr.source)
        if type(expr) is Scalar:
            return Scalar(expr.type, self._names[expr.name], expr.source)
        if type(expr) is Position:
            return Position(expr.type, tuple([self.expr(part) for part in expr.indices]), expr.source)
        return expr
