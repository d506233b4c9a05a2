"""The statements of a step with names that nothing else in a program has: `Renamed` makes them once for a part, with
sizes as numbers, and `Copied` those of a part for each program that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

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
    OwnArray,
    Position,
    Scalar,
    Size,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.core.walk import Body, operands
from vyre_cuda.passes.places import Places
from vyre_cuda.passes.rebuild import with_operands
from vyre_cuda.passes.steps import Step
from vyre_cuda.records import replace

if TYPE_CHECKING:
    from vyre_cuda.passes.part import Part


class UniqueNames:
    """Names that are used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last one behind each stem

    def copy(self) -> UniqueNames:
        made = UniqueNames()
        made._taken, made._numbers = set(self._taken), dict(self._numbers)
        return made

    def take(self, stem: str) -> str:
        name, number = stem, self._numbers.get(stem, 1)
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._numbers[stem] = number
        self._taken.add(name)
        return name


class _Again:
    """`names` are those of arrays and scalars; `own` are the arrays of a thread and the tables, with their names."""

    def __init__(self, names: Mapping[str, str], own: Iterable[OwnArray], taken: UniqueNames, places: Places) -> None:
        self._taken = taken
        self._places = places
        self._locals: dict[str, str] = {}
        self._names = dict(names)
        self.own: list[OwnArray] = []
        for array in own:
            self._names[array.name] = taken.take(array.name)
            self.own.append(replace(array, name=self._names[array.name]))

    def body(self, body: Body) -> Body:
        return tuple([self._statement(statement) for statement in body])

    def _statement(self, s: Stmt) -> Stmt:
        if type(s) is Let:
            value = self.expr(s.value)
            name = self._declared(s.name)
            self._note_let(name, s, value)
            return Let(name, value, s.source)
        if type(s) is Store:
            return Store(self._names[s.buffer], self.expr(s.index), self.expr(s.value), s.source)
        if type(s) is Assign:
            return Assign(self._locals[s.name], self.expr(s.value), s.source)
        if type(s) is Var:
            value = self.expr(s.value)
            return Var(self._declared(s.name), value, s.source)
        if type(s) is If:
            condition = self.expr(s.condition)
            self._note_condition(condition, s)
            return If(condition, self.body(s.then), self.body(s.orelse), s.source)
        if type(s) is Atomic:
            parts = tuple([self.expr(e) for e in operands(s)])
            result = None if s.result is None else self._counter(s.result)
            return Atomic(result, s.op, self._names[s.buffer], parts[0], parts[1:], s.order, s.scope, s.source)
        if type(s) is For:
            bounds = self.expr(s.start), self.expr(s.stop), self.expr(s.step)
            return For(self._counter(s.name), *bounds, self.body(s.body), s.source)
        if type(s) is While:
            setup = self.body(s.setup)
            condition = self.expr(s.condition)
            return While(setup, condition, self.body(s.body), s.source)
        return with_operands(s, tuple([self.expr(e) for e in operands(s)]))

    def _note_let(self, name: str, let: Let, value: Expr) -> None:
        """The let is called so, and has this value."""
        raise NotImplementedError

    def _note_condition(self, condition: Expr, branch: If) -> None:
        """The branch has this condition."""

    def _declared(self, name: str) -> str:
        self._locals[name] = self._taken.take(name)
        return self._locals[name]

    def _counter(self, name: str) -> str:
        self._places.note_counter(self._declared(name))
        return self._locals[name]

    def expr(self, expr: Expr) -> Expr:
        """The expression itself if it has no names."""
        if type(expr) is Const:
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
        return self._number(expr)

    def _number(self, expr: Expr) -> Expr:
        """Of an id or a size."""
        return expr


class Renamed(_Again):
    """Sizes, blocks and threads are numbers, and lets are noted."""

    def __init__(self, step: Step, names: Mapping[str, str], taken: UniqueNames, places: Places) -> None:
        super().__init__(names, step.program.arrays, taken, places)
        self._step = step
        self._extents = {array.name: (array.size, array.shape) for array in step.program.arrays}
        self._extents.update({name: (span.count, span.shape) for name, span in step.spans.items()})

    def body(self, body: Body) -> Body:
        """Without loops of step 0, which have no trips, and which a program must not have."""
        return tuple([s for s in [self._statement(s) for s in body] if not (type(s) is For and _is_zero(s.step))])

    def _note_let(self, name: str, let: Let, value: Expr) -> None:
        self._places.note(name, value)

    def _number(self, expr: Expr) -> Expr:
        if type(expr) is Size:
            size, shape = self._extents[expr.buffer]
            return Const(expr.type, size if expr.axis is None else shape[expr.axis], expr.source)
        if type(expr) is Id and expr.kind == "block_dim":
            return Const(expr.type, self._step.geometry.block[expr.axis], expr.source)
        if type(expr) is Id and expr.kind == "grid_dim":
            return Const(expr.type, self._step.geometry.grid[expr.axis], expr.source)
        return expr


def _is_zero(expr: Expr) -> bool:
    return type(expr) is Const and expr.bits == 0


class Copied(_Again):
    """What a part knows is not found out again: what its lets and conditions say is noted as the part has it.
    `alike`: the launch has the part's blocks and threads."""

    def __init__(
        self, part: Part, names: Mapping[str, str], taken: UniqueNames, places: Places, *, alike: bool
    ) -> None:
        super().__init__(names, part.own, taken, places)
        self._lets = part.places.lets
        self._said = part.said if alike else {}
        self.made = self.body(part.body)

    def _note_let(self, name: str, let: Let, value: Expr) -> None:
        whole = self._lets.get(let.name)
        self._places.note_known(name, None if whole is None else self.expr(whole))

    def _note_condition(self, condition: Expr, branch: If) -> None:
        said = self._said.get(id(branch.condition))
        if said is not None:
            self._places.note_said(condition, said)
