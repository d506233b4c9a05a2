"""Programs of warps, shared memory and barriers, of blocks or of the whole grid.

Barriers and warp operations stand in control flow that is the same for the block, the grid or the warp. What threads
tell each other goes through shared arrays, or buffers where the grid has barriers, in rounds between two barriers.
"""

from __future__ import annotations

import math
import random

from draw_expr import COMPARISONS, Scope
from draw_general import add_inputs, add_scalars
from draw_stmt import COMMUTING, ORDERS, Rules, Statements
from draw_values import draw_values
from number_formats import FLOATS, INTEGERS, NUMBERS, RANGES, TYPES, ZERO
from program_tree import Body, Buffer, Expr, Program, Stmt, const, local, op

ROW = 2
_BLOCKS = (
    *((1, 1, 1), (5, 1, 1), (31, 1, 1), (32, 1, 1), (33, 1, 1), (40, 1, 1), (64, 1, 1), (70, 1, 1), (96, 1, 1)),
    *((16, 3, 1), (8, 4, 2), (3, 7, 2), (2, 2, 9)),
)
_WARP_OPS = (
    *("shuffle", "shuffle", "shuffle_up", "shuffle_down", "shuffle_xor", "broadcast", "any", "all", "ballot", "match"),
    *("reduce", "reduce", "inclusive_scan", "exclusive_scan"),
)
_COMBINES = ("add", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor")
_LANES = (0, 1, 2, 4, 5, 16, 31, 32, 33, 40, 63, (1 << 32) - 1)


class Lockstep(Statements):
    """Draws statements that all threads of a warp, a block or the grid come to together."""

    def __init__(self, scope: Scope, rules: Rules, exchanged: dict[str, tuple[str, int]], barrier: str) -> None:
        super().__init__(scope, rules)
        self.exchanged = exchanged
        self.barrier = barrier
        self.threads = scope.program.threads_per_block
        if barrier == "grid_barrier":
            self.threads *= scope.program.blocks

    def together(self, count: int, depth: int, *, barriers: bool = True) -> Body:
        mark = len(self.scope.names)
        body: Body = []
        for _ in range(count):
            body += self._together(depth, barriers=barriers)
        del self.scope.names[mark:]
        return body

    def _together(self, depth: int, *, barriers: bool) -> Body:
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return self.one(1, in_loop=False)
        if kind < 0.55 or not barriers:
            return self.collected(lambda: [self.warp()])
        if kind < 0.82:
            return self.collected(self.exchange)
        if depth <= 0:
            return self.one(1, in_loop=False)
        if kind < 0.88:
            then = self.together(rng.randint(1, 3), depth - 1)
            orelse = self.together(1, depth - 1) if rng.random() < 0.4 else []
            return [Stmt("if", "", (self.uniform(),), (then, orelse))]
        if kind < 0.93:
            return self.warp_branch(depth)
        return self.uniform_loop(depth)

    # ---- control flow ----

    def uniform(self) -> Expr:
        """The same for all threads."""
        rng, program = self.rng, self.scope.program
        numbers = [name for name, (type_, _) in program.scalars.items() if type_ in NUMBERS]
        if rng.random() < 0.5:
            name = rng.choice(numbers)
            type_ = program.scalars[name][0]
            return op("bool_", rng.choice(COMPARISONS), Expr("scalar", type_, name), self.exprs.const(type_))
        side = self.exprs.size() if rng.random() < 0.6 else Expr("id", program.index, "grid_dim.x")
        return op("bool_", rng.choice(COMPARISONS), side, const(program.index, rng.randint(0, 8)))

    def warp_branch(self, depth: int) -> Body:
        """A branch that whole warps take."""
        rng, index = self.rng, self.scope.program.index
        body: Body = []
        if self.scope.program.block[1:] == (1, 1) and rng.random() < 0.5:
            condition = op(
                "bool_", rng.choice(("less", "greater_equal")), Expr("id", index, "thread_id.x"), const(index, 32)
            )
        else:
            name = self.scope.fresh("b")
            value = self.exprs.condition(2)
            body = [*self.scope.before, Stmt("warp", name, (value,), (), (rng.choice(("any", "all")), ""))]
            self.scope.before = []
            condition = local("bool_", name)
        then = self.together(rng.randint(1, 3), depth - 1, barriers=False)
        orelse = self.together(1, depth - 1, barriers=False) if rng.random() < 0.4 else []
        return [*body, Stmt("if", "", (condition,), (then, orelse))]

    def uniform_loop(self, depth: int) -> Body:
        rng = self.rng
        type_ = rng.choice(tuple(INTEGERS))
        highest = RANGES[type_][1]
        start = rng.choice((0, highest - 3, highest - 1))
        bounds = (start, min(highest, start + rng.randint(0, 5)), rng.choice((1, 2, highest)))
        name = self.scope.fresh("j")
        mark = len(self.scope.names)
        self.scope.declare(name, type_, "counter")
        body = self.together(rng.randint(1, 3), depth - 1)
        del self.scope.names[mark:]
        return [Stmt("for", name, tuple(const(type_, bound) for bound in bounds), (body,))]

    # ---- what threads tell each other ----

    def warp(self) -> Stmt:
        rng = self.rng
        name = rng.choice(_WARP_OPS)
        combine = ""
        if name in ("any", "all", "ballot"):
            type_ = "bool_"
        elif name in ("reduce", "inclusive_scan", "exclusive_scan"):
            combine = rng.choice(_COMBINES)
            type_ = rng.choice(tuple(INTEGERS) if combine.startswith("bit") or rng.random() < 0.6 else tuple(FLOATS))
        else:
            type_ = rng.choice(self.scope.types)
        value = self.exprs.value(type_, 2)
        if name == "match" and type_ in FLOATS:
            value = self.exprs.number(value)
        operands = [value]
        if name == "broadcast":
            operands.append(const("u32", rng.choice(_LANES)) if rng.random() < 0.7 else Expr("scalar", "u32", "zero"))
        elif name.startswith("shuffle"):
            lane = const("u32", rng.choice(_LANES))
            if rng.random() < 0.5:
                mask = const("u32", rng.choice((31, 63, (1 << 32) - 1)))
                lane = op("u32", "bitwise_and", self.exprs.value("u32", 2), mask)
            operands.append(lane)
        result = self.scope.fresh("w")
        self.scope.declare(result, {"any": "bool_", "all": "bool_", "ballot": "u32", "match": "u32"}.get(name, type_))
        return Stmt("warp", result, tuple(operands), (), (name, combine))

    def exchange(self) -> Body:
        """All threads write to an array, each its own element or by one commuting atomic; then all read."""
        rng = self.rng
        array = rng.choice(list(self.exchanged))
        type_, _ = self.exchanged[array]
        if type_ in ("u32", "i32", "u64", "i64") and rng.random() < 0.45:
            at = self.exprs.any_index(2)
            scopes = ("block", "device") if self.barrier == "barrier" else ("device", "system")
            detail = (rng.choice(rng.choice(COMMUTING)), array, rng.choice(ORDERS), rng.choice(scopes))
            written = Stmt("atomic", "", (at, self.exprs.value(type_, 2)), (), detail)
        else:
            written = Stmt("store", array, (self._permuted(), self.exprs.value(type_, 2)))
        body = [written]
        if rng.random() < 0.35:
            body = [Stmt("if", "", (self.exprs.condition(2),), (body, []))]
        read = Expr("load", type_, array, (self.exprs.any_index(2),))
        name = self.scope.fresh("r")
        self.scope.declare(name, type_)
        before, self.scope.before = self.scope.before, []
        barrier = Stmt(self.barrier)
        # What an index or a value needs may not stand between the barriers: it does not read the array.
        return [*before, barrier, *body, barrier, Stmt("let", name, (read,)), barrier]

    def _permuted(self) -> Expr:
        """The thread's number, or another one that is its own."""
        index, threads = self.scope.program.index, self.threads
        number = local(index, "number")
        factor = self.rng.choice((1, 1, 3, 5, 7))
        if math.gcd(factor, threads) > 1:
            return number
        moved = op(
            index, "add", op(index, "multiply", number, const(index, factor)), const(index, self.rng.randint(0, 5))
        )
        return op(index, "remainder", moved, const(index, threads))


def draw_lockstep(rng: random.Random, *, grid: bool = False, types: tuple[str, ...] = TYPES) -> Program:
    """`grid`: threads of all blocks meet at grid barriers and exchange values by a buffer."""
    program = Program(index=rng.choice(("u32", "u32", "u32", "u64")), block=rng.choice(_BLOCKS))
    program.grid = rng.choice(
        ((2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 1, 1)) if grid else ((1, 1, 1), (1, 1, 1), (2, 1, 1))
    )
    scope = Scope(rng, program, types=types)
    scope.readable = add_inputs(scope)
    threads = program.threads_per_block * program.blocks
    writable = []
    for number in range(rng.randint(1, 3)):
        type_ = rng.choice(types)
        size = const(program.index, threads * ROW)
        program.buffers[f"o{number}"] = Buffer(type_, "out", [ZERO[type_]] * (threads * ROW), size)
        writable.append(f"o{number}")
    add_scalars(scope, 2)
    exchanged = {}
    for number in range(rng.randint(1, 2)):
        type_ = rng.choice(types if rng.random() < 0.6 else ("u32", "i32", "u64", "i64"))
        if grid:
            name, length = f"g{number}", threads + rng.randrange(2)
            program.buffers[name] = Buffer(type_, "inout", draw_values(rng, type_, length))
        else:
            name, length = f"h{number}", program.threads_per_block + rng.randrange(2)
            program.shared[name] = (type_, length)
        exchanged[name] = (type_, length)
    rules = Rules(writable, alone=False, row=ROW, returns=False, statements=30)
    drawn = Lockstep(scope, rules, exchanged, "grid_barrier" if grid else "barrier")
    program.body = _numbers(scope, grid=grid) + drawn.together(rng.randint(2, 7), 2)
    return program


def _numbers(scope: Scope, *, grid: bool) -> Body:
    """`number`: of the thread in its block, or in the grid; `row`: its first element of each output."""
    index = scope.program.index

    def of(kind: str, axis: str) -> Expr:
        return Expr("id", index, f"{kind}.{axis}")

    def nested(kind: str, extent: str) -> Expr:
        plane = op(index, "add", of(kind, "y"), op(index, "multiply", of(extent, "y"), of(kind, "z")))
        return op(index, "add", of(kind, "x"), op(index, "multiply", of(extent, "x"), plane))

    in_block = nested("thread_id", "block_dim")
    first = op(index, "multiply", nested("block_id", "grid_dim"), const(index, scope.program.threads_per_block))
    in_grid = op(index, "add", local(index, "lane"), first)
    body = [Stmt("let", "lane", (in_block,)), Stmt("let", "all", (in_grid,))]
    body.append(Stmt("let", "row", (op(index, "multiply", local(index, "all"), const(index, ROW)),)))
    body.append(Stmt("let", "number", (local(index, "all" if grid else "lane"),)))
    for name in ("lane", "row", "number"):
        scope.declare(name, index)
    return body
