"""`Builder`: writes a program statement by statement, in Python, and checks each one at its own line.

An error in one statement raises ProgramError there; `build` validates the whole and raises with every finding.
A with-block that an exception leaves is dropped, and the exception propagates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.builder.blocks import ElifBlock, ElseBlock, ForBlock, IfBlock, WhileBlock
from vyre_cuda.ir.builder.effects import AtomicMethods, WarpMethods
from vyre_cuda.ir.builder.handles import Buffer, ParameterBufferKind, Variable, integer
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.prune import drop_unread_results
from vyre_cuda.ir.builder.reblock import what_fixes_block
from vyre_cuda.ir.builder.scopes import Scope, caller, check_name, program_error
from vyre_cuda.ir.builder.values import Value, bind, leaf, node_of, place
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.limits import MAX_AXES
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Barrier,
    Break,
    Const,
    Continue,
    Expr,
    GridBarrier,
    LocalArray,
    OwnArray,
    Parameter,
    ParameterKind,
    Return,
    Scalar,
    SharedArray,
    Size,
    Source,
    Table,
    Var,
    elements,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INDEX_TYPES, Type, bool_, by_dtype, u32

# Threads per block of a block="auto" program where no device has chosen.
_AUTO_BLOCK = 256


# The extents of a buffer, None for one that may be any.
Shape: TypeAlias = "Sequence[Operand | None] | None"


class Builder(AtomicMethods, WarpMethods):
    """A program under construction. `block` is the threads per axis, `index` the type of ids and sizes.

    `index` is vc.u32, vc.i32, vc.u64 or vc.i64. With a signed type, `r - 1` of an id is what it says; vc.i32 allows
    fewer than 2^31 elements in a buffer, vc.u32 fewer than 2^32.

    block="auto" leaves the number to the device that compiles the program, which then must not depend on it: it has no
    shared memory, barriers, warp operations or ids of blocks and their threads. Elsewhere it is 256.
    """

    def __init__(self, name: str, block: int | tuple[int, ...] | Literal["auto"] = 256, index: Type = u32) -> None:
        source = caller()
        check_name(name, "program", source)
        if index not in INDEX_TYPES:
            raise program_error(
                f"the index type is {index}; it must be one of {', '.join(t.name for t in INDEX_TYPES)}", source
            )
        self._scope = Scope(name, index, source)
        self._auto_block = isinstance(block, str)
        self._block = _dim3(_checked_auto(block) if isinstance(block, str) else block)
        self._source = source
        self._parameters: list[Parameter] = []
        self._shared: list[SharedArray] = []
        self._arrays: list[OwnArray] = []
        self._work: tuple[Expr, ...] | None = None

    @property
    def name(self) -> str:
        return self._scope.program

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Builder can be neither copied nor pickled; build() returns a Program, which can be")

    def __repr__(self) -> str:
        names = ", ".join(parameter.name for parameter in self._parameters)
        state = "built" if self._scope.built else "not built"
        return f"<vyre_cuda.Builder {self.name}({names}), {state}>"

    # ---- declarations

    def input(
        self, name: str, type_: Type, /, size: Operand | None = None, *, shape: Shape = None, ndim: int | None = None
    ) -> Buffer:
        """A buffer that the program reads.

        With `shape` (2 to 4 extents, or None for any) or `ndim`, it has several axes, and a call must pass an array
        with as many. Extents and `size`, the number of elements, are numbers or expressions over scalars and sizes;
        each call checks them, and raises ValueError for an array with others.
        """
        return self._buffer(name, "in", type_, size, shape, ndim)

    def inout(
        self, name: str, type_: Type, /, size: Operand | None = None, *, shape: Shape = None, ndim: int | None = None
    ) -> Buffer:
        """A buffer that the program reads and writes; a call returns its new contents.

        `size`, `shape` and `ndim` are those of `input`.
        """
        return self._buffer(name, "inout", type_, size, shape, ndim)

    def output(
        self, name: str, type_: Type, /, size: Operand | None = None, *, shape: Shape = None, ndim: int | None = None
    ) -> Buffer:
        """A buffer that the program writes, and that is zero elsewhere; `size` is its number of elements.

        The size is a number or an expression over scalars and sizes, as is each extent of a `shape` of 2 to 4 axes,
        which the result has; without one, a call must pass `out=`, an array with `ndim` axes.
        """
        return self._buffer(name, "out", type_, size, shape, ndim)

    def scalar(self, name: str, type_: Type, /) -> Value:
        """A scalar parameter, passed by value."""
        source = self._declare(name, "scalar", type_)
        return leaf(self._scope, Scalar(type_, name, source), source)

    def shared(
        self, name: str, type_: Type, /, size: int | tuple[int, ...] | None = None, *, shape: Sequence[int] = ()
    ) -> Buffer:
        """An array of `size` elements that the threads of one block share, zero when the block starts.

        `shape`, or a tuple as the size, gives it 2 to 4 axes.
        """
        source = self._scope.begin()
        _require_type(type_)
        if (size is None) == (not shape):
            raise TypeError(f"shared array {name} needs a size or a shape, and not both")
        given: tuple[object, ...] = tuple(shape) or (size if isinstance(size, tuple) else (size,))
        for extent in given:
            if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
                raise TypeError(f"the size of a shared array must be an int or ints, not {type(extent).__name__}")
        extents = tuple([int(extent) for extent in given if isinstance(extent, (int, np.integer))])
        _check_axes(name, len(extents), source)
        if min(extents) < 1:
            raise program_error(f"shared array {name} of {math.prod(extents)} elements; it needs at least 1", source)
        taken = self._scope.name_local(name, source)
        several = extents if len(extents) > 1 else ()
        self._shared.append(SharedArray(taken, type_, math.prod(extents), source, several))
        return Buffer(self._scope, taken, type_, "shared", len(extents))

    def local(self, name: str, type_: Type, /, size: int) -> Buffer:
        """An array of `size` elements that each thread has for itself, zero when the thread starts."""
        source = self._scope.begin()
        _require_type(type_)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"the size of a local array must be an int, not {type(size).__name__}")
        if size < 1:
            raise program_error(f"local array {name} of {size} elements; it needs at least 1", source)
        taken = self._scope.name_local(name, source)
        self._arrays.append(LocalArray(taken, type_, int(size), source))
        return Buffer(self._scope, taken, type_, "local")

    def table(self, name: str, array: np.ndarray[Any, Any], /) -> Buffer:
        """Constants that are part of the program, read like a buffer: the elements of an array with one axis.

        The type is that of the array's dtype. All tables of a program have at most 1 MiB.
        """
        source = self._scope.begin()
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            raise TypeError(f"table {name} is made of a NumPy array with one axis")
        type_ = by_dtype(array.dtype)
        if type_ is None:
            raise TypeError(f"table {name}: programs have no type for {array.dtype}")
        if array.size == 0:
            raise program_error(f"table {name} has no elements", source)
        taken = self._scope.name_local(name, source)
        self._arrays.append(Table(taken, type_, np.ascontiguousarray(array).tobytes(), source))
        return Buffer(self._scope, taken, type_, "table")

    def work(self, *items: Operand) -> None:
        """The number of work items per axis (1 to 3), each a number or an expression over scalars and sizes."""
        source = self._scope.begin()
        if not 1 <= len(items) <= 3:
            raise TypeError(f"work takes 1 to 3 numbers of items; {len(items)} given")
        if self._work is not None:
            raise program_error("work was already given", source)
        self._work = tuple(self._on_host(n, "number of work items", source) for n in items)

    # ---- locals

    def let(self, name: str, value: Operand, /) -> Value:
        """An immutable local."""
        source = self._scope.begin()
        return bind(self._scope, self._first_value(name, value, source), name, source)

    def var(self, name: str, value: Operand, /) -> Variable:
        """A mutable local with its first value."""
        source = self._scope.begin()
        first = self._first_value(name, value, source)
        taken = self._scope.name_local(name, source)
        self._scope.append(Var(taken, node_of(first), source))
        return Variable(self._scope, taken, first.type)

    # ---- control flow

    def if_(self, condition: Operand, /) -> IfBlock:
        """`with b.if_(condition):` runs its block where the condition holds."""
        source = self._scope.begin()
        return IfBlock(self._scope, place(self._scope, condition, source, bool_, "condition"), source)

    def elif_(self, condition: Operand, /) -> ElifBlock:
        """`with b.elif_(condition):` right after an if or elif block runs where this condition is the first to hold.

        A variable or an element in the condition is read where the conditions before it do not hold.
        """
        source = self._scope.begin()
        return ElifBlock(self._scope, lambda: place(self._scope, condition, source, bool_, "condition"), source)

    def else_(self) -> ElseBlock:
        """`with b.else_():` right after an if or elif block runs where no condition before it holds."""
        return ElseBlock(self._scope, self._scope.begin())

    def for_(self, lo: Operand, hi: Operand | None = None, /, step: Operand = 1) -> ForBlock:
        """`with b.for_(lo, hi) as j:` counts like range(lo, hi, step), without wrapping at the end of the type.

        `b.for_(n)` counts from 0, like range(n).
        """
        bounds = (0, lo) if hi is None else (lo, hi)
        return ForBlock(self._scope, *bounds, step, self._scope.begin())

    def while_(self, condition: Callable[[], Operand], /) -> WhileBlock:
        """`with b.while_(lambda: ...):` repeats its block; the condition is evaluated before each pass."""
        source = self._scope.begin()
        if not callable(condition):
            raise TypeError(
                "the condition of while_ must be a callable, because it is evaluated on "
                "every iteration: b.while_(lambda: ...)"
            )
        return WhileBlock(self._scope, condition, source)

    def break_(self) -> None:
        """Leave the innermost loop."""
        source = self._scope.begin()
        self._require_loop("break_", source)
        self._scope.append(Break(source))

    def continue_(self) -> None:
        """Continue with the next pass of the innermost loop."""
        source = self._scope.begin()
        self._require_loop("continue_", source)
        self._scope.append(Continue(source))

    def return_(self) -> None:
        """End the thread."""
        self._scope.append(Return(self._scope.begin()))

    # ---- effects

    def barrier(self) -> None:
        """Wait until every thread of the block has arrived."""
        self._scope.append(Barrier(self._scope.begin()))

    def grid_barrier(self) -> None:
        """Wait until every thread of the grid has arrived; the launch is cooperative."""
        self._scope.append(GridBarrier(self._scope.begin()))

    def assert_(self, condition: Operand, message: str, /) -> None:
        """Where the condition is false, report `message`, end the thread and make the call raise."""
        source = self._scope.begin()
        if not isinstance(message, str):
            raise TypeError(f"the message of assert_ must be a str, not {type(message).__name__}")
        held = place(self._scope, condition, source, bool_, "condition")
        self._scope.append(Assert(node_of(held), message, source))

    # ---- the end

    def build(self) -> Program:
        """Return the finished program. Raises ProgramError with everything that is wrong with it."""
        source = self._scope.begin()
        block = self._scope.block
        if block.parent is not None:
            raise program_error(f"build() was called inside the {block.kind} block of line {block.source[1]}", source)
        for what, where in self._scope.unentered.values():
            raise program_error(f"b.{what}(...) must be written in a with statement, which opens its block", where)
        program = Program(
            name=self.name,
            parameters=tuple(self._parameters),
            body=drop_unread_results(block.statements),
            block=self._block,
            index=self._scope.index,
            work=self._work,
            shared=tuple(self._shared),
            arrays=tuple(self._arrays),
            source=self._source,
            auto_block=self._auto_block,
        )
        check(program)
        fixed = what_fixes_block(program) if self._auto_block else None
        if fixed is not None:
            raise program_error(
                f'block="auto" cannot be used with {fixed[0]}, which depends on the block', fixed[1] or self._source
            )
        self._scope.built = True
        return program

    # ---- parts of the above

    def _declare(
        self,
        name: str,
        kind: ParameterKind,
        type_: Type,
        size: Expr | None = None,
        shape: tuple[Expr | None, ...] = (),
    ) -> Source:
        source = self._scope.begin()
        _require_type(type_)
        self._scope.declare(name, "parameter", source)
        self._parameters.append(Parameter(name, kind, type_, size, source, shape))
        return source

    def _buffer(
        self,
        name: str,
        kind: ParameterBufferKind,
        type_: Type,
        size: Operand | None,
        shape: Shape,
        ndim: int | None,
    ) -> Buffer:
        extents = self._extents(name, size, shape, ndim, caller())
        if len(extents) == 1:
            self._declare(name, kind, type_, extents[0])
        else:
            self._declare(name, kind, type_, elements(extents), extents)
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
            shape = (None,) * _axis_count(name, ndim)
        elif not isinstance(shape, (tuple, list)):
            raise TypeError(f"the shape of {name} is a {type(shape).__name__}; write a tuple, or size= for one axis")
        if ndim is not None and ndim != len(shape):
            raise program_error(f"ndim={ndim} of {name}, whose shape has {len(shape)} axes", source)
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

    def _first_value(self, name: str, value: Operand, source: Source) -> Value:
        if isinstance(value, Variable):
            return value.peek(source)
        return place(self._scope, value, source, None, f"value of {name}")

    def _require_loop(self, what: str, source: Source) -> None:
        if not self._scope.in_loop():
            raise program_error(f"{what} outside a loop", source)


def _checked_auto(block: str) -> int:
    if block != "auto":
        raise TypeError(f'block={block!r}; the only string allowed is "auto"')
    return _AUTO_BLOCK


def _dim3(block: int | tuple[int, ...]) -> tuple[int, int, int]:
    axes = (block,) if isinstance(block, (int, np.integer)) else tuple(block)
    if not 1 <= len(axes) <= 3 or not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in axes):
        raise TypeError(f"block={block!r}; it must be an int or a tuple of 1 to 3 ints")
    x, y, z = map(int, (*axes, 1, 1)[:3])
    if min(axes) < 1:
        raise ProgramError(f"block={block!r}; every axis needs at least 1 thread")
    return x, y, z


def _axis_count(name: str, ndim: object) -> int:
    if isinstance(ndim, bool) or not isinstance(ndim, (int, np.integer)):
        raise TypeError(f"ndim of {name} must be an int, not {type(ndim).__name__}")
    return int(ndim)


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
