"""Recorded steps as steps of which several become one kernel: what the passes decide, compiled.

A plan holds for the values that it was made with, and for others where `holds` says so: there the launches, the shapes
and what shares memory are the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.ir.call.geometry import Geometry, launch_geometry
from vyre_cuda.ir.call.sizes import Extents
from vyre_cuda.ir.core.nodes import Parameter, Scalar
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.walk import expressions
from vyre_cuda.passes import fuse
from vyre_cuda.passes import steps as merged
from vyre_cuda.passes.fuse import Apart, Group
from vyre_cuda.passes.specialize import specialized
from vyre_cuda.passes.steps import Kind
from vyre_cuda.records import dataclass
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.graph_steps import LaunchStep, LoadedStep, RepeatStep, Step
from vyre_cuda.runtime.graph.temporary import Root, Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel

VARIABLE = "VYRE_CUDA_FUSE"


def is_off() -> bool:
    """Whether the environment says that graphs run as they were recorded."""
    return os.environ.get(VARIABLE, "").lower() == "off"


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """Steps that became one kernel. `decisive` are the symbols whose values can make another kernel necessary."""

    group: Group
    recorded: list[LaunchStep]
    launches: list[merged.Step]
    kernel: Kernel
    step: LaunchStep
    symbols: frozenset[str]
    decisive: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What became of the recorded steps from `first` to before `end`.

    `apart` says why a step is not merged at all, `behind` why the step behind is not merged with these, `kind` in a
    word.
    """

    first: int
    end: int
    fused: Fused | None
    apart: str = ""
    behind: str = ""
    kind: Kind | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    steps: list[Step | RepeatStep]
    rows: list[Row]
    gone: frozenset[Root]

    @property
    def fused(self) -> list[Fused]:
        return [row.fused for row in self.rows if row.fused is not None]

    def holds(self, names: Collection[str], given: Mapping[str, Any]) -> bool:
        """Whether the kernels do what the steps would, where these symbols have values other than those so far."""
        return all(_holds(one, given) for one in self.fused if not one.decisive.isdisjoint(names))


def plan(device: Device, recorded: Sequence[Step | RepeatStep], given: Mapping[str, Any]) -> Plan:
    """The plan for these values of the symbols. Raises the errors of `Device.compile`."""
    memories = _Memories()
    items = [_item(step, given, memories) for step in recorded]
    seams = {step.end for step in recorded if isinstance(step, RepeatStep)}
    groups = fuse.decide(items, seams, memories.temporaries.values())
    rows: list[Row] = []
    for group in groups:
        rows += _rows(device, recorded, items, group)
    gone = {
        root
        for row in rows
        if row.fused is not None
        for root, memory in memories.temporaries.items()
        if memory in row.fused.group.gone
    }
    return Plan(_steps(recorded, rows), rows, frozenset(gone))


# ---- launches as the passes know them --------------------------------------------------------------------------------


class _Memories:
    """Arrays of the device are places in one memory, at their addresses; each temporary array is one of its own."""

    def __init__(self) -> None:
        self.temporaries: dict[Root, int] = {}

    def of(self, value: DeviceArray) -> tuple[int, int]:
        """The memory of an array, and its first byte there."""
        if isinstance(value, Temporary):
            return self.temporaries.setdefault(value.root, len(self.temporaries) + 1), value.offset
        return 0, value._alive().address + value.offset


def _item(step: Step | RepeatStep, given: Mapping[str, Any], memories: _Memories) -> merged.Step | Apart:
    touched = frozenset(memories.of(value)[0] for value in step.operands if isinstance(value, Temporary))
    why = _why_apart(step, given)
    if why or not isinstance(step, LaunchStep):
        return Apart(step.label, why, touched)
    return _launch(step, given, memories)


def _why_apart(step: Step | RepeatStep, given: Mapping[str, Any]) -> str:
    if isinstance(step, LoadedStep):
        return "it is a kernel from device.load, whose program is not known"
    if isinstance(step, RepeatStep):
        return "it is a loop"
    if not isinstance(step, LaunchStep):
        return "it is no launch"
    program = step.kernel.program
    if step.kernel.is_without_body:
        return "it comes from a bundle that was written with source=False"
    if step.kernel.known and step.symbols:
        return "it is compiled for known values, and a symbol could bring others"
    for parameter in program.parameters:
        value = _value(step, parameter, given)
        if parameter.is_buffer and not isinstance(value, DeviceArray):
            return f"{parameter.name} is an array of another library"
    return "" if _geometry(step, given).blocks else "it has no threads"


def _value(step: LaunchStep, parameter: Parameter, given: Mapping[str, Any]) -> Any:
    value = step.values[parameter.name]
    return given[value.name] if isinstance(value, Symbol) else value


def _geometry(step: LaunchStep, given: Mapping[str, Any]) -> Geometry:
    """Raises the errors of a launch with other sizes than the program declares."""
    program = step.kernel.program
    extents = Extents(program)
    scalars: dict[str, int] = {}
    for parameter in program.parameters:
        value = _value(step, parameter, given)
        if parameter.is_buffer:
            extents.take(parameter.name, parameter, value)
        else:
            scalars[parameter.name] = bits_of(parameter.type, value)
    extents.size_outs(scalars)
    extents.check(scalars)
    return launch_geometry(program, extents.known, scalars, step.grid)


