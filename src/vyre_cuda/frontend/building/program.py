"""The program of a kernel function, for given types and constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from vyre_cuda.frontend.building.activation import Activation
from vyre_cuda.frontend.building.extents import Extents
from vyre_cuda.frontend.building.namespace import namespace_of
from vyre_cuda.frontend.current import Running
from vyre_cuda.frontend.locating import BUILD_ERRORS, relocated
from vyre_cuda.frontend.parameters import KernelParameter
from vyre_cuda.frontend.rewriting.function import Rewritten
from vyre_cuda.frontend.source import FunctionSource
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.call.walked import Walk, turned, walks_of
from vyre_cuda.ir.core.nodes import Id, Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.ir.core.walk import expressions, operands, statements
from vyre_cuda.records import FrozenRecord


class Definition(FrozenRecord, eq=False):
    """A kernel function and how its programs are made."""

    function: Any  # a FunctionType, which mypy would take for a method
    source: FunctionSource
    rewritten: Rewritten
    parameters: tuple[KernelParameter, ...]
    block: Any
    index: Type
    min_blocks: int


def build(definition: Definition, types: Mapping[str, Type], constants: Mapping[str, Any]) -> Program:
    """Run the function once. ProgramError at the user's line for what is wrong with it."""
    function, rewritten, filename = definition.function, definition.rewritten, definition.source.filename
    try:
        name = function.__name__
        builder = Builder(name, definition.block, definition.index, min_blocks=definition.min_blocks)
        builder._source = filename, rewritten.tree.lineno  # rather than the call that needs the program first
        extents = Extents(definition, constants)
        given = [_declared(builder, parameter, types, constants, extents) for parameter in definition.parameters]
        entered = namespace_of(builder, function, rewritten, filename, types_by_name(definition, types))
        code = rewritten.bound(entered)
        with Running(builder):
            code(Activation(builder), *given)
            _work_on_axes(builder)
        return builder.build()
    except BUILD_ERRORS as error:
        raise relocated(error, rewritten.tree, filename) from None


def _work_on_axes(builder: Builder) -> None:
    """Without `vc.work`, a work item for each element of the first output, else of the first inout, if it has several
    axes and the body asks for an id along each of them: x along the last one, or each id along the axis that it is used
    for (`out[j, i]` of a transpose). Not where threads go through another array instead, which then is a matter of each
    call (`ir.call.walked`)."""
    out = next((each for kind in ("out", "inout") for each in builder._parameters if each.kind == kind), None)
    if builder._work is not None or out is None or out.kind == "scalar" or out.ndim not in (2, 3):
        return
    body = tuple(builder._scope.block.statements)
    ids = (e for s in statements(body) for e in expressions(operands(s)) if isinstance(e, Id))
    if not any(each.kind == "global_id" and each.axis == out.ndim - 1 for each in ids):
        return
    shape = Buffer(builder._scope, out.name, out.type, out.kind, out.ndim).shape
    order = turned(body, builder._block, out)
    if order:
        builder.work(*[shape[axis] for axis in order])
        return
    through = walks_of(tuple(builder._parameters), body, builder._block, builder._scope.index, out, out.ndim)
    if {walk.axis for walk in through} == {walk.axis for walk in through if _is_as_long(builder, out, walk)}:
        builder.work(*reversed(shape))


def _is_as_long(builder: Builder, out: Parameter, walk: Walk) -> bool:
    """Whether what threads go through is declared with the extent that `out` has along the same axis."""
    if walk.axis >= out.ndim:
        return False
    (walked,) = [each for each in builder._parameters if each.name == walk.extent.buffer]
    declared = walked.size if walk.extent.axis is None else walked.shape[walk.extent.axis]
    return out.shape[-1 - walk.axis] in (walk.extent, declared or walk.extent)


def _declared(
    builder: Builder,
    parameter: KernelParameter,
    types: Mapping[str, Type],
    constants: Mapping[str, Any],
    extents: Extents,
) -> Any:
    """What the body gets for a parameter."""
    name = parameter.name
    if parameter.kind == "const":
        return constants[name]
    type_ = types[parameter.type.__name__] if isinstance(parameter.type, TypeVar) else parameter.type
    assert type_ is not None
    if parameter.kind == "scalar":
        return extents.bound(name, builder.scalar(name, type_))
    axes = extents.of(parameter)
    if parameter.kind == "out":
        return extents.named(parameter, builder.output(name, type_, **axes, zeroed=parameter.zeroed))
    declared = (builder.input if parameter.kind == "in" else builder.inout)(name, type_, **axes)
    return extents.named(parameter, declared)


def types_by_name(definition: Definition, types: Mapping[str, Type]) -> dict[str, Type]:
    """What the names of TypeVars stand for in the body."""
    around = {**definition.function.__globals__}
    cells = zip(definition.function.__code__.co_freevars, definition.function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            around[name] = cell.cell_contents
        except ValueError:
            around.pop(name, None)
    names = [name for name in definition.rewritten.outer if isinstance(around.get(name), TypeVar)]
    return {name: types[around[name].__name__] for name in names if around[name].__name__ in types}
