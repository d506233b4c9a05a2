"""Recorded launches as the passes know them: programs, memory and geometry, for values of the symbols."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from vyre_cuda.ir.call.geometry import Geometry, launch_geometry
from vyre_cuda.ir.call.sizes import Extents
from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.passes import steps as merged
from vyre_cuda.passes.specialize import specialized
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.collective_step import CollectiveStep
from vyre_cuda.runtime.graph.graph_steps import LaunchStep, LoadedStep, RepeatStep, RowsStep, Step, TablesStep
from vyre_cuda.runtime.graph.temporary import Root, Temporary
from vyre_cuda.runtime.memory.array import DeviceArray


class Memories:
    """Arrays of the device are places in one memory, at their addresses; each temporary array is one of its own.
    Launches are looked at once: for one set of values, of steps that the caller keeps."""

    def __init__(self) -> None:
        self.temporaries: dict[Root, int] = {}
        self._launches: dict[int, merged.Step] = {}
        self._geometries: dict[Hashable, Geometry] = {}

    def of(self, value: DeviceArray) -> tuple[int, int]:
        """The memory of an array, and its first byte there."""
        if isinstance(value, Temporary):
            return self.temporaries.setdefault(value.root, len(self.temporaries) + 1), value.offset
        return 0, value._alive().address + value.offset

    def launch(self, step: LaunchStep, given: Mapping[str, Any]) -> merged.Step:
        """Raises the errors of a launch with other sizes than the program declares."""
        found = self._launches.get(id(step))
        if found is None:
            found = self._launches[id(step)] = _launch_of(step, given, self)
        return found

    def geometry(self, step: LaunchStep, given: Mapping[str, Any]) -> Geometry:
        """As `geometry_of`, once for launches of a kernel with the same shapes and scalars."""
        numbers: list[Hashable] = []
        for parameter in step.kernel.program.parameters:
            value = value_of(step, parameter, given)
            numbers.append(value.shape if parameter.is_buffer else bits_of(parameter.type, value))
        grid = tuple(step.grid) if isinstance(step.grid, (list, tuple)) else step.grid
        key = id(step.kernel), grid, tuple(numbers)
        found = self._geometries.get(key)
        if found is None:
            found = self._geometries[key] = geometry_of(step, given)
        return found


def why_apart(step: Step | RepeatStep, given: Mapping[str, Any], memories: Memories) -> str:
    """Why it is never merged; empty for rows of one launch, which need no merging."""
    if isinstance(step, (RowsStep, TablesStep)):
        return ""
    if isinstance(step, LoadedStep):
        return "it is a kernel from device.load, whose program is not known"
    if isinstance(step, RepeatStep):
        return "it is a loop"
    if isinstance(step, CollectiveStep):
        return "it is a collective, which other devices take part in"
    if not isinstance(step, LaunchStep):
        return "it is not a launch"
    program = step.kernel.program
    if step.kernel.is_without_body:
        return "it comes from a bundle that was written with source=False"
    if step.kernel.known and step.symbols:
        return "it is compiled for known values, and a symbol could bring others"
    for parameter in program.parameters:
        value = value_of(step, parameter, given)
        if parameter.is_buffer and not isinstance(value, DeviceArray):
            return f"{parameter.name} is an array of another library"
    return "" if memories.launch(step, given).geometry.blocks else "it has no threads"


def value_of(step: LaunchStep, parameter: Parameter, given: Mapping[str, Any]) -> Any:
    value = step.values[parameter.name]
    return given[value.name] if isinstance(value, Symbol) else value


def geometry_of(step: LaunchStep, given: Mapping[str, Any]) -> Geometry:
    """Raises the errors of a launch with other sizes than the program declares."""
    program = step.kernel.program
    extents = Extents(program)
    scalars: dict[str, int] = {}
    for parameter in program.parameters:
        value = value_of(step, parameter, given)
        if parameter.is_buffer:
            extents.take(parameter.name, parameter, value)
        else:
            scalars[parameter.name] = bits_of(parameter.type, value)
    extents.size_outs(scalars)
    extents.check(scalars)
    return launch_geometry(program, extents.known, scalars, step.grid)


def _launch_of(step: LaunchStep, given: Mapping[str, Any], memories: Memories) -> merged.Step:
    kernel, program = step.kernel, step.kernel.program
    spans: dict[str, merged.Span] = {}
    scalars: dict[str, Hashable] = {}
    for parameter in program.parameters:
        value = value_of(step, parameter, given)
        if parameter.is_buffer:
            shape = tuple(value.shape) if parameter.shape else (value.count,)
            spans[parameter.name] = merged.Span(*memories.of(value), shape)
        else:
            symbol = step.values[parameter.name]
            is_symbol = isinstance(symbol, Symbol)
            scalars[parameter.name] = symbol.name if is_symbol else bits_of(parameter.type, value)
    options = merged.Options(kernel.precision, kernel.bounds, kernel.max_ulp)
    return merged.Step(specialized(program, kernel.known), spans, scalars, memories.geometry(step, given), options)
