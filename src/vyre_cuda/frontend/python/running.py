"""The scope of a launch that runs as Python: each statement is executed for one thread when it is appended.

The interpreter executes it, for a chunk of one lane, so what it means is defined there alone. At a barrier and in a
warp operation the thread waits; `Meeting` lets the threads go on when all of them wait, and the interpreter then
executes the statement for their whole block, or the grid, with all of its checks.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vyre_cuda.frontend.python.scalar import Scalar
from vyre_cuda.frontend.python.threads import Member, Stopped, Team
from vyre_cuda.interp import execute
from vyre_cuda.interp.execute import Execution
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.interp.memory import Memory
from vyre_cuda.ir.builder.scopes import Scope
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.core.nodes import (
    Assert,
    Barrier,
    Expr,
    GridBarrier,
    IdKind,
    Local,
    Source,
    Stmt,
    Warp,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.semantics.elementwise import Array

_ALONE = Mask.full(1)


class Ended(BaseException):
    """Ends a thread whose assertion has failed."""


class Lane(Lanes):
    """One thread of a block, as a chunk of its own."""

    __slots__ = ("block", "number")
    # mypy takes these for fields of a record, because the base is one.

    block: Lanes  # type: ignore[misc]
    number: int  # type: ignore[misc]

    def __init__(self, block: Lanes, number: int) -> None:
        super().__init__(block.geometry, block.first_block, 1, {})
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "number", number)

    @property
    def count(self) -> int:
        return 1

    @property
    def first_thread(self) -> int:
        return self.first_block * self.geometry.threads_per_block + self.number

    def _compute(self, kind: IdKind, axis: int, type_: Type) -> Array:
        whole = self.block.id(kind, axis, type_)
        return whole if whole.size == 1 else whole[self.number : self.number + 1]


class GpuThread:
    """One thread of the launch: what it can name, whether an assertion has ended it, how many shared arrays it has
    declared so far."""

    def __init__(self, program: Program, lane: Lane, scalars: Mapping[str, int], shared: Mapping[str, Memory]) -> None:
        self.arrays: dict[str, Memory] = {}  # its own
        self.scope = scope = execute.Scope(lane, scalars, ChainMap(self.arrays, shared))  # type: ignore[arg-type]
        self.execution = Execution(program, scope)
        self.has_failed = False
        self.declared = 0
        self.member: Member | None = None


class RunningScope(Scope):
    """Executes statements and computes expressions for `thread`, the one whose turn it is."""

    runs = True

    __slots__ = ("tables", "team", "thread")

    def __init__(self, program: Program) -> None:
        super().__init__(program.name, program.index, program.source or ("", 0))
        self.tables: dict[str, Memory] = {}  # what all threads read
        self.team: Team | None = None

    def turn(self, thread: GpuThread) -> None:
        """Make this the thread that runs."""
        self.thread = thread
        self.placed = {}

    def value(self, node: Expr, source: Source) -> Scalar:
        if self.team is not None and self.team.is_stopped:
            raise Stopped
        return Scalar.of(self, node.type, self.thread.scope.value(node), source)

    def append(self, statement: Stmt) -> None:
        thread = self.thread
        match statement:
            case Barrier() | GridBarrier() | Warp():
                member = thread.member
                assert member is not None  # a program with such statements runs in a team
                member.wait(statement)
            case Assert():
                if thread.execution.run((statement,), _ALONE).is_empty:
                    thread.has_failed = True
                    raise Ended
            case _:
                thread.execution.run((statement,), _ALONE)

    def name_local(self, given: str, source: Source) -> str:
        return given  # the value of a local is read before the next one gets its name


class Meeting:
    """The threads of some blocks that wait for each other."""

    def __init__(self, program: Program, geometry: Geometry, blocks: Sequence[Sequence[GpuThread]]) -> None:
        self._program = program
        self._geometry = geometry
        self._blocks = blocks

    def release(self) -> None:
        """Execute what the threads wait for, and let them go on; ProgramError if not all arrive at the same place."""
        in_warps = [block for block in self._blocks if _waiting(block, Warp)]
        for block in in_warps:
            self._together(block, Warp, self._exchange)
        at_barriers = [block for block in self._blocks if _waiting(block, Barrier)]
        for block in at_barriers:
            if block not in in_warps:
                self._together(block, Barrier, self._pass)
        if not in_warps and not at_barriers:
            self._together([thread for block in self._blocks for thread in block], GridBarrier, self._pass)

    def _together(
        self,
        threads: Sequence[GpuThread],
        kind: type[Stmt],
        execute_: Callable[[Sequence[GpuThread], Stmt, Mask, Mask], None],
    ) -> None:
        """Execute each statement of this kind at which some of these threads wait, for those threads."""
        failed = _mask([thread.has_failed for thread in threads])
        places = {_place(thread): thread for thread in reversed(_waiting(threads, kind))}
        for place, first in places.items():
            here = [_place(thread) == place for thread in threads]
            execute_(threads, _statement(first), _mask(here), failed)
        for thread in _waiting(threads, kind):
            assert thread.member is not None
            thread.member.waits_at = None

    def _pass(self, threads: Sequence[GpuThread], statement: Stmt, here: Mask, failed: Mask) -> None:
        self._execution(threads, {}, failed).run((statement,), here)

    def _exchange(self, threads: Sequence[GpuThread], statement: Stmt, here: Mask, failed: Mask) -> None:
        """The warp operation of a block, with the operand of each of its threads."""
        assert isinstance(statement, Warp)
        names: dict[str, Array] = {}
        operands = []
        for number, operand in enumerate(statement.operands):
            name = f"operand {number}"
            names[name] = np.zeros(len(threads), dtype=operand.type.storage)
            for lane in np.flatnonzero(here.bits).tolist():
                own = _statement(threads[lane])
                assert isinstance(own, Warp)
                names[name][lane] = threads[lane].scope.value(own.operands[number])[0]
            operands.append(Local(operand.type, name))
        joint = Warp(statement.result, statement.op, tuple(operands), statement.combine, statement.source)
        self._execution(threads, names, failed).run((joint,), here)
        for lane in np.flatnonzero(here.bits).tolist():
            threads[lane].scope.locals[statement.result] = names[statement.result][lane : lane + 1]

    def _execution(self, threads: Sequence[GpuThread], names: dict[str, Array], failed: Mask) -> Execution:
        blocks = len(threads) // self._geometry.threads_per_block
        lanes = Lanes(self._geometry, threads[0].scope.lanes.first_block, blocks)
        return Execution(self._program, execute.Scope(lanes, {}, {}, names), failed)


def _waiting(threads: Sequence[GpuThread], kind: type[Stmt]) -> list[GpuThread]:
    return [t for t in threads if t.member is not None and isinstance(t.member.waits_at, kind)]


def _statement(thread: GpuThread) -> Any:
    assert thread.member is not None
    return thread.member.waits_at


def _place(thread: GpuThread) -> tuple[Any, ...]:
    """What makes the statement that a thread waits at the same as another thread's."""
    statement = _statement(thread)
    return type(statement), getattr(statement, "source", None), getattr(statement, "op", None)


def _mask(bits: Sequence[bool]) -> Mask:
    return Mask(np.array(bits, dtype=np.bool_), sum(bits))
