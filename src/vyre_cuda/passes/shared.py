"""Arrays that only the steps of one block use become shared arrays of the block, which never leave the multiprocessor.

The contents of a temporary array are unspecified at first, so those of a shared array, which are zeros, will do; and an
output that is cleared has the same zeros.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from vyre_cuda.ir.core.nodes import (
    UNSPECIFIED_BYTE,
    Apply,
    Barrier,
    Const,
    Expr,
    For,
    Id,
    If,
    Local,
    Parameter,
    Position,
    SharedArray,
    Stmt,
    Store,
)
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import declared_name, statements
from vyre_cuda.passes.renaming import UniqueNames
from vyre_cuda.passes.steps import Step
from vyre_cuda.records import replace

# Of a block without asking the driver for more.
MOST_BYTES = 48 * 1024
_ALIGNMENT = 16


def in_shared(step: Step, memories: Collection[int]) -> tuple[Step, frozenset[int], tuple[str, ...]]:
    """The step with shared arrays in place of those in these memories, as many as fit, in the order of their
    parameters; the memories that it needs no longer; and the arrays whose contents are unspecified at the start."""
    room = MOST_BYTES - sum(_bytes(array.type.itemsize * array.size) for array in step.program.shared)
    found: list[int] = []
    for memory in dict.fromkeys(span.memory for span in step.spans.values()):
        parts = [p for p in step.program.parameters if p.is_buffer and step.spans[p.name].memory == memory]
        nbytes = sum(_bytes(step.spans[p.name].count * p.type.itemsize) for p in parts)
        if memory in memories and nbytes <= room and _are_apart(step, parts):
            room -= nbytes
            found.append(memory)
    moved = [p for p in step.program.parameters if p.is_buffer and step.spans[p.name].memory in found]
    if not moved:
        return step, frozenset(), ()
    shared = (*step.program.shared, *[_shared(step, p) for p in moved])
    parameters = tuple([p for p in step.program.parameters if p not in moved])
    spans = {name: span for name, span in step.spans.items() if span.memory not in found}
    program = replace(step.program, parameters=parameters, shared=shared)
    unspecified = tuple([p.name for p in moved if p.kind != "out" or not p.zeroed])
    return replace(step, program=program, spans=spans), frozenset(found), unspecified


def _bytes(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def _are_apart(step: Step, parts: Collection[Parameter]) -> bool:
    """Whether none of these have elements, or share bytes with another."""
    spans = [(step.spans[p.name], p.type.itemsize) for p in parts]
    ends = sorted((span.first, span.first + span.count * itemsize) for span, itemsize in spans)
    return all(low < high for low, high in ends) and all(a[1] <= b[0] for a, b in pairwise(ends))


def _shared(step: Step, p: Parameter) -> SharedArray:
    span = step.spans[p.name]
    return SharedArray(p.name, p.type, span.count, p.source, span.shape if len(span.shape) > 1 else ())


# ---- contents --------------------------------------------------------------------------------------------------------


def with_unspecified(program: Program, names: Collection[str]) -> Program:
    """The program of one block with bytes of UNSPECIFIED_BYTE in these shared arrays at its start."""
    taken = UniqueNames()
    for statement in statements(program.body):
        taken.take(declared_name(statement) or "")
    for array in (*program.parameters, *program.shared, *program.arrays):
        taken.take(array.name)
    fills = [_filled(program, array, taken.take("filled")) for array in program.shared if array.name in names]
    others = [Apply(bool_, "less", (Id(program.index, "global_id", axis), Const(program.index, 1))) for axis in (1, 2)]
    body: tuple[Stmt, ...] = tuple(fills)
    for axis, alone in enumerate(others, 1):
        body = (If(alone, body),) if program.block[axis] > 1 else body
    return replace(program, body=(*body, Barrier(), *program.body)) if fills else program


def _filled(program: Program, array: SharedArray, name: str) -> Stmt:
    """By the threads along x."""
    bits = int.from_bytes(bytes([UNSPECIFIED_BYTE]) * array.type.itemsize, "little")
    value = Const(array.type, 1 if array.type is bool_ else bits)
    first, last, step = (Const(program.index, n) for n in (0, array.size, program.block[0]))
    start = Id(program.index, "global_id", 0) if program.block[0] > 1 else first
    index = _index(program, Local(program.index, name), array.shape)
    return For(name, start, last, step, (Store(array.name, index, value),))


def _index(program: Program, flat: Expr, shape: tuple[int, ...]) -> Expr:
    if not shape:
        return flat
    parts: list[Expr] = []
    for extent in reversed(shape):
        of = Const(program.index, extent)
        parts.append(Apply(program.index, "remainder", (flat, of)))
        flat = Apply(program.index, "floor_divide", (flat, of))
    return Position(program.index, tuple(reversed(parts)))
