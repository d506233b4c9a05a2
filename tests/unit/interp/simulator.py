"""Threads simulated one at a time: knows nothing of lanes, masks or arrays.

Each thread is a generator over plain numbers of u32, i32, f32 and bool_ that yields where it waits for others: at a
barrier, a grid barrier or a warp operation, whose result is sent to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from ctypes import c_float
from dataclasses import dataclass, field
from itertools import product
from struct import pack
from typing import Any, TypeAlias

from vyre_cuda.ir.core import nodes
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, For, Id, If, Load, Local, Scalar, Size, Stmt, While
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import Type, bool_, f32, i32, u32

# What a thread waits for, and what it brings.
Wait: TypeAlias = "tuple[Stmt, list[Any]]"


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


def extreme(choose: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: math.nan if a != a or b != b else choose(a, b, key=lambda x: (x, math.copysign(1, x)))


OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b if b else 0,
    "remainder": lambda a, b: a % b if b else 0,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << min(b & 0xFFFFFFFF, 40),
    "right_shift": lambda a, b: a >> min(b & 0xFFFFFFFF, 40),
    "minimum": extreme(min),
    "maximum": extreme(max),
    "less": lambda a, b: a < b,
    "equal": lambda a, b: a == b,
    "logical_and": lambda a, b: a and b,
    "logical_not": lambda a: not a,
    "where": lambda c, a, b: a if c else b,
}


# ---- a thread -------------------------------------------------------------------------------------------------------


class Leave(Exception):
    """A thread leaves a pass, a loop or the program; `how` is the statement that says so."""

    def __init__(self, how: type[Stmt]) -> None:
        self.how = how


Steps: TypeAlias = "Generator[Wait, Any, None]"


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

    def run(self, body: tuple[Stmt, ...]) -> Steps:
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
                case nodes.Barrier() | nodes.GridBarrier():
                    yield s, []
                case nodes.Warp():
                    self.locals[s.result] = yield s, [self.value(operand) for operand in s.operands]
                case nodes.Break() | nodes.Continue() | nodes.Return():
                    raise Leave(type(s))

    def count(self, name: str, trips: range) -> Iterator[None]:
        for self.locals[name] in trips:
            yield

    def test(self, s: While) -> Iterator[None]:
        while list(self.run(s.setup)) == [] and self.value(s.condition):
            yield

    def loop(self, passes: Iterator[None], body: tuple[Stmt, ...]) -> Steps:
        for _ in passes:
            try:
                yield from self.run(body)
            except Leave as leave:
                if leave.how is nodes.Break:
                    return
                if leave.how is nodes.Return:
                    raise

    def whole(self, body: tuple[Stmt, ...]) -> Steps:
        try:
            yield from self.run(body)
        except Leave:
            return


# ---- a warp ---------------------------------------------------------------------------------------------------------


def shuffled(op: str, brought: list[list[Any]], lane: int) -> Any:
    value, operand = brought[lane]
    source = {"shuffle_up": lane - operand, "shuffle_down": lane + operand, "shuffle_xor": lane ^ operand}.get(
        op, operand
    )
    if 0 <= source < len(brought):
        return brought[source][0]
    return type(value)(0) if op in ("shuffle", "broadcast") else value


def reduced(combine: Callable[[Any, Any], Any], values: list[Any], lane: int, step: int = 1) -> Any:
    """What the lane has after the butterfly's step of this distance, None for one that is not there."""
    if step == nodes.WARP_SIZE:
        return values[lane] if lane < len(values) else None
    mine, other = (reduced(combine, values, at, 2 * step) for at in (lane, lane ^ step))
    return mine if other is None else other if mine is None else combine(mine, other)


def scanned(combine: Callable[[Any, Any], Any], values: list[Any]) -> list[Any]:
    for step in (1, 2, 4, 8, 16):
        values = [combine(v, values[at - step]) if at >= step else v for at, v in enumerate(values)]
    return values


def neutral(combine: str, type_: Type) -> Any:
    if type_ is f32:
        return {"add": -0.0, "minimum": math.inf, "maximum": -math.inf}[combine]
    ends = {"minimum": type_.maximum, "maximum": type_.minimum, "bitwise_and": wrap(type_, -1)}
    return ends.get(combine, 0)


