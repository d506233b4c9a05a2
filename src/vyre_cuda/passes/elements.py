"""Several elements a thread: a program whose threads each work on one element of arrays becomes one whose threads work
on several, so that each has several loads in flight.

The threads of a block take neighbors in turn: element k of a thread is `block * n + thread + k * block's threads`. What
the program does for its elements is independent, so statements of all of a thread's elements run side by side, loads
first. Where one of them lies behind an array's end, the elements run one after the other.

Only for launches whose grid follows from the program's work, of at most 2^30 threads: so no index overflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vyre_cuda.errors import Error
from vyre_cuda.ir.call.geometry import primary_buffer
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Const,
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
    Table,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import FUNCTIONS
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import (
    Body,
    bodies,
    buffers_written,
    children,
    declared_name,
    expressions,
    operands,
    statements,
)
from vyre_cuda.passes.rebuild import NESTING, Names, with_bodies, with_children, with_operands
from vyre_cuda.passes.returns import without_returns
from vyre_cuda.records import replace

# On an H200 four elements a thread are faster from 2^18 threads on, and within 3 % below.
ELEMENTS = 4
FROM_THREADS = 1 << 18
# Above that arithmetic takes the time, not memory, and four times the text more of the compiler's.
_MOST_COST = 64
_COST_OF_FUNCTION = 16

_Env = Mapping[str, Expr]
# What a statement is called where the program is refused for it.
_CALLED = {
    For: "a loop",
    While: "a loop",
    Return: "a return inside a branch",
    Assert: "an assertion",
    Atomic: "an atomic",
    Barrier: "a barrier",
    GridBarrier: "a barrier of the grid",
    Warp: "a warp operation",
    Print: "a print",
}
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")


class Refused(Error):
    """The program keeps one element a thread; the message says why."""

    code = "elements"


def why_one(program: Program) -> str:
    """Why launches of any size keep one element a thread; "" if large ones do not."""
    try:
        several(program)
    except Refused as reason:
        return str(reason)
    return ""


def several(program: Program, count: int = ELEMENTS) -> Program:
    """The program with `count` elements a thread. Raises Refused."""
    body = without_returns(program.body)
    own = _own_names(body)
    _check(program, body, own)
    return _Elements(program, own, count, _work(program)).program(body)


# ---- which programs --------------------------------------------------------------------------------------------------


def _check(program: Program, body: Body, own: set[str]) -> None:
    if program.shared:
        raise Refused("it has shared arrays")
    if program.arrays:
        tables = all(isinstance(array, Table) for array in program.arrays)
        raise Refused("it has tables" if tables else "its threads have arrays of their own")
    if program.block[1:] != (1, 1):
        raise Refused("its blocks have more than one axis")
    for statement in statements(body):
        if not isinstance(statement, (Let, Var, Assign, Store, If)):
            raise Refused(f"it has {_CALLED.get(type(statement), type(statement).__name__)}")
        for expr in expressions(operands(statement)):
            if isinstance(expr, Id) and (expr.kind, expr.axis) != ("global_id", 0):
                raise Refused(f"it uses {expr.kind}")
    cost = sum(map(_cost, expressions(expr for statement in statements(body) for expr in operands(statement))))
    if cost > _MOST_COST:
        raise Refused("it computes so much for an element that memory is not what takes its time")
    if all(expr.type.bits == 64 for expr in _accesses(body)):
        raise Refused("it reads and writes eight bytes at a time, which is enough to keep memory busy")
    for name in buffers_written(body):
        if any(not _is_own(index, own) for index in _places(body, name)):
            raise Refused(f"it reads {name}, which it also writes, at other places than its own element")


def _accesses(body: Body) -> Iterator[Expr]:
    """What is loaded, and what is stored."""
    for statement in statements(body):
        yield from (expr for expr in expressions(operands(statement)) if isinstance(expr, Load))
        if isinstance(statement, Store):
            yield statement.value


def _cost(expr: Expr) -> int:
    return _COST_OF_FUNCTION if isinstance(expr, Apply) and expr.op in FUNCTIONS else 1


def _work(program: Program) -> Expr:
    """How many threads a launch is to have at least, as the host computes it."""
    if program.work is None:
        primary = primary_buffer(program)
        if primary is None:
            raise Refused("its work is not known")
        return Size(program.index, primary.name)
    if len(program.work) > 1:
        raise Refused("its work has more than one axis")
    (work,) = program.work
    if work.type is not program.index:
        raise Refused(f"its work is of type {work.type}, not of its index type")
    return work


def _places(body: Body, buffer: str) -> Iterator[Expr]:
    """The indices at which a buffer is accessed, if some access is a load."""
    found: list[Expr] = []
    loads = False
    for statement in statements(body):
        if isinstance(statement, Store) and statement.buffer == buffer:
            found.append(statement.index)
        for expr in expressions(operands(statement)):
            if isinstance(expr, Load) and expr.buffer == buffer:
                loads = True
                found.append(expr.index)
    return iter(found if loads else ())


def _own_names(body: Body) -> set[str]:
    """The lets that are the thread's number."""
    found: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, Let) and _is_own(statement.value, found):
            found.add(statement.name)
    return found


