"""Expressions and statements, executed for the lanes of a chunk at once.

Executing statements takes the mask of lanes that reach them and returns the mask of lanes that fall through to what
comes after; lanes that break or continue wait in their loop, lanes that return or fail an assertion are gone. Between
two statements every lane has done the first: a barrier only has to check that whole blocks, or the
whole grid, reach it, and a warp operation finds the operand of every thread of its warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import NoReturn

import numpy as np

from vyre_cuda.errors import Diagnostic, InternalError, ProgramError
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.interp.memory import Memory
from vyre_cuda.interp.warps import Warps, operate
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Assign,
    Atomic,
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
    Load,
    Local,
    Position,
    Print,
    Return,
    Scalar,
    Size,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.printing import line
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.semantics.elementwise import Array, apply, constant
from vyre_cuda.records import FrozenRecord, Record, field


class Scope(FrozenRecord, eq=False):
    """What the expressions of one chunk can name: ids of its lanes, locals, scalars (bit patterns) and memory.

    Every lane evaluates, active or not: expressions have no effects, loads are bounded, and nothing reads what inactive
    lanes get.
    """

    lanes: Lanes
    scalars: Mapping[str, int]
    memory: Mapping[str, Memory]
    locals: dict[str, Array] = field(default_factory=dict)

    def value(self, expr: Expr) -> Array:
        """One element per lane, or a single element when all lanes have the same."""
        match expr:
            case Local():
                return self.locals[expr.name]
            case Const():
                return constant(expr.type, expr.bits)
            case Apply():
                source = expr.operands[-1].type
                return apply(expr.op, source, expr.type, [self.value(operand) for operand in expr.operands])
            case Load():
                return self.memory[expr.buffer].load(self.index(expr.buffer, expr.index))
            case Id():
                return self.lanes.id(expr.kind, expr.axis, expr.type)
            case Scalar():
                return constant(expr.type, self.scalars[expr.name])
            case Size():
                memory = self.memory[expr.buffer]
                return constant(expr.type, memory.size if expr.axis is None else memory.shape[expr.axis])
            case Position():
                raise InternalError("indices of several axes outside of an access")

    def index(self, buffer: str, expr: Expr) -> Array:
        """The number of the element of an access; any number that is out of bounds if the index is."""
        if isinstance(expr, Position):
            return self.memory[buffer].flat([self.value(index) for index in expr.indices])
        return self.value(expr)


class Failure(FrozenRecord):
    """The first lane of a chunk that failed an assertion, and which assertion."""

    lane: int
    statement: Assert


class _Loop(Record):
    """The lanes that left the current pass of a loop, and those that left the loop."""

    continued: Mask
    broken: Mask


class Execution:
    """One chunk of one launch; lanes of `failed` have failed an assertion before."""

    def __init__(self, program: Program, scope: Scope, failed: Mask | None = None) -> None:
        self._program = program
        self._scope = scope
        self._nobody = Mask.empty(scope.lanes.count)
        self._failed = self._nobody if failed is None else failed
        self._loops: list[_Loop] = []
        self._printed: list[tuple[int, str]] = []
        self.failure: Failure | None = None

    def run(self, body: tuple[Stmt, ...], mask: Mask) -> Mask:
        """Execute a body for the lanes of `mask`; the lanes that reach its end."""
        for statement in body:
            if mask.is_empty:
                break
            mask = self._execute(statement, mask)
        return mask

    def _execute(self, statement: Stmt, mask: Mask) -> Mask:
        scope = self._scope
        match statement:
            case Let() | Var():
                scope.locals[statement.name] = scope.value(statement.value)
                return mask
            case Assign():
                new, old = scope.value(statement.value), scope.locals[statement.name]
                scope.locals[statement.name] = mask.merge(new, old)
                return mask
            case Store():
                index, value = scope.index(statement.buffer, statement.index), scope.value(statement.value)
                scope.memory[statement.buffer].store(index, value, mask)
                return mask
            case Atomic():
                self._atomic(statement, mask)
                return mask
            case Warp():
                self._warp(statement, mask)
                return mask
            case If():
                then, orelse = mask.split(scope.value(statement.condition))
                return self.run(statement.then, then).union(self.run(statement.orelse, orelse))
            case For():
                return self._for(statement, mask)
            case While():
                return self._while(statement, mask)
            case Break():
                self._loops[-1].broken = self._loops[-1].broken.union(mask)
                return self._nobody
            case Continue():
                self._loops[-1].continued = self._loops[-1].continued.union(mask)
                return self._nobody
            case Return():
                return self._nobody
            case Barrier() | GridBarrier():
                self._check_barrier(statement, mask)
                return mask
            case Assert():
                return self._assert(statement, mask)
            case Print():
                self._print(statement, mask)
                return mask

    def _atomic(self, statement: Atomic, mask: Mask) -> None:
        scope = self._scope
        index = scope.index(statement.buffer, statement.index)
        operands = [scope.value(operand) for operand in statement.operands]
        need_old = statement.result is not None
        old = scope.memory[statement.buffer].atomic(statement.op, index, operands, mask, need_old=need_old)
        if statement.result is not None and old is not None:
            scope.locals[statement.result] = old

    def _warp(self, statement: Warp, mask: Mask) -> None:
        scope = self._scope
        self._check_warp(statement, mask)
        operands = [scope.value(operand) for operand in statement.operands]
        if statement.op == "broadcast":
            self._check_broadcast(statement, operands[1], mask)
        value_type = statement.operands[0].type
        scope.locals[statement.result] = operate(
            statement.op, statement.combine, value_type, operands, scope.lanes, mask
        )

    def _print(self, statement: Print, mask: Mask) -> None:
        columns = [
            np.broadcast_to(self._scope.value(value).view(value.type.unsigned), mask.bits.shape)
            for value in statement.values
        ]
        types = [value.type for value in statement.values]
        for lane in np.flatnonzero(mask.bits).tolist():
            values = [(type_, int(column[lane])) for type_, column in zip(types, columns, strict=True)]
            self._printed.append((lane, line(statement.format, values)))

    def printed(self) -> str:
        """The lines of all lanes: those of a lane in its order, after those of the lanes before it."""
        return "".join([text for _, text in sorted(self._printed, key=itemgetter(0))])

    def _reads(self, statement: Stmt, mask: Mask) -> None:
        """The lanes of `mask` evaluate operands of the statement next; for executions that check who reads."""

    # ---- loops ---------------------------------------------------------------------------------------------------

    def _for(self, statement: For, mask: Mask) -> Mask:
        scope = self._scope
        counter, stop, step = (scope.value(e) for e in (statement.start, statement.stop, statement.step))
        trips = _trip_counts(counter, stop, step)
        most = int(trips[0] if trips.size == 1 else trips[mask.bits].max())
        left = self._nobody
        for trip in range(most):
            if trips.size > 1:
                mask, finished = mask.split(trips > trip)
                left = left.union(finished)
            if mask.is_empty:
                break
            scope.locals[statement.name] = counter
            mask, broken = self._pass(statement.body, mask)
            left = left.union(broken)
            counter = counter + step
        return left.union(mask)

    def _while(self, statement: While, mask: Mask) -> Mask:
        left = self._nobody
        while not mask.is_empty:
            loop = self._enter()
            mask = self.run(statement.setup, mask)
            if not mask.is_empty:
                self._reads(statement, mask)
                mask, finished = mask.split(self._scope.value(statement.condition))
                left = left.union(finished)
            mask, broken = self._leave(loop, self.run(statement.body, mask))
            left = left.union(broken)
        return left

    def _pass(self, body: tuple[Stmt, ...], mask: Mask) -> tuple[Mask, Mask]:
        """One pass of a loop's body: the lanes that continue with the next pass, and those that broke out."""
        loop = self._enter()
        return self._leave(loop, self.run(body, mask))

    def _enter(self) -> _Loop:
        loop = _Loop(self._nobody, self._nobody)
        self._loops.append(loop)
        return loop

    def _leave(self, loop: _Loop, through: Mask) -> tuple[Mask, Mask]:
        self._loops.pop()
        return through.union(loop.continued), loop.broken

    # ---- checks --------------------------------------------------------------------------------------------------

    def _check_barrier(self, statement: Barrier | GridBarrier, mask: Mask) -> None:
        """Check that all lanes of each block, or of the grid, that no assertion ended are here, or none of them."""
        if mask.is_full:
            return
        whole_grid = isinstance(statement, GridBarrier)
        groups = 1 if whole_grid else self._scope.lanes.blocks
        here, failed = (np.count_nonzero(m.bits.reshape(groups, -1), axis=1) for m in (mask, self._failed))
        split = _split_group(here, mask.bits.size // groups - failed)
        if split is not None:
            row, arrived, alive = split
            who = "the grid" if whole_grid else f"block {self._scope.lanes.first_block + row}"
            what = "grid barrier" if whole_grid else "barrier"
            self._refuse(
                f"{what} reached by {arrived} of the {alive} threads of {who}; "
                f"the whole {'grid' if whole_grid else 'block'} must arrive",
                statement,
            )

    def _check_warp(self, statement: Warp, mask: Mask) -> None:
        """Check that of each warp, either all lanes that no assertion ended are here, or none is."""
        if mask.is_full:
            return
        lanes = self._scope.lanes
        warps = Warps.of(lanes)
        everybody = warps.counts(Mask.full(mask.bits.size))
        split = _split_group(warps.counts(mask), everybody - warps.counts(self._failed))
        if split is not None:
            row, arrived, alive = split
            block, warp = divmod(row, warps.per_block)
            self._refuse(
                f"warp operation {statement.op} reached by {arrived} of the {alive} threads of warp {warp} of block "
                f"{lanes.first_block + block}; the whole warp must arrive",
                statement,
            )

    def _check_broadcast(self, statement: Warp, lane: Array, mask: Mask) -> None:
        """Check that all threads of a warp that are here name the same lane."""
        warps = Warps.of(self._scope.lanes)
        split = warps.split(lane, mask)
        if split is not None:
            block, warp = divmod(split, warps.per_block)
            self._refuse(
                f"broadcast from different lanes in warp {warp} of block {self._scope.lanes.first_block + block}; "
                f"the whole warp must name one lane",
                statement,
            )

    def _refuse(self, message: str, statement: Stmt) -> NoReturn:
        raise ProgramError(f"program {self._program.name}: {message}", [Diagnostic(message, source=statement.source)])

    def _assert(self, statement: Assert, mask: Mask) -> Mask:
        """The lowest lane that fails any assertion is the one reported; a lane fails only once: then it ends."""
        holding, failing = mask.split(self._scope.value(statement.condition))
        if not failing.is_empty:
            self._failed = self._failed.union(failing)
            lane = int(failing.bits.argmax())
            if self.failure is None or lane < self.failure.lane:
                self.failure = Failure(lane, statement)
        return holding


def _split_group(here: Array, alive: Array) -> tuple[int, int, int] | None:
    """The first group with some lanes here and some not: its number, and how many are here and alive."""
    split = np.flatnonzero((here != 0) & (here != alive))
    return (int(split[0]), int(here[split[0]]), int(alive[split[0]])) if split.size else None


def _trip_counts(start: Array, stop: Array, step: Array) -> Array:
    """The length of Python's range(start, stop, step), as unsigned numbers of the same width; 0 for a step of 0.

    The distance of two numbers of a type, taken modulo its width, is exact as an unsigned number.
    """
    unsigned = np.dtype(f"u{start.dtype.itemsize}")
    one = unsigned.type(1)
    up, down = step > 0, step < 0
    distance = np.where(up, stop - start, start - stop).view(unsigned)
    stride = np.where(down, np.negative(step), step).view(unsigned)
    reached = (up & (start < stop)) | (down & (start > stop))
    trips: Array = np.where(reached, (distance - one) // np.maximum(stride, one) + one, unsigned.type(0))
    return trips
