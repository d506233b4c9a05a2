"""What a builder returns besides values: buffers to index and variables to set.

Reading a variable, a writable buffer or a shared array happens where the Python expression is written: the read is
bound to a `let` at once, so `t = x[i]; x[i] = y[i]; y[i] = t` swaps. Reads of `in` buffers remain expressions of the
innermost block that is open there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from vyre_cuda.errors import counted
from vyre_cuda.ir.builder.operators import Expression, Operand
from vyre_cuda.ir.builder.scopes import Block, Scope, caller, out_of_block, program_error
from vyre_cuda.ir.builder.values import (
    BY_SYMBOL,
    Value,
    fitting,
    leaf,
    local,
    made_here,
    node_of,
    operate,
    place,
    read_here,
)
from vyre_cuda.ir.core.nodes import Assign, Expr, Load, Local, Position, Size, Source, Store
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.errors import ProgramError
    from vyre_cuda.ir.builder import slices, vectors
    from vyre_cuda.ir.builder.vectors import Vector
else:
    slices, vectors = later("vyre_cuda.ir.builder.slices"), later("vyre_cuda.ir.builder.vectors")

ParameterBufferKind = Literal["in", "inout", "out"]
BufferKind = ParameterBufferKind | Literal["shared", "local", "table"]
# Of an element: an integer, or one for each axis.
Index: TypeAlias = "Operand | tuple[Operand, ...]"
# Of several elements along one axis, as in `x[i, :3]`.
Slice: TypeAlias = "slice | tuple[Operand | slice, ...]"


class _Shape(tuple[Value, ...]):
    """The extents of an array; one of an axis that it does not have is an error with its place."""

    __slots__ = ()

    def __getitem__(self, axis: Any) -> Any:
        try:
            return super().__getitem__(axis)
        except IndexError:
            axes = "one axis" if len(self) == 1 else f"{len(self)} axes"
            last = "" if len(self) == 1 else f" to shape[{len(self) - 1}]"
            raise program_error(f"shape[{axis}] of an array with {axes}: it has shape[0]{last}", caller()) from None


class Buffer:
    """A buffer parameter, table or array: `x[i]` reads an element, `x[i] = v` writes one; `x[i, j]` with two axes.
    `x[i, :3]` is the tuple of three elements.

    `size` is the number of elements, `shape[k]` the extent of axis k, in the program's index type. An index may have
    any integer type; out of bounds in any axis, a read gives 0 and a write does nothing, unless the program is compiled
    with other `bounds`.
    """

    __slots__ = ("_kind", "_name", "_ndim", "_scope", "_type")

    __array_ufunc__ = None
    __iter__ = None
    __contains__ = None

    def __init__(self, scope: Scope, name: str, type_: Type, kind: BufferKind, ndim: int = 1) -> None:
        self._scope = scope
        self._name = name
        self._type = type_
        self._kind = kind
        self._ndim = ndim

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if isinstance(other, Buffer):
            raise program_error("two arrays are compared: compare elements, as in x[i] == y[i]", caller())
        return NotImplemented

    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self._name

    @property
    def type(self) -> Type:
        """The type of an element."""
        return self._type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of an element."""
        return self._type.dtype

    @property
    def size(self) -> Value:
        """The number of elements, through all axes."""
        source = caller()
        return leaf(self._scope, Size(self._scope.index, self._name, source), source)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._ndim

    @property
    def shape(self) -> tuple[Value, ...]:
        """The extent of each axis; with one, its size."""
        source = caller()
        axes = range(self._ndim) if self._ndim > 1 else (None,)
        sizes = [Size(self._scope.index, self._name, source, axis) for axis in axes]
        return _Shape([leaf(self._scope, size, source) for size in sizes])

    @overload
    def __getitem__(self, index: Index) -> Value: ...  # type: ignore[overload-overlap]

    @overload
    def __getitem__(self, index: Slice) -> tuple[Value, ...]: ...

    def __getitem__(self, index: Any) -> Any:
        source = caller()
        if _has_slice(index):
            return tuple([self[one] for one in slices.elements(self._name, index, source)])
        at = fitting(self._scope, element_indices(self, index, source), source)
        load = made_here(self._scope, Load(self._type, self._name, position(self, at, source), source), at, source)
        return load if self._kind in ("in", "table") else read_here(self._scope, load, source)

    @overload
    def __setitem__(self, index: Index, value: Operand) -> None: ...

    @overload
    def __setitem__(self, index: Slice, value: Operand | Sequence[Operand]) -> None: ...

    def __setitem__(self, index: Any, value: Any) -> None:
        source = caller()
        require_writable(self, source)
        if _has_slice(index):
            places = slices.elements(self._name, index, source)
            for one, each in zip(places, slices.each_of(self._name, value, len(places), source), strict=True):
                self[one] = each
            return
        at = element_indices(self, index, source)
        stored = place(self._scope, value, source, self._type, f"value stored in {self._name}")
        self._scope.append(Store(self._name, position(self, at, source), node_of(stored), source))

    def vector(self, index: Index, count: int, /) -> Vector:
        """Neighboring elements, which a thread reads or writes at once where it can.

        They are the elements `x[index]`, `x[index + 1]` and so on, each with the bounds of its own: `a, b =
        x.vector(2 * i, 2)` reads them, and `y.vector(2 * i, 2).set(b, a)` writes them. The kernel has one access for
        all where the lowering sees that the index is a multiple of their number, and where the buffer's memory begins
        at a multiple of their bytes; otherwise one for each, with the same result.

        Parameters
        ----------
        index
            The first element: any integer, with several axes one for each, the last of which counts up.
        count
            How many elements: 2, 4, 8 or 16, and no more than 16 bytes.

        Returns
        -------
        Vector
            The elements: to unpack, to iterate over, to read as `v[k]`, and to write with `v.set(...)`.

        Raises
        ------
        ProgramError
            There is no vector with so many elements of the buffer's type, or the index is not an integer.
        """
        source = caller()
        number = vectors.require_count(self, count, source)
        return vectors.Vector(self, element_indices(self, index, source), number)

    def __bool__(self) -> bool:
        raise TypeError(f"{self._name} is a buffer and has no truth value in Python; read an element as x[i]")

    def __repr__(self) -> str:
        return f"<{self._kind} {self._name}: {self._type}>"


