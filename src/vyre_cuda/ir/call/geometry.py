"""How many threads a launch has, and the values that the host computes from sizes and scalars beforehand.

Grid and block come from the program's work, or from an explicit grid. Size and work expressions are evaluated with the
same op functions that give kernels their meaning, so `size(x) - 1` of an empty u32 `x` wraps here as in a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.core.limits import MAX_GRID
from vyre_cuda.ir.core.nodes import AXES, Apply, Const, Expr, Id, Load, Local, Position, Scalar, Size
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.ir.call import reach, walked
    from vyre_cuda.ir.semantics import elementwise
    from vyre_cuda.ir.semantics.elementwise import Array
else:
    reach = later("vyre_cuda.ir.call.reach")
    walked = later("vyre_cuda.ir.call.walked")
    elementwise = later("vyre_cuda.ir.semantics.elementwise")

Dim3: TypeAlias = tuple[int, int, int]
# The numbers of elements by buffer, and the extents of those with several axes by buffer and axis.
Sizes: TypeAlias = "Mapping[str | tuple[str, int], int]"


class Geometry(FrozenRecord):
    """One launch: blocks per axis, threads per block and axis, work items per axis.

    Where a grid is given explicitly, the work is that grid's threads. A grid with a zero extent launches nothing.
    """

    grid: Dim3
    block: Dim3
    work: Dim3

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads_per_block(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def launch_geometry(
    program: Program,
    sizes: Sizes,
    scalars: Mapping[str, int],
    grid: int | tuple[int, ...] | None = None,
) -> Geometry:
    """Grid, block and work of one launch.

    `sizes` has the elements of every buffer parameter, `scalars` the bit pattern of every scalar. `grid` (blocks, one
    to three axes) overrides the work. ValueError: a block with several axes without a work size for each of them and
    without a grid, a program without buffers, work and grid, or more blocks than any device allows.
    """
    block = program.block
    if grid is not None:
        blocks = explicit_grid(program, grid)
        work = (blocks[0] * block[0], blocks[1] * block[1], blocks[2] * block[2])
        return Geometry(blocks, block, work)
    extents = _work_extents(program, sizes, scalars)
    work = _three_axes(extents)
    blocks = (-(-work[0] // block[0]), -(-work[1] // block[1]), -(-work[2] // block[2]))
    if 0 not in blocks:
        _check_grid(program, blocks, f"work of {' x '.join(map(str, extents))} items")
    for walk in walked.walks(program):
        reach.check(program, walk, blocks[walk.axis] * block[walk.axis], _all_sizes(program, sizes), scalars)
    return Geometry(blocks, block, work)


def size_key(expr: Size) -> str | tuple[str, int]:
    """Where `Sizes` has this number."""
    return expr.buffer if expr.axis is None else (expr.buffer, expr.axis)


def array_sizes(program: Program) -> dict[str | tuple[str, int], int]:
    """The sizes and extents of shared arrays, arrays of a thread and tables, which every launch has alike."""
    arrays = (*program.shared, *program.arrays)
    sizes: dict[str | tuple[str, int], int] = {array.name: array.size for array in arrays}
    return sizes | {(array.name, axis): extent for array in arrays for axis, extent in enumerate(array.shape)}


def host_value(expr: Expr, sizes: Sizes, scalars: Mapping[str, int]) -> Array:
    """The value of an expression over constants, scalars and sizes, as an array of one element.

    Raises ProgramError for an expression that only a thread could evaluate.
    """
    match expr:
        case Const():
            return elementwise.constant(expr.type, expr.bits)
        case Scalar():
            return elementwise.constant(expr.type, scalars[expr.name])
        case Size():
            return elementwise.constant(expr.type, sizes[size_key(expr)])
        case Apply():
            operands = [host_value(operand, sizes, scalars) for operand in expr.operands]
            with np.errstate(all="ignore"):
                return elementwise.apply(expr.op, expr.operands[-1].type, expr.type, operands)
        case Local() | Id() | Load() | Position():
            raise ProgramError(f"a {type(expr).__name__.lower()} has no value on the host; sizes and work need one")


def host_size(what: str, expr: Expr, sizes: Sizes, scalars: Mapping[str, int]) -> int:
    """The count that `expr` gives; `what` names it in the ValueError for one that is negative or wrapped."""
    if not expr.type.is_integer:
        raise ProgramError(f"{what} is of type {expr.type}; it must be an integer")
    count = int(host_value(expr, sizes, scalars)[0])
    try:
        exact = _exact_value(expr, sizes, scalars) if isinstance(expr, Apply) else count
        wrapped = exact != count
    except _Wrapped as found:
        exact, wrapped = found.exact, True
    if wrapped or count < 0:
        why = f"which is out of range of {expr.type}" if wrapped else "which is negative"
        given = ", ".join(sorted(numbers_of(expr, sizes, scalars)))
        raise ValueError(f"{what} is {exact}, {why}" + (f"; {given}" if given else ""))
    return count


class _Wrapped(Exception):
    """An op reads an operand that has wrapped."""

    def __init__(self, exact: int) -> None:
        self.exact = exact


def _exact_value(expr: Expr, sizes: Sizes, scalars: Mapping[str, int]) -> int:
    """The value without wrapping in sums, differences, products and casts; other ops see their operands' own values."""
    if isinstance(expr, Apply) and expr.type.is_integer and all(o.type.is_integer for o in expr.operands):
        operands = [_exact_value(operand, sizes, scalars) for operand in expr.operands]
        match expr.op:
            case "add":
                return operands[0] + operands[1]
            case "subtract":
                return operands[0] - operands[1]
            case "multiply":
                return operands[0] * operands[1]
            case "cast":
                return operands[0]
        for operand, exact in zip(expr.operands, operands, strict=True):
            if int(host_value(operand, sizes, scalars)[0]) != exact:
                raise _Wrapped(exact)
    return int(host_value(expr, sizes, scalars)[0])