def _launch(step: LaunchStep, given: Mapping[str, Any], memories: _Memories) -> merged.Step:
    kernel, program = step.kernel, step.kernel.program
    spans: dict[str, merged.Span] = {}
    scalars: dict[str, Hashable] = {}
    for parameter in program.parameters:
        value = _value(step, parameter, given)
        if parameter.is_buffer:
            shape = tuple(value.shape) if parameter.shape else (value.count,)
            spans[parameter.name] = merged.Span(*memories.of(value), shape)
        else:
            symbol = step.values[parameter.name]
            is_symbol = isinstance(symbol, Symbol)
            scalars[parameter.name] = symbol.name if is_symbol else bits_of(parameter.type, value)
    options = merged.Options(kernel.precision, kernel.bounds, kernel.max_ulp)
    return merged.Step(specialized(program, kernel.known), spans, scalars, _geometry(step, given), options)


# ---- what became one -------------------------------------------------------------------------------------------------


def _rows(
    device: Device, recorded: Sequence[Step | RepeatStep], items: Sequence[merged.Step | Apart], group: Group
) -> list[Row]:
    if group.step is None:
        item = items[group.first]
        return [Row(group.first, group.end, None, item.why if isinstance(item, Apart) else "", group.why, group.kind)]
    launches = [item for item in items[group.first : group.end] if isinstance(item, merged.Step)]
    if device._kernels.looks_for("initialized") and any(span.memory for span in group.step.spans.values()):
        # A merged kernel also reads what a thread may not need.
        return _apart(group, 'check="initialized" looks at what it reads of a temporary array')
    steps = [step for step in recorded[group.first : group.end] if isinstance(step, LaunchStep)]
    kernel = _compiled(device, group.step)
    why = _too_large(kernel, group.step, steps)
    if why:
        return _apart(group, why)
    one = Fused(
        group,
        steps,
        launches,
        kernel,
        LaunchStep(kernel, _operands(group.step, launches, steps), None),
        frozenset(symbol.name for step in steps for symbol in step.symbols),
        frozenset(name for step in steps for name in _decisive(step)),
    )
    return [Row(group.first, group.end, one, "", group.why, group.kind)]


def _apart(group: Group, why: str) -> list[Row]:
    return [Row(place, place + 1, None, why) for place in range(group.first, group.end)]


def _compiled(device: Device, step: merged.Step) -> Kernel:
    """Messages about it name all programs that it was made of."""
    options = step.options
    return device._kernels.kernel(
        device, step.program, options.precision, options.bounds, options.max_ulp, (), f"{step.lines()} as one kernel"
    )


def _too_large(kernel: Kernel, step: merged.Step, of: Sequence[LaunchStep]) -> str:
    """Why the steps are faster apart: the kernel spills, or too few of its threads fit."""
    most = max(each.kernel.attributes.local_bytes for each in of)
    if kernel.attributes.local_bytes > sum(each.kernel.attributes.local_bytes for each in of):
        return f"one kernel would spill: {kernel.attributes.local_bytes} bytes a thread, {most} apart"
    blocks = kernel.occupancy.resident_blocks
    needed = min(
        -(-step.geometry.blocks // kernel.device.properties.multiprocessor_count),
        min(each.kernel.occupancy.resident_blocks for each in of),
    )
    if 2 * blocks < needed:
        return f"of one kernel {blocks} blocks would fit a multiprocessor, of the steps {needed}"
    return ""


def _operands(step: merged.Step, launches: Sequence[merged.Step], recorded: Sequence[LaunchStep]) -> dict[str, Any]:
    """The arguments of the merged program: those of the first step that has each array and scalar."""
    arrays: dict[Hashable, Any] = {}
    for launch, original in zip(launches, recorded, strict=True):
        for p in launch.program.parameters:
            key = (p.type, launch.spans[p.name] if p.is_buffer else launch.scalars[p.name])
            value = original.values[p.name]
            if key not in arrays or isinstance(value, Symbol):
                arrays[key] = value
    return {
        p.name: arrays[p.type, step.spans[p.name] if p.is_buffer else step.scalars[p.name]]
        for p in step.program.parameters
    }


def _decisive(step: LaunchStep) -> set[str]:
    """The symbols of arrays, and of scalars that declare work or sizes."""
    program = step.kernel.program
    named = _scalars_of_geometry(program)
    return {
        value.name
        for p in program.parameters
        if isinstance(value := step.values[p.name], Symbol) and (p.is_buffer or p.name in named)
    }


def _scalars_of_geometry(program: Program) -> set[str]:
    declared = [e for p in program.parameters if p.is_buffer for e in p.declared]
    every = expressions((*(program.work or ()), *[e for e in declared if e is not None]))
    return {part.name for part in every if isinstance(part, Scalar)}


def _holds(one: Fused, given: Mapping[str, Any]) -> bool:
    memories = _Memories()
    try:
        if any(_why_apart(step, given) for step in one.recorded):
            return False
        now = [_launch(step, given, memories) for step in one.recorded]
    except (TypeError, ValueError, OverflowError):
        return False  # the plain graph says what is wrong
    return fuse.shares_alike(one.launches, now)


def _steps(recorded: Sequence[Step | RepeatStep], rows: Sequence[Row]) -> list[Step | RepeatStep]:
    """The steps of the fused graph."""
    found: list[Step | RepeatStep] = []
    place_of = {}
    for row in rows:
        place_of[row.first] = len(found)
        found.append(recorded[row.first] if row.fused is None else row.fused.step)
    place_of[len(recorded)] = len(found)
    for place, step in enumerate(found):
        if isinstance(step, RepeatStep):
            found[place] = RepeatStep(step.times, step.until, place_of[step.end])
    return found
