"""Loads in flight: a loop that reads and accumulates reads the elements of several trips before it uses the first.

Each trip does what it did, in the same order, so sums of floats keep their bits; only loads come earlier, of elements
that the loop would read anyway. That needs a loop without stores, and indices that do not depend on what it computes:

    for i in a .. e step s           for i in a .. e step 4 * s
        total = total + x[i]             if i + s < e and i + 2 * s < e and i + 3 * s < e
                                             x0, ..., x3 = x[i], ..., x[i + 3 * s]
                                             total = total + x0; ...; total = total + x3
                                         else
                                             for j in i .. e step s
                                                 total = total + x[j]
                                             break

None of these numbers wraps: where the step or the end is too large for that, the first trip takes the other branch.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import Body, bodies, children, expressions, operands, statements
from vyre_cuda.passes.rebuild import NESTING, Names, unless_same, with_bodies, with_body, with_children, with_operands

TRIPS = 4
# Above that arithmetic takes the time, and the text becomes long.
_MOST_EXPRESSIONS = 64
# Loops with fewer trips, if known, are unrolled by the driver's compiler.
_FEWEST_TRIPS = 16
# A step has at most this many bits less than its type.
_SMALLER = 4


_NAMING = (Let, Var, Assign)
# What a statement is called where the loop stays as it is for it.
_CALLED: dict[type[Stmt], str] = {
    Store: "a store",
    Atomic: "an atomic",
    Warp: "a warp operation",
    For: "a loop",
    While: "a loop",
    Break: "a break",
    Continue: "a continue",
    Return: "a return",
    Barrier: "a barrier",
    GridBarrier: "a barrier of the grid",
    Assert: "an assertion",
    Print: "a print",
}


def loads_ahead(program: Program) -> Program:
    """The program whose loops read several elements ahead; the program itself if it has no such loop."""
    return with_body(program, _Ahead(program).body(program.body))


def loops(program: Program) -> Iterator[tuple[For, str]]:
    """The counted loops without a loop in them that read buffers, and why one reads nothing ahead; "" if it does."""
    buffers = {parameter.name for parameter in program.parameters}
    for statement in statements(program.body):
        if isinstance(statement, For):
            inside = list(statements(statement.body))
            read = {e.buffer for s in inside for e in expressions(operands(s)) if isinstance(e, Load)}
            if read & buffers and not any(isinstance(each, (For, While)) for each in inside):
                yield statement, _why_not(statement, buffers)


def _why_not(loop: For, buffers: set[str]) -> str:
    """Why a loop reads one element after the other; "" if it is one that reads ahead."""
    inside = list(statements(loop.body))
    other = next((each for each in inside if not isinstance(each, (Let, Var, Assign, If))), None)
    if other is not None:
        return f"it has {_CALLED[type(other)]}"
    if sum(1 for each in inside for _ in expressions(operands(each))) > _MOST_EXPRESSIONS:
        return "it computes so much in each trip that memory does not limit its speed"
    if isinstance(loop.step, Const) and not 0 < _number(loop.step) <= loop.step.type.maximum >> _SMALLER:
        return "its step is too large, or not positive"
    trips = _trips(loop)
    if trips is not None and trips < _FEWEST_TRIPS:
        return f"it has fewer than {_FEWEST_TRIPS} trips"
    if not any(True for _ in _early(loop, buffers)):
        return "where it reads depends on what it computes, on a branch, or not on the trip"
    return ""


def _early(loop: For, buffers: set[str]) -> Iterator[Load]:
    """Loads that can come earlier and that are others in each trip."""
    known = _Known(loop, buffers)
    for statement in loop.body:
        yield from known.loads(statement)
        known.add(statement)


class _Ahead:
    def __init__(self, program: Program) -> None:
        self._names = Names(program)
        self._buffers = {parameter.name for parameter in program.parameters}

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for statement in body:
            if type(statement) in _NAMING:
                out.append(statement)
            elif isinstance(statement, For) and not _why_not(statement, self._buffers):
                out += self._ahead(statement)
            elif isinstance(statement, NESTING):
                out.append(with_bodies(statement, tuple(self.body(each) for _, each in bodies(statement))))
            else:
                out.append(statement)
        return unless_same(body, tuple(out))

    # ---- the loop

    def _ahead(self, loop: For) -> list[Stmt]:
        type_, source = loop.start.type, loop.source
        stop, step, counter = (
            Local(type_, self._names.fresh(name)) for name in (f"{loop.name}_stop", f"{loop.name}_step", loop.name)
        )
        start = Local(type_, self._names.fresh(f"{loop.name}_start"))
        out: list[Stmt] = [
            Let(local.name, value, source)
            for local, value in ((start, loop.start), (stop, loop.stop), (step, loop.step))
        ]
        one: Expr = loop.step if isinstance(loop.step, Const) else step
        most = type_.maximum >> _SMALLER
        conditions: list[Expr] = []
        if not isinstance(one, Const):
            conditions = [Apply(bool_, "less", (Const(type_, 0), one)), _most(one, most)]
        several = _times(one, TRIPS)
        stride = Apply(type_, "where", (_all(conditions), several, one)) if conditions else several
        safe = Local(bool_, self._names.fresh(f"{loop.name}_safe"))
        out.append(Let(safe.name, _all([*conditions, _most(stop, type_.maximum - TRIPS * most)]), source))
        out.append(For(counter.name, start, stop, stride, self._trip(loop, counter, stop, one, safe), source))
        return out

    def _trip(self, loop: For, counter: Local, stop: Local, step: Expr, safe: Local) -> Body:
        type_, source = counter.type, loop.source
        places = [counter, *(Local(type_, self._names.fresh(loop.name)) for _ in range(1, TRIPS))]
        out: list[Stmt] = [
            Let(place.name, _plus(counter, _times(step, k)), source) for k, place in enumerate(places) if k
        ]
        inside = _all([safe, *(Apply(bool_, "less", (place, stop)) for place in places[1:])])
        rest = For(loop.name, counter, stop, step, loop.body, source)
        out.append(If(inside, self._side_by_side(loop, places), (rest, Break(source)), source))
        return tuple(out)

    def _side_by_side(self, loop: For, places: list[Local]) -> Body:
        envs: list[dict[str, Expr]] = [{loop.name: place} for place in places]
        out: list[Stmt] = []
        later: list[list[Stmt]] = [[] for _ in envs]
        known = _Known(loop, self._buffers)
        for statement in loop.body:
            early = list(dict.fromkeys(known.loads(statement)))
            loaded: list[dict[Expr, Expr]] = [{} for _ in envs]
            for load in early:
                for env, found in zip(envs, loaded, strict=True):
                    name = self._names.fresh("ahead")
                    out.append(Let(name, _at(load, env, found), load.source or statement.source))
                    found[load] = Local(load.type, name)
            is_known = known.add(statement)
            for env, found, mine in zip(envs, loaded, later, strict=True):
                (out if is_known else mine).extend(self._copy((statement,), env, found))
        return (*out, *(each for mine in later for each in mine))

    def _copy(self, body: Body, env: dict[str, Expr], loaded: dict[Expr, Expr]) -> list[Stmt]:
        """The statements of one trip, with names of their own; what they declare is added to `env`."""
        out: list[Stmt] = []
        for statement in body:
            if isinstance(statement, NESTING):
                inner = tuple(tuple(self._copy(each, dict(env), loaded)) for _, each in bodies(statement))
                statement = with_bodies(statement, inner)
            new = with_operands(statement, tuple(_at(expr, env, loaded) for expr in operands(statement)))
            if isinstance(new, (Let, Var)):
                fresh = self._names.fresh(new.name)
                env[new.name] = Local(new.value.type, fresh)
                new = type(new)(fresh, new.value, new.source)
            elif isinstance(new, Assign):
                name = env.get(new.name)
                new = Assign(name.name, new.value, new.source) if isinstance(name, Local) else new
            out.append(new)
        return out


class _Known:
    """What of a trip is known before the trips ahead of it have run."""

    def __init__(self, loop: For, buffers: set[str]) -> None:
        self._buffers = buffers
        self._unknown = {each.name for each in statements(loop.body) if isinstance(each, (Let, Var, Assign))}
        self._of_trip = {loop.name}

    def add(self, statement: Stmt) -> bool:
        """Whether a statement of the body can be made early; a let that can is known in what follows."""
        if not isinstance(statement, Let) or not self._is_known(statement.value):
            return False
        self._unknown.discard(statement.name)
        if any(isinstance(e, Local) and e.name in self._of_trip for e in expressions((statement.value,))):
            self._of_trip.add(statement.name)
        return True

    def loads(self, statement: Stmt) -> Iterator[Load]:
        """Those that a statement of the body makes itself, and that can come earlier: inner ones first."""
        found = [
            expr
            for expr in expressions(operands(statement))
            if isinstance(expr, Load) and expr.buffer in self._buffers and self._is_known(expr.index)
        ]
        for load in reversed(found):
            if any(isinstance(e, Local) and e.name in self._of_trip for e in expressions((load.index,))):
                yield load

    def _is_known(self, expr: Expr) -> bool:
        return all(
            isinstance(part, (Const, Id, Scalar, Size, Apply, Load))
            or (isinstance(part, Local) and part.name not in self._unknown)
            or bool(children(part))
            for part in expressions((expr,))
        ) and all(part.buffer in self._buffers for part in expressions((expr,)) if isinstance(part, Load))


def _at(expr: Expr, env: dict[str, Expr], loaded: dict[Expr, Expr]) -> Expr:
    found = loaded.get(expr) if isinstance(expr, Load) else None
    if found is not None:
        return found
    if isinstance(expr, Local):
        return env.get(expr.name, expr)
    parts = children(expr)
    return with_children(expr, tuple([_at(part, env, loaded) for part in parts])) if parts else expr


def _trips(loop: For) -> int | None:
    ends = (loop.start, loop.stop, loop.step)
    if not all(isinstance(end, Const) for end in ends):
        return None
    start, stop, step = (_number(end) for end in ends if isinstance(end, Const))
    return max(0, -((start - stop) // step)) if step else 0


def _number(const: Const) -> int:
    bits = const.type.bits
    return const.bits - (1 << bits) if const.type.kind == "signed" and const.bits >> (bits - 1) else const.bits


def _most(expr: Expr, most: int) -> Expr:
    return Apply(bool_, "less_equal", (expr, Const(expr.type, most)))


def _times(step: Expr, factor: int) -> Expr:
    if factor == 1:
        return step
    if isinstance(step, Const):
        return Const(step.type, step.bits * factor)
    return Apply(step.type, "multiply", (step, Const(step.type, factor)))


def _plus(a: Expr, b: Expr) -> Expr:
    return Apply(a.type, "add", (a, b))


def _all(conditions: list[Expr]) -> Expr:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = Apply(bool_, "logical_and", (whole, condition))
    return whole