class Variable(Expression):
    """A mutable local: `acc.set(value)` and `acc += value` assign it; an expression reads it right there."""

    __slots__ = ("_block", "_name", "_scope", "_type")

    def __init__(self, scope: Scope, name: str, type_: Type) -> None:
        self._scope = scope
        self._name = name
        self._type = type_
        self._block: Block = scope.block

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self._name

    @property
    def type(self) -> Type:
        """Its type."""
        return self._type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of its type."""
        return self._type.dtype

    def set(self, value: Operand) -> None:
        """Assign a value.

        Parameters
        ----------
        value
            An expression of the variable's type, or a number.

        Raises
        ------
        ProgramError
            The value has another type, or the variable's block has ended.
        TypeError
            The value is neither an expression nor a number.
        """
        source = caller()
        self._require_usable(source)
        assigned = place(self._scope, value, source, self._type, f"value of {self._name}")
        self._scope.append(Assign(self._name, node_of(assigned), source))

    def read(self) -> Value:
        """The value as it is now, whatever is assigned later."""
        source = caller()
        return read_here(self._scope, self.peek(source), source)

    def _apply(self, symbol: str, *operands: Operand) -> Value:
        return operate(BY_SYMBOL[symbol], operands)

    def _update(self, symbol: str, operand: Operand) -> Variable:
        value = self._binary(symbol, self, operand)
        if value is not NotImplemented:
            self.set(value)
        return self if value is not NotImplemented else NotImplemented

    def __iadd__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("+", other)

    def __isub__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("-", other)

    def __imul__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("*", other)

    def __itruediv__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("/", other)

    def __ifloordiv__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("//", other)

    def __imod__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("%", other)

    def __ipow__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("**", other)

    def __ilshift__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("<<", other)

    def __irshift__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update(">>", other)

    def __iand__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("&", other)

    def __ior__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("|", other)

    def __ixor__(self, other: Operand) -> Variable:  # type: ignore[override]
        return self._update("^", other)

    def peek(self, source: Source) -> Value:
        """The current value, for a statement that comes next and binds it."""
        self._require_usable(source)
        return local(self._scope, Local(self._type, self._name, source))

    def _require_usable(self, source: Source) -> None:
        self._scope.require_unbuilt(source)
        if not self._block.is_open:
            raise out_of_block(self._name, self._block, source)

    def __repr__(self) -> str:
        return f"<var {self._name}: {self._type}>"


def _has_slice(index: Any) -> bool:
    return type(index) is slice or (type(index) is tuple and slice in map(type, index))


def element_indices(buffer: Buffer, index: Index, source: Source) -> list[Value]:
    """The indices of one element, one for each axis, placed."""
    indices = index if isinstance(index, tuple) else (index,)
    if any(isinstance(one, slice) for one in indices):
        raise program_error(f"a slice of {buffer.name} where one element is needed: write its index", source)
    if len(indices) != buffer.ndim:
        axes = f"{buffer.ndim} axes" if buffer.ndim > 1 else "one axis"
        example = ", ".join("ijkl"[: buffer.ndim])
        given = counted(len(indices), "index", "indices")
        raise program_error(f"{buffer.name} has {axes}; {given} given (write {buffer.name}[{example}])", source)
    for axis, one in enumerate(indices):
        if isinstance(one, (int, np.integer)) and one < 0:
            raise _from_the_end(buffer, axis, int(one), source)
    return [integer(buffer._scope, one, f"index into {buffer.name}", source) for one in indices]


def _from_the_end(buffer: Buffer, axis: int, index: int, source: Source) -> ProgramError:
    """The error for an index that counts from the end in Python; here nothing is there, and a load would be 0."""
    extent = "size" if buffer.ndim == 1 else f"shape[{axis}]"
    return program_error(
        f"{buffer.name} has no element {index}: indices count from 0; "
        f"from the end, write {buffer.name}.{extent} - {-index}",
        source,
    )


def position(buffer: Buffer, indices: Sequence[Value], source: Source) -> Expr:
    """The node of the index of an access."""
    nodes = tuple([node_of(index) for index in indices])
    return nodes[0] if buffer.ndim == 1 else Position(buffer._scope.index, nodes, source)


def integer(scope: Scope, operand: Operand, what: str, source: Source) -> Value:
    """A value of any integer type; a Python int has the index type."""
    placed = place(scope, operand, source, scope.index if isinstance(operand, (int, float, np.integer)) else None, what)
    if not placed.type.is_integer:
        raise program_error(f"the {what} is {placed.type}; it must be an integer (write vc.{scope.index}(...))", source)
    return placed


def require_writable(buffer: Buffer, source: Source) -> None:
    """Raises ProgramError for an `in` buffer and a table."""
    if buffer._kind == "table":
        raise program_error(f"{buffer.name} is a table and cannot be written", source)
    if buffer._kind == "in":
        raise program_error(f"{buffer.name} is an input and cannot be written (declare it with b.inout)", source)
