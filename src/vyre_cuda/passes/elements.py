"""Several elements a thread: a program whose threads each work on one element of arrays becomes one whose threads work
on several, so that each has several loads in flight.

Element k of a thread is `block * n + thread + k * block's threads`: the threads of a block take neighbors in turn. Or
it is `(block * block's threads + thread) * n + k`: a thread has neighbors, which the lowering loads and stores at once
where the buffers begin at a multiple of so many; for types of one and two bytes, of which a thread otherwise has too
few in flight. What the program does for its elements is independent, so statements of all of a thread's elements run
side by side, loads first. Where one of them lies behind an array's end, the elements run one after the other.

Only for launches whose grid follows from the program's work, of at most 2^30 threads: so no index overflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vyre_cuda.ir.core import limits
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
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
    Size,
    Stmt,
    Store,
    Var,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import Body, bodies, children, declared_name, expressions, operands, statements
from vyre_cuda.passes.eligible import Refused, accessed, check, cost_of, is_own, own_names, work_of
from vyre_cuda.passes.rebuild import NESTING, Names, with_bodies, with_children, with_operands
from vyre_cuda.passes.returns import without_returns
from vyre_cuda.records import replace

ELEMENTS = 4
_MUCH = 16  # of `cost_of`: a function, with which four elements are faster from twice as many threads on
# Elements of a thread that has neighbors, by the bytes of the largest type: vectors of 16 bytes.
NEIGHBORS = {1: 16, 2: 8, 4: 4, 8: 4}
# Types of so many bytes are loaded as neighbors.
_NARROW = 2
# What a thread's elements may cost together: above that arithmetic takes the time, not memory, and the text is long.
_MOST_COST = 256

_Env = Mapping[str, Expr]
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")


def why_one(program: Program) -> str:
    """Why launches of any size keep one element a thread; "" if large ones do not."""
    try:
        several(program)
    except Refused as reason:
        return str(reason)
    return ""


def why_apart(program: Program) -> str:
    """Why a thread of a program that can have several elements does not have neighbors; "" if it has."""
    body = without_returns(program.body)
    found = list(accessed(body))
    if all(type_.itemsize > _NARROW for type_, _ in found):
        return "no type has fewer than four bytes"
    own = own_names(body)
    if not all(is_own(index, own) for _, index in found):
        return "it accesses other elements than its own"
    return ""


def count_of(program: Program) -> int:
    """How many elements a thread of a program has that can have several: more, of neighbors of one and two bytes."""
    if why_apart(program):
        return ELEMENTS
    body = without_returns(program.body)
    count = NEIGHBORS[max(type_.itemsize for type_, _ in accessed(body))]
    while count > ELEMENTS and count * cost_of(body) > _MOST_COST:
        count //= 2
    return count


def from_threads(program: Program) -> int:
    """Of how many threads on launches are to have several elements a thread."""
    return limits.LARGE_LAUNCH * (2 if cost_of(program.body) > _MUCH else 1)


def several(program: Program, count: int = ELEMENTS, *, neighbors: bool = False, sized: bool = True) -> Program:
    """The program with `count` elements a thread, a block apart or neighbors. Raises Refused.

    Without `sized` it compares no element with the sizes of arrays: where all that it accesses are within them.
    """
    body = without_returns(program.body)
    own = own_names(body)
    check(program, body, own, _MOST_COST // ELEMENTS)
    return _Elements(program, own, count, work_of(program), neighbors=neighbors, sized=sized).program(body)


# ---- the program with several ---------------------------------------------------------------------------------------


class _Elements:
    def __init__(
        self, program: Program, own: set[str], count: int, work: Expr, *, neighbors: bool, sized: bool
    ) -> None:
        self._given = program
        self._own = own
        # Elements a block apart are side by side in so many at a time.
        self._count = count if neighbors else min(count, ELEMENTS)
        self._times = count // self._count
        self._neighbors = neighbors
        self._sized = sized
        self._work = work
        self._names = Names(program)
        self._guards: set[Expr] = set()

    def program(self, body: Body) -> Program:
        given, index = self._given, self._given.index
        block = given.block[0]
        group, first = (Local(index, self._names.fresh(stem)) for stem in ("group", "first"))
        own: Expr = Id(index, "thread_id", 0)
        if self._neighbors:
            own = _product(index, own, self._count)
        step = 1 if self._neighbors else block
        places = [_sum(index, first, Const(index, k * step)) for k in range(self._count)]
        self._find_guards(body)
        last = self._is_launched(_sum(index, group, Const(index, block * (self._count - 1))))
        inside = _all([last, *self._inside(body, places)])
        turn = Local(index, self._names.fresh("element"))
        behind = _product(index, turn, step)
        one = If(
            self._is_launched(_sum(index, group, self._begin_of_block(own, behind))),
            self._one_after_the_other(body, _sum(index, first, behind)),
        )
        zero, one_more = Const(index, 0), Const(index, 1)
        slow = For(turn.name, zero, Const(index, self._count), one_more, (one,))
        side_by_side = self._side_by_side(body, [{"": place} for place in places])
        begin = _product(index, Id(index, "block_id", 0), block * self._count * self._times)
        part = Local(index, self._names.fresh("part"))
        if self._times > 1:
            begin = _sum(index, begin, _product(index, part, block * self._count))
        rebuilt: Body = (
            Let(group.name, begin),
            Let(first.name, _sum(index, group, own)),
            If(inside, tuple(side_by_side), (slow,)),
        )
        if self._times > 1:
            rebuilt = (For(part.name, zero, Const(index, self._times), one_more, rebuilt),)
        return replace(given, body=rebuilt)

    def _begin_of_block(self, own: Expr, behind: Expr) -> Expr:
        """Where in the group the block begins that has the element, with one element a thread."""
        if not self._neighbors:
            return behind
        index = self._given.index
        at = _sum(index, own, behind)
        return Apply(index, "subtract", (at, Apply(index, "remainder", (at, Const(index, self._given.block[0])))))

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
        return (is_own(a, self._own) and self._is_uniform(b)) or (is_own(b, self._own) and self._is_uniform(a))

    def _is_uniform(self, expr: Expr) -> bool:
        return all(isinstance(part, (Const, Scalar, Size, Apply)) for part in expressions((expr,)))

    def _inside(self, body: Body, places: list[Expr]) -> list[Expr]:
        """Whether the elements meet all guards, and lie within the arrays that are indexed by them: with the sizes for
        each place, as the lowering then sees that none needs a guard; of neighbors it is enough to compare the last.

        A guard that holds for the first and the last holds in between.
        """
        index = self._given.index
        sizes = {
            expr.buffer
            for statement in statements(body)
            for expr in (*expressions(operands(statement)), *([statement] if isinstance(statement, Store) else []))
            if isinstance(expr, (Load, Store)) and is_own(expr.index, self._own)
        }
        buffers = [p.name for p in self._given.parameters if p.name in sizes and p.ndim == 1] if self._sized else []
        sizes_of = [Size(index, name) for name in buffers]
        compared = places[-1:] if self._neighbors else places
        conditions: list[Expr] = [Apply(bool_, "less", (place, size)) for size in sizes_of for place in compared]
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
        if is_own(expr, self._own):
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
        if is_own(expr, self._own):
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
