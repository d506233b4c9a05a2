"""The uniformity analysis is sound: threads of random programs come together at all that it accepts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from vyre_cuda.ir.check.uniformity import find_divergent
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assign,
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
    Local,
    Return,
    Stmt,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import bool_, u32
from vyre_cuda.ir.core.walk import Path, bodies, operands, statements

ZERO, ONE, THREE = (Const(u32, bits) for bits in (0, 1, 3))
THREAD, BLOCK, LANE = Id(u32, "thread_id", 0), Id(u32, "block_id", 0), Id(u32, "lane_id", 0)
WARP_NUMBER = Apply(u32, "floor_divide", (THREAD, Const(u32, 32)))
THREADS = 34
BLOCKS = 2
WARP_OPS = ("any", "all", "ballot", "reduce", "broadcast", "shuffle", "shuffle_up", "match")
MEETINGS = (Warp, Barrier, GridBarrier)


@dataclass
class Writer:
    """Draws statements over variables, some of them uniform, with meetings of threads anywhere."""

    draw: st.DrawFn
    variables: list[Local] = field(default_factory=list)
    lets: list[Local] = field(default_factory=list)
    names: int = 0

    def fresh(self) -> Local:
        self.names += 1
        return Local(u32, f"v{self.names}")

    def value(self) -> Expr:
        leaves: list[Expr] = [ZERO, ONE, THREE, THREAD, BLOCK, LANE, WARP_NUMBER, *self.variables * 3, *self.lets * 3]
        return self.draw(st.sampled_from(leaves))

    def condition(self) -> Expr:
        known = [*self.variables, *self.lets]
        value = self.draw(st.sampled_from(known)) if known and self.draw(st.integers(0, 3)) else self.value()
        return Apply(bool_, "less", (value, self.draw(st.sampled_from([ONE, THREE, Const(u32, 32)]))))

    def block(self, depth: int, in_loop: bool) -> tuple[Stmt, ...]:
        known, named = len(self.variables), len(self.lets)
        out = [self.statement(depth, in_loop) for _ in range(self.draw(st.integers(1, 5)))]
        del self.variables[known:]
        del self.lets[named:]
        return tuple(out)

    def statement(self, depth: int, in_loop: bool) -> Stmt:
        kinds: list[type] = [Barrier, GridBarrier, Warp, Warp, Var, Assign, Assign, Assign, Assign]
        kinds += [If, If, If, For, While] if depth < 3 else []
        kinds += [Break, Continue] if in_loop else []
        kinds += [Return] if depth > 0 else []
        kind = self.draw(st.sampled_from(kinds))
        if kind is Assign and self.variables:
            return Assign(self.draw(st.sampled_from(self.variables)).name, self.value())
        if kind in (Var, Assign):
            name, value = self.fresh(), self.value()
            self.variables.append(name)
            return Var(name.name, value)
        if kind is Warp:
            return self.warp()
        if kind is If:
            orelse = self.block(depth + 1, in_loop) if self.draw(st.booleans()) else ()
            return If(self.condition(), self.block(depth + 1, in_loop), orelse)
        if kind is For:
            counter, stop = self.fresh(), Apply(u32, "remainder", (self.value(), Const(u32, 4)))
            return For(counter.name, ZERO, stop, ONE, self.block(depth + 1, True))
        if kind is While:
            return While(self.block(3, False), self.condition(), self.block(depth + 1, True))
        statement: Stmt = kind()
        return statement

    def warp(self) -> Warp:
        op = self.draw(
            st.sampled_from(["any", "all", "ballot", "reduce", "broadcast", "shuffle", "shuffle_up", "match"])
        )
        boolean = op in ("any", "all", "ballot")
        value = self.condition() if boolean else self.value()
        operands = (value, self.value()) if op in ("broadcast", "shuffle", "shuffle_up") else (value,)
        name = self.fresh()
        if op not in ("any", "all"):
            self.lets.append(name)
        return Warp(name.name, op, operands, "add" if op == "reduce" else "")


def combined(statement: Warp, operands: list[tuple[int, ...]]) -> list[int]:
    """What each thread of a warp gets, from the operands of all of them."""
    values = [value for value, *_ in operands]
    lanes = [rest[0] if rest else 0 for _, *rest in operands]
    masks = [sum((other == value) << lane for lane, other in enumerate(values)) for value in values]
    match statement.op:
        case "any":
            return [int(any(values))] * len(values)
        case "all":
            return [int(all(values))] * len(values)
        case "ballot":
            return [sum(value << lane for lane, value in enumerate(values))] * len(values)
        case "reduce":
            return [sum(values) % 2**32] * len(values)
        case "match":
            return masks
        case "shuffle_up":
            return [values[at - lane] if lane <= at else values[at] for at, lane in enumerate(lanes)]
        case _:
            if statement.op == "broadcast":
                assert len(set(lanes)) == 1
            return [values[lane] if lane < len(values) else 0 for lane in lanes]


class Left(Exception):
    """Thrown by break, continue and return; carries the class of the statement."""


class Endless(Exception):
    """A loop that makes too many passes to be run."""


@dataclass(eq=False)
class Thread:
    """One thread of a program of locals alone; it stops at each meeting, with operands, and goes on with an answer."""

    block: int
    number: int
    values: dict[str, int] = field(default_factory=dict)
    passes: int = 0
    at: Stmt | None = None
    operands: tuple[int, ...] = ()
    steps: Generator[None, int, None] | None = None

    def start(self, program: Program) -> None:
        self.steps = self.run(program)
        self.go_on(None)

    def go_on(self, answer: int | None) -> None:
        assert self.steps is not None
        try:
            self.steps.send(answer)  # type: ignore[arg-type]
        except StopIteration:
            self.at = None

    def run(self, program: Program) -> Generator[None, int, None]:
        with suppress(Left):
            yield from self.body(program.body)

    def value(self, expr: Expr) -> int:
        match expr:
            case Const():
                return expr.bits
            case Local():
                return self.values[expr.name]
            case Id():
                return {"thread_id": self.number, "block_id": self.block, "lane_id": self.number % 32}[expr.kind]
            case Apply():
                x, y = map(self.value, expr.operands)
                return {"less": x < y, "remainder": x % max(y, 1), "floor_divide": x // max(y, 1)}[expr.op]
            case _:
                raise AssertionError(expr)

    def body(self, body: tuple[Stmt, ...]) -> Generator[None, int, None]:
        for statement in body:
            yield from self.statement(statement)

    def statement(self, statement: Stmt) -> Generator[None, int, None]:
        match statement:
            case Let() | Var() | Assign():
                self.values[statement.name] = self.value(statement.value)
            case If():
                yield from self.body(statement.then if self.value(statement.condition) else statement.orelse)
            case For():
                for j in range(self.value(statement.start), self.value(statement.stop), self.value(statement.step)):
                    self.values[statement.name] = j
                    if not (yield from self.one_pass(statement.body)):
                        return
            case While():
                yield from self.body(statement.setup)
                while self.value(statement.condition) and (yield from self.one_pass(statement.body)):
                    yield from self.body(statement.setup)
            case Warp() | Barrier() | GridBarrier():
                self.at = statement
                self.operands = tuple(map(self.value, operands(statement)))
                answer = yield
                if isinstance(statement, Warp):
                    self.values[statement.result] = answer
            case _:
                raise Left(type(statement))

    def one_pass(self, body: tuple[Stmt, ...]) -> Generator[None, int, bool]:
        self.passes += 1
        if self.passes > 40:
            raise Endless
        try:
            yield from self.body(body)
        except Left as left:
            if left.args[0] is Return:
                raise
            return left.args[0] is Continue
        return True


def meet(group: list[Thread], kind: type[Stmt]) -> bool:
    """Let threads that have all come to one meeting of this kind go on; whether they have."""
    first = group[0].at
    if not isinstance(first, kind) or any(thread.at is not first for thread in group):
        return False
    answers = combined(first, [thread.operands for thread in group]) if isinstance(first, Warp) else [0] * len(group)
    for thread, answer in zip(group, answers, strict=True):
        thread.go_on(answer)
    return True


def run_together(program: Program) -> list[Thread]:
    """The threads that wait for others that never come."""
    threads = [Thread(block, number) for block in range(BLOCKS) for number in range(THREADS)]
    for thread in threads:
        thread.start(program)
    blocks = [threads[at : at + THREADS] for at in range(0, len(threads), THREADS)]
    warps = [block[at : at + 32] for block in blocks for at in range(0, THREADS, 32)]
    groups = [*((warp, Warp) for warp in warps), *((block, Barrier) for block in blocks), (threads, GridBarrier)]
    while sum(meet(group, kind) for group, kind in groups):
        pass
    return [thread for thread in threads if thread.at is not None]


def cleaned(body: tuple[Stmt, ...], refused: set[Path], prefix: Path = ()) -> tuple[Stmt, ...]:
    """The statements without the meetings that were refused."""
    out: list[Stmt] = []
    for number, statement in enumerate(body):
        path = (*prefix, number)
        if path in refused:
            if isinstance(statement, Warp):
                out.append(Let(statement.result, ZERO))
            continue
        parts = {name: cleaned(inner, refused, (*path, name)) for name, inner in bodies(statement)}
        out.append(replace(statement, **parts) if parts else statement)
    return tuple(out)


@st.composite
def random_programs(draw: st.DrawFn) -> Program:
    writer = Writer(draw)
    writer.variables = [writer.fresh(), writer.fresh()]
    first = tuple(Var(variable.name, value) for variable, value in zip(writer.variables, (ONE, THREAD), strict=True))
    return Program("p", (), (*first, *writer.block(0, False)), block=(THREADS, 1, 1))


@pytest.mark.thin
@pytest.mark.slow
@settings(max_examples=500)
@given(random_programs())
def test_threads_come_together_at_what_is_accepted(program: Program) -> None:
    while refused := {diagnostic.path for diagnostic in find_divergent(program)}:
        program = replace(program, body=cleaned(program.body, refused))
    if not any(isinstance(statement, MEETINGS) for statement in statements(program.body)):
        reject()
    try:
        waiting = run_together(program)
    except Endless:
        reject()

    assert waiting == []
