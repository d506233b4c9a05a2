"""Statements in order, with structured control flow as branches.

The same program, target and options give the same values and code. What becomes known while lowering (coverage,
sites of failures) is kept as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lowering import isel_sync
from vyre_cuda.codegen.lowering.cover import Before, Coverage, Stored
from vyre_cuda.codegen.lowering.expressions import Expressions, State
from vyre_cuda.codegen.lowering.isel_memory import Memory
from vyre_cuda.codegen.lowering.sites import Sites
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.ssa.ssa import Effect
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import (
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Continue,
    For,
    GridBarrier,
    If,
    Let,
    Print,
    Return,
    Source,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import WARP_OPS, warp_result_type
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import assert_never
from vyre_cuda.later import later
from vyre_cuda.records import Record

# What only some programs have.
if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import atomics, invariants, isel_local, loops, prints, report, warp
else:
    atomics, invariants, isel_local, loops, prints, report, warp = (
        later(f"vyre_cuda.codegen.lowering.{name}")
        for name in ("atomics", "invariants", "isel_local", "loops", "prints", "report", "warp")
    )


def _source_comment(source: Source) -> str:
    file, line = source
    name = file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{ascii(name)[1:-1]}:{line}"


class _Loop(Record):
    """Where break and continue go, and whether anything goes there."""

    exit: int
    next: int
    has_break: bool = False
    has_continue: bool = False


class Lowering:
    """One program being lowered. Methods for statements return whether control can continue after them."""

    def __init__(
        self,
        program: Program,
        target: Target,
        *,
        precision: str,
        bounds: str,
        debug: bool,
        races: bool = False,
        initialized: bool = False,
        max_ulp: float | None = None,
        prefix: str = "",
    ) -> None:
        self._program = program
        self._debug = debug
        self.builder = Builder(target, precision, max_ulp=max_ulp)
        self.memory = Memory(self.builder, program, checked=bounds != "off", prefix=prefix)
        self.sites = Sites(program, traps=bounds == "trap", races=races, initialized=initialized)
        if self.sites.traps:
            self.memory.trap = self._trap
        self._expressions = self._make_expressions(program)
        self._prints: prints.Prints | None = None  # made for the first one
        self._locals = self._expressions.locals
        thread = self._expressions.launch_id("global_id", 0)
        self.coverage = Coverage(self.builder, self.memory, program, thread)
        # What may be computed before its statement, whose failures and reports then name another one.
        self._moves = not (self.sites.traps or races or initialized)
        constant = [place.name for place in self.memory.places.values() if place.constant]
        self._readable = frozenset(constant if bounds == "check" else ())
        self._loops: list[_Loop] = []
        self._current: Stmt | None = None

    def _make_expressions(self, program: Program) -> Expressions:
        return Expressions(self.builder, self.memory, program)

    def run(self) -> None:
        function = self.builder.function
        if self._block(self._program.body):
            function.effect("return")
        body, function.code = self._expressions.extraction.in_order(function.code), []
        self._zero_arrays()
        function.code.extend(body)

    def printed(self) -> tuple[list[str], list[str]]:
        """The lines that prints need before the kernel, and those at its beginning."""
        return ([], []) if self._prints is None else self._prints.declarations()

    def _zero_arrays(self) -> None:
        block = self._program.block
        threads = block[0] * block[1] * block[2]
        thread = self._expressions.launch_id("thread_id", 0) if threads == block[0] else None
        if self._program.arrays:
            isel_local.zero(self.memory, [self.memory.places[array.name] for array in self._program.arrays])
        places = [self.memory.places[array.name] for array in self._program.shared]
        places = [place for place in places if isel_sync.needs_zeroing(place, thread, threads)]
        if places:
            isel_sync.zero_shared(self.memory, places, block)

    # ---- statements ----

    def _block(self, statements: tuple[Stmt, ...]) -> bool:
        for position, statement in enumerate(statements):
            self._expressions.start_statement()
            self._current = statement
            if self._debug and statement.source is not None:
                self.builder.function.effect("comment", (), _source_comment(statement.source))
            self._number(statement)
            if not self._statement(statement):
                self._skip(statements[position + 1 :])
                return False
        return True

    def _number(self, statement: Stmt) -> None:
        """The following code belongs to this statement."""
        self.builder.function.effect("statement", (), self.sites.number(statement))

    def _skip(self, statements: tuple[Stmt, ...]) -> None:
        """Statements that no thread can reach; their assertions keep their numbers."""
        self.sites.skip([statement for statement in walk.statements(statements) if isinstance(statement, Assert)])

    def _statement(self, statement: Stmt) -> bool:
        value = self._expressions.value
        match statement:
            case Let():
                self._expressions.let(statement.name, statement.value)
            case Var():
                self._locals.declare(statement.name, self._expressions.term(statement.value), statement.value.type)
            case Assign():
                self._locals.assign(statement.name, self._expressions.term(statement.value))
            case Store():
                self._store(statement)
            case Atomic():
                self._atomic(statement)
            case Warp():
                operands = tuple(value(operand) for operand in statement.operands)
                type_ = statement.operands[0].type
                lanes = warp.WarpOps(self.builder, self._program.block)
                result = lanes.lower(statement.op, type_, operands, statement.combine)
                self._locals.define(statement.result, result, warp_result_type(WARP_OPS[statement.op], type_))
            case Print():
                if self._prints is None:
                    self._prints = prints.Prints(self.builder)
                self._prints.lower(statement, [value(printed) for printed in statement.values])
            case Barrier():
                isel_sync.barrier(self.builder)
            case GridBarrier():
                pointer = report.report_pointer(self.builder) if self.sites.reports else None
                isel_sync.grid_barrier(self.builder, self._program.block, pointer)
            case If():
                return self._if(statement)
            case For():
                self._for(statement)
            case While():
                return self._while(statement)
            case Assert():
                return self._assert(statement)
            case Break() | Continue() | Return():
                self.builder.function.effect(*self._jump(statement))
                return False
            case _:
                assert_never(statement)
        return True

    def _store(self, statement: Store) -> None:
        index, value = self._expressions.index(statement.index), self._expressions.stored(statement.value)
        self.memory.store(statement.buffer, index, value, everyone=self.coverage.everyone)
        self.coverage.store(statement.buffer, index)

    def _atomic(self, statement: Atomic) -> None:
        index = self._expressions.index(statement.index)
        operands = tuple(self._expressions.value(operand) for operand in statement.operands)
        old = atomics.atomic(
            self.memory, statement.op, statement.buffer, index, operands, order=statement.order, scope=statement.scope
        )
        if statement.result is not None:
            self._locals.define(statement.result, old, self.memory.places[statement.buffer].type)

    def _assert(self, statement: Assert) -> bool:
        b = self.builder
        condition = self._expressions.value(statement.condition)
        site = self.sites.assertion(statement)
        if condition == b.true:
            return True
        self._report_unless(condition, site, None)
        return condition != b.false

    def _trap(self, buffer: str, axis: int | None, index: int, inside: int) -> None:
        """End the threads whose index is out of bounds."""
        if self._current is None:
            raise InternalError(f"an access to {buffer} outside of all statements")
        self._report_unless(inside, self.sites.bounds(self._current, buffer, axis), index)

    def _report_unless(self, condition: int, site: int, index: int | None) -> None:
        """Make threads for which the condition does not hold report and end."""
        b = self.builder
        after = b.function.label()
        self.builder.branch(condition, True, after)
        b.open_scope()
        report.report_failure(b, self._program.block, site, index, locked=self.sites.traps)
        b.close_scope()
        b.function.effect("label", (), (after, False))
        self.coverage.leave()
        b.facts.assume(condition, True)

    def _jump(self, statement: Break | Continue | Return) -> Effect:
        """The effect of leaving, possibly under a predicate."""
        if isinstance(statement, Return):
            self.coverage.leave()
            return ("return", (), False)
        if not self._loops:
            raise InternalError("break or continue outside of a loop in a validated program")
        loop = self._loops[-1]
        self.coverage.leave_trip(loop=isinstance(statement, Break))
        if isinstance(statement, Break):
            loop.has_break = True
            return ("branch", (), (loop.exit, False))
        loop.has_continue = True
        return ("branch", (), (loop.next, False))

    # ---- if ----

    def _if(self, statement: If) -> bool:
        b = self.builder
        condition = self._expressions.value(statement.condition)
        if b.is_constant(condition):
            if condition == b.true:
                falls = self._block(statement.then)
                self._skip(statement.orelse)
                return falls
            self._skip(statement.then)
            return self._block(statement.orelse)
        if len(statement.then) == 1 and not statement.orelse:
            only = statement.then[0]
            if isinstance(only, (Break, Continue, Return)):
                self._leave_if(condition, only)
                return True
        return self._if_blocks(statement, condition)

    def _leave_if(self, condition: int, statement: Break | Continue | Return) -> None:
        """if condition: break, continue or return."""
        before = self.coverage.here
        _, _, attr = self._jump(statement)
        self.builder.branch(condition, True, None if isinstance(statement, Return) else attr[0])
        self.coverage.stay(before, condition)
        self.builder.facts.assume(condition, False)

    def _if_blocks(self, statement: If, condition: int) -> bool:
        b = self.builder
        function, coverage = b.function, self.coverage
        otherwise, end = function.label(), function.label()
        self._expressions.extraction.settle()
        saved = dict(self._locals.state)
        before = coverage.begin()

        self.builder.branch(condition, False, otherwise)
        then_falls, then_stored = self._arm(statement.then, condition, True, before)
        self._locals.state = dict(saved)
        if then_falls and statement.orelse:
            function.effect("branch", (), (end, False))
        function.effect("label", (), (otherwise, False))
        else_falls, else_stored = self._arm(statement.orelse, condition, False, before)
        function.effect("label", (), (end, False))

        coverage.end_if(before, condition, then_stored, else_stored)
        self._join(statement, saved, (then_falls, else_falls))
        if then_falls != else_falls:
            b.facts.assume(condition, then_falls)
        return then_falls or else_falls

    def _arm(
        self, statements: tuple[Stmt, ...], condition: int, truth: bool, before: Before
    ) -> tuple[bool, frozenset[Stored]]:
        """One side of an if: whether it falls through, and what is surely stored at its end."""
        b = self.builder
        self._expressions.open_scope()
        b.facts.assume(condition, truth)
        falls = self._block(statements)
        self._expressions.close_scope()
        return falls, self.coverage.other_side(before)

    def _join(self, statement: If, saved: State, falls: tuple[bool, bool]) -> None:
        """Vars after an if keep their values, unless a side that continues assigned them."""
        self._locals.state = saved
        self._locals.forget(_assigned(statement.then if falls[0] else ()))
        self._locals.forget(_assigned(statement.orelse if falls[1] else ()))

    # ---- loops ----

    def _for(self, statement: For) -> None:
        b = self.builder
        function = b.function
        self._compute_invariants(statement)
        value = self._expressions.value
        ends = value(statement.start), value(statement.stop), value(statement.step)
        counted = loops.CountedLoop(b, statement.start.type, *ends)
        if counted.enters == b.false:
            self._skip(statement.body)
            return
        self._expressions.extraction.settle()
        body, loop = function.label(), _Loop(function.label(), function.label())
        self.builder.branch(counted.enters, False, loop.exit)
        state, before = self._enter_loop(loop, _assigned(statement.body))
        b.facts.assume(counted.enters, True)
        counted.begin()
        head, keeps_rolled = len(function.code), b.keeps_rolled
        b.keeps_rolled = False
        function.effect("label", (), (body, counted.stays_rolled))
        counted.assume()
        self.coverage.note_counter(counted)
        self._locals.define(statement.name, counted.counter, statement.start.type)
        if self._block(statement.body) or loop.has_continue:
            self._number(statement)
            function.effect("label", (), (loop.next, False))
            counted.advance(body)
        if b.keeps_rolled:
            function.code[head] = ("label", (), (body, True))
        b.keeps_rolled |= keeps_rolled
        self.coverage.end_loop(before, counted)
        self._leave_loop(loop, state, _assigned(statement.body))

    def _while(self, statement: While) -> bool:
        b = self.builder
        function = b.function
        loop = _Loop(function.label(), function.label())
        assigned = _assigned(statement.setup) | _assigned(statement.body)
        self._compute_invariants(statement)
        self._expressions.extraction.settle()
        state, before = self._enter_loop(loop, assigned)
        # Rolled: the assembler treats the length of a loop that it unrolls as a signed number (see loops.py).
        function.effect("label", (), (loop.next, True))
        endless = False
        if self._block(statement.setup):
            self._expressions.start_statement()
            self._current = statement
            self._number(statement)
            condition = self._expressions.value(statement.condition)
            endless = condition == b.true
            self.builder.branch(condition, False, loop.exit)
            b.facts.assume(condition, True)
            if condition == b.false:
                self._skip(statement.body)
            elif self._block(statement.body):
                self._number(statement)
                function.effect("branch", (), (loop.next, False))
        else:
            self._skip(statement.body)
            endless = True
        self.coverage.end_loop(before, None)
        self._leave_loop(loop, state, assigned)
        return loop.has_break or not endless

    def _compute_invariants(self, loop: For | While) -> None:
        """Before the first trip; the statements of the loop find the values.

        ptxas moves arithmetic by itself, but no load that has a guard. A loop without a trip makes none of the loads,
        which is why only those that are checked move.
        """
        if not self._moves:
            return
        current: Stmt = loop
        for statement, expr in invariants.invariants(loop, self._readable):
            if statement is not current:
                self._start(statement)
                current = statement
            self._expressions.ahead(statement.name if isinstance(statement, Let) else None, expr)
        if current is not loop:
            self._start(loop)

    def _start(self, statement: Stmt) -> None:
        self._expressions.start_statement()
        self._number(statement)

    def _enter_loop(self, loop: _Loop, assigned: frozenset[str]) -> tuple[State, Before]:
        saved = dict(self._locals.state)
        self._locals.forget(assigned)
        self._loops.append(loop)
        self._expressions.open_scope()
        self.memory.loop_depth += 1
        return saved, self.coverage.begin_loop()

    def _leave_loop(self, loop: _Loop, saved: State, assigned: frozenset[str]) -> None:
        self.memory.loop_depth -= 1
        self._expressions.close_scope()
        self._loops.pop()
        self._locals.state = saved
        self._locals.forget(assigned)
        self.builder.function.effect("label", (), (loop.exit, False))


def _assigned(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The vars that a body may assign."""
    return frozenset(s.name for s in walk.statements(body) if isinstance(s, Assign))
