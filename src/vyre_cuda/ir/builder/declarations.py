"""What a program declares: its parameters, the arrays of its blocks and threads, its tables, and its work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from vyre_cuda.errors import counted, type_name
from vyre_cuda.ir.builder.handles import Buffer, ParameterBufferKind, integer
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.scopes import Scope, caller, program_error
from vyre_cuda.ir.builder.values import Value, leaf, node_of
from vyre_cuda.ir.core.limits import MAX_AXES
from vyre_cuda.ir.core.nodes import (
    Apply,
    Const,
    Expr,
    LocalArray,
    OwnArray,
    Parameter,
    ParameterKind,
    Scalar,
    SharedArray,
    Size,
    Source,
    Table,
    elements,
)
from vyre_cuda.ir.core.types import Type, by_dtype

# The extents of a buffer, None for one that may be any.
Shape: TypeAlias = "Sequence[Operand | None] | None"


class Declarations:
    """The part of a Builder that declares."""

    _scope: Scope
    _parameters: list[Parameter]
    _shared: list[SharedArray]
    _arrays: list[OwnArray]
    _work: tuple[Expr, ...] | None

    def input(
        self, name: str, type_: Type, /, size: Operand | None = None, *, shape: Shape = None, ndim: int | None = None
    ) -> Buffer:
        """A buffer that the program reads.

        Parameters
        ----------
        name
            The parameter's name, which calls may use as a keyword.
        type_
            The type of an element.
        size
            The number of elements, a number or an expression over scalars and sizes, which each call checks; None for
            any.
        shape
            1 to 4 extents instead, each None for any: a call passes an array with as many axes.
        ndim
            The number of axes, if no extent is known.

        Returns
        -------
        Buffer
            The buffer, to be read in the program.

        Raises
        ------
        ProgramError
            The name is taken or not an identifier, the size is not known at a launch, or there are more than 4 axes.
        TypeError
            Both a size and a shape are given, one is not an integer or an expression, or `type_` is not a type.
        """
        return self._buffer(name, "in", type_, size, shape, ndim)

    def inout(
        self, name: str, type_: Type, /, size: Operand | None = None, *, shape: Shape = None, ndim: int | None = None
    ) -> Buffer:
        """A buffer that the program reads and writes; a call returns its new contents.

        Parameters
        ----------
        name, type_, size, shape, ndim
            Those of `input`.

        Returns
        -------
        Buffer
            The buffer.

        Raises
        ------
        ProgramError, TypeError
            As for `input`.
        """
        return self._buffer(name, "inout", type_, size, shape, ndim)

    def output(
        self,
        name: str,
        type_: Type,
        /,
        size: Operand | None = None,
        *,
        shape: Shape = None,
        ndim: int | None = None,
        zeroed: bool = True,
    ) -> Buffer:
        """A buffer that the program writes, and that is zero elsewhere; a call returns it.

        Parameters
        ----------
        name
            The parameter's name.
        type_
            The type of an element.
        size
            The number of elements, a number or an expression over scalars and sizes. Without a size or shape, a call
            must pass `out=`.
        shape
            1 to 4 such extents instead, which the result has.
        ndim
            The number of axes of the array given by `out=`, if no extent is known.
        zeroed
            False: it is not cleared, and its contents are unspecified where the program does not write. Not for
            `vc.bool_`.

        Returns
        -------
        Buffer
            The buffer.

        Raises
        ------
        ProgramError, TypeError
            As for `input`.
        """
        return self._buffer(name, "out", type_, size, shape, ndim, zeroed=zeroed)

    def scalar(self, name: str, type_: Type, /) -> Value:
        """A scalar parameter, passed by value.

        Parameters
        ----------
        name
            The parameter's name.
        type_
            Its type.

        Returns
        -------
        Value
            Its value.

        Raises
        ------
        ProgramError, TypeError
            As for `input`.
        """
        source = self._declare(name, "scalar", type_)
        return leaf(self._scope, Scalar(type_, name, source), source)

    def shared(
        self, name: str, type_: Type, /, size: int | tuple[int, ...] | None = None, *, shape: Sequence[int] = ()
    ) -> Buffer:
        """An array that the threads of one block share, zero when the block starts.

        Parameters
        ----------
        name
            Its name.
        type_
            The type of an element.
        size
            The number of elements, or a tuple of 1 to 4 extents.
        shape
            The extents instead of a size.

        Returns
        -------
        Buffer
            The array, which is read and written like a buffer.

        Raises
        ------
        ProgramError
            It has no elements, or too many axes.
        TypeError
            Neither or both of size and shape are given, or one is not an int.
        """
        source = self._scope.begin()
        _require_type(type_)
        if (size is None) == (not shape):
            raise TypeError(f"shared array {name} needs a size or a shape, and not both")
        extents = _extents_of("shared array", name, tuple(shape) or size, source)
        taken = self._scope.name_local(name, source)
        self._shared.append(SharedArray(taken, type_, math.prod(extents), source, _several(extents)))
        return Buffer(self._scope, taken, type_, "shared", len(extents))

    def local(self, name: str, type_: Type, /, size: int | tuple[int, ...]) -> Buffer:
        """An array that each thread has for itself, zero when the thread starts.

        Parameters
        ----------
        name
            Its name.
        type_
            The type of an element.
        size
            The number of elements, or a tuple of 1 to 4 extents.

        Returns
        -------
        Buffer
            The array, which is read and written like a buffer.

        Raises
        ------
        ProgramError
            It has no elements, or too many axes.
        TypeError
            A size is not an int.
        """
        source = self._scope.begin()
        _require_type(type_)
        extents = _extents_of("local array", name, size, source)
        taken = self._scope.name_local(name, source)
        self._arrays.append(LocalArray(taken, type_, math.prod(extents), source, _several(extents)))
        return Buffer(self._scope, taken, type_, "local", len(extents))

    def table(self, name: str, array: np.ndarray[Any, Any], /) -> Buffer:
        """Constants that are part of the program, read like a buffer.

        Parameters
        ----------
        name
            Its name.
        array
            The elements: a NumPy array of 1 to 4 axes, whose dtype gives the type. All tables of a program have at
            most 1 MiB.

        Returns
        -------
        Buffer
            The table, with the array's shape.

        Raises
        ------
        ProgramError
            It has no elements, or too many axes.
        TypeError
            Not an array, or of a dtype that programs do not have.
        """
        source = self._scope.begin()
        if not isinstance(array, np.ndarray):
            raise TypeError(f"table {name} is made of a NumPy array, not {type_name(array)}")
        _check_axes(name, array.ndim, source)
        type_ = by_dtype(array.dtype)
        if type_ is None:
            raise TypeError(f"table {name}: programs have no type for {array.dtype}")
        if array.size == 0:
            raise program_error(f"table {name} has no elements", source)
        taken = self._scope.name_local(name, source)
        self._arrays.append(Table(taken, type_, np.ascontiguousarray(array).tobytes(), source, _several(array.shape)))
        return Buffer(self._scope, taken, type_, "table", array.ndim)

    def work(self, *items: Operand) -> None:
        """The number of work items per axis, from which a launch computes its blocks.

        Parameters
        ----------
        *items
            1 to 3 numbers or expressions over scalars and sizes. Without `work` it is the size of the first output,
            else inout, else input.

        Raises
        ------
        ProgramError
            The work was already given, or is not known at a launch.
        TypeError
            No items, more than 3, or a float.
        """
        source = self._scope.begin()
        if not 1 <= len(items) <= 3:
            raise TypeError(f"work takes 1 to 3 numbers of items; {len(items)} given")
        if self._work is not None:
            raise program_error("work was already given", source)
        self._work = tuple(self._on_host(n, "number of work items", source) for n in items)

    # ---- parts of the above

    def _declare(
        self,
        name: str,
        kind: ParameterKind,
        type_: Type,
        size: Expr | None = None,
        shape: tuple[Expr | None, ...] = (),
        *,
        zeroed: bool = True,
    ) -> Source:
        source = self._scope.begin()
        _require_type(type_)
        self._scope.declare(name, "parameter", source)
        self._parameters.append(Parameter(name, kind, type_, size, source, shape, zeroed))
        return source

    def _buffer(
        self,
        name: str,
        kind: ParameterBufferKind,
        type_: Type,
        size: Operand | None,
        shape: Shape,
        ndim: int | None,
        *,
        zeroed: bool = True,
    ) -> Buffer:
        if not isinstance(zeroed, bool):
            raise TypeError(f"zeroed of {name} is {type_name(zeroed)}; it must be True or False")
        extents = self._extents(name, size, shape, ndim, caller())
        if len(extents) == 1:
            self._declare(name, kind, type_, extents[0], zeroed=zeroed)
        else:
            self._declare(name, kind, type_, elements(extents), extents, zeroed=zeroed)
        return Buffer(self._scope, name, type_, kind, len(extents))

    def _extents(
        self, name: str, size: Operand | None, shape: Shape, ndim: int | None, source: Source
    ) -> tuple[Expr | None, ...]:
        """The nodes of a size or shape, None for each extent that may be any."""
        if shape is None and ndim is None:
            return (None if size is None else self._on_host(size, f"size of {name}", source),)
        if size is not None:
            raise TypeError(f"{name} has a size and a shape; the shape alone says how many elements there are")
        if shape is None:
            count = _axis_count(name, ndim)
            _check_axes(name, count, source)
            shape = (None,) * count
        elif not isinstance(shape, (tuple, list)):
            raise TypeError(f"the shape of {name} is {type_name(shape)}; write a tuple, or size= for one axis")
        if ndim is not None and ndim != len(shape):
            raise program_error(f"ndim={ndim} of {name}, whose shape has {counted(len(shape), 'axis', 'axes')}", source)
        _check_axes(name, len(shape), source)
        return tuple([None if e is None else self._on_host(e, f"shape of {name}", source) for e in shape])

    def _on_host(self, count: Operand, what: str, source: Source) -> Expr:
        """The nodes of a count that is computed before the launch."""
        node = node_of(integer(self._scope, count, what, source))
        if not is_host_expression(node):
            raise program_error(
                f"the {what} is computed before the launch, from numbers, scalars and sizes only", source
            )
        return node


def _axis_count(name: str, ndim: object) -> int:
    if isinstance(ndim, bool) or not isinstance(ndim, (int, np.integer)):
        raise TypeError(f"ndim of {name} must be an int, not {type_name(ndim)}")
    return int(ndim)


def _extents_of(what: str, name: str, size: object, source: Source) -> tuple[int, ...]:
    """The extents of an array whose size is known when the program is built."""
    given = size if isinstance(size, tuple) else (size,)
    for extent in given:
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
            raise TypeError(f"the size of a {what} must be an int or ints, not {type_name(extent)}")
    _check_axes(name, len(given), source)
    extents = tuple([int(extent) for extent in given])
    if min(extents) < 1:
        raise program_error(f"{what} {name} of {math.prod(extents)} elements; it needs at least 1", source)
    return extents


def _several(extents: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as nodes have it: () for one axis."""
    return extents if len(extents) > 1 else ()


def _check_axes(name: str, count: int, source: Source) -> None:
    if not 1 <= count <= MAX_AXES:
        raise program_error(f"{name} with {count} axes; an array has 1 to {MAX_AXES}", source)


def _require_type(type_: Type) -> None:
    if not isinstance(type_, Type):
        raise TypeError(f"{type_!r} where a type such as vc.f32 is needed")


def is_host_expression(node: Expr) -> bool:
    """Whether it is computed before the launch: from numbers, scalars and sizes only."""
    match node:
        case Const() | Scalar() | Size():
            return True
        case Apply():
            return all(is_host_expression(operand) for operand in node.operands)
    return False
