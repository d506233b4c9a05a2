"""What a program computes, thread after thread, from the documented meaning of programs.

For programs whose threads do not see each other's writes, or whose result does not depend on their order.
`lockstep_oracle` has barriers and warp operations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from float_ops import float_ops
from number_formats import ZERO
from oracle_expr import Evaluate, Expressions, Memory, OutOfBounds, Thread
from program_tree import Body, Expr, Program, Stmt, Value

# How a statement ends: with nothing, or by leaving the pass, the loop or the thread.
GOES_ON, CONTINUES, BREAKS, RETURNS = range(4)
Execute = Callable[[Thread], int]

_ADD_F32 = float_ops("f32")["add"]
_FLUSHING_ADD_F32 = float_ops("f32", flushes=True)["add"]


class OutOfFuel(Exception):
    """The program runs for longer than a random one is worth."""


class AssertionFails(Exception):
    """A thread ends at an assertion."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Failure:
    """What the call reports: the first failure of the thread with the lowest linear id. `index`: out of bounds."""

    thread: int
    statement: int
    message: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the buffers hold in the end, unless a thread failed; whether an index was out of bounds."""

    buffers: dict[str, list[Value]]
    is_missed: bool
    failure: Failure | None


def _ids(kind: str, x: int, y: int, z: int) -> Thread:
    return {f"{kind}.x": x, f"{kind}.y": y, f"{kind}.z": z}


class Oracle:
    """Runs one program. `flushes`: as `precision="ftz"`; `traps`: as `bounds="trap"`."""

    def __init__(self, program: Program, *, flushes: bool = False, traps: bool = False, fuel: int = 3000) -> None:
        self.program = program
        self.memory = Memory(program, traps=traps)
        self.exprs = Expressions(program, self.memory, flushes=flushes)
        self.fuel = fuel
        self._count = itertools.count()
        self._number = 0

    def run(self) -> Outcome:
        execute = self.body(self.program.body)
        failure = None
        for number, thread in enumerate(self.threads()):
            found = self.run_thread(execute, thread, number)
            failure = failure or found
        return Outcome(self.memory.buffers, self.memory.is_missed, failure)

    def run_thread(self, execute: Execute, thread: Thread, number: int) -> Failure | None:
        try:
            execute(thread)
        except AssertionFails as failed:
            return Failure(number, thread["at"], failed.message)
        except OutOfBounds as failed:
            return Failure(number, thread["at"], f"index out of bounds of {failed.buffer}", failed.index)
        return None

    def threads(self) -> Iterator[Thread]:
        """In the order of their linear ids: x fastest, then y, then z, block after block."""
        (bx, by, bz), (gx, gy, gz) = self.program.block, self.program.grid
        for cz, cy, cx in itertools.product(range(gz), range(gy), range(gx)):
            shared = {f"shared {name}": [ZERO[type_]] * length for name, (type_, length) in self.program.shared.items()}
            for lane, (z, y, x) in enumerate(itertools.product(range(bz), range(by), range(bx))):
                yield {
                    **shared,
                    **self.own_arrays(),
                    "block": (cx, cy, cz),
                    "lane": lane,
                    **_ids("thread_id", x, y, z),
                    **_ids("block_id", cx, cy, cz),
                    **_ids("block_dim", bx, by, bz),
                    **_ids("grid_dim", gx, gy, gz),
                    **_ids("global_id", cx * bx + x, cy * by + y, cz * bz + z),
                    "lane_id": lane % 32,
                }

    def own_arrays(self) -> Thread:
        """Zeros, for one thread."""
        own = self.program.own.items()
        return {f"own {name}": [ZERO[type_]] * math.prod(shape) for name, (type_, shape) in own}

    def burn(self) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel

    # ---- statements ----

    def body(self, body: Body) -> Execute:
        executes = [self.statement(statement) for statement in body]
        if len(executes) == 1:
            return executes[0]

        def run(thread: Thread) -> int:
            for execute in executes:
                end = execute(thread)
                if end:
                    return end
            return GOES_ON

        return run

    def statement(self, statement: Stmt) -> Execute:
        number = self._number = next(self._count)
        make: Callable[[Stmt], Execute] = getattr(self, f"_{statement.kind}")
        execute = make(statement)
        if statement.bodies or not (self.memory.traps or statement.kind == "assert"):
            return execute

        def numbered(thread: Thread) -> int:
            thread["at"] = number
            return execute(thread)

        return numbered

    def head(self, expr: Expr) -> Evaluate:
        """The first expression of the statement that is being compiled, which has bodies."""
        number, value = self._number, self.exprs.compile(expr)
        if not self.memory.traps:
            return value

        def numbered(thread: Thread) -> Value:
            thread["at"] = number
            found: Value = value(thread)
            return found

        return numbered

    def _let(self, statement: Stmt) -> Execute:
        name, value = statement.word, self.exprs.compile(statement.exprs[0])

        def bind(thread: Thread) -> int:
            thread[name] = value(thread)
            return GOES_ON

        return bind

    _var = _let
    _set = _let

    def _store(self, statement: Stmt) -> Execute:
        name = statement.word
        index, value = map(self.exprs.compile, statement.exprs)
        missed, array = self.memory.missed, self.memory.array(name)

        def store(thread: Thread) -> int:
            at, stored, elements = index(thread), value(thread), array(thread)
            if 0 <= at < len(elements):
                elements[at] = stored
            else:
                missed(name, at)
            return GOES_ON

        return store

    def _atomic(self, statement: Stmt) -> Execute:
        name, buffer, _, _ = statement.detail
        result, type_ = statement.word, self.memory.types[buffer]
        index, *operands = map(self.exprs.compile, statement.exprs)
        missed, array = self.memory.missed, self.memory.array(buffer)
        combine = self._combination(name, type_, in_shared=buffer in self.program.shared)

        def update(thread: Thread) -> int:
            at, values, elements = index(thread), [operand(thread) for operand in operands], array(thread)
            if 0 <= at < len(elements):
                old = elements[at]
                elements[at] = combine(old, *values)
            else:
                missed(buffer, at)
                old = ZERO[type_]
            if result:
                thread[result] = old
            return GOES_ON

        return update

    def _combination(self, name: str, type_: str, *, in_shared: bool) -> Callable[..., Value]:
        """The new element from the old one and the operands. On a buffer an f32 sum flushes in every precision."""
        if name == "load":
            return lambda old: old
        if name in ("store", "exchange"):
            return lambda old, new: new
        if name == "compare_exchange":
            return lambda old, expected, desired: desired if old == expected else old
        if name == "add" and type_ == "f32":
            return _ADD_F32 if in_shared and not self.exprs.flushes else _FLUSHING_ADD_F32
        return self.exprs.function(name, type_)

    def _if(self, statement: Stmt) -> Execute:
        condition = self.head(statement.exprs[0])
        then, orelse = map(self.body, statement.bodies)
        return lambda thread: then(thread) if condition(thread) else orelse(thread)

    def _for(self, statement: Stmt) -> Execute:
        name = statement.word
        first = self.head(statement.exprs[0])
        stop, step = map(self.exprs.compile, statement.exprs[1:])
        body = self.body(statement.bodies[0])

        def repeat(thread: Thread) -> int:
            at, end, by = first(thread), stop(thread), step(thread)
            while by and (at < end if by > 0 else at > end):
                self.burn()
                thread[name] = at
                ended = body(thread)
                if ended >= BREAKS:
                    return ended if ended == RETURNS else GOES_ON
                at += by
            return GOES_ON

        return repeat

    def _while(self, statement: Stmt) -> Execute:
        condition = self.head(statement.exprs[0])
        setup = self.body(statement.bodies[0])
        body = self.body(statement.bodies[1])

        def repeat(thread: Thread) -> int:
            while True:
                self.burn()
                setup(thread)
                if not condition(thread):
                    return GOES_ON
                ended = body(thread)
                if ended >= BREAKS:
                    return ended if ended == RETURNS else GOES_ON

        return repeat

    def _assert(self, statement: Stmt) -> Execute:
        condition, message = self.exprs.compile(statement.exprs[0]), statement.word

        def check(thread: Thread) -> int:
            if not condition(thread):
                raise AssertionFails(message)
            return GOES_ON

        return check

    def _break(self, statement: Stmt) -> Execute:
        return lambda thread: BREAKS

    def _continue(self, statement: Stmt) -> Execute:
        return lambda thread: CONTINUES

    def _return(self, statement: Stmt) -> Execute:
        return lambda thread: RETURNS
