"""Random programs: the interpreter, which advances all lanes together, against threads simulated one at a time.

The simulator below knows nothing of lanes or masks: each thread is a Python generator over plain numbers that stops at
barriers. Programs are free of races, so both must agree bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from ctypes import c_float
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vyre_cuda.interp.evaluate import evaluate
from vyre_cuda.ir import nodes
from vyre_cuda.ir.nodes import (
    Apply,
    Const,
    Expr,
    For,
    Id,
    If,
    Load,
    Local,
    Parameter,
    Scalar,
    SharedArray,
    Size,
    Stmt,
    While,
)
from vyre_cuda.ir.parse import parse
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.scalars import bits_of, value_of
from vyre_cuda.ir.types import Type, bool_, f32, i32, u32

CELLS = 3  # elements of each result that belong to one thread
TILE = 8
BUCKETS = 5


# ---- one thread at a time -------------------------------------------------------------------------------------------


def wrap(type_: Type, value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if type_ is i32 and low >> 31 else low


def number(type_: Type, value: Any) -> Any:
    if type_ is f32:
        return c_float(value).value
    return bool(value) if type_ is bool_ else wrap(type_, value)


def cast(type_: Type, value: Any) -> Any:
    if type_ in (u32, i32) and isinstance(value, float):
        if math.isnan(value):
            return 0
        return int(min(max(value, type_.minimum), type_.maximum))
    return number(type_, value)


OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << min(b & 0xFFFFFFFF, 40),
    "right_shift": lambda a, b: a >> min(b & 0xFFFFFFFF, 40),
    "less": lambda a, b: a < b,
    "equal": lambda a, b: a == b,
    "logical_and": lambda a, b: a and b,
    "logical_not": lambda a: not a,
    "where": lambda c, a, b: a if c else b,
}


class Leave(Exception):
    """A thread leaves a pass, a loop or the program; `how` is the statement that says so."""

    def __init__(self, how: type[Stmt]) -> None:
        self.how = how


class Thread:
    def __init__(self, ids: dict[tuple[str, int], int], scalars: dict[str, Any], memory: dict[str, list[Any]]) -> None:
        self.ids, self.scalars, self.memory = ids, scalars, memory
        self.locals: dict[str, Any] = {}

    def value(self, e: Expr) -> Any:
        match e:
            case Const():
                return value_of(e.type, e.bits)
            case Local():
                return self.locals[e.name]
            case Scalar():
                return self.scalars[e.name]
            case Size():
                return len(self.memory[e.buffer])
            case Id():
                return self.ids[e.kind, e.axis]
            case Load():
                at, cells = self.value(e.index), self.memory[e.buffer]
                return cells[at] if 0 <= at < len(cells) else number(e.type, 0)
            case Apply():
                operands = [self.value(operand) for operand in e.operands]
                return cast(e.type, operands[0]) if e.op == "cast" else number(e.type, OPS[e.op](*operands))

    def run(self, body: tuple[Stmt, ...]) -> Iterator[None]:
        for s in body:
            match s:
                case nodes.Let() | nodes.Var() | nodes.Assign():
                    self.locals[s.name] = self.value(s.value)
                case nodes.Store():
                    at, value = self.value(s.index), self.value(s.value)
                    if 0 <= at < len(self.memory[s.buffer]):
                        self.memory[s.buffer][at] = value
                case nodes.Atomic():
                    at, value = self.value(s.index), self.value(s.operands[0])
                    if 0 <= at < len(self.memory[s.buffer]):
                        self.memory[s.buffer][at] = wrap(u32, self.memory[s.buffer][at] + value)
                case If():
                    yield from self.run(s.then if self.value(s.condition) else s.orelse)
                case For():
                    start, stop, step = (self.value(e) for e in (s.start, s.stop, s.step))
                    yield from self.loop(self.count(s.name, range(start, stop, step) if step else range(0)), s.body)
                case While():
                    yield from self.loop(self.test(s), s.body)
                case nodes.Barrier():
                    yield
                case nodes.Break() | nodes.Continue() | nodes.Return():
                    raise Leave(type(s))

    def count(self, name: str, trips: range) -> Iterator[None]:
        for self.locals[name] in trips:
            yield

    def test(self, s: While) -> Iterator[None]:
        while list(self.run(s.setup)) == [] and self.value(s.condition):
            yield

    def loop(self, passes: Iterator[None], body: tuple[Stmt, ...]) -> Iterator[None]:
        for _ in passes:
            try:
                yield from self.run(body)
            except Leave as leave:
                if leave.how is nodes.Break:
                    return
                if leave.how is nodes.Return:
                    raise

    def whole(self, body: tuple[Stmt, ...]) -> Iterator[None]:
        try:
            yield from self.run(body)
        except Leave:
            return


def simulate(program: Program, memory: dict[str, list[Any]], scalars: dict[str, Any], grid: tuple[int, int]) -> None:
    """Run the launch, changing `memory`."""
    for by, bx in product(range(grid[1]), range(grid[0])):
        shared = {array.name: [number(array.type, 0)] * array.size for array in program.shared}
        threads = []
        for ty, tx in product(range(program.block[1]), range(program.block[0])):
            ids: dict[tuple[str, int], int] = {}
            for axis, (thread, block) in enumerate([(tx, bx), (ty, by)]):
                ids["thread_id", axis], ids["block_id", axis] = thread, block
                ids["block_dim", axis], ids["grid_dim", axis] = program.block[axis], grid[axis]
                ids["global_id", axis] = block * program.block[axis] + thread
            threads.append(Thread(ids, scalars, {**memory, **shared}).whole(program.body))
        while threads:
            threads = [thread for thread in threads if next(thread, StopIteration) is not StopIteration]


# ---- programs -------------------------------------------------------------------------------------------------------

X, Y, B = Parameter("x", "in", u32), Parameter("y", "in", i32), Parameter("b", "in", f32)
RESULTS = {u32: "ru", i32: "ri", f32: "rf"}
EDGES: dict[Type, list[Any]] = {
    u32: [0, 1, 2, 3, 5, 7, 31, 32, 2**31, 2**32 - 1],
    i32: [0, 1, -1, 2, 3, -5, 7, 32, -(2**31), 2**31 - 1],
    f32: [0.0, -0.0, 1.0, -2.5, 3e38, 1e-45, 2.0**31, math.inf, math.nan],
}

SMALL: dict[Type, list[Any]] = {u32: list(range(8)), i32: list(range(-4, 6)), f32: [0.5, 1.0, 3.0]}


def const(type_: Type, value: Any) -> Const:
    return Const(type_, bits_of(type_, value))


class Maker:
    """Draws one program; `mine` is the thread's own first element of every result."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.names = 0
        self.returns = draw(st.booleans())
        self.mine = Local(u32, "mine")

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def fresh(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def expr(self, type_: Type, scope: list[Local], depth: int = 3) -> Expr:
        known = [local for local in scope if local.type is type_]
        if depth == 0 or self.draw(st.integers(0, 3)) == 0:
            return self.leaf(type_, known)
        inner = depth - 1
        if type_ is bool_:
            of = self.pick(u32, i32, f32, bool_)
            if of is bool_:
                op = self.pick("logical_and", "logical_not", "equal")
                return Apply(bool_, op, tuple(self.expr(bool_, scope, inner) for _ in range(1 + (op != "logical_not"))))
            return Apply(bool_, self.pick("less", "equal"), (self.expr(of, scope, inner), self.expr(of, scope, inner)))
        match self.pick("op", "op", "where", "cast", "load", "own"):
            case "op":
                ops = ["add", "subtract", "multiply"]
                if type_ is not f32:
                    ops += ["floor_divide", "remainder", "bitwise_and", "bitwise_xor", "left_shift", "right_shift"]
                return Apply(type_, self.pick(*ops), (self.expr(type_, scope, inner), self.expr(type_, scope, inner)))
            case "where":
                arms = (self.expr(type_, scope, inner), self.expr(type_, scope, inner))
                return Apply(type_, "where", (self.expr(bool_, scope, inner), *arms))
            case "cast":
                return Apply(type_, "cast", (self.expr(self.pick(u32, i32, f32, bool_), scope, inner),))
            case "load":
                return Load(type_, {u32: "x", i32: "y", f32: "b"}[type_], self.expr(self.pick(u32, i32), scope, inner))
            case _:
                return Load(type_, RESULTS[type_], self.cell())

    def leaf(self, type_: Type, known: list[Local]) -> Expr:
        """Mostly values that differ between threads, so that conditions and trip counts do."""
        if type_ is bool_:
            return Apply(bool_, "less", (self.leaf(u32, []), self.leaf(u32, [])))
        own = {u32: "x", i32: "y", f32: "b"}[type_]
        leaves: list[Expr] = [Load(type_, own, Id(u32, "thread_id", 0)), *known, *known]
        leaves.append(const(type_, self.pick(*EDGES[type_])))
        if type_ is u32:
            leaves += [Id(u32, self.pick(*nodes.ID_KINDS), self.pick(0, 1)), Size(u32, "x"), self.mine]
        if type_ is i32:
            leaves.append(Scalar(i32, "s"))
        return self.pick(*leaves)

    def cell(self) -> Expr:
        return Apply(u32, "add", (self.mine, const(u32, self.draw(st.integers(0, CELLS - 1)))))

    def body(self, scope: list[Local], depth: int, in_loop: bool, length: int = 3) -> tuple[Stmt, ...]:
        scope = list(scope)
        found: list[Stmt] = []
        for _ in range(self.draw(st.integers(2, length))):
            found += self.statement(scope, depth, in_loop)
        return tuple(found)

    def statement(self, scope: list[Local], depth: int, in_loop: bool) -> list[Stmt]:
        kinds = ["assign", "assign", "store", "atomic", "let", "var"]
        kinds += ["if", "if", "for", "while"] * (depth > 0)
        kinds += ["break", "continue"] * in_loop + ["return"] * self.returns + ["exchange", "exchange"] * (depth == 3)
        type_ = self.pick(u32, i32, f32)
        match self.pick(*kinds):
            case "let":
                statement = nodes.Let(self.fresh(), self.expr(type_, scope))
                scope.append(Local(type_, statement.name))
                return [statement]
            case "var":
                name = "m" + self.fresh()
                value = self.expr(type_, scope)
                scope.append(Local(type_, name))
                return [nodes.Var(name, value)]
            case "assign":
                variables = [local for local in scope if local.name.startswith("m")]
                if not variables:
                    return []
                target = self.pick(*variables)
                return [nodes.Assign(target.name, self.expr(target.type, scope))]
            case "store":
                return [nodes.Store(RESULTS[type_], self.cell(), self.expr(type_, scope))]
            case "atomic":
                index, value = self.expr(self.pick(u32, i32), scope, 2), self.expr(u32, scope, 2)
                few = Apply(index.type, "remainder", (index, const(index.type, BUCKETS + 2)))
                return [nodes.Atomic(None, "add", "h", few, (value,))]
            case "if":
                then = self.body(scope, depth - 1, in_loop)
                orelse = self.body(scope, depth - 1, in_loop) if self.draw(st.booleans()) else ()
                return [If(self.expr(bool_, scope), then, orelse)]
            case "for":
                return [self.for_loop(scope, depth)]
            case "while":
                return self.while_loop(scope, depth)
            case "exchange":
                return self.exchange(scope)
            case "return":
                return [If(self.expr(bool_, scope), (nodes.Return(),))]
            case leave:
                way = nodes.Break() if leave == "break" else nodes.Continue()
                return [If(self.expr(bool_, scope), (way,))]

    def for_loop(self, scope: list[Local], depth: int) -> Stmt:
        name, type_ = self.fresh(), self.pick(u32, i32)
        inner = [*scope, Local(type_, name)]
        near_end = self.draw(st.booleans())
        if near_end:
            ends = (const(type_, type_.maximum - 4), const(type_, type_.maximum))
            start, stop = ends if self.draw(st.booleans()) else (const(type_, type_.minimum + 5), const(type_, 0))
            step: Expr = const(type_, self.draw(st.integers(1, 5)))
            if type_ is i32 and stop.bits == 0:
                start, step = const(i32, 5), const(i32, -2)
            return For(name, start, stop, step, self.body(inner, depth - 1, True))
        start, stop = (Apply(type_, "remainder", (self.expr(type_, scope, 2), const(type_, 6))) for _ in range(2))
        step = Apply(type_, "remainder", (self.expr(type_, scope, 1), const(type_, 4 if type_ is u32 else -3)))
        return For(name, start, stop, step, self.body(inner, depth - 1, True))

    def while_loop(self, scope: list[Local], depth: int) -> list[Stmt]:
        name, seen = "w" + self.fresh(), self.fresh()
        counter, read = Local(u32, name), Local(u32, seen)
        few = Apply(bool_, "less", (read, const(u32, self.draw(st.integers(0, 5)))))
        test = few if self.draw(st.booleans()) else Apply(bool_, "logical_and", (few, self.expr(bool_, scope)))
        count = nodes.Assign(name, Apply(u32, "add", (counter, const(u32, 1))))
        body = (count, *self.body([*scope, read], depth - 1, True))
        return [nodes.Var(name, const(u32, 0)), While((nodes.Let(seen, counter),), test, body)]

    def exchange(self, scope: list[Local]) -> list[Stmt]:
        """Every thread writes its place of the tile and reads any place, between barriers that all reach."""
        if self.returns:
            return []
        row = Apply(u32, "multiply", (Id(u32, "thread_id", 1), Id(u32, "block_dim", 0)))
        place = Apply(u32, "add", (row, Id(u32, "thread_id", 0)))
        name, found = self.fresh(), self.expr(self.pick(u32, i32), scope, 2)
        near = Apply(found.type, "remainder", (found, const(found.type, TILE - 2)))
        read = nodes.Let(name, Load(u32, "tile", self.pick(near, near, found)))
        written = nodes.Store("tile", place, self.expr(u32, scope))
        scope.append(Local(u32, name))
        kept = nodes.Store("ru", self.cell(), scope[-1])
        return [written, nodes.Barrier(), read, nodes.Barrier(), kept]


@st.composite
def program_texts(draw: Callable[[Any], Any]) -> str:
    maker = Maker(draw)
    block = draw(st.sampled_from([(1, 1, 1), (5, 1, 1), (8, 1, 1), (3, 2, 1)]))
    threads = Size(u32, "x")
    width = Apply(u32, "multiply", (Id(u32, "block_dim", 0), Id(u32, "grid_dim", 0)))
    line = Apply(u32, "multiply", (Id(u32, "global_id", 1), width))
    linear = Apply(u32, "add", (line, Id(u32, "global_id", 0)))
    first = nodes.Let("mine", Apply(u32, "multiply", (linear, const(u32, CELLS))))
    size = Apply(u32, "multiply", (threads, const(u32, CELLS)))
    outs = [Parameter(name, "out", type_, size) for type_, name in RESULTS.items()]
    parameters = (X, Y, B, Parameter("s", "scalar", i32), *outs, Parameter("h", "inout", u32))
    totals = {t: Local(t, "m" + name) for t, name in RESULTS.items()}
    start = [nodes.Var(local.name, maker.expr(t, [], 1)) for t, local in totals.items()]
    end = [nodes.Store(RESULTS[t], maker.mine, local) for t, local in totals.items()]
    body = (first, *start, *maker.body(list(totals.values()), 3, False, length=8), *end)
    work = (threads,) if block[1] == 1 else (Const(u32, 4), Const(u32, 3))
    return Program("random", parameters, body, block, u32, work, (SharedArray("tile", u32, TILE),)).text()


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(program_texts(), st.sampled_from([24, 13, 1, 0]), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
def test_lanes_together_equal_threads_one_by_one(text: str, size: int, s: int, seed: int) -> None:
    program, random = parse(text), Random(seed)
    values = {t: [random.choice(EDGES[t] + SMALL[t]) for _ in range(size)] for t in (u32, i32, f32)}
    memory = {"x": values[u32], "y": values[i32], "b": [c_float(v).value for v in values[f32]], "h": [7] * BUCKETS}
    memory.update((name, [number(t, 0)] * (size * CELLS)) for t, name in RESULTS.items())
    x, y, b = (np.array(values[t], dtype=t.dtype) for t in (u32, i32, f32))
    grid = (-(-size // program.block[0]), 1) if program.block[1] == 1 else (2, 2)
    simulate(program, memory, {"s": s}, grid)
    expected = [np.array(memory[name], dtype=t.dtype) for t, name in RESULTS.items()]

    ru, ri, rf, h = evaluate(program, x, y, b, s, np.full(BUCKETS, 7, np.uint32))

    assert np.array_equal(expected[0], ru)
    assert np.array_equal(expected[1], ri)
    assert np.array_equal(expected[2], rf, equal_nan=True)
    assert np.array_equal(np.signbit(expected[2]) & ~np.isnan(expected[2]), np.signbit(rf) & ~np.isnan(rf))
    assert memory["h"] == h.tolist()
