"""From a lowered program to the tables of numbers that prepare its kernel in the C layer, and that the warm path uses.

Bindings are the buffer parameters, scalars the by-value ones, each numbered in declared order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda.codegen.core.lowered import Cover, KernelParameter, Lowered
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.call.geometry import array_sizes, size_key
from vyre_cuda.ir.call.walked import work_of
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Parameter, Scalar, Size, extent_name, extent_names
from vyre_cuda.ir.core.ops import HOST_OPS, OPS
from vyre_cuda.ir.core.program import Program, primary_buffer
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import expressions
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.ir.call.known import Known

# The numbers of vyre_cuda.h.
ROLES = {"in": 1, "inout": 2, "out": 3}
ROLE_SCALAR = 4
STREAMING = 1
COVERED = 2
LOOPS = 4
AXES = 8
UNSPECIFIED = 1 << 30
# From this bit on, below UNSPECIFIED: of an out with one axis the elements of each thread; of one with several the
# number of its last extent among the by-value arguments, and below it fields for the elements of each thread along x, y
# and z.
ABOVE = 16
_FIELDS = (4, 8, 12)
_FIELD = 15
_MOST_ABOVE = UNSPECIFIED // (1 << ABOVE) - 1
PARAMETER_KINDS = {"buffer": 1, "scalar": 2, "size": 3, "report": 4, "grid_barrier": 5}
OF_NO_PARAMETER = ("report", "grid_barrier")

# A step of a postfix expression over sizes and scalars, as `_native.call.table` evaluates it: (what, width, value).
# `what` is a leaf or the code of an op of `ir.core.ops`; `width` the bits of its result, negative if signed.
Step: TypeAlias = tuple[int, int, int]
LEAF_CONSTANT, LEAF_SIZE, LEAF_SCALAR = -1, -2, -3
# Widths of scalars that are not integers.
WIDTH_FLOAT, WIDTH_BOOL = 0, 1


class Row(FrozenRecord):
    """A declared parameter: its role, number among buffers or scalars, NumPy type number, width as a scalar, bytes of
    an element, and the steps of its size (none: the array's own). `axes` is 0 with one axis; with several, `extents` is
    the number of the first extent among the by-value arguments."""

    role: int
    slot: int
    typenum: int
    width: int
    itemsize: int
    size: tuple[Step, ...]
    axes: int
    extents: int


class Signature(FrozenRecord):
    """`parameters`: (kind, index, offset, size) of each kernel parameter; `scalar_count`: the by-value parameters, and
    after them the extents of the buffers with several axes (`extent_names`); `bindings`: (role, flags, element bytes,
    sectors);
    `rows`: the declared parameters; `work`: steps for the work items of each axis; `extents`: (parameter number, number
    of the extent among the by-value arguments, steps) of each declared extent; `simple`: whether these say all that a
    call needs.
    """

    parameters: tuple[tuple[int, int, int, int], ...]
    bindings: tuple[tuple[int, int, int, int], ...]
    scalar_count: int
    rows: tuple[Row, ...]
    work: tuple[tuple[Step, ...], ...]
    extents: tuple[tuple[int, int, tuple[Step, ...]], ...]
    simple: bool


def signature(program: Program, lowered: Lowered) -> Signature:
    """The tables of one kernel."""
    buffers = [p for p in program.parameters if p.is_buffer]
    scalars = [p for p in program.parameters if not p.is_buffer]
    slots = {p.name: i for group in (buffers, scalars) for i, p in enumerate(group)}
    extents = extent_names(program.parameters)
    slots.update((name, len(scalars) + i) for i, name in enumerate(extents))
    sizes = [_size_steps(program, number) for number in range(len(program.parameters))]
    work = _work_steps(program)
    declared = _extent_steps(program)
    return Signature(
        parameters=tuple(_kernel_parameter(p, slots) for p in lowered.parameters),
        bindings=tuple(_binding(p, lowered, slots) for p in buffers),
        scalar_count=len(scalars) + len(extents),
        rows=tuple(
            _row(p, slots[p.name], size or (), slots.get(extent_name(p.name, 0), 0))
            for p, size in zip(program.parameters, sizes, strict=True)
        ),
        work=work or (),
        extents=declared or (),
        simple=work is not None and None not in sizes and declared is not None,
    )


def known_rows(program: Program, known: tuple[Known, ...]) -> tuple[tuple[int, int, int, int, bytes], ...]:
    """(kind, number among buffers or by-value arguments, code of the type, bits, name) of each known value."""
    buffers = [p.name for p in program.parameters if p.is_buffer]
    scalars = {p.name: p.type for p in program.parameters if not p.is_buffer}
    rows = []
    for each in known:
        kind, type_ = "scalar", scalars.get(each.parameter, program.index)
        if each.parameter in scalars:
            number = list(scalars).index(each.parameter)
        elif each.axis is not None:
            number = extent_slot(program, each.parameter, each.axis)
        else:
            kind, number = "size", buffers.index(each.parameter)
        rows.append((PARAMETER_KINDS[kind], number, type_.code, each.bits, each.name.encode()))
    return tuple(rows)


def extent_slot(program: Program, buffer: str, axis: int) -> int:
    """The number of an extent among the by-value arguments."""
    scalars = sum(not p.is_buffer for p in program.parameters)
    return scalars + extent_names(program.parameters).index(extent_name(buffer, axis))


def has_contracts(program: Program) -> bool:
    """Whether arguments must have declared sizes or shapes."""
    return any(p.shape or (p.size is not None and p.kind != "out") for p in program.parameters)


def _kernel_parameter(parameter: KernelParameter, slots: dict[str, int]) -> tuple[int, int, int, int]:
    if parameter.kind not in OF_NO_PARAMETER and parameter.name not in slots:
        raise InternalError(f"lowering names the parameter {parameter.name}, which the program does not have")
    kind = "scalar" if parameter.kind == "extent" else parameter.kind
    return PARAMETER_KINDS[kind], slots.get(parameter.name, 0), parameter.offset, parameter.size


def _binding(parameter: Parameter, lowered: Lowered, slots: dict[str, int]) -> tuple[int, int, int, int]:
    access = lowered.access[parameter.name]
    axes = len(parameter.shape)
    last = slots[extent_name(parameter.name, axes - 1)] if axes else 0
    flags = cover_flags(lowered.covered.get(parameter.name), several=axes > 1, last_extent=last)
    flags |= STREAMING if access.streaming else 0
    flags |= 0 if parameter.zeroed else UNSPECIFIED
    return ROLES[parameter.kind], flags, parameter.type.itemsize, access.sectors


def cover_flags(cover: Cover | None, *, several: bool, last_extent: int) -> int:
    """The flags that say which launches fill an out; `several`: the out is declared with several axes."""
    if cover is None:
        return 0
    flags = COVERED | (LOOPS if cover.loops else 0)
    if not several:
        (count,) = cover.elements
        return flags | (count << ABOVE if cover.loops or count > 1 else 0)
    if last_extent > _MOST_ABOVE:
        return 0
    fields = sum(count << at for count, at in zip(cover.elements, _FIELDS, strict=False))
    return flags | AXES | fields | last_extent << ABOVE


def cover_of(flags: int) -> Cover | None:
    """The inverse of `cover_flags`; of several axes always for three of the launch."""
    flags &= ~UNSPECIFIED
    if not flags & COVERED:
        return None
    loops = bool(flags & LOOPS)
    if flags & AXES:
        return Cover(tuple(flags >> at & _FIELD for at in _FIELDS), loops)
    return Cover((flags >> ABOVE if loops else max(flags >> ABOVE, 1),), loops)


def _row(parameter: Parameter, slot: int, size: tuple[Step, ...], extents: int) -> Row:
    type_ = parameter.type
    role = ROLES.get(parameter.kind, ROLE_SCALAR)
    return Row(role, slot, type_.dtype.num, width_of(type_), type_.itemsize, size, len(parameter.shape), extents)


def width_of(type_: Type) -> int:
    """The width in bits, negative for signed integers; bool and floats have names of their own."""
    if type_.kind == "bool":
        return WIDTH_BOOL
    if type_.is_float:
        return WIDTH_FLOAT
    return -type_.bits if type_.kind == "signed" else type_.bits


def _size_steps(program: Program, number: int) -> tuple[Step, ...] | None:
    """The steps of a declared size, () if there are none; None if steps cannot express it. The extents say all of an
    argument with several axes.

    Sizes of outs are worked out in declared order, after those of arguments are checked, so one that depends on a later
    out is left to the general path.
    """
    parameter = program.parameters[number]
    if parameter.size is None or (parameter.kind != "out" and parameter.shape):
        return ()
    return _steps(program, parameter.size, before=number if parameter.kind == "out" else 0)


def _extent_steps(program: Program) -> tuple[tuple[int, int, tuple[Step, ...]], ...] | None:
    """The declared extents, in declared order; None if steps cannot express one, or it needs what comes later."""
    found = []
    for number, parameter in enumerate(program.parameters):
        later = {p.name for p in program.parameters[number:] if p.kind == "out"}
        for axis, extent in enumerate(parameter.shape):
            if extent is None:
                continue
            steps = _steps(program, extent, before=0)
            if steps is None or any(isinstance(e, Size) and e.buffer in later for e in expressions((extent,))):
                return None
            found.append((number, extent_slot(program, parameter.name, axis), steps))
    return tuple(found)


def _work_steps(program: Program) -> tuple[tuple[Step, ...], ...] | None:
    axes = max((axis + 1 for axis in range(3) if program.block[axis] > 1), default=1)
    count = len(program.parameters)
    if program.work is not None:
        found = [_steps(program, expr, before=count) for expr in program.work]
    else:
        primary = primary_buffer(program)
        if primary is None:
            return None
        found = [_steps(program, work_of(program, primary), before=count)]
    if len(found) < axes:
        return None
    steps = tuple(each for each in found if each is not None)
    return steps if len(steps) == len(found) else None


def steps_of(program: Program, expr: Expr) -> tuple[Step, ...] | None:
    """Postfix steps of an expression for which every size is known, or None if steps cannot express it."""
    return _steps(program, expr, before=len(program.parameters))


def _steps(program: Program, expr: Expr, *, before: int) -> tuple[Step, ...] | None:
    """Postfix steps, or None for what the table does not know: other ops, floats, outs whose size is not known yet."""
    width = width_of(expr.type)
    if width in (WIDTH_FLOAT, WIDTH_BOOL):
        return None
    match expr:
        case Const():
            return ((LEAF_CONSTANT, width, expr.bits),)
        case Scalar():
            scalars = [p.name for p in program.parameters if not p.is_buffer]
            return ((LEAF_SCALAR, width, scalars.index(expr.name)),)
        case Size() if (size := array_sizes(program).get(size_key(expr))) is not None:
            return ((LEAF_CONSTANT, width, size),)
        case Size() if expr.axis is not None:
            return ((LEAF_SCALAR, width, extent_slot(program, expr.buffer, expr.axis)),)
        case Size():
            number = next(i for i, p in enumerate(program.parameters) if p.name == expr.buffer)
            known = program.parameters[number].kind != "out" or number < before
            return ((LEAF_SIZE, width, number),) if known else None
        case Apply() if expr.op in HOST_OPS:
            operands = [_steps(program, operand, before=before) for operand in expr.operands]
            steps: tuple[Step, ...] = ()
            for operand in operands:
                if operand is None:
                    return None
                steps += operand
            return (*steps, (OPS[expr.op].code, width, 0))
        case _:
            return None
