"""Programs of any statements: by one thread with wild indices, or by many, each with elements of its own."""

from __future__ import annotations

import random

from draw_expr import Scope, zero_scalar
from draw_stmt import COMMUTING, Rules, Statements
from draw_values import draw_value, draw_values
from number_formats import FLOATS, INTEGERS, TYPES, ZERO
from program_tree import Buffer, Expr, Program, Stmt, const, op

ROW = 4
_BLOCKS = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 2, 1), (1, 2, 2), (2, 1, 3))
_GRIDS = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 1, 2))


def draw_general(
    rng: random.Random,
    *,
    alone: bool | None = None,
    contended: bool = False,
    asserts: bool = False,
    functions: bool = False,
    types: tuple[str, ...] = TYPES,
) -> Program:
    """`alone`: by one thread, else by many; `contended`: many threads meet at elements by atomics."""
    if alone is None:
        alone = rng.random() < 0.6
    program = Program(index=rng.choice(("u32",) * 4 + ("i32",) * 3 + ("u64", "i64")))
    if not alone:
        program.block, program.grid = rng.choice(_BLOCKS), rng.choice(_GRIDS)
        if rng.random() < 0.12:
            program.block, program.grid = (rng.choice((31, 32, 33, 40)), 1, 1), (1, 1, 1)
    scope = Scope(rng, program, types=types, functions=functions)
    inputs = add_inputs(scope)
    writable = _add_outputs(scope, inputs, alone=alone)
    _add_own(scope)
    if alone:
        _shape_outputs(scope, writable)
    scope.readable = [*inputs, *program.own, *program.own, *(writable if alone else ())]
    add_scalars(scope, rng.randint(0, 4))
    rules = Rules(writable, alone, ROW, asserts=asserts, statements=rng.choice((4, 8, 14, 22)))
    rules.short_loops = functions
    before = [] if alone else [row_statement(scope, ROW)]
    if contended:
        rules.contended = _add_counters(scope)
    statements = Statements(scope, rules)
    body = statements.body(3, rng.randint(2, 9), in_loop=False)
    if contended:
        for _ in range(rng.randint(1, 3)):
            body += statements.collected(lambda: [statements.contended_atomic(2)])
    program.body = before + body
    return program


def add_inputs(scope: Scope) -> list[str]:
    rng = scope.rng
    names = [f"x{number}" for number in range(rng.randint(1, 3))]
    for name in names:
        type_ = rng.choice(scope.types)
        values = draw_values(rng, type_, rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 12)))
        role = "table" if values and name != "x0" and rng.random() < 0.4 else "in"
        scope.program.buffers[name] = Buffer(type_, role, values, shape=_shape(rng, len(values)))
    return names


def _shape(rng: random.Random, length: int) -> tuple[int, ...]:
    """() more often than not, else extents that come to the length."""
    if length == 0 or rng.random() < 0.6:
        return ()
    rows = rng.choice([extent for extent in range(1, length + 1) if length % extent == 0])
    if rng.random() < 0.7:
        return rows, length // rows
    columns = rng.choice([extent for extent in range(1, rows + 1) if rows % extent == 0])
    return (columns, rows // columns, length // rows)[:: rng.choice((1, -1))]


def _add_own(scope: Scope) -> None:
    """Arrays of each thread."""
    rng = scope.rng
    for number in range(rng.choice((0, 0, 0, 1, 2))):
        shape = rng.choice(((1,), (2,), (5,), (2, 3), (1, 4), (2, 1, 2)))
        scope.program.own[f"own{number}"] = (rng.choice(scope.types), shape)


def _shape_outputs(scope: Scope, names: list[str]) -> None:
    for name in names:
        buffer = scope.program.buffers[name]
        buffer.shape = _shape(scope.rng, len(buffer.values))
        if buffer.shape:
            buffer.size = None


def add_scalars(scope: Scope, count: int) -> None:
    zero_scalar(scope.program)
    for number in range(count):
        type_ = scope.rng.choice(scope.types)
        scope.program.scalars[f"s{number}"] = (type_, draw_value(scope.rng, type_))


def _add_outputs(scope: Scope, inputs: list[str], *, alone: bool) -> list[str]:
    rng, program = scope.rng, scope.program
    names = [f"o{number}" for number in range(rng.randint(1, 4))]
    for name in names:
        type_ = rng.choice(scope.types)
        length = rng.choice((0, 1, 2, 3, 4, 6, 7)) if alone else program.threads_per_block * program.blocks * ROW
        if rng.random() < 0.5:
            program.buffers[name] = Buffer(type_, "inout", draw_values(rng, type_, length))
        else:
            size, length = _size(scope, inputs, length, alone=alone)
            program.buffers[name] = Buffer(type_, "out", [ZERO[type_]] * length, size)
    return names


def _size(scope: Scope, inputs: list[str], length: int, *, alone: bool) -> tuple[Expr, int]:
    """A constant, or made of the size of an input."""
    index = scope.program.index
    if scope.rng.random() < 0.5:
        source = scope.rng.choice(inputs)
        given = len(scope.program.buffers[source].values)
        size = Expr("size", index, source)
        if alone:
            return size, given
        if given <= length:
            return op(index, "add", size, const(index, length - given)), length
    return const(index, length), length


def _add_counters(scope: Scope) -> dict[str, tuple[str, ...]]:
    """Buffers for atomics alone, each with the ops that may be mixed on it."""
    rng = scope.rng
    counters = {}
    for number in range(rng.randint(1, 2)):
        names = rng.choice(COMMUTING)
        floats = names[0] in ("add", "minimum", "maximum") and rng.random() < 0.25
        exact = ("f32", "f64") if names[0] == "add" else tuple(FLOATS)
        type_ = rng.choice(exact if floats else tuple(INTEGERS))
        length = rng.choice((1, 2, 5))
        if type_ in FLOATS and names[0] == "add":
            names = ("add",)
            values = [float(rng.randint(-100, 100)) for _ in range(length)]
        else:
            values = draw_values(rng, type_, length)
        scope.program.buffers[f"c{number}"] = Buffer(type_, "inout", values)
        counters[f"c{number}"] = names
    return counters


def row_statement(scope: Scope, row: int) -> Stmt:
    """The first element of the thread: `row` is its number in the grid times the elements of a thread."""
    index = scope.program.index

    def axis(kind: str, letter: str) -> Expr:
        return Expr("id", index, f"{kind}.{letter}")

    width = op(index, "multiply", axis("grid_dim", "x"), axis("block_dim", "x"))
    height = op(index, "multiply", axis("grid_dim", "y"), axis("block_dim", "y"))
    plane = op(index, "add", axis("global_id", "y"), op(index, "multiply", height, axis("global_id", "z")))
    number = op(index, "add", axis("global_id", "x"), op(index, "multiply", width, plane))
    scope.declare("row", index)
    return Stmt("let", "row", (op(index, "multiply", number, const(index, row)),))
