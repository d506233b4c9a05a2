"""From a lowered program to the tables of numbers that the C layer's plan and the warm path are made of.

Bindings are the buffer parameters, scalars the by-value ones, each numbered in declared order.
"""

from __future__ import annotations

from dataclasses import dataclass

from vyre_cuda.errors import InternalError
from vyre_cuda.ir.geometry import primary_buffer
from vyre_cuda.ir.nodes import Const, Parameter, Size
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.scalars import value_of
from vyre_cuda.ptx.lowered import KernelParameter, Lowered

# The numbers of vyre_cuda.h.
ROLES = {"in": 1, "inout": 2, "out": 3}
ROLE_SCALAR = 4
STREAMING = 1
COVERED = 2
PARAMETER_KINDS = {"buffer": 1, "scalar": 2, "size": 3, "report": 4, "grid_barrier": 5}
OF_NO_PARAMETER = ("report", "grid_barrier")

# What stands for an out's size beside the number of the parameter that has it.
SIZE_IS_CONSTANT = -1
SIZE_IS_THE_ARRAYS = -2


@dataclass(frozen=True, slots=True)
class Signature:
    """`parameters`: (kind, index, offset, size) of each kernel parameter; `bindings`: (role, flags, element bytes);
    `rows`: (role, slot, NumPy type number, size_of, size) of each declared parameter; `work`: the declared parameter
    whose size is the number of work items; `simple`: whether rows and work say all that a call needs.
    """

    parameters: tuple[tuple[int, int, int, int], ...]
    bindings: tuple[tuple[int, int, int], ...]
    scalar_count: int
    rows: tuple[tuple[int, int, int, int, int], ...]
    work: int
    simple: bool


def signature(program: Program, lowered: Lowered) -> Signature:
    """The tables of one kernel."""
    buffers = [p for p in program.parameters if p.is_buffer]
    scalars = [p for p in program.parameters if not p.is_buffer]
    slots = {p.name: i for group in (buffers, scalars) for i, p in enumerate(group)}
    rows = []
    simple = program.work is None and program.block[1:] == (1, 1) and bool(buffers)
    for parameter in program.parameters:
        rule = _size_rule(program, parameter)
        simple = simple and rule is not None
        size_of, size = rule or (SIZE_IS_CONSTANT, 0)
        role = ROLES.get(parameter.kind, ROLE_SCALAR)
        rows.append((role, slots[parameter.name], parameter.type.dtype.num, size_of, size))
    primary = primary_buffer(program)
    return Signature(
        parameters=tuple(_kernel_parameter(p, slots) for p in lowered.parameters),
        bindings=tuple(_binding(p, lowered) for p in buffers),
        scalar_count=len(scalars),
        rows=tuple(rows),
        work=program.parameters.index(primary) if primary is not None else 0,
        simple=simple,
    )


def _kernel_parameter(parameter: KernelParameter, slots: dict[str, int]) -> tuple[int, int, int, int]:
    if parameter.kind not in OF_NO_PARAMETER and parameter.name not in slots:
        raise InternalError(f"lowering names the parameter {parameter.name}, which the program does not have")
    return PARAMETER_KINDS[parameter.kind], slots.get(parameter.name, 0), parameter.offset, parameter.size


def _binding(parameter: Parameter, lowered: Lowered) -> tuple[int, int, int]:
    access = lowered.access[parameter.name]
    flags = (STREAMING if access.streaming else 0) | (COVERED if parameter.name in lowered.covered else 0)
    return ROLES[parameter.kind], flags, parameter.type.itemsize


def _size_rule(program: Program, parameter: Parameter) -> tuple[int, int] | None:
    """(size_of, size) of an out, None when its size takes arithmetic."""
    if parameter.kind != "out":
        return SIZE_IS_CONSTANT, 0
    expr = parameter.size
    if expr is None:
        return SIZE_IS_THE_ARRAYS, 0
    if isinstance(expr, Const):
        count = value_of(expr.type, expr.bits)
        return (SIZE_IS_CONSTANT, int(count)) if count >= 0 else None
    if isinstance(expr, Size):
        for number, other in enumerate(program.parameters):
            if other.name == expr.buffer and other.kind in ("in", "inout"):
                return number, 0
    return None
