"""`Builder`: writes a program statement by statement, in Python, and checks each one at its own line.

An error in one statement raises ProgramError there; `build` validates the whole and raises with every finding.
A with-block that an exception leaves is dropped, and the exception propagates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

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
from vyre_cuda.ir.core.limits import MAX_AXES, MAX_BLOCKS_AT_ONCE
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
    Print,
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
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.core import printing
else:
    printing = later("vyre_cuda.ir.core.printing")

# Threads per block of a block="auto" program where no device has chosen.
_AUTO_BLOCK = 256


# The extents of a buffer, None for one that may be any.
Shape: TypeAlias = "Sequence[Operand | None] | None"


class Builder(AtomicMethods, WarpMethods):
    """A program under construction: its methods declare parameters and append statements, and `build` returns it.

    Parameters
    ----------
    name
        The program's name.
    block
        Threads per block: a number, or up to three along x, y and z. "auto" leaves the number to the device that
        compiles the program, which then must not depend on it: it has no shared memory, barriers, warp operations or
        ids of blocks and their threads. Elsewhere it is 256.
    index
        The type of ids and sizes: vc.u32, vc.i32, vc.u64 or vc.i64. With a signed type, `r - 1` of an id is what it
        says; vc.i32 allows fewer than 2^31 elements in a buffer, vc.u32 fewer than 2^32.
    min_blocks
        How many blocks a multiprocessor should hold at the same time, as in CUDA's `__launch_bounds__`: a thread then
        gets no more registers than that allows, and keeps the rest in slower memory. 0, the default: the compiler
        chooses. It changes no result.

    Raises
    ------
    ProgramError
        The name is not an identifier, the index has another type, or a block has no threads.
    TypeError
        The block is neither numbers nor "auto".
    """

    def __init__(
        self,
        name: str,
        block: int | tuple[int, ...] | Literal["auto"] = 256,
        index: Type = u32,
        *,
        min_blocks: int = 0,
    ) -> None:
        source = caller()
        check_name(name, "program", source)
        if index not in INDEX_TYPES:
            raise program_error(
                f"the index type is {index!r}; it must be one of {', '.join(t.name for t in INDEX_TYPES)}", source
            )
        self._scope = Scope(name, index, source)
        self._auto_block = isinstance(block, str)
        self._block = _dim3(_checked_auto(block) if isinstance(block, str) else block)
        self._min_blocks = _checked_min_blocks(min_blocks, self._auto_block, source)
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
            2 to 4 extents instead, each None for any: a call passes an array with as many axes.
        ndim
            The number of axes, if no extent is known.

        Returns
        -------
        Buffer
            The buffer, to be read in the program.

        Raises
        ------
        ProgramError
            The name is taken, or the size is not known at a launch.
        TypeError
            Both a size and a shape are given, or one is not a number or expression.
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
            2 to 4 such extents instead, which the result has.
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
        ProgramError
            The name is taken.
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
            The number of elements, or a tuple of 2 to 4 extents.
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
            The number of elements, or a tuple of 2 to 4 extents.

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
            raise TypeError(f"table {name} is made of a NumPy array, not {type(array).__name__}")
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
            No items, or more than 3.
        """
        source = self._scope.begin()
        if not 1 <= len(items) <= 3:
            raise TypeError(f"work takes 1 to 3 numbers of items; {len(items)} given")
        if self._work is not None:
            raise program_error("work was already given", source)
        self._work = tuple(self._on_host(n, "number of work items", source) for n in items)

    # ---- locals

    def let(self, name: str, value: Operand, /) -> Value:
        """An immutable local.

        Parameters
        ----------
        name
            Its name; if it is taken, a number is added.
        value
            Its value, an expression or a number whose type is known.

        Returns
        -------
        Value
            The local.

        Raises
        ------
        ProgramError
            A number without a type, or a value of a block that has ended.
        """
        source = self._scope.begin()
        return bind(self._scope, self._first_value(name, value, source), name, source)

    def var(self, name: str, value: Operand, /) -> Variable:
        """A mutable local with its first value.

        Parameters
        ----------
        name
            Its name; if it is taken, a number is added.
        value
            The first value, which gives it its type.

        Returns
        -------
        Variable
            The variable.

        Raises
        ------
        ProgramError
            As for `let`.
        """
        source = self._scope.begin()
        first = self._first_value(name, value, source)
        taken = self._scope.name_local(name, source)
        self._scope.append(Var(taken, node_of(first), source))
        return Variable(self._scope, taken, first.type)

    # ---- control flow

    def if_(self, condition: Operand, /) -> IfBlock:
        """`with b.if_(condition):` runs its block where the condition holds.

        Parameters
        ----------
        condition
            An expression of bool_.

        Returns
        -------
        IfBlock
            The block, for a `with` statement.

        Raises
        ------
        ProgramError
            The condition has another type.
        """
        source = self._scope.begin()
        return IfBlock(self._scope, place(self._scope, condition, source, bool_, "condition"), source)

    def elif_(self, condition: Operand, /) -> ElifBlock:
        """`with b.elif_(condition):` right after an if or elif block runs where this condition is the first to hold.

        Parameters
        ----------
        condition
            An expression of bool_. A variable or an element in it is read where the conditions before it do not hold.

        Returns
        -------
        ElifBlock
            The block, for a `with` statement.

        Raises
        ------
        ProgramError
            The condition has another type, or no if or elif block ended right before.
        """
        source = self._scope.begin()
        return ElifBlock(self._scope, lambda: place(self._scope, condition, source, bool_, "condition"), source)

    def else_(self) -> ElseBlock:
        """`with b.else_():` right after an if or elif block runs where no condition before it holds."""
        return ElseBlock(self._scope, self._scope.begin())

    def for_(self, lo: Operand, hi: Operand | None = None, /, step: Operand = 1) -> ForBlock:
        """`with b.for_(lo, hi) as j:` counts like range(lo, hi, step), without wrapping at the end of the type.

        Parameters
        ----------
        lo
            The first value; alone, `b.for_(n)`, the end of a count from 0.
        hi
            The end, which is not reached.
        step
            What is added each time, an expression or a number; a step of 0 repeats nothing.

        Returns
        -------
        ForBlock
            The block, for a `with` statement, which gives the counter.

        Raises
        ------
        ProgramError
            The three are not of one integer type.
        """
        bounds = (0, lo) if hi is None else (lo, hi)
        return ForBlock(self._scope, *bounds, step, self._scope.begin())

    def while_(self, condition: Callable[[], Operand], /) -> WhileBlock:
        """`with b.while_(lambda: ...):` repeats its block while a condition holds.

        Parameters
        ----------
        condition
            A callable that returns an expression of bool_, which is evaluated before each pass.

        Returns
        -------
        WhileBlock
            The block, for a `with` statement.

        Raises
        ------
        ProgramError
            The condition has another type.
        TypeError
            It is not callable.
        """
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
        """Where the condition is false, report a message, end the thread and make the call raise KernelAssertionError.

        Parameters
        ----------
        condition
            An expression of bool_.
        message
            What the error says.

        Raises
        ------
        ProgramError
            The condition has another type.
        TypeError
            The message is not a str.
        """
        source = self._scope.begin()
        if not isinstance(message, str):
            raise TypeError(f"the message of assert_ must be a str, not {type(message).__name__}")
        held = place(self._scope, condition, source, bool_, "condition")
        self._scope.append(Assert(node_of(held), message, source))

    def print(self, format: str, /, *values: Operand) -> None:
        """Print a line to the standard output of the process.

        Parameters
        ----------
        format
            One line of text, which print ends: `{}` for each value, `{{` and `}}` for braces.
        *values
            At most 8 expressions of any types. Integers are printed in decimal, bools as 1 and 0, floats with as many
            significant digits as tell them from all others of their type: 9 for f32, 17 for f64, 5 for f16, 4 for bf16.

        Raises
        ------
        ProgramError
            The format does not fit the values, is not one line, or has a single brace; there are too many values.
        TypeError
            The format is not a str, or a value has no type.
        """
        source = self._scope.begin()
        if not isinstance(format, str):
            raise TypeError(f"the format of print must be a str, not {type(format).__name__}")
        fault = printing.format_fault(format, len(values))
        if fault is not None:
            raise program_error(fault, source)
        placed = [place(self._scope, value, source, None, "printed value") for value in values]
        self._scope.append(Print(format, tuple([node_of(value) for value in placed]), source))

    # ---- the end

    def build(self) -> Program:
        """Return the finished program; the builder takes no more statements.

        Returns
        -------
        Program
            The `vc.Program`.

        Raises
        ------
        ProgramError
            Everything that is wrong with it.
        """
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
            min_blocks=self._min_blocks,
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
            raise TypeError(f"zeroed of {name} is a {type(zeroed).__name__}; it must be True or False")
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


def _checked_min_blocks(min_blocks: int, auto_block: bool, source: Source) -> int:
    if isinstance(min_blocks, bool) or not isinstance(min_blocks, (int, np.integer)):
        raise TypeError(f"min_blocks={min_blocks!r}; it must be an int")
    if not 0 <= min_blocks <= MAX_BLOCKS_AT_ONCE:
        raise program_error(
            f"min_blocks={min_blocks}; a multiprocessor holds up to {MAX_BLOCKS_AT_ONCE} blocks", source
        )
    if min_blocks and auto_block:
        raise program_error('min_blocks needs a number of threads; block="auto" leaves that to the device', source)
    return int(min_blocks)


def _dim3(block: int | tuple[int, ...]) -> tuple[int, int, int]:
    axes = tuple(block) if isinstance(block, (tuple, list)) else (block,)
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


def _extents_of(what: str, name: str, size: object, source: Source) -> tuple[int, ...]:
    """The extents of an array whose size is known when the program is built."""
    given = size if isinstance(size, tuple) else (size,)
    for extent in given:
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
            raise TypeError(f"the size of a {what} must be an int or ints, not {type(extent).__name__}")
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
