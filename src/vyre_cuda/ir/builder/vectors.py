"""Neighboring elements of a buffer: accesses like any other, which the lowering makes at once where it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.errors import counted
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.scopes import caller, program_error
from vyre_cuda.ir.builder.values import BY_SYMBOL, Value, operate, read_here
from vyre_cuda.ir.core.nodes import Source

if TYPE_CHECKING:
    from vyre_cuda.ir.builder.handles import Buffer

_COUNTS = (2, 4, 8, 16)
_MOST_BYTES = 16


class Vector:
    """`x[i]` to `x[i + n - 1]`: unpacking or iterating reads them all, `v[k]` reads one, `v.set(...)` writes them."""

    __slots__ = ("_buffer", "_count", "_indices")

    def __init__(self, buffer: Buffer, indices: Sequence[Value], count: int) -> None:
        self._buffer = buffer
        self._indices = indices
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Value:
        return self._buffer[self._index(range(self._count)[number])]

    def __iter__(self) -> Iterator[Value]:
        source = caller()
        scope = self._buffer._scope
        elements = [self._buffer[self._index(number)] for number in range(self._count)]
        return iter([read_here(scope, element, source) for element in elements])

    def set(self, *values: Operand) -> None:
        """Write the elements, in their order.

        Parameters
        ----------
        values
            A value for each element, of the buffer's type, or a number.

        Raises
        ------
        ProgramError
            There are more or fewer values than elements, one has another type, or the buffer cannot be written.
        """
        if len(values) != self._count:
            given = counted(len(values), "value")
            raise program_error(f"{given} for {self._count} elements of {self._buffer.name}", caller())
        for number, value in enumerate(values):
            self._buffer[self._index(number)] = value

    def _index(self, number: int) -> tuple[Operand, ...] | Operand:
        *others, last = self._indices
        at = operate(BY_SYMBOL["+"], (last, number)) if number else last
        return (*others, at) if others else at

    def __repr__(self) -> str:
        return f"<{self._count} elements of {self._buffer.name}>"


def require_count(buffer: Buffer, count: Any, source: Source) -> int:
    """How many elements a vector of the buffer has. Raises ProgramError for a number that none has."""
    size = buffer.type.itemsize
    possible = [n for n in _COUNTS if n * size <= _MOST_BYTES]
    if isinstance(count, bool) or count not in possible:
        *others, last = map(str, possible)
        named = f"{', '.join(others)} or {last}" if others else last
        raise program_error(f"a vector of {buffer.type} has {named} elements, not {count!r}", source)
    return int(count)
