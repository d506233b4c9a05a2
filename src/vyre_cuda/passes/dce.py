"""Dead code: statements that cannot be reached, and those that nothing observable depends on.

Observable are stores, atomics, barriers, assertions, prints, leaving the program, and whether a while ends. From them
liveness spreads to the locals that they read and the branches and loops that they are in; lets, vars, warp operations,
branches and counted loops that it does not reach are removed. Memory effects and assertions always stay. An atomic
whose old value nothing reads keeps its effect and loses its result.
"""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import (
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Continue,
    Expr,
    GridBarrier,
    If,
    Let,
    Print,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import Body, bodies, declared_name, locals_read, operands
from vyre_cuda.passes.rebuild import NESTING, has_assert, has_load, unless_same, with_bodies, with_body

_JUMPS = (Return, Break, Continue)
_NAMING = (Let, Var, Assign)
_OBSERVED = (Store, Atomic, Barrier, GridBarrier, Assert, Print, Return, While)
# Where a dead statement was the last of a body, a jump before it may become one that leads nowhere else.
_ROUNDS = 2


def remove_dead_code(program: Program, *, keep_checks: bool = False) -> Program:
    """The program without dead code. `keep_checks`: a statement that loads is observable, because the load may fail."""
    body = program.body
    for turn in range(_ROUNDS):
        reached = _without_last(_trim(body), Return)
        if turn and reached is body:  # what was swept once has nothing dead
            break
        swept = _Liveness(reached, keep_checks).sweep()
        if swept is reached:
            return with_body(program, swept)
        body = swept
    return with_body(program, body)


# ---- what nothing reaches ----


def _trim(body: Body) -> Body:
    """The body up to where it is left, including nested bodies."""
    out: list[Stmt] = []
    for number, statement in enumerate(body, start=1):
        if type(statement) in _NAMING:
            out.append(statement)
            continue
        if isinstance(statement, NESTING):
            parts = tuple([_trim(inner) for _, inner in bodies(statement)])
            if not isinstance(statement, If):
                parts = (*parts[:-1], _without_last(parts[-1], Continue))
            statement = with_bodies(statement, parts)
        out.append(statement)
        if _is_left(statement) and not has_assert(body[number:]):
            break
    return unless_same(body, tuple(out))


def _without_last(body: Body, jump: type[Return] | type[Continue]) -> Body:
    """The body without jumps that lead where its end leads anyway."""
    if body and isinstance(body[-1], jump):
        body = body[:-1]
    if body and isinstance(body[-1], If):
        last = body[-1]
        arms = (_without_last(last.then, jump), _without_last(last.orelse, jump))
        return unless_same(body, (*body[:-1], with_bodies(last, arms)))
    return body


def _is_left(statement: Stmt) -> bool:
    """Whether no thread continues after the statement."""
    if isinstance(statement, If):
        arms = (statement.then, statement.orelse)
        return all(arm and _is_left(arm[-1]) for arm in arms)
    return isinstance(statement, _JUMPS)


# ---- what nothing depends on ----


class _Liveness:
    """Statements are identified by their number in pre-order; `parents` has that of the branch or loop around each."""

    def __init__(self, body: Body, keep_checks: bool) -> None:
        self._body = body
        self._keep_checks = keep_checks
        self._statements: list[Stmt] = []
        self._parents: list[int] = []
        self._ends: list[int] = []  # the number after the last statement inside each
        self._jumps: dict[int, list[int]] = {}  # of a loop: its breaks and continues
        self._writers: dict[str, list[int]] = {}  # of a local: the statements that give it values
        self._live: list[bool] = []
        self._work: list[int] = []
        self._read: set[str] = set()
        self._number(body, -1, -1)

    def sweep(self) -> Body:
        self._spread()
        return self._swept(self._body, 0)

    def _number(self, body: Body, parent: int, loop: int) -> None:
        for statement in body:
            number = len(self._statements)
            self._statements.append(statement)
            self._parents.append(parent)
            self._ends.append(number + 1)
            self._live.append(False)
            if isinstance(statement, _NAMING):
                self._writers.setdefault(statement.name, []).append(number)
                if self._keep_checks and has_load(*operands(statement)):
                    self._mark(number)
                continue
            name = declared_name(statement)
            if name is not None:
                self._writers.setdefault(name, []).append(number)
            if isinstance(statement, (Break, Continue)):
                self._jumps.setdefault(loop, []).append(number)
            elif isinstance(statement, _OBSERVED) or (self._keep_checks and has_load(*operands(statement))):
                self._mark(number)
            if isinstance(statement, NESTING):
                inside = loop if isinstance(statement, If) else number
                for _, inner in bodies(statement):
                    self._number(inner, number, inside)
                self._ends[number] = len(self._statements)

    def _mark(self, number: int) -> None:
        if number >= 0 and not self._live[number]:
            self._live[number] = True
            self._work.append(number)

    def _spread(self) -> None:
        while self._work:
            number = self._work.pop()
            self._mark(self._parents[number])
            for jump in self._jumps.get(number, ()):
                self._mark(jump)
            statement = self._statements[number]
            if type(statement) is Assign:
                self._mark(self._writers[statement.name][0])  # its var
            self._need(operands(statement))

    def _need(self, roots: tuple[Expr, ...]) -> None:
        read = self._read
        for name in locals_read(roots):
            if name not in read:
                read.add(name)
                for writer in self._writers.get(name, ()):
                    self._mark(writer)

    def _swept(self, body: Body, number: int) -> Body:
        out: list[Stmt] = []
        for statement in body:
            if self._live[number]:
                out.append(self._kept(statement, number))
            number = self._ends[number]
        return unless_same(body, tuple(out))

    def _kept(self, statement: Stmt, number: int) -> Stmt:
        if type(statement) is Atomic and statement.op != "load" and statement.result not in self._read:
            return _without_result(statement)
        if type(statement) in _NAMING or not isinstance(statement, NESTING):
            return statement
        inside: list[Body] = []
        first = number + 1
        for _, body in bodies(statement):
            inside.append(self._swept(body, first))
            for _ in body:
                first = self._ends[first]
        return with_bodies(statement, tuple(inside))


def _without_result(statement: Atomic) -> Atomic:
    if statement.result is None:
        return statement
    s = statement
    return Atomic(None, s.op, s.buffer, s.index, s.operands, s.order, s.scope, s.source)
