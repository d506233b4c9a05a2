"""Programs of large launches: each thread works on an element of its own, and the grid follows from the work.

Their sizes are small, around the groups of blocks that one block replaces where a thread takes several elements; the
judge lets launches of any size take several.
"""

from __future__ import annotations

import random

from draw_expr import Expressions, Scope
from draw_general import add_scalars
from draw_stmt import Rules, Statements
from draw_values import draw_values
from number_formats import BITS, TYPES, ZERO
from program_tree import Body, Buffer, Expr, Program, Stmt, cast, const, local, op

_BLOCKS = (1, 2, 3, 8, 32, 33)
# A block that replaces so many has so many elements a thread, of types of one and two bytes the larger numbers.
_GROUPS = (4, 8, 16)
_MOST_THREADS = 300
_NARROW = tuple(type_ for type_ in TYPES if BITS[type_] < 32)
_COMPARED = ("less", "less_equal", "greater", "greater_equal", "not_equal")


class _OfElements(Expressions):
    """Loads are mostly of the thread's own element, and always where other threads write."""

    def id(self) -> Expr:
        return Expr("id", self.index, "global_id.x")

    def any_place(self, name: str, depth: int) -> Expr:
        own = local(self.index, "row")
        chance = self.rng.random()
        if chance < 0.9 or self.scope.program.buffers[name].role != "in":
            return own
        if chance < 0.97:
            return op(self.index, self.rng.choice(("add", "subtract")), own, const(self.index, self.rng.randrange(4)))
        return self.any_index(depth)


class _Elementwise(Statements):
    """No loops, atomics or ways out."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        super().__init__(scope, rules)
        self.exprs = _OfElements(scope)

    def _draw(self, depth: int, *, in_loop: bool) -> Body:
        nesting, kind = self.rng.choice((1, 1, 2, 2, 3)), self.rng.random()
        variables = [name for name in self.scope.names if name.role == "var"]
        if kind < 0.3:
            return [self.declaration(nesting, "let" if kind < 0.2 else "var")]
        if kind < 0.42 and variables:
            return [self.assignment(self.rng.choice(variables), nesting)]
        if kind < 0.85 or depth <= 0:
            return [self.store(nesting)]
        return [self.branch(depth, nesting, in_loop=in_loop)]

    def place(self, name: str, nesting: int) -> Expr:
        return local(self.scope.program.index, "row")


def draw_wide(rng: random.Random) -> Program:
    block = rng.choice(_BLOCKS)
    group = block * rng.choice(_GROUPS)
    count = min(_MOST_THREADS, max(0, rng.randint(0, 3) * group + rng.randint(-block - 1, block + 1)))
    program = Program(index=rng.choice(("u32",) * 4 + ("i32",) * 3 + ("u64", "i64")))
    program.block, program.grid = (block, 1, 1), (-(-count // block), 1, 1)
    index = program.index
    drawn_from = _NARROW if rng.random() < 0.4 else TYPES
    scope = Scope(rng, program, types=drawn_from)
    for number in range(rng.randint(1, 3)):
        type_ = rng.choice(drawn_from)
        program.buffers[f"x{number}"] = Buffer(type_, "in", draw_values(rng, type_, _length(rng, count)))
        scope.readable.append(f"x{number}")
    writable = [f"o{number}" for number in range(rng.randint(1, 3))]
    for name in writable:
        type_, length = rng.choice(drawn_from), _length(rng, count)
        if rng.random() < 0.5:
            program.buffers[name] = Buffer(type_, "inout", draw_values(rng, type_, length))
            scope.readable.append(name)
        else:
            program.buffers[name] = Buffer(type_, "out", [ZERO[type_]] * length, const(index, length))
    add_scalars(scope, rng.randint(0, 2))
    unknown = op(index, "add", cast(index, Expr("scalar", "u32", "zero")), const(index, count))
    program.work = unknown if rng.random() < 0.7 else const(index, count)
    scope.declare("row", index)
    statements = _Elementwise(scope, Rules(writable, False, 1, statements=rng.choice((3, 5, 8))))
    body = statements.body(2, rng.randint(1, 5), in_loop=False)
    program.body = [
        Stmt("let", "row", (Expr("id", index, "global_id.x"),)),
        *_guarded(rng, program, writable, count, body),
    ]
    return program


def _length(rng: random.Random, count: int) -> int:
    """Of an array: the launch's threads, or some more, or fewer."""
    return count if rng.random() < 0.5 else max(0, count + rng.randint(-40, 40))


def _guarded(rng: random.Random, program: Program, writable: list[str], count: int, body: Body) -> Body:
    """Behind a comparison of the thread's number with a size or a constant, or a return; or as it is."""
    chance, index = rng.random(), program.index
    if chance < 0.25:
        return body
    within = const(index, rng.randrange(count + 3))
    limit = Expr("size", index, rng.choice(writable)) if rng.random() < 0.6 else within
    if chance < 0.45:
        past = op("bool_", "greater_equal", local(index, "row"), limit)
        return [Stmt("if", "", (past,), ([Stmt("return")], [])), *body]
    name = "less" if rng.random() < 0.7 else rng.choice(_COMPARED)
    return [Stmt("if", "", (op("bool_", name, local(index, "row"), limit),), (body, []))]
