"""Who reads or returns elements that no thread wrote, of outs without zeros: `evaluate(..., check="initialized")`.

An element counts as read by a thread that evaluates a load of it within bounds, whatever becomes of the value, and by
every atomic but a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np

from vyre_cuda.interp.execute import Execution, Scope
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.interp.memory import Memory
from vyre_cuda.ir.call.unwritten import read_error, returned_error
from vyre_cuda.ir.core.nodes import Stmt
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.ir.semantics.elementwise import Array


class Reader:
    """The lanes that read next, and for which statement."""

    __slots__ = ("lanes", "mask", "program", "statement")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lanes: Lanes | None = None
        self.mask: Mask | None = None
        self.statement: Stmt | None = None


class WatchedMemory(Memory):
    """A buffer that knows which of its elements were written; for all chunks of a launch."""

    __slots__ = ("name", "reader", "written")
    # mypy takes these for fields of a record, because the base is one.
    name: str  # type: ignore[misc]
    reader: Reader  # type: ignore[misc]
    written: Array  # type: ignore[misc]

    def __init__(self, name: str, memory: Memory, reader: Reader) -> None:
        super().__init__(memory.type, memory.data, memory.size, shape=memory.shape)
        for field, value in (("name", name), ("reader", reader), ("written", np.zeros(memory.size, np.bool_))):
            object.__setattr__(self, field, value)  # the class is frozen

    def load(self, index: Array) -> Array:
        if self.reader.mask is not None:
            self._check(index, self.reader.mask)
        return super().load(index)

    def store(self, index: Array, value: Array, mask: Mask) -> None:
        super().store(index, value, mask)
        self.written[self.targets(index, mask)[1]] = True

    def atomic(self, op: str, index: Array, operands: Sequence[Array], mask: Mask, *, need_old: bool) -> Array | None:
        if op != "store":
            self._check(index, mask)
        old = super().atomic(op, index, operands, mask, need_old=need_old)
        self.written[self.targets(index, mask)[1]] = True
        return old

    def _check(self, index: Array, mask: Mask) -> None:
        lanes, address = self.targets(index, mask)
        unwritten = np.flatnonzero(~self.written[address])
        if unwritten.size:
            first = int(unwritten[0])
            _read(self, int(address[first]), first if lanes is None else int(lanes[first]))

    def place(self, number: int) -> tuple[int, ...]:
        """Its index on each axis."""
        return tuple(map(int, np.unravel_index(number, self.shape))) if self.shape else (number,)


class CheckedExecution(Execution):
    """Says which lanes read next, because expressions are evaluated for all."""

    def __init__(self, program: Program, scope: Scope, reader: Reader) -> None:
        super().__init__(program, scope)
        self._reader = reader
        reader.lanes = scope.lanes

    def _execute(self, statement: Stmt, mask: Mask) -> Mask:
        self._reads(statement, mask)
        return super()._execute(statement, mask)

    def _reads(self, statement: Stmt, mask: Mask) -> None:
        self._reader.statement, self._reader.mask = statement, mask


def watched(memory: dict[str, Memory], program: Program, reader: Reader) -> dict[str, Memory]:
    """The buffers of a launch, with those watched that begin with unspecified contents."""
    names = {parameter.name for parameter in program.parameters if not parameter.zeroed}
    return {name: WatchedMemory(name, each, reader) if name in names else each for name, each in memory.items()}


def check_results(program: Program, buffers: Iterable[Memory]) -> None:
    """UninitializedError for the first buffer that has elements that no thread wrote."""
    for buffer in buffers:
        if not isinstance(buffer, WatchedMemory) or buffer.written.all():
            continue
        unwritten = np.flatnonzero(~buffer.written)
        first = int(unwritten[0])
        raise returned_error(program, buffer.name, first, count=unwritten.size, axes=buffer.place(first))


def _read(buffer: WatchedMemory, number: int, lane: int) -> NoReturn:
    program, statement, lanes = buffer.reader.program, buffer.reader.statement, buffer.reader.lanes
    assert statement is not None  # an execution has begun
    assert lanes is not None
    at = next(place for place, each in enumerate(statements(program.body)) if each is statement)
    thread = lanes.first_thread + lane
    raise read_error(program, buffer.name, number, statement=at, thread=thread, axes=buffer.place(number))
