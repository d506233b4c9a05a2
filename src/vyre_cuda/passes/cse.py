"""Common subexpressions: what was computed on every path to a place is not computed there again.

Values are numbered in the order of the program: equal numbers mean equal bits. A value is available as long as what
made it is in scope. A var has the number of its last assigned value, and a new one where paths with different
assignments meet. Loads of `in` buffers and tables count as computed values; every other load gives a
value of its own. A value that is needed again and that no let holds gets a let before the statement that computes it
first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

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
    Id,
    If,
    Let,
    Load,
    Local,
    Position,
    Print,
    Return,
    Scalar,
    Size,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import Body, assert_never, children, operands
from vyre_cuda.passes.rebuild import (
    Names,
    assigned,
    at,
    has_load,
    read_only,
    unless_same,
    with_bodies,
    with_body,
    with_children,
    with_operands,
)
from vyre_cuda.records import dataclass


def share_subexpressions(program: Program, *, keep_checks: bool = False) -> Program:
    """The program with each value computed once. `keep_checks`: loads stay in the order in which they are made."""
    return with_body(program, _Sharing(program, keep_checks).block(program.body))


@dataclass(slots=True, eq=False)
class _Value:
    """A value in scope: the local that holds it if one does, else the expression of statement `made_in` that makes it.

    `depth` is that of the scope. `placed`: the statement that makes it is done. `wanted`: a let of this name is still
    to be written.
    """

    name: str | None
    expr: Expr | None
    made_in: int
    depth: int
    placed: bool = False
    wanted: bool = False


_Made: TypeAlias = "list[_Value]"


class _Sharing:
    def __init__(self, program: Program, keep_checks: bool) -> None:
        self._names = Names(program)
        self._keep_checks = keep_checks
        self._constant = read_only(program)
        self._numbers: dict[Hashable, int] = {}
        self._count = 0
        self._leaves: dict[int, Expr] = {}  # values that a constant or a scalar has
        self._locals: dict[str, int] = {}  # the value of each local at this place
        self._values: dict[int, _Value] = {}
        self._scopes: list[list[int]] = []
        self._statement = 0
        self._of: dict[int, int] = {}  # values of the expressions of the statement at hand, by id
        self._made: _Made = []  # in the statement at hand
        self._found = False  # an expression of the statement at hand could be replaced

    # ---- bodies ----

    def block(self, body: Body) -> Body:
        """A body, what it makes forgotten at its end."""
        self._scopes.append([])
        return self._rest_of_block(body)

    def _rest_of_block(self, body: Body) -> Body:
        done = self._statements(body)
        self._close()
        return _finished(body, done)

    def _close(self) -> None:
        for number in self._scopes.pop():
            self._values.pop(number, None)

    def _statements(self, body: Body) -> list[tuple[Stmt, _Made]]:
        return [self._done(statement) for statement in body]

    def _done(self, statement: Stmt) -> tuple[Stmt, _Made]:
        """The statement, and values that may still need a let before it."""
        if isinstance(statement, While):
            return self._while(statement), []
        statement, numbers, made = self._evaluated(statement)
        match statement:
            case Let() | Var() | Assign():
                self._locals[statement.name] = numbers[0]
                if isinstance(statement, Let):
                    self._hold(numbers[0], statement.name)
            case Atomic() | Warp():
                if statement.result is not None:
                    self._declare(statement.result)
            case If():
                statement = self._if(statement)
            case For():
                statement = self._for(statement)
            case Store() | Assert() | Print() | Break() | Continue() | Return() | Barrier() | GridBarrier() | While():
                pass
            case _:
                assert_never(statement)
        return statement, made

    def _if(self, statement: If) -> Stmt:
        changed = assigned(statement.then)
        before = {name: self._locals[name] for name in changed if name in self._locals}
        then = self.block(statement.then)
        self._locals.update(before)
        orelse = self.block(statement.orelse)
        self._forget(changed | assigned(statement.orelse))
        return with_bodies(statement, (then, orelse))

    def _for(self, statement: For) -> Stmt:
        changed = assigned(statement.body)
        self._forget(changed)
        self._scopes.append([])
        self._declare(statement.name)
        body = self._rest_of_block(statement.body)
        self._forget(changed)
        return with_bodies(statement, (body,))

    def _while(self, statement: While) -> Stmt:
        """Lets for the values of the condition come at the end of the setup."""
        changed = assigned(statement.setup, statement.body)
        self._forget(changed)
        self._scopes.append([])
        setup = self._statements(statement.setup)
        tested, _, made = self._evaluated(statement)
        body = self.block(statement.body)
        self._close()
        self._forget(changed)
        lets, tested = _with_lets(tested, made)
        return with_bodies(tested, (_finished(statement.setup, setup, lets), body))

    def _forget(self, names: set[str]) -> None:
        for name in names:
            self._locals[name] = self._fresh()

    def _declare(self, name: str) -> None:
        """Declare a local whose value differs from all others."""
        self._locals[name] = self._fresh()
        self._hold(self._locals[name], name)

    def _hold(self, number: int, name: str) -> None:
        """Let the local with this name hold the value from here on, if no other does."""
        value = self._values.get(number)
        if value is None:
            if number not in self._leaves:
                self._add(number, _Value(name, None, self._statement, len(self._scopes), placed=True))
        elif value.name is None and value.depth == len(self._scopes):
            value.name = name

    # ---- the expressions of one statement ----

    def _evaluated(self, statement: Stmt) -> tuple[Stmt, list[int], _Made]:
        """The statement without what is computed before it, the values of its operands, and the values it makes."""
        self._statement += 1
        self._of.clear()
        self._made = []
        self._found = False
        exprs = operands(statement)
        numbers = [self._number(expr) for expr in exprs]
        if self._found:
            statement = with_operands(statement, tuple([self._replaced(expr) for expr in exprs]))
        return statement, numbers, self._made

    def _fresh(self) -> int:
        self._count += 1
        return self._count

    def _add(self, number: int, value: _Value) -> None:
        self._values[number] = value
        self._scopes[-1].append(number)

    def _number(self, expr: Expr) -> int:
        """The value of an expression; notes what it makes and whether anything in it could be replaced."""
        key: Hashable
        match expr:
            case Apply():
                parts = [self._number(operand) for operand in expr.operands]
                if OPS[expr.op].commutative:
                    parts.sort()
                key = (expr.op, expr.type.code, *parts)
            case Local():
                number = self._locals[expr.name]
                known = self._values.get(number)
                if number in self._leaves or (known is not None and known.name != expr.name):
                    self._found = True
                return number
            case Const():
                return self._leaf((expr.type.code, expr.bits), expr)
            case Position():
                return self._numbered(("position", *[self._number(index) for index in expr.indices]))
            case Load():
                key = ("load", expr.buffer, self._number(expr.index))
                if expr.buffer not in self._constant:
                    number = self._of[id(expr)] = self._fresh()
                    return number
            case Scalar():
                return self._leaf(expr.name, expr)
            case Size():
                return self._numbered(("size", expr.buffer, expr.axis))
            case Id():
                return self._numbered((expr.kind, expr.axis))
            case _:
                assert_never(expr)
        number = self._of[id(expr)] = self._numbered(key)
        if number in self._values:
            self._found = True
        else:
            value = _Value(None, expr, self._statement, len(self._scopes))
            self._add(number, value)
            self._made.append(value)
        return number

    def _numbered(self, key: Hashable) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._fresh()
        return number

    def _leaf(self, key: Hashable, expr: Expr) -> int:
        number = self._numbered(key)
        self._leaves[number] = expr
        return number

    def _other_name(self, number: int, local: Local) -> Expr:
        """What can replace this local: a constant, a scalar, or the immutable local with the same value."""
        leaf = self._leaves.get(number)
        if leaf is not None:
            return at(leaf, local.source)
        value = self._values.get(number)
        if value is None or value.name is None or value.name == local.name:
            return local
        return Local(local.type, value.name, local.source)

    def _replaced(self, expr: Expr) -> Expr:
        """The expression with its largest known parts replaced by the locals that hold them."""
        if isinstance(expr, Local):
            return self._other_name(self._locals[expr.name], expr)
        if isinstance(expr, Position):
            return with_children(expr, tuple([self._replaced(index) for index in expr.indices]))
        if not isinstance(expr, (Apply, Load)):
            return expr
        value = self._values.get(self._of[id(expr)])
        makes = value is not None and value.made_in == self._statement and not value.placed
        if value is not None and not makes and self._can_hold(value):
            if value.name is None:
                value.name, value.wanted = self._names.fresh("common"), True
            return Local(expr.type, value.name, expr.source)
        new = with_children(expr, tuple([self._replaced(part) for part in children(expr)]))
        if value is not None and makes:
            value.expr, value.placed = new, True
        return new

    def _can_hold(self, value: _Value) -> bool:
        if value.name is not None or not self._keep_checks:
            return True
        return value.expr is not None and not has_load(value.expr)


# ---- lets for values that are wanted again ----


def _finished(body: Body, done: list[tuple[Stmt, _Made]], last: tuple[Stmt, ...] = ()) -> Body:
    out: list[Stmt] = []
    for statement, made in done:
        lets, statement = _with_lets(statement, made)
        out += [*lets, statement]
    return unless_same(body, (*out, *last))


def _with_lets(statement: Stmt, made: _Made) -> tuple[tuple[Stmt, ...], Stmt]:
    """Lets for the wanted values, and the statement that reads them."""
    wanted = {id(value.expr): value for value in made if value.wanted}
    if not wanted:
        return (), statement
    lets: dict[str, Let] = {}
    new = tuple([_pulled(expr, wanted, lets) for expr in operands(statement)])
    return tuple(lets.values()), with_operands(statement, new)


def _pulled(expr: Expr, wanted: dict[int, _Value], lets: dict[str, Let]) -> Expr:
    value = wanted.get(id(expr))
    if value is None or value.name is None:
        return with_children(expr, tuple([_pulled(part, wanted, lets) for part in children(expr)]))
    if value.name not in lets:
        inner = with_children(expr, tuple([_pulled(part, wanted, lets) for part in children(expr)]))
        lets[value.name] = Let(value.name, inner, expr.source)
    return Local(expr.type, value.name, expr.source)
