"""`Builder`: writes a program statement by statement, in Python, and checks each one at its own line.

An error in one statement raises ProgramError there; `build` validates the whole and raises with every finding.
A with-block that an exception leaves is dropped, and the exception propagates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NoReturn

import numpy as np

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.builder.blocks import ElifBlock, ElseBlock, ForBlock, IfBlock, WhileBlock
from vyre_cuda.ir.builder.declarations import Declarations
from vyre_cuda.ir.builder.effects import AtomicMethods, EffectMethods, WarpMethods
from vyre_cuda.ir.builder.handles import Variable
from vyre_cuda.ir.builder.operators import Operand
from vyre_cuda.ir.builder.prune import drop_unread_results
from vyre_cuda.ir.builder.scopes import Scope, caller, check_name, program_error
from vyre_cuda.ir.builder.values import Value, bind, node_of, place
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.limits import MAX_BLOCKS_AT_ONCE
from vyre_cuda.ir.core.nodes import (
    Break,
    Continue,
    Expr,
    OwnArray,
    Parameter,
    Return,
    SharedArray,
    Source,
    Var,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import INDEX_TYPES, Type, bool_, u32
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.builder import reblock
else:
    reblock = later("vyre_cuda.ir.builder.reblock")

# Threads per block of a block="auto" program where no device has chosen.
_AUTO_BLOCK = 256


class Builder(Declarations, EffectMethods, AtomicMethods, WarpMethods):
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
        The name is not an identifier, the index has another type, a block has no threads, or `min_blocks` is out of
        range or given for block="auto".
    TypeError
        The block is neither numbers nor "auto", or `min_blocks` is not an int.
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
        """The program's name."""
        return self._scope.program

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Builder can be neither copied nor pickled; build() returns a Program, which can be")

    def __repr__(self) -> str:
        names = ", ".join(parameter.name for parameter in self._parameters)
        state = "built" if self._scope.built else "not built"
        return f"<vyre_cuda.Builder {self.name}({names}), {state}>"

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
            The name is not an identifier, or the value is of a block that has ended.
        TypeError
            A number without a type (write `vc.f32(2)`), or no value at all.
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
        ProgramError, TypeError
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
        """`with b.else_():` right after an if or elif block runs where no condition before it holds.

        Returns
        -------
        ElseBlock
            The block, for a `with` statement.

        Raises
        ------
        ProgramError
            No if or elif block ended right before.
        """
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
        TypeError
            A float, or neither an expression nor a number.
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
        """Leave the innermost loop.

        Raises
        ------
        ProgramError
            There is none around it.
        """
        source = self._scope.begin()
        self._require_loop("break_", source)
        self._scope.append(Break(source))

    def continue_(self) -> None:
        """Continue with the next pass of the innermost loop.

        Raises
        ------
        ProgramError
            There is none around it.
        """
        source = self._scope.begin()
        self._require_loop("continue_", source)
        self._scope.append(Continue(source))

    def return_(self) -> None:
        """End the thread."""
        self._scope.append(Return(self._scope.begin()))

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
        fixed = reblock.what_fixes_block(program) if self._auto_block else None
        if fixed is not None:
            raise program_error(
                f'block="auto" cannot be used with {fixed[0]}, which depends on the block', fixed[1] or self._source
            )
        self._scope.built = True
        return program

    # ---- parts of the above

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
