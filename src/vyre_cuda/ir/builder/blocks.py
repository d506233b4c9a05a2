"""The with-blocks of a builder: if, else, for, while.

Each is entered once. When its block ends normally, one statement is appended; when an exception ends it, none is, and
the exception propagates unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType

import numpy as np

from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.scopes import Arm, Block, BlockKind, Scope, caller, program_error
from vyre_cuda.ir.builder.values import Value, local, move_into, node_of, place
from vyre_cuda.ir.core.limits import MAX_NESTING
from vyre_cuda.ir.core.nodes import Const, Expr, For, Local, Source, Stmt, While
from vyre_cuda.ir.core.types import bool_, by_dtype


class BlockStatement(ABC):
    """A with-statement that becomes one statement of the program."""

    def __init__(self, scope: Scope, kind: BlockKind, source: Source) -> None:
        self._scope = scope
        self._kind: BlockKind = kind
        self._source = source
        self._block: Block | None = None
        scope.unentered[id(self)] = (kind, source)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._block is not None
        if error is None:
            self._finish(self._scope.leave(self._block, caller()))
        else:
            self._scope.discard(self._block)

    def _open(self) -> None:
        source = caller()
        self._scope.require_unbuilt(source)
        if self._block is not None:
            raise program_error(f"this {self._kind} block was entered before; call b.{self._kind} again", source)
        self._block = self._scope.enter(self._kind, self._source)
        self._scope.unentered.pop(id(self), None)

    @abstractmethod
    def _finish(self, body: tuple[Stmt, ...]) -> None:
        """Append the statement."""


class IfBlock(BlockStatement):
    def __init__(self, scope: Scope, condition: Value, source: Source) -> None:
        super().__init__(scope, "if_", source)
        self._condition = node_of(condition)

    def __enter__(self) -> None:
        self._open()

    def _finish(self, body: tuple[Stmt, ...]) -> None:
        self._scope.append_if((Arm(self._condition, body, self._source),))


class ElifBlock(BlockStatement):
    """What the condition reads is read where the conditions before it do not hold."""

    def __init__(self, scope: Scope, condition: Callable[[], Value], source: Source) -> None:
        self._arms = _open_arms(scope, "elif_", source)
        if scope.block.depth + len(self._arms) >= MAX_NESTING:
            raise program_error(f"an if_ has more than {MAX_NESTING} branches", source)
        held = condition()
        super().__init__(scope, "elif_", source)
        self._before, self._reads = scope.take_reads()
        self._condition = node_of(held)

    def __enter__(self) -> None:
        if self._block is None and (self._scope.block.arms is not self._arms or self._scope.block.reads):
            raise program_error("elif_ comes right after the block of its if_", self._source)
        self._open()
        assert self._block is not None
        move_into(self._block, self._reads)

    def _finish(self, body: tuple[Stmt, ...]) -> None:
        self._scope.extend_if((*self._arms, Arm(self._condition, body, self._source, self._before)))


class ElseBlock(BlockStatement):
    def __init__(self, scope: Scope, source: Source) -> None:
        self._arms = _open_arms(scope, "else_", source)
        super().__init__(scope, "else_", source)

    def __enter__(self) -> None:
        if self._block is None and (self._scope.block.arms is not self._arms or self._scope.block.reads):
            raise program_error("else_ comes right after the block of its if_", self._source)
        self._open()

    def _finish(self, body: tuple[Stmt, ...]) -> None:
        self._scope.complete_if(self._arms, body)


class ForBlock(BlockStatement):
    def __init__(self, scope: Scope, lo: Operand, hi: Operand, step: Operand, source: Source) -> None:
        start, stop = bounds(scope, lo, hi, source)
        by = place(scope, step, source, start.type, "step")
        if isinstance(node_of(by), Const) and node_of(by) == Const(by.type, 0):
            raise program_error("with a step of 0 the loop never runs", source)
        super().__init__(scope, "for_", source)
        self._range = (node_of(start), node_of(stop), node_of(by))
        self._name = ""
        self.counter = "j"  # what the counter is called

    def __enter__(self) -> Value:
        self._open()
        start = self._range[0]
        self._name = self._scope.name_local(self.counter, self._source)
        return local(self._scope, Local(start.type, self._name, self._source))

    def _finish(self, body: tuple[Stmt, ...]) -> None:
        self._scope.append(For(self._name, *self._range, body, self._source))


class WhileBlock(BlockStatement):
    def __init__(self, scope: Scope, condition: Callable[[], Operand], source: Source) -> None:
        super().__init__(scope, "while_", source)
        self._evaluate = condition
        self._setup: tuple[Stmt, ...] = ()
        self._condition: Expr = Const(bool_, 1, source)

    def __enter__(self) -> None:
        self._open()
        assert self._block is not None
        self._block.kind = "while_ test"
        try:
            self._condition = node_of(place(self._scope, self._evaluate(), self._source, bool_, "condition"))
        except BaseException:
            self._scope.discard(self._block)
            raise
        self._block.kind = "while_"
        self._setup = tuple(self._block.statements)
        self._block.statements.clear()
        self._block.arms = ()

    def _finish(self, body: tuple[Stmt, ...]) -> None:
        self._scope.append(While(self._setup, self._condition, body, self._source))


def _open_arms(scope: Scope, what: str, source: Source) -> tuple[Arm, ...]:
    arms = scope.block.arms
    if not arms or (what == "else_" and scope.block.reads):
        raise program_error(f"{what} comes right after the block of its if_", source)
    return arms


def bounds(scope: Scope, lo: Operand, hi: Operand, source: Source) -> tuple[Value, Value]:
    """Both bounds with one type: a number takes the other's, two numbers that of a NumPy scalar or the index type."""
    own = next((by_dtype(bound.dtype) for bound in (lo, hi) if isinstance(bound, np.integer)), None)
    lo, hi = (int(bound) if isinstance(bound, np.integer) else bound for bound in (lo, hi))
    if isinstance(lo, (int, float)) and isinstance(hi, (int, float)):
        type_ = scope.index if own is None else own
        return place(scope, lo, source, type_, "start"), place(scope, hi, source, type_, "stop")
    if isinstance(lo, (int, float)):
        stop = place(scope, hi, source, None, "stop")
        start = place(scope, lo, source, stop.type, "start")
    else:
        start = place(scope, lo, source, None, "start")
        stop = place(scope, hi, source, start.type, "stop")
    if not start.type.is_integer:
        raise program_error(f"the bounds are {start.type}; a for_ needs integers", source)
    return start, stop
