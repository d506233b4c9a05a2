"""The statements of a step as they stand in a program that has those of other steps too."""

from __future__ import annotations

from collections.abc import Mapping

from vyre_cuda.ir.core.nodes import (
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
    Scalar,
    Size,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.core.walk import Body, bodies, children, operands
from vyre_cuda.passes.places import Places
from vyre_cuda.passes.rebuild import with_bodies, with_children, with_operands
from vyre_cuda.passes.steps import Step
from vyre_cuda.records import replace


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


class Renamed:
    """The statements of a step with names that nothing else has, sizes as numbers, and lets noted."""

    def __init__(
        self, step: Step, names: Mapping[str, str], taken: UniqueNames, places: Places, made: list[OwnArray]
    ) -> None:
        self._step = step
        self._names = names
        self._taken = taken
        self._places = places
        self._locals: dict[str, str] = {}
        self._own: dict[str, OwnArray] = {array.name: array for array in step.program.arrays}
        self._arrays = {array.name: taken.take(array.name) for array in step.program.arrays}
        made += [replace(array, name=self._arrays[array.name]) for array in step.program.arrays]

    def body(self, body: Body) -> Body:
        return tuple([self._statement(statement) for statement in body])

    def _statement(self, s: Stmt) -> Stmt:
        s = with_operands(s, tuple([self._expr(expr) for expr in operands(s)])) if not isinstance(s, While) else s
        match s:
            case Let():
                s = Let(self._declared(s.name), s.value, s.source)
                self._places.note(s.name, s.value)
            case Var():
                s = Var(self._declared(s.name), s.value, s.source)
            case Assign():
                s = Assign(self._locals[s.name], s.value, s.source)
            case Store():
                s = Store(self._array(s.buffer), s.index, s.value, s.source)
            case Atomic():
                result = None if s.result is None else self._declared(s.result)
                s = replace(s, result=result, buffer=self._array(s.buffer))
                if result is not None:
                    self._places.note_counter(result)
            case For():
                name = self._declared(s.name)
                self._places.note_counter(name)
                s = For(name, s.start, s.stop, s.step, self.body(s.body), s.source)
            case If():
                s = with_bodies(s, tuple([self.body(body) for _, body in bodies(s)]))
            case While():
                setup = self.body(s.setup)
                condition = self._expr(s.condition)
                s = While(setup, condition, self.body(s.body), s.source)
        return s

    def _declared(self, name: str) -> str:
        self._locals[name] = self._taken.take(name)
        return self._locals[name]

    def _array(self, name: str) -> str:
        return self._names[name] if name in self._names else self._arrays[name]

    def _expr(self, expr: Expr) -> Expr:
        match expr:
            case Local():
                return Local(expr.type, self._locals[expr.name], expr.source)
            case Scalar():
                return Scalar(expr.type, self._names[expr.name], expr.source)
            case Size():
                return Const(expr.type, self._size(expr), expr.source)
            case Load():
                return Load(expr.type, self._array(expr.buffer), self._expr(expr.index), expr.source)
            case Id(kind="block_dim"):
                return Const(expr.type, self._step.geometry.block[expr.axis], expr.source)
            case Id(kind="grid_dim"):
                return Const(expr.type, self._step.geometry.grid[expr.axis], expr.source)
        parts = children(expr)
        return with_children(expr, tuple([self._expr(part) for part in parts])) if parts else expr

    def _size(self, expr: Size) -> int:
        if expr.buffer in self._own:
            array = self._own[expr.buffer]
            return array.size if expr.axis is None else array.shape[expr.axis]
        span = self._step.spans[expr.buffer]
        return span.count if expr.axis is None else span.shape[expr.axis]
