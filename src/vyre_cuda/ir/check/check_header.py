"""What is declared above the statements: block, parameters, sizes, work and shared arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_cuda.ir.check.check_expr import Context
from vyre_cuda.ir.core.identifiers import is_identifier
from vyre_cuda.ir.core.limits import (
    MAX_BLOCK_THREADS,
    MAX_BLOCKS_AT_ONCE,
    MAX_LOCAL_BYTES,
    MAX_PARAMETERS,
    MAX_SHARED_BYTES,
    MAX_TABLE_BYTES,
)
from vyre_cuda.ir.core.nodes import Expr, Id, Load, Local, Parameter, Position, Size, Table
from vyre_cuda.ir.core.types import INDEX_TYPES, bool_
from vyre_cuda.ir.core.walk import expressions

if TYPE_CHECKING:
    from vyre_cuda.ir.core.program import Program

_MAX_WORK_AXES = 3
_KINDS = {"in": "an in", "inout": "an inout", "scalar": "a scalar"}


def check_header(program: Program, context: Context) -> None:
    """Check all declarations and enter parameters and shared arrays into the context."""
    context.at(("name",), program.source)
    if not is_identifier(program.name):
        context.report(
            f"{program.name!r} is not a name; a name is letters, digits and _, and does not begin with a digit"
        )
    context.at(("block",), program.source)
    if min(program.block) < 1 or math.prod(program.block) > MAX_BLOCK_THREADS:
        extents = " x ".join(map(str, program.block))
        context.report(
            f"a block of {extents} threads; a block has 1 to {MAX_BLOCK_THREADS} in all, and at least 1 on each axis"
        )
    if not 0 <= program.min_blocks <= MAX_BLOCKS_AT_ONCE:
        context.report(f"min_blocks is {program.min_blocks}; a multiprocessor holds up to {MAX_BLOCKS_AT_ONCE} blocks")
    context.at(("index",), program.source)
    if program.index not in INDEX_TYPES:
        allowed = ", ".join(type_.name for type_ in INDEX_TYPES)
        context.report(f"{program.index} is not an index type; it must be one of {allowed}")
    _declare_parameters(program, context)
    _declare_shared(program, context)
    _declare_arrays(program, context)
    _check_sizes(program, context)
    _check_work(program, context)


def _declare_parameters(program: Program, context: Context) -> None:
    for number, parameter in enumerate(program.parameters):
        context.at(("parameters", number), parameter.source)
        if number == MAX_PARAMETERS:
            context.report(f"there are {len(program.parameters)} parameters; at most {MAX_PARAMETERS} are allowed")
        if context.is_free(parameter.name):
            context.parameters[parameter.name] = parameter
        if not parameter.zeroed:
            _check_unzeroed(parameter, context)


def _check_unzeroed(parameter: Parameter, context: Context) -> None:
    if parameter.kind != "out":
        context.report(f"{parameter.name} is {_KINDS[parameter.kind]}; only an out can be unzeroed")
    elif parameter.type is bool_:
        context.report(f"{parameter.name} is of {bool_}, which is 0 or 1: it cannot be unzeroed")


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _declare_shared(program: Program, context: Context) -> None:
    used = 0
    for number, shared in enumerate(program.shared):
        context.at(("shared", number), shared.source)
        if context.is_free(shared.name):
            context.shared[shared.name] = shared
        if min(shared.shape or (shared.size,)) < 1 or shared.size != math.prod(shared.shape or (shared.size,)):
            shape = f" in the shape {shared.shape}" if shared.shape else ""
            context.report(f"a shared array of {shared.size} elements{shape}; 1 or more are needed")
            continue
        before = used
        used = _aligned(used, shared.type.itemsize) + shared.size * shared.type.itemsize
        if used > MAX_SHARED_BYTES >= before:
            context.report(f"shared arrays take {used} bytes up to here; a block has at most {MAX_SHARED_BYTES}")


def _declare_arrays(program: Program, context: Context) -> None:
    used = {"table": 0, "local array": 0}
    limits = {"table": MAX_TABLE_BYTES, "local array": MAX_LOCAL_BYTES}
    for number, array in enumerate(program.arrays):
        what = "table" if isinstance(array, Table) else "local array"
        context.at(("arrays", number), array.source)
        if context.is_free(array.name):
            context.arrays[array.name] = array
        if array.size < 1 or (array.shape and (min(array.shape) < 1 or array.size != math.prod(array.shape))):
            shape = f" in the shape {array.shape}" if array.shape else ""
            context.report(f"a {what} of {array.size} elements{shape}; 1 or more are needed")
            continue
        before = used[what]
        used[what] = before + array.size * array.type.itemsize
        if used[what] > limits[what] >= before:
            context.report(f"{what}s take {used[what]} bytes up to here; a program has at most {limits[what]}")
        if isinstance(array, Table) and array.type is bool_ and max(array.data) > 1:
            context.report(f"a bool_ of table {array.name} is neither 0 nor 1")


def _check_sizes(program: Program, context: Context) -> None:
    needs: dict[str, set[str]] = {}
    for number, parameter in enumerate(program.parameters):
        context.at(("parameters", number), parameter.source)
        if not parameter.is_buffer and (parameter.shape or parameter.size is not None):
            context.report(f"{parameter.name} is a scalar; only buffers have sizes")
            continue
        if parameter.kind == "out" and parameter.shape and 0 < len(parameter.declared) < parameter.ndim:
            context.report(f"the shape of {parameter.name} is given in part; an out has all extents or none")
        for extent in parameter.declared:
            before = context.number
            if _is_host_expr(extent, context):
                _check_integer(extent, context, f"the {'shape' if parameter.shape else 'size'}")
                context.number = before
                _check_known_sizes(extent, context)
                used = {expr.buffer for expr in expressions((extent,)) if isinstance(expr, Size)}
                needs.setdefault(parameter.name, set()).update(used)
            context.number = before + sum(1 for _ in expressions((extent,)))
    for number, parameter in enumerate(program.parameters):
        if _reaches(parameter.name, parameter.name, needs):
            context.at(("parameters", number), parameter.source)
            through = ", ".join(sorted(needs[parameter.name]))
            context.report(f"the size of {parameter.name} depends on itself, through the size of {through}")


def _check_known_sizes(size: Expr, context: Context) -> None:
    """The sizes that a size uses must be known before the call allocates its outs."""
    for operand, expr in enumerate(expressions((size,)), start=context.number):
        used = context.parameters.get(expr.buffer) if isinstance(expr, Size) else None
        if isinstance(used, Parameter) and used.kind == "out" and used.size is None:
            context.report(
                f"the size of {used.name} is known only once an array is passed by out=", operand, expr.source
            )


def _reaches(start: str, goal: str, needs: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    stack = list(needs.get(start, ()))
    while stack:
        name = stack.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            stack.extend(needs.get(name, ()))
    return False


def _check_work(program: Program, context: Context) -> None:
    if program.work is None:
        return
    context.at(("work",), program.source)
    if not 1 <= len(program.work) <= _MAX_WORK_AXES:
        context.report(f"work has {len(program.work)} axes; 1 to {_MAX_WORK_AXES} are allowed")
    for expr in program.work:
        before = context.number
        if _is_host_expr(expr, context):
            _check_integer(expr, context, "the work")
        context.number = before + sum(1 for _ in expressions((expr,)))


def _is_host_expr(root: Expr, context: Context) -> bool:
    """Report what the host cannot evaluate before the launch; True if there is nothing."""
    before = len(context.found)
    for operand, expr in enumerate(expressions((root,)), start=context.number):
        what = ""
        match expr:
            case Local():
                what = f"{expr.name} is not a parameter"
            case Id():
                what = f"{expr.kind} is not known before the launch"
            case Position():
                what = "several indices are not a value"
            case Load():
                what = f"an element of {expr.buffer} is not known before the launch"
            case Size() if expr.buffer in context.shared:
                what = f"{expr.buffer} is a shared array"
            case _:
                continue
        context.report(f"{what}; sizes and work use only scalars and sizes of buffers", operand, expr.source)
    return len(context.found) == before


def _check_integer(expr: Expr, context: Context, what: str) -> None:
    operand = context.number
    type_ = context.type_of(expr)
    if type_ is not None and not type_.is_integer:
        context.report(f"{what} is {type_}; it must be of an integer type", operand, expr.source)
