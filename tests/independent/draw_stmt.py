"""Random statements: assignments, stores, atomics, branches, loops at the limits of their types, ways out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from draw_expr import INDEX_TYPES, Expressions, Name, Scope
from number_formats import INTEGERS, NUMBERS, RANGES
from program_tree import Body, Expr, Stmt, cast, const, local, op

ATOMIC_TYPES = NUMBERS
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("block", "device", "system")
# Ops whose outcome does not depend on the order in which threads come; a buffer has one group of them.
COMMUTING = (("add", "subtract"), ("minimum",), ("maximum",), ("bitwise_and",), ("bitwise_or",), ("bitwise_xor",))


@dataclass(slots=True)
class Rules:
    """What the statements of a program may do.

    `alone`: one thread, so it may read what it writes anywhere. Otherwise a thread stores to its own `row` elements of
    each buffer alone. `contended` maps buffers that all threads change by atomics to the ops that do so. `returns`: a
    thread may end early. `short_loops`: of constants, a few passes each.
    """

    writable: list[str]
    alone: bool
    row: int
    contended: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asserts: bool = False
    returns: bool = True
    short_loops: bool = False
    statements: int = 20


class Statements:
    """Draws the body of a program."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        self.scope = scope
        self.rules = rules
        self.rng = scope.rng
        self.exprs = Expressions(scope)
        self.drawn = 0

    def body(self, depth: int, count: int, *, in_loop: bool) -> Body:
        mark = len(self.scope.names)
        body: Body = []
        for _ in range(count):
            if self.drawn >= self.rules.statements:
                break
            body += self.one(depth, in_loop=in_loop)
            if body[-1].kind in ("break", "continue", "return"):
                break
        del self.scope.names[mark:]
        return body

    def one(self, depth: int, *, in_loop: bool) -> Body:
        self.drawn += 1
        return self.collected(lambda: self._draw(depth, in_loop=in_loop))

    def collected(self, draw: Callable[[], Body]) -> Body:
        """What is drawn, behind the lets that it needs."""
        outer, self.scope.before = self.scope.before, []
        drawn = draw()
        body = self.scope.before + drawn
        self.scope.before = outer
        return body

    def _draw(self, depth: int, *, in_loop: bool) -> Body:
        rng = self.rng
        nesting = rng.choice((1, 2, 2, 3, 3, 4))
        kind = rng.random()
        if kind < 0.28:
            return [self.declaration(nesting, "let" if kind < 0.2 else "var")]
        if kind < 0.4:
            variables = [name for name in self.scope.names if name.role == "var"]
            if variables:
                return [self.assignment(rng.choice(variables), nesting)]
        if kind < 0.6:
            return [self.store(nesting)] if self.rules.alone or rng.random() < 0.6 else self.neighbors(nesting)
        if kind < 0.65:
            return [self.atomic(nesting)]
        if kind < 0.69 and self.rules.asserts:
            return [self.assertion(nesting)]
        if depth <= 0:
            return [self.store(nesting)]
        if kind < 0.8:
            return [self.branch(depth, nesting, in_loop=in_loop)]
        if kind < 0.91:
            return self.for_loop(depth)
        if kind < 0.95:
            return self.while_loop(depth)
        return [self.way_out(nesting, in_loop=in_loop)]

    # ---- plain statements ----

    def declaration(self, nesting: int, kind: str) -> Stmt:
        rng = self.rng
        type_ = rng.choice(self.scope.types if rng.random() < 0.5 else INDEX_TYPES)
        if kind == "let" and type_ in INTEGERS and rng.random() < 0.4:
            value = self.exprs.near_index(type_, nesting)
        else:
            value = self.exprs.value(type_, nesting)
        name = self.scope.fresh(kind[0])
        self.scope.declare(name, type_, kind)
        return Stmt(kind, name, (value,))

    def assignment(self, variable: Name, nesting: int) -> Stmt:
        type_ = variable.type
        if type_ in INTEGERS and self.rng.random() < 0.5:
            name = self.rng.choice(("add", "subtract", "multiply", "bitwise_xor"))
            value = op(type_, name, local(type_, variable.name), self.exprs.small(type_))
        else:
            value = self.exprs.value(type_, nesting)
        return Stmt("set", variable.name, (value,))

    def store(self, nesting: int) -> Stmt:
        program = self.scope.program
        own = self.rng.random() < 0.3 if program.own else False
        name = self.rng.choice([*program.own] if own else self.rules.writable)
        value = self.exprs.value(program.type_of(name), nesting)
        return Stmt("store", name, (self.place(name, nesting), value))

    def neighbors(self, nesting: int) -> Body:
        """Stores to all of the thread's elements of an array, and loads of as many of an input."""
        rng, program = self.rng, self.scope.program
        name = rng.choice(self.rules.writable)
        type_ = program.type_of(name)
        flat = [each for each, buffer in program.buffers.items() if buffer.role == "in" and not buffer.shape]
        source = rng.choice(flat) if flat else ""
        places = [op(program.index, "add", local(program.index, "row"), const(program.index, k)) for k in range(4)]
        stores: Body = []
        for place in rng.sample(places[: self.rules.row], self.rules.row):
            value = self.exprs.value(type_, nesting)
            if source and rng.random() < 0.8:
                loaded = Expr("load", program.type_of(source), source, (place,))
                value = loaded if loaded.type == type_ else cast(type_, loaded)
            stores.append(Stmt("store", name, (place, value)))
        return stores

    def place(self, name: str, nesting: int) -> Expr:
        """Where a thread may store."""
        if self.rules.alone or name in self.scope.program.own:
            return self.exprs.any_place(name, nesting)
        index = self.scope.program.index
        return op(index, "add", local(index, "row"), const(index, self.rng.randrange(self.rules.row)))

    def assertion(self, nesting: int) -> Stmt:
        """True more often than not, so that most programs go on."""
        condition = self.exprs.condition(nesting)
        if self.rng.random() < 0.5:
            condition = op("bool_", "logical_or", condition, self.exprs.condition(nesting))
        return Stmt("assert", f"claim {self.scope.fresh('')}", (condition,))

    def atomic(self, nesting: int) -> Stmt:
        if self.rules.contended:
            return self.contended_atomic(nesting)
        buffers = [b for b in self.rules.writable if self.scope.program.buffers[b].type in ATOMIC_TYPES]
        if not buffers:
            return self.store(nesting)
        rng = self.rng
        buffer = rng.choice(buffers)
        type_ = self.scope.program.buffers[buffer].type
        names = ["add", "minimum", "maximum", "exchange", "load", "store"]
        if type_ in INTEGERS:
            names += ["subtract", "bitwise_and", "bitwise_or", "bitwise_xor", "compare_exchange"]
        name = rng.choice(names)
        operands = [self.exprs.value(type_, nesting) for _ in range({"load": 0, "compare_exchange": 2}.get(name, 1))]
        index = self.place(buffer, nesting)
        orders = {"load": ORDERS[:2], "store": ORDERS[:3:2]}.get(name, ORDERS)
        result = ""
        if name == "load" or (name != "store" and rng.random() < 0.6):
            result = self.scope.fresh("a")
            self.scope.declare(result, type_)
        return Stmt("atomic", result, (index, *operands), (), (name, buffer, rng.choice(orders), rng.choice(SCOPES)))

    def contended_atomic(self, nesting: int) -> Stmt:
        rng = self.rng
        buffer, names = rng.choice(list(self.rules.contended.items()))
        type_ = self.scope.program.buffers[buffer].type
        if type_ in INTEGERS:
            operand = self.exprs.value(type_, nesting)
        elif names[0] == "add":
            # Sums of few small integers are exact in any order.
            operand = cast(type_, self.exprs.value("i8", nesting))
        else:
            operand = self.exprs.value(type_, nesting)
        name = rng.choice(names)
        detail = (name, buffer, rng.choice(ORDERS), rng.choice(SCOPES[1:]))
        return Stmt("atomic", "", (self.exprs.any_index(nesting), operand), (), detail)

    # ---- control flow ----

    def branch(self, depth: int, nesting: int, *, in_loop: bool) -> Stmt:
        condition = self.exprs.condition(nesting)
        then = self.body(depth - 1, self.rng.randint(1, 4), in_loop=in_loop)
        orelse: Body = []
        if self.rng.random() < 0.5:
            orelse = self.body(depth - 1, self.rng.randint(1, 3), in_loop=in_loop)
        return Stmt("if", "", (condition,), (then, orelse))

    def way_out(self, nesting: int, *, in_loop: bool) -> Stmt:
        rng = self.rng
        if in_loop and rng.random() < 0.7:
            leaves = Stmt(rng.choice(("break", "continue")))
            return leaves if rng.random() < 0.2 else Stmt("if", "", (self.exprs.condition(nesting),), ([leaves], []))
        if self.rules.returns and rng.random() < 0.25:
            return Stmt("if", "", (self.exprs.condition(nesting),), ([Stmt("return")], []))
        return self.store(nesting)

    def for_loop(self, depth: int) -> Body:
        rng = self.rng
        type_ = rng.choice(INDEX_TYPES if rng.random() < 0.6 else tuple(INTEGERS))
        known = 1.0 if rng.random() < 0.5 else 0.4
        bounds = [
            self.exprs.dynamic(bound) if bound.kind == "const" and rng.random() > known else bound
            for bound in self._bounds(type_)
        ]
        if bounds[2].kind == "const" and bounds[2].word == 0:
            bounds[2] = const(type_, 1)
        name = self.scope.fresh("j")
        mark = len(self.scope.names)
        self.scope.declare(name, type_, "counter")
        body = self.body(depth - 1, rng.randint(1, 4), in_loop=True)
        del self.scope.names[mark:]
        return [Stmt("for", name, tuple(bounds), (body,))]

    def _bounds(self, type_: str) -> tuple[Expr, Expr, Expr]:
        """Start, stop and step: of small ranges, at the ends of the type, huge ones with huge steps, any values."""
        rng, exprs = self.rng, self.exprs
        lowest, highest = RANGES[type_]
        if self.rules.short_loops:
            return self._short_range(type_)
        kind = rng.random()
        if kind < 0.3:
            return const(type_, 0), exprs.bound(type_, 1), const(type_, rng.choice((1, 1, 2, 3)))
        if kind < 0.45:
            before = rng.randint(0, 12)
            step = rng.choice((1, 2, 3, 5, before + 1, highest // 2, highest))
            return _constants(type_, highest - before, rng.choice((highest, highest - 1)), step)
        if kind < 0.54 and lowest < 0:
            step = rng.choice((-1, -2, -5, lowest, lowest + 1))
            return _constants(type_, lowest + rng.randint(0, 12), rng.choice((lowest, lowest + 1)), step)
        if kind < 0.72:
            return self._huge_range(type_)
        if kind < 0.85:
            return exprs.near_index(type_, 1), exprs.bound(type_, 2), self._unknown(type_)
        steps = (1, 2, highest, -1, -2, lowest) if lowest < 0 else (1, 2, highest)
        step_expr = self._unknown(type_) if rng.random() < 0.5 else const(type_, rng.choice(steps))
        return self._unknown(type_), self._unknown(type_), step_expr

    def _short_range(self, type_: str) -> tuple[Expr, Expr, Expr]:
        rng = self.rng
        lowest, highest = RANGES[type_]
        passes = rng.randint(0, 4)
        if lowest < 0 and rng.random() < 0.3:
            return _constants(type_, lowest + passes, lowest, rng.choice((-1, -2, lowest)))
        start = rng.choice((0, 1, highest - passes))
        return _constants(type_, start, start + passes, rng.choice((1, 1, 2, highest)))

    def _huge_range(self, type_: str) -> tuple[Expr, Expr, Expr]:
        """A good part of the type in a few steps, whose sums pass its end."""
        rng = self.rng
        lowest, highest = RANGES[type_]
        low, high = (
            rng.choice((lowest, lowest, lowest + 1, 0, 1, 2)),
            rng.choice((highest, highest, highest - 1, highest // 2)),
        )
        step = rng.choice((highest, highest - 1, highest // 2, highest // 2 + 1, highest // 3, highest // 5))
        if lowest < 0 and rng.random() < 0.4:
            return _constants(type_, high, low, rng.choice((lowest, lowest + 1, lowest // 2, -highest, -step)))
        return _constants(type_, low, high, step)

    def _unknown(self, type_: str) -> Expr:
        if self.rng.random() < 0.5:
            scalar = self.exprs.scalar(type_)
            if scalar is not None:
                return scalar
        return self.exprs.small(type_) if self.rng.random() < 0.4 else self.exprs.leaf(type_)

    def while_loop(self, depth: int) -> Body:
        """Of at most 6 passes."""
        rng, scope = self.rng, self.scope
        type_ = rng.choice(tuple(INTEGERS))
        lowest, highest = RANGES[type_]
        start = const(type_, rng.choice((0, 0, 5, lowest, highest - 3)))
        name, passes = scope.fresh("w"), scope.fresh("k")
        body = [Stmt("var", name, (start,)), Stmt("var", passes, (const("u32", 0),))]
        scope.declare(name, type_, "var")
        mark = len(scope.names)
        setup: Body = []
        if rng.random() < 0.4:
            setup += self.collected(lambda: [self.declaration(2, "let")])
        if rng.random() < 0.3:
            setup += self.collected(lambda: [self.store(2)])
        outer, scope.before = scope.before, setup
        drawn = self.exprs.condition(2)
        scope.before = outer
        counted = op("bool_", "less", local("u32", passes), const("u32", rng.randint(1, 6)))
        condition = op("bool_", "logical_and", counted, drawn)
        one_more = op("u32", "add", local("u32", passes), const("u32", 1))
        inner = [Stmt("set", passes, (one_more,)), *self.body(depth - 1, rng.randint(1, 4), in_loop=True)]
        del scope.names[mark:]
        return [*body, Stmt("while", "", (condition,), (setup, inner))]


def _constants(type_: str, start: int, stop: int, step: int) -> tuple[Expr, Expr, Expr]:
    return const(type_, start), const(type_, stop), const(type_, step)