def _is_own(expr: Expr, own: set[str]) -> bool:
    return isinstance(expr, Id) if not isinstance(expr, Local) else expr.name in own


# ---- the program with several ---------------------------------------------------------------------------------------


class _Elements:
    def __init__(self, program: Program, own: set[str], count: int, work: Expr) -> None:
        self._given = program
        self._own = own
        self._count = count
        self._work = work
        self._names = Names(program)
        self._guards: set[Expr] = set()

    def program(self, body: Body) -> Program:
        given, index = self._given, self._given.index
        block = given.block[0]
        group, first = (Local(index, self._names.fresh(stem)) for stem in ("group", "first"))
        places = [_sum(index, first, Const(index, k * block)) for k in range(self._count)]
        self._find_guards(body)
        last = self._is_launched(_sum(index, group, Const(index, block * (self._count - 1))))
        inside = _all([last, *self._inside(body, places)])
        turn = Local(index, self._names.fresh("element"))
        behind = _product(index, turn, block)
        one = If(
            self._is_launched(_sum(index, group, behind)),
            self._one_after_the_other(body, _sum(index, first, behind)),
        )
        zero, step = Const(index, 0), Const(index, 1)
        slow = For(turn.name, zero, Const(index, self._count), step, (one,))
        side_by_side = self._side_by_side(body, [{"": place} for place in places])
        rebuilt = (
            Let(group.name, _product(index, Id(index, "block_id", 0), block * self._count)),
            Let(first.name, _sum(index, group, Id(index, "thread_id", 0))),
            If(inside, tuple(side_by_side), (slow,)),
        )
        return replace(given, body=rebuilt)

    def _is_launched(self, begin: Expr) -> Expr:
        """Whether one element a thread would take the block that begins there."""
        return Apply(bool_, "less", (begin, self._work))

    # ---- all elements within the arrays

    def _find_guards(self, body: Body) -> None:
        """Comparisons at the top, of the thread's number with what is the same in all threads."""
        for statement in body:
            if isinstance(statement, If) and not statement.orelse:
                parts = list(_conjuncts(statement.condition))
                found = [part for part in parts if self._is_guard(part)]
                self._guards.update(found)
                if len(found) == len(parts):
                    self._find_guards(statement.then)

    def _is_guard(self, expr: Expr) -> bool:
        if isinstance(expr, Apply) and expr.op == "logical_not":
            expr = expr.operands[0]
        if not isinstance(expr, Apply) or expr.op not in _COMPARISONS:
            return False
        a, b = expr.operands
        return (_is_own(a, self._own) and self._is_uniform(b)) or (_is_own(b, self._own) and self._is_uniform(a))

    def _is_uniform(self, expr: Expr) -> bool:
        return all(isinstance(part, (Const, Scalar, Size, Apply)) for part in expressions((expr,)))

    def _inside(self, body: Body, places: list[Expr]) -> list[Expr]:
        """Whether the elements meet all guards, and lie within the arrays that are indexed by them: with the sizes for
        each place, as the lowering then sees that none needs a guard.

        A guard that holds for the first and the last holds in between.
        """
        index = self._given.index
        sizes = {
            expr.buffer
            for statement in statements(body)
            for expr in (*expressions(operands(statement)), *([statement] if isinstance(statement, Store) else []))
            if isinstance(expr, (Load, Store)) and _is_own(expr.index, self._own)
        }
        buffers = [p.name for p in self._given.parameters if p.name in sizes and p.ndim == 1]
        sizes_of = [Size(index, name) for name in buffers]
        conditions: list[Expr] = [Apply(bool_, "less", (place, size)) for size in sizes_of for place in places]
        guards = sorted(self._guards, key=repr)
        conditions += [self._at(guard, {"": place}) for guard in guards for place in (places[0], places[-1])]
        return list(dict.fromkeys(conditions))

    # ---- statements

    def _side_by_side(self, body: Body, each: list[dict[str, Expr]]) -> list[Stmt]:
        """The statements for all elements, with the values that are stored before the first store."""
        out: list[Stmt] = []
        waiting: list[Store] = []

        def stored() -> None:
            out.extend(waiting)
            waiting.clear()

        for statement in body:
            read = {expr.buffer for expr in expressions(operands(statement)) if isinstance(expr, Load)}
            if read & {store.buffer for store in waiting}:
                stored()
            if isinstance(statement, (Let, Var)):
                for env in each:
                    name = self._names.fresh(statement.name)
                    value = self._at(statement.value, env)
                    out.append(type(statement)(name, value, statement.source))
                    env[statement.name] = Local(value.type, name)
            elif isinstance(statement, Assign):
                out += [
                    Assign(_name(env, statement.name), self._at(statement.value, env), statement.source) for env in each
                ]
            elif isinstance(statement, Store):
                for env in each:
                    waiting.append(self._store(statement, env, out))
            elif isinstance(statement, If) and self._is_met(statement):
                inner = self._side_by_side(statement.then, each)
                if any(isinstance(s, Store) and s.buffer in {w.buffer for w in waiting} for s in inner):
                    stored()
                out += inner
            else:
                stored()
                for env in each:
                    out += self._for_one((statement,), dict(env))
        stored()
        return out

    def _store(self, store: Store, env: dict[str, Expr], out: list[Stmt]) -> Store:
        """The store of values that are computed now."""
        index = store.index
        if isinstance(index, Position):
            index = Position(index.type, tuple(self._kept(part, env, out) for part in index.indices), index.source)
        else:
            index = self._kept(index, env, out)
        return Store(store.buffer, index, self._kept(store.value, env, out), store.source)

    def _kept(self, expr: Expr, env: dict[str, Expr], out: list[Stmt]) -> Expr:
        if _is_own(expr, self._own):
            return env[""]
        name = self._names.fresh("value")
        out.append(Let(name, self._at(expr, env), expr.source))
        return Local(expr.type, name)

    def _is_met(self, statement: If) -> bool:
        return not statement.orelse and all(part in self._guards for part in _conjuncts(statement.condition))

    def _one_after_the_other(self, body: Body, place: Expr) -> Body:
        at = self._names.fresh("at")
        env: dict[str, Expr] = {"": Local(self._given.index, at)}
        return (Let(at, place), *self._for_one(body, env))

    def _for_one(self, body: Body, env: dict[str, Expr]) -> list[Stmt]:
        """The statements for one element, with names of their own."""
        out: list[Stmt] = []
        for statement in body:
            if isinstance(statement, NESTING):
                inner = tuple(tuple(self._for_one(each, dict(env))) for _, each in bodies(statement))
                statement = with_bodies(statement, inner)
            new = with_operands(statement, tuple(self._at(expr, env) for expr in operands(statement)))
            name = declared_name(statement)
            if name is not None and isinstance(new, (Let, Var)):
                fresh = self._names.fresh(name)
                env[name] = Local(new.value.type, fresh)
                new = replace(new, name=fresh)
            elif isinstance(new, Assign):
                new = replace(new, name=_name(env, new.name))
            out.append(new)
        return out

    def _at(self, expr: Expr, env: _Env) -> Expr:
        """The expression for the element."""
        if _is_own(expr, self._own):
            return env[""]
        if isinstance(expr, Local):
            return env[expr.name]
        parts = children(expr)
        return with_children(expr, tuple([self._at(part, env) for part in parts])) if parts else expr


def _name(env: _Env, name: str) -> str:
    found = env[name]
    assert isinstance(found, Local)
    return found.name


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Apply) and expr.op == "logical_and":
        for part in expr.operands:
            yield from _conjuncts(part)
    else:
        yield expr


def _all(conditions: list[Expr]) -> Expr:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = Apply(bool_, "logical_and", (whole, condition))
    return whole


def _sum(index: Type, a: Expr, b: Expr) -> Expr:
    return a if isinstance(b, Const) and b.bits == 0 else Apply(index, "add", (a, b))


def _product(index: Type, a: Expr, factor: int) -> Expr:
    return Apply(index, "multiply", (a, Const(index, factor)))
