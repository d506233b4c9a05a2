"""Loop invariants: what a loop computes again on each pass, although nothing in it changes, is computed once before it.

Moved are lets of a loop's body or setup, and the largest parts of other statements there, that read no memory that the
program may write and no local of the loop. What runs only under a branch in the loop stays: a pass may never reach
it. Loads of `in` buffers move only if `move_loads` says so, because a loop without a trip makes none.
"""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
    Const,
    Expr,
    For,
    Id,
    Let,
    Load,
    Local,
    Position,
    Scalar,
    Size,
    Stmt,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import Body, assert_never, bodies, declared_name, operands, statements
from vyre_cuda.passes.branches import trips
from vyre_cuda.passes.rebuild import (
    NESTING,
    Names,
    is_same,
    read_only,
    unless_same,
    with_bodies,
    with_body,
    with_children,
    with_operands,
)


def hoist_invariants(program: Program, *, move_loads: bool = True) -> Program:
    """The program with loop invariants moved out. `move_loads`: a load out of bounds is harmless."""
    readable = read_only(program) if move_loads else set()
    return with_body(program, _Hoister(Names(program), readable).body(program.body))


class _Hoister:
    """Inner loops come first, so that what leaves one may leave the next as well."""

    def __init__(self, names: Names, readable: set[str]) -> None:
        self._names = names
        self._readable = readable
        self._before: list[Stmt] = []  # goes before the current loop
        self._changing: set[str] = set()  # locals of the current loop, and vars that it assigns

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for statement in body:
            if isinstance(statement, NESTING):
                statement = with_bodies(statement, tuple([self.body(inner) for _, inner in bodies(statement)]))
            if isinstance(statement, (For, While)):
                statement = self._loop(statement)
                out.extend(self._before)
            out.append(statement)
        return unless_same(body, tuple(out))

    def _loop(self, loop: For | While) -> Stmt:
        self._before = []
        if isinstance(loop, For):
            count = trips(loop)
            if count is not None and count <= 1:
                return loop
        self._changing = _changing(loop)
        kept = tuple([self._without_invariants(body) for _, body in bodies(loop)])
        changed = with_bodies(loop, kept)
        return with_operands(changed, (self._moved(changed.condition),)) if isinstance(changed, While) else changed

    def _without_invariants(self, body: Body) -> Body:
        out: list[Stmt] = []
        for statement in body:
            if isinstance(statement, Let) and self._is_invariant(statement.value):
                self._before.append(statement)
                self._changing.discard(statement.name)
                continue
            old = operands(statement)
            new = tuple([self._moved(expr) for expr in old])
            out.append(statement if is_same(old, new) else with_operands(statement, new))
        return unless_same(body, tuple(out))

    def _moved(self, expr: Expr) -> Expr:
        """The expression with its largest invariant parts replaced by lets before the loop."""
        match expr:
            case Apply() | Load():
                if self._is_invariant(expr):
                    name = self._names.fresh("invariant")
                    self._before.append(Let(name, expr, expr.source))
                    return Local(expr.type, name, expr.source)
                if isinstance(expr, Load):
                    return with_children(expr, (self._moved(expr.index),))
                return with_children(expr, tuple([self._moved(operand) for operand in expr.operands]))
            case Position():
                return with_children(expr, tuple([self._moved(index) for index in expr.indices]))
            case Const() | Local() | Scalar() | Size() | Id():
                return expr
            case _:
                assert_never(expr)

    def _is_invariant(self, expr: Expr) -> bool:
        match expr:
            case Apply():
                return all(map(self._is_invariant, expr.operands))
            case Position():
                return all(map(self._is_invariant, expr.indices))
            case Load():
                return expr.buffer in self._readable and self._is_invariant(expr.index)
            case Local():
                return expr.name not in self._changing
            case Const() | Scalar() | Size() | Id():
                return True
            case _:
                assert_never(expr)


def _changing(loop: Stmt) -> set[str]:
    """The loop's locals, and the vars that it gives new values."""
    found = {loop.name} if isinstance(loop, For) else set()
    for _, body in bodies(loop):
        for statement in statements(body):
            name = statement.name if isinstance(statement, Assign) else declared_name(statement)
            if name is not None:
                found.add(name)
    return found