def numbers_of(expr: Expr, sizes: Sizes, scalars: Mapping[str, int]) -> set[str]:
    """The numbers of the call that the expression uses: `size(x) = 4`, `n = 3`."""
    match expr:
        case Apply():
            return {text for operand in expr.operands for text in numbers_of(operand, sizes, scalars)}
        case Size():
            axis = "" if expr.axis is None else f", {expr.axis}"
            return {f"size({expr.buffer}{axis}) = {sizes[size_key(expr)]}"}
        case Scalar():
            return {f"{expr.name} = {value_of(expr.type, scalars[expr.name])}"}
        case _:
            return set()


def _work_extents(program: Program, sizes: Sizes, scalars: Mapping[str, int]) -> tuple[int, ...]:
    axes = max((axis + 1 for axis in range(3) if program.block[axis] > 1), default=1)
    if program.work is not None:
        extents = tuple(
            host_size(f"the work of program {program.name} on axis {axis}", expr, _all_sizes(program, sizes), scalars)
            for axis, expr in zip(AXES, program.work, strict=False)
        )
    else:
        primary = primary_buffer(program)
        if primary is None:
            raise ValueError(f"program {program.name} has neither buffers nor work; it needs grid=")
        extents = (sizes[primary.name],)
    if len(extents) < axes:
        raise ValueError(
            f"the block of program {program.name} has {axes} axes and its work {len(extents)}; "
            f"it needs work({', '.join('whd'[:axes])}) or grid="
        )
    return extents


def _all_sizes(program: Program, sizes: Sizes) -> Sizes:
    return {**array_sizes(program), **sizes}


def explicit_grid(program: Program, grid: int | tuple[int, ...]) -> Dim3:
    """The blocks that `grid=` of a launch asks for. TypeError or ValueError where it asks for none or too many."""
    blocks = grid_axes(grid)
    _check_grid(program, blocks, f"grid={grid!r}")
    return blocks


def grid_axes(grid: int | tuple[int, ...]) -> Dim3:
    """The numbers of blocks along x, y and z. TypeError or ValueError for what is not a grid."""
    axes = grid if isinstance(grid, tuple) else (grid,)
    for extent in axes:
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
            raise TypeError(f"grid={grid!r}: an int or a tuple of one to three ints is needed")
    if not 1 <= len(axes) <= 3:
        raise ValueError(f"grid={grid!r} has {len(axes)} axes; it needs one to three")
    if min(axes) < 1:
        raise ValueError(f"grid={grid!r}: every axis needs at least 1 block")
    return _three_axes(axes)


def _three_axes(extents: tuple[int, ...]) -> Dim3:
    padded = (*extents, 1, 1)
    return int(padded[0]), int(padded[1]), int(padded[2])


def _check_grid(program: Program, blocks: Dim3, why: str) -> None:
    for axis, extent, most in zip(AXES, blocks, MAX_GRID, strict=True):
        if extent > most:
            raise ValueError(
                f"{why} gives program {program.name} {extent} blocks on axis {axis}; CUDA allows {most}: use a block "
                f"with more threads on axis {axis}, or fewer blocks whose threads take several items"
            )
    for axis, extent, threads in zip(AXES, blocks, program.block, strict=True):
        if extent * threads > program.index.maximum + 1:
            raise ValueError(
                f"{why} gives program {program.name} {extent * threads} threads on axis {axis}; ids of type "
                f"{program.index} can count at most {program.index.maximum + 1} ({wider_index(program)})"
            )


def wider_index(program: Program) -> str:
    """What to write for more elements or threads than the program's index type counts."""
    return f"build it with index=vc.{'i64' if program.index.kind == 'signed' else 'u64'}"
