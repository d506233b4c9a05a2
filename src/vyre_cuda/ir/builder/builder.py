"""`Builder`: writes a program statement by statement, in Python, and checks each one at its own line.

An error in one statement raises ProgramError there; `build` validates the whole and raises with every finding.
A with-block that an exception leaves is dropped, and the exception propagates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NoReturn

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
from vyre_cuda.ir.core.nodes import (
    Apply,
    Assert,
    Barrier,
    Break,
    Const,
    Continue,
    Expr,
    GridBarrier,
    Parameter,
    ParameterKind,
    Return,
    Scalar,
    SharedArray,
    Size,
    Source,
    Var,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INDEX_TYPES, Type, bool_, u32

# Threads per block of a block="auto" program where no device has chosen.
_AUTO_BLOCK = 256


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

    def input(self, name: str, type_: Type, /) -> Buffer:
        """A buffer that the program reads."""
        return self._buffer(name, "in", type_)

    def inout(self, name: str, type_: Type, /) -> Buffer:
        """A buffer that the program reads and writes; a call returns its new contents."""
        return self._buffer(name, "inout", type_)

    def output(self, name: str, type_: Type, /, size: Operand | None = None) -> Buffer:
        """A buffer that the program writes, and that is zero elsewhere; `size` is its number of elements.

        The size is a number or an expression over scalars and sizes; without one, a call must pass `out=`.
        """
        elements = None if size is None else self._on_host(size, f"size of {name}", caller())
        return self._buffer(name, "out", type_, elements)

    def scalar(self, name: str, type_: Type, /) -> Value:
        """A scalar parameter, passed by value."""
        source = self._declare(name, "scalar", type_, None)
        return leaf(self._scope, Scalar(type_, name, source), source)

    def shared(self, name: str, type_: Type, /, size: int) -> Buffer:
        """An array of `size` elements that the threads of one block share, zero when the block starts."""
        source = self._scope.begin()
        _require_type(type_)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise TypeError(f"the size of a shared array must be an int, not {type(size).__name__}")
        if size < 1:
            raise program_error(f"shared array {name} of {size} elements; it needs at least 1", source)
        taken = self._scope.name_local(name, source)
        self._shared.append(SharedArray(taken, type_, int(size), source))
        return Buffer(self._scope, taken, type_, "shared")

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

    def _declare(self, name: str, kind: ParameterKind, type_: Type, size: Expr | None) -> Source:
        source = self._scope.begin()
        _require_type(type_)
        self._scope.declare(name, "parameter", source)
        self._parameters.append(Parameter(name, kind, type_, size, source))
        return source

    def _buffer(self, name: str, kind: ParameterBufferKind, type_: Type, size: Expr | None = None) -> Buffer:
        self._declare(name, kind, type_, size)
        return Buffer(self._scope, name, type_, kind)

    def _on_host(self, count: Operand, what: str, source: Source) -> Expr:
        """The nodes of a count that is computed before the launch."""
        node = node_of(integer(self._scope, count, what, source))
        if not _is_host_expression(node):
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


def _require_type(type_: Type) -> None:
    if not isinstance(type_, Type):
        raise TypeError(f"{type_!r} where a type such as vc.f32 is needed")


def _is_host_expression(node: Expr) -> bool:
    match node:
        case Const() | Scalar() | Size():
            return True
        case Apply():
            return all(_is_host_expression(operand) for operand in node.operands)
    return False
