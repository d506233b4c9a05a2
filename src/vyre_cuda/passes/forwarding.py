"""Values go from a store to the loads behind it without memory, where each thread touches an array at one element.

A value goes as it is stored: as a let of the array's type. Where branches decide which value is there, or whether one
was stored, a variable has it, which begins with what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
    Const,
    Expr,
    If,
    Let,
    Load,
    Local,
    Position,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import Body, bodies, children, operands, statements
from vyre_cuda.passes.places import Conditions, Key, Places
from vyre_cuda.passes.rebuild import NESTING, with_bodies, with_children, with_operands
from vyre_cuda.records import FrozenRecord


class Forwarded(FrozenRecord):
    """An array whose values go on without memory: its elements, and `index`, the place of each thread's.

    Without `stores` it exists no longer; then `begin` is what is there before a thread stores, None if nobody knows.
    """

    type: Type
    shape: tuple[int, ...]
    index: Expr
    key: Key
    stores: bool
    begin: Expr | None


class Unknown(Exception):
    """A thread reads an element of this array where nothing is sure to be stored."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Forwarding:
    def __init__(self, arrays: Mapping[str, Forwarded], places: Places, take: Callable[[str], str]) -> None:
        """`take` makes a name that nothing else has, and that begins with this one."""
        self._arrays = arrays
        self._places = places
        self._take = take
        self._variable = {name: take(f"{name}_now") for name in arrays}
        self._variables: set[str] = set()
        self._begins: set[str] = set()  # variables that must begin with what was there
        self._maybe: set[str] = set()  # arrays that some thread may have stored to
        self._sure: dict[str, list[Conditions]] = {}

    def body(self, body: Body) -> Body:
        while True:
            before = set(self._variables), set(self._begins)
            self._maybe, self._sure = set(), {}
            out = self._body(body, {}, self._places.launched)
            if before == (self._variables, self._begins):
                return (*self._declared(), *out)

    def _declared(self) -> list[Stmt]:
        found: list[Stmt] = []
        for name in sorted(self._variables):
            array = self._arrays[name]
            begin: Expr | None = Const(array.type, 0)
            if name in self._begins:
                begin = Load(array.type, name, array.index) if array.stores else array.begin
            if begin is None:
                raise Unknown(name)
            found.append(Var(self._variable[name], begin))
        return found

    # ---- statements ----

    def _body(self, body: Body, env: dict[str, Expr], here: Conditions) -> Body:
        out: list[Stmt] = []
        for statement in body:
            if isinstance(statement, While):
                out.append(self._while(statement, env, here))
                continue
            new = with_operands(statement, tuple([self._expr(e, env, here) for e in operands(statement)]))
            if isinstance(statement, Store) and statement.buffer in self._arrays:
                assert isinstance(new, Store)
                out += self._store(new, env, here)
                continue
            if isinstance(statement, NESTING):
                new = self._nested(new, env, here)
            out.append(new)
        return tuple(out)

    def _nested(self, statement: Stmt, env: dict[str, Expr], here: Conditions) -> Stmt:
        stored = {s.buffer for s in statements((statement,)) if isinstance(s, Store)}
        if isinstance(statement, If):
            arms = []
            sure = {name: list(found) for name, found in self._sure.items()}
            each = []
            for truth, arm in ((True, statement.then), (False, statement.orelse)):
                self._sure = {name: list(found) for name, found in sure.items()}
                inner = self._places.assumed(here, statement.condition, truth)
                arms.append(self._body(arm, dict(env), inner))
                each.append((self._sure, inner))
            self._sure = self._joined(each, here)
            new: Stmt = with_bodies(statement, tuple(arms))
        else:
            inside, sure = self._entered(stored, env)
            new = with_bodies(statement, tuple([self._body(body, inside, here) for _, body in bodies(statement)]))
            self._sure = sure
        for name in stored:
            env.pop(name, None)
        return new

    def _while(self, statement: While, env: dict[str, Expr], here: Conditions) -> Stmt:
        """The condition sees what the setup stored, in every trip."""
        stored = {s.buffer for s in statements((statement,)) if isinstance(s, Store)}
        inside, sure = self._entered(stored, env)
        setup = self._body(statement.setup, inside, here)
        condition = self._expr(statement.condition, inside, here)
        body = self._body(statement.body, inside, here)
        self._sure = sure
        for name in stored:
            env.pop(name, None)
        return While(setup, condition, body, statement.source)

    def _entered(self, stored: set[str], env: dict[str, Expr]) -> tuple[dict[str, Expr], dict[str, list[Conditions]]]:
        """At a loop: the values that hold in all trips, and what is sure behind it, as there may be no trip."""
        self._maybe |= stored & self._arrays.keys()
        inside = {name: value for name, value in env.items() if name not in stored}
        return inside, {name: list(found) for name, found in self._sure.items()}

    def _joined(
        self, arms: list[tuple[dict[str, list[Conditions]], Conditions]], here: Conditions
    ) -> dict[str, list[Conditions]]:
        """What either arm is sure to have stored, under its conditions, and what both have."""
        found: dict[str, list[Conditions]] = {}
        for sure, _ in arms:
            for name, conditions in sure.items():
                found.setdefault(name, []).extend(c for c in conditions if c not in found.get(name, ()))
        for name in found:
            if all(any(inner.within(c) for c in sure.get(name, ())) for sure, inner in arms):
                found[name].append(here)
        return found

    def _store(self, store: Store, env: dict[str, Expr], here: Conditions) -> list[Stmt]:
        name, array, value = store.buffer, self._arrays[store.buffer], store.value
        self._maybe.add(name)
        out: list[Stmt] = []
        written: Expr = value
        inside = self._places.is_inside(array.key, array.shape, here)
        if name in self._variables:
            variable = Local(array.type, self._variable[name])
            if not inside:
                value = self._or_zero(array, value)
            out.append(Assign(variable.name, value, store.source))
            written = variable
        else:
            if not isinstance(value, Const):
                written = Local(value.type, self._take(f"{name}_new"))
                out.append(Let(written.name, value, store.source))
            env[name] = written if inside else self._or_zero(array, written)
        self._sure.setdefault(name, []).append(here)
        if array.stores:
            out.append(Store(name, store.index, written, store.source))
        return out

    def _or_zero(self, array: Forwarded, value: Expr) -> Expr:
        """What a load gives: behind the end 0, whatever is stored there."""
        return Apply(array.type, "where", (_is_inside(array), value, Const(array.type, 0)))

    # ---- expressions ----

    def _expr(self, expr: Expr, env: dict[str, Expr], here: Conditions) -> Expr:
        if isinstance(expr, Load) and expr.buffer in self._arrays:
            return self._load(expr, env, here)
        parts = children(expr)
        return with_children(expr, tuple([self._expr(part, env, here) for part in parts])) if parts else expr

    def _load(self, load: Load, env: dict[str, Expr], here: Conditions) -> Expr:
        name = load.buffer
        array = self._arrays[name]
        if name not in self._maybe:
            if array.stores:
                return load
            if array.begin is None:
                raise Unknown(name)
            return array.begin
        if name in self._variables:
            if not any(here.within(sure) for sure in self._sure.get(name, ())):
                self._begins.add(name)
            return Local(array.type, self._variable[name])
        if name in env:
            return env[name]
        self._variables.add(name)
        return load


def _is_inside(array: Forwarded) -> Expr:
    """Whether the thread has an element."""
    parts = array.index.indices if isinstance(array.index, Position) else (array.index,)
    found: Expr | None = None
    for part, extent in zip(parts, array.shape, strict=True):
        tests: list[Expr] = [Apply(bool_, "less", (part, Const(part.type, extent)))]
        if part.type.kind == "signed":
            tests.append(Apply(bool_, "greater_equal", (part, Const(part.type, 0))))
        for test in tests:
            found = test if found is None else Apply(bool_, "logical_and", (found, test))
    assert found is not None  # an array has axes
    return found