def together(s: nodes.Warp, brought: list[list[Any]]) -> list[Any]:
    """What a warp operation gives each lane of a warp, from the operands that each brings."""
    values, lanes = [operands[0] for operands in brought], range(len(brought))
    type_ = s.operands[0].type
    match s.op:
        case "any" | "all":
            return [(any if s.op == "any" else all)(values)] * len(values)
        case "ballot":
            return [sum(1 << lane for lane in lanes if values[lane])] * len(values)
        case "match":
            same = [pack("<f", v) if isinstance(v, float) else v for v in values]
            return [sum(1 << other for other in lanes if same[other] == same[lane]) for lane in lanes]
        case "reduce" | "inclusive_scan" | "exclusive_scan":

            def combine(a: Any, b: Any) -> Any:
                return number(type_, OPS[s.combine](a, b))

            if s.op == "reduce":
                return [reduced(combine, values, 0)] * len(values)
            scan = scanned(combine, values)
            return scan if s.op == "inclusive_scan" else [neutral(s.combine, type_), *scan[:-1]]
        case _:
            return [shuffled(s.op, brought, lane) for lane in lanes]


# ---- a launch -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Runner:
    """A thread and what it waits for; None when it has ended."""

    steps: Steps
    wait: Wait | None = field(default=None)

    def go(self, answer: Any = None) -> None:
        try:
            self.wait = self.steps.send(answer)
        except StopIteration:
            self.wait = None


def waiting(threads: list[Runner], kind: type[Stmt]) -> bool:
    """All threads that have not ended wait for a statement of the kind, and there are some."""
    alive = [t for t in threads if t.wait is not None]
    return bool(alive) and all(t.wait is not None and isinstance(t.wait[0], kind) for t in alive)


def advance(block: list[Runner]) -> bool:
    """Let the warps of a block that wait for their operation, or the block that waits at a barrier, go on."""
    moved = False
    for start in range(0, len(block), nodes.WARP_SIZE):
        warp = [t for t in block[start : start + nodes.WARP_SIZE] if t.wait is not None]
        if waiting(warp, nodes.Warp):
            waits = [t.wait for t in warp if t.wait is not None]
            statement = waits[0][0]
            assert isinstance(statement, nodes.Warp)
            assert all(wait[0] is statement for wait in waits)
            for thread, answer in zip(warp, together(statement, [wait[1] for wait in waits]), strict=True):
                thread.go(answer)
            moved = True
    if waiting(block, nodes.Barrier):
        for thread in block:
            if thread.wait is not None:
                thread.go()
        moved = True
    return moved


def simulate(program: Program, memory: dict[str, list[Any]], scalars: dict[str, Any], grid: tuple[int, int]) -> None:
    """Run the launch, changing `memory`: blocks one after the other up to their next grid barrier."""
    blocks = []
    for by, bx in product(range(grid[1]), range(grid[0])):
        shared = {array.name: [number(array.type, 0)] * array.size for array in program.shared}
        threads = []
        for ty, tx in product(range(program.block[1]), range(program.block[0])):
            ids: dict[tuple[str, int], int] = {("lane_id", 0): len(threads) % nodes.WARP_SIZE}
            for axis, (thread, block) in enumerate([(tx, bx), (ty, by)]):
                ids["thread_id", axis], ids["block_id", axis] = thread, block
                ids["block_dim", axis], ids["grid_dim", axis] = program.block[axis], grid[axis]
                ids["global_id", axis] = block * program.block[axis] + thread
            threads.append(Runner(Thread(ids, scalars, {**memory, **shared}).whole(program.body)))
        blocks.append(threads)
    everybody = [thread for block in blocks for thread in block]
    for block in blocks:
        run_to_grid_barrier(block)
    while any(thread.wait is not None for thread in everybody):
        assert waiting(everybody, nodes.GridBarrier)
        for block in blocks:
            run_to_grid_barrier(block)


def run_to_grid_barrier(block: list[Runner]) -> None:
    for thread in block:
        thread.go()
    while advance(block):
        pass
