"""Simplifies control flow that is decided, duplicated or roundabout.

A branch with a constant condition becomes the arm that runs, a branch with two equal arms becomes one of them, a loop
without a trip is removed and a loop of one trip becomes its body. An empty `then` is exchanged with the else arm under
the opposite condition; `if a` around only `if b` becomes one branch. Assertions stay, even if they cannot be reached: a
failing thread reports an assertion's number in the program as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable

from vyre_cuda.ir.core.nodes import (
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
    If,
    Let,
    Print,
    Return,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import Body, assert_never
from vyre_cuda.passes.rebuild import has_assert, has_load, unless_same, with_bodies, with_body


def branches(program: Program, *, keep_checks: bool = False) -> Program:
    """The program with simplified control flow. `keep_checks`: no load that a thread would have made is removed."""
    return with_body(program, _Branches(keep_checks).body(program.body))


def trips(loop: For) -> int | None:
    """How often the body of a loop over constants runs, if nothing leaves it; None if the bounds are not known."""
    bounds = []
    for bound in (loop.start, loop.stop, loop.step):
        if not isinstance(bound, Const):
            return None
        bounds.append(int(value_of(bound.type, bound.bits)))
    start, stop, step = bounds
    span = stop - start if step > 0 else start - stop
    return max(0, -(-span // abs(step))) if step != 0 else 0


_OPPOSITE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}


def negated(condition: Expr) -> Expr:
    """The opposite bool, without a `logical_not` where possible."""
    if isinstance(condition, Const):
        return Const(bool_, 1 - condition.bits, condition.source)
    if isinstance(condition, Apply):
        if condition.op == "logical_not":
            return condition.operands[0]
        ordered = condition.op in ("equal", "not_equal") or not condition.operands[0].type.is_float  # NaN
        if condition.op in _OPPOSITE and ordered:
            return Apply(bool_, _OPPOSITE[condition.op], condition.operands, condition.source)
    return Apply(bool_, "logical_not", (condition,), condition.source)


class _Branches:
    def __init__(self, keep_checks: bool) -> None:
        self._keep_checks = keep_checks

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for statement in body:
            out.extend(self._statement(statement))
        return unless_same(body, tuple(out))

    def _statement(self, statement: Stmt) -> Iterable[Stmt]:
        match statement:
            case Let() | Var() | Assign() | Store() | Atomic() | Warp() | Assert() | Print():
                return (statement,)
            case If():
                return self._if(statement)
            case For():
                return self._for(statement)
            case While():
                return self._while(statement)
            case Break() | Continue() | Return() | Barrier() | GridBarrier():
                return (statement,)
            case _:
                assert_never(statement)

    def _if(self, statement: If) -> Iterable[Stmt]:
        then, orelse = self.body(statement.then), self.body(statement.orelse)
        condition = statement.condition
        if isinstance(condition, Const):
            runs, skipped = (then, orelse) if condition.bits else (orelse, then)
            if not has_assert(skipped):
                return runs
        elif then == orelse and not has_assert(then) and not self._is_checked(condition):
            return then
        elif orelse and not then:
            return (_joined(If(negated(condition), orelse, (), statement.source)),)
        return (_joined(with_bodies(statement, (then, orelse))),)

    def _is_checked(self, condition: Expr) -> bool:
        return self._keep_checks and has_load(condition)

    def _for(self, statement: For) -> Iterable[Stmt]:
        body = self.body(statement.body)
        count = trips(statement)
        if count == 0 and not has_assert(body):
            return ()
        if count == 1 and not _leaves_pass(body):
            return (Let(statement.name, statement.start, statement.source), *body)
        return (with_bodies(statement, (body,)),)

    def _while(self, statement: While) -> Iterable[Stmt]:
        setup, body = self.body(statement.setup), self.body(statement.body)
        if isinstance(statement.condition, Const) and not statement.condition.bits and not has_assert(body):
            return setup
        return (with_bodies(statement, (setup, body)),)


def _joined(outer: Stmt) -> Stmt:
    """A branch around only a branch as one."""
    if not isinstance(outer, If) or outer.orelse or len(outer.then) != 1:
        return outer
    (inner,) = outer.then
    if not isinstance(inner, If) or not _joins(inner):
        return outer
    both = Apply(bool_, "logical_and", (outer.condition, inner.condition), outer.condition.source)
    return If(both, inner.then, (), outer.source)


def _joins(inner: If) -> bool:
    """Whether the condition may be evaluated where the outer one is false: out of bounds, its loads may be checked."""
    return not inner.orelse and not has_load(inner.condition)


def _leaves_pass(body: Body) -> bool:
    """Whether this loop body contains a break or continue of its own loop."""
    for statement in body:
        if isinstance(statement, (Break, Continue)):
            return True
        if isinstance(statement, If) and (_leaves_pass(statement.then) or _leaves_pass(statement.orelse)):
            return True
    return False
