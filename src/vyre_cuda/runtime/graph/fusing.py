"""Recorded steps as steps of which several become one kernel, or one launch: what the passes decide, compiled.

A plan holds for the values that it was made with, and for others where `holds` says so: there the launches, the shapes
and what shares memory are the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.errors import counted
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.passes import fuse
from vyre_cuda.passes import steps as merged
from vyre_cuda.passes.cells import of_geometry
from vyre_cuda.passes.floors import floors_of
from vyre_cuda.passes.fuse import Apart, Group, Repeat
from vyre_cuda.passes.repeats import Until
from vyre_cuda.passes.shared import with_unspecified
from vyre_cuda.passes.steps import Kind
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.arranging import arrangement
from vyre_cuda.runtime.graph.cells import Cells
from vyre_cuda.runtime.graph.graph_steps import LaunchStep, RepeatStep, RowsStep, Step, TablesStep, array_places
from vyre_cuda.runtime.graph.launches import Memories, why_apart
from vyre_cuda.runtime.graph.moving import Moving
from vyre_cuda.runtime.graph.temporary import Root, Temporary

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import tables_entry
    from vyre_cuda.runtime.kernel.kernel import Kernel
else:
    tables_entry = later("vyre_cuda.runtime.kernel.tables_entry")

VARIABLE = "VYRE_CUDA_FUSE"


def is_off() -> bool:
    """Whether the environment says that graphs run as they were recorded."""
    return os.environ.get(VARIABLE, "").lower() == "off"


class Fused(FrozenRecord, eq=False):
    """Steps that became one kernel. `decisive` are the symbols whose values can make another kernel necessary, and
    `fixed` those of them where a launch of the kernel would not tell: it refuses arrays that meet and are written."""

    group: Group
    recorded: list[LaunchStep]
    launches: list[merged.Step]
    kernel: Kernel
    step: LaunchStep
    symbols: frozenset[str]
    decisive: frozenset[str]
    fixed: frozenset[str]


class Row(FrozenRecord, eq=False):
    """What became of the steps from `first` to before `end`, in the order of `Plan.order`.

    `apart` says why a step is not merged at all, `behind` why the step behind is not merged with these, `kind` in a
    word.
    """

    first: int
    end: int
    fused: Fused | None
    apart: str = ""
    behind: str = ""
    kind: Kind | None = None


class Plan(FrozenRecord, eq=False):
    """`order` are the steps before those in a row became one, and `places` what each of them is of the recording."""

    order: list[Step | RepeatStep]
    places: list[tuple[int, ...]]
    steps: list[Step | RepeatStep]
    rows: list[Row]
    gone: frozenset[Root]
    shared: frozenset[Root]  # those of them that are shared arrays of a block
    refused: dict[int, str]  # why recorded steps are not rows of a table
    split: dict[int, tuple[int, str]]  # of the tables of steps in this order: how many launches they are, and why
    cells: Cells
    moving: Moving

    @property
    def differs(self) -> bool:
        """Whether its steps are other than the recorded ones."""
        return bool(self.fused or self.tables or self.cells)

    @property
    def decisive(self) -> frozenset[str]:
        """The symbols whose values `holds` looks at."""
        return frozenset(name for one in self.fused for name in one.decisive) | self.moving.names

    @property
    def fixed(self) -> frozenset[str]:
        """Those of them that only `holds` can tell about."""
        return frozenset(name for one in self.fused for name in one.fixed) | self.moving.names

    @property
    def made(self) -> list[Kernel]:
        """The kernels that no recorded step has."""
        return [one.kernel for one in self.fused] + self.cells.kernels

    @property
    def fused(self) -> list[Fused]:
        return [row.fused for row in self.rows if row.fused is not None]

    @property
    def tables(self) -> list[RowsStep | TablesStep]:
        return [step for step in self.steps if isinstance(step, (RowsStep, TablesStep))]

    def holds(self, names: Collection[str], given: Mapping[str, Any]) -> bool:
        """Whether the kernels do what the steps would, where these symbols have values other than those so far."""
        if not self.moving.hold(names, given):
            return False
        return all(_holds(one, given) for one in self.fused if not one.decisive.isdisjoint(names))


def plan(device: Device, recorded: Sequence[Step | RepeatStep], given: Mapping[str, Any]) -> Plan:
    """The plan for these values of the symbols. Raises the errors of `Device.compile`."""
    memories = Memories()
    arranged = arrangement(recorded, given, memories, floors_of(device.properties.compute_capability))
    order = arranged.steps
    items = [_item(step, given, memories) for step in order]
    seams = {step.end for step in order if isinstance(step, RepeatStep)}
    groups = fuse.decide(items, seams, memories.temporaries.values())
    cells = Cells(device, order, groups)
    rows: list[Row] = []
    for group in groups:
        rows += _rows(device, order, items, group, cells)
    fused = [row.fused.group for row in rows if row.fused is not None]
    gone, shared = (
        frozenset(root for root, memory in memories.temporaries.items() if memory in some)
        for some in (
            frozenset[int]().union(*[group.gone for group in fused]),
            frozenset[int]().union(*[group.shared for group in fused]),
        )
    )
    steps, split = _steps(order, rows, cells, given, memories)
    moving = Moving(device, recorded, arranged.moving, given)
    return Plan(order, arranged.places, steps, rows, gone, shared, arranged.refused, split, cells, moving)


def _item(step: Step | RepeatStep, given: Mapping[str, Any], memories: Memories) -> merged.Step | Apart:
    touched = frozenset(memories.of(value)[0] for value in step.operands if isinstance(value, Temporary))
    why = why_apart(step, given, memories)
    if isinstance(step, RepeatStep):
        return Apart(step.label, why, touched, Repeat(step.times, step.end, _until(step, memories)))
    if why or not isinstance(step, LaunchStep):
        return Apart(step.label, why, touched)
    return memories.launch(step, given)


def _until(step: RepeatStep, memories: Memories) -> Until | None:
    return None if step.until is None else Until(*memories.of(step.until), step.until.type)


# ---- what became one -------------------------------------------------------------------------------------------------


def _rows(
    device: Device,
    recorded: Sequence[Step | RepeatStep],
    items: Sequence[merged.Step | Apart],
    group: Group,
    cells: Cells,
) -> list[Row]:
    if group.step is None:
        item = items[group.first]
        if isinstance(item, Apart):
            return [Row(group.first, group.end, None, group.why or item.why, "", group.kind)]
        return [Row(group.first, group.end, None, "", group.why, group.kind)]
    launches = [item for item in items[group.first : group.end] if isinstance(item, merged.Step)]
    is_temporary = group.shared or any(span.memory for span in group.step.spans.values())
    if device._kernels.looks_for("initialized") and is_temporary:
        # A merged kernel also reads what a thread may not need.
        return _apart(group, 'check="initialized" looks at what it reads of a temporary array')
    steps = [step for step in recorded[group.first : group.end] if isinstance(step, LaunchStep)]
    program = cells.merged(group.step, steps)
    if device.properties.is_emulator:  # whose graphs begin with such bytes in their temporary arrays
        program = with_unspecified(program, group.unspecified)
    kernel = _compiled(device, group.step, program)
    why = _too_large(kernel, group.step, steps)
    if why:
        return _apart(group, why)
    one = Fused(
        group,
        steps,
        launches,
        kernel,
        LaunchStep(kernel, _operands(kernel.program, group.step, launches, steps, cells), None),
        frozenset(symbol.name for step in steps for symbol in step.symbols),
        frozenset(name for step in steps for name in _decisive(step)),
        _fixed(group, launches, steps),
    )
    return [Row(group.first, group.end, one, "", group.why, group.kind)]


def _apart(group: Group, why: str) -> list[Row]:
    return [Row(place, place + 1, None, why) for place in range(group.first, group.end)]


def _compiled(device: Device, step: merged.Step, program: Program) -> Kernel:
    """Messages about it name all programs that it was made of."""
    options = step.options
    return device._kernels.kernel(
        device, program, options.precision, options.bounds, options.max_ulp, (), f"{step.lines()} as one kernel"
    )


def _too_large(kernel: Kernel, step: merged.Step, of: Sequence[LaunchStep]) -> str:
    """Why the steps are faster apart: the kernel spills, or too few of its threads fit."""
    most = max(each.kernel.attributes.local_bytes for each in of)
    if kernel.attributes.local_bytes > sum(each.kernel.attributes.local_bytes for each in of):
        return f"one kernel would spill {kernel.attributes.local_bytes} bytes a thread, the steps apart {most}"
    blocks = kernel.occupancy.resident_blocks
    needed = min(
        -(-step.geometry.blocks // kernel.device.properties.multiprocessor_count),
        min(each.kernel.occupancy.resident_blocks for each in of),
    )
    if 2 * blocks < needed:
        return f"a multiprocessor would hold {counted(blocks, 'block')} of one kernel, but {needed} of each step"
    return ""


def _operands(
    program: Program,
    step: merged.Step,
    launches: Sequence[merged.Step],
    recorded: Sequence[LaunchStep],
    cells: Cells,
) -> dict[str, Any]:
    """The arguments of the merged step's program: those of the first step that has each array and scalar, or cells."""
    arrays: dict[Hashable, Any] = {}
    for launch, original in zip(launches, recorded, strict=True):
        for p in launch.program.parameters:
            key = (p.type, launch.spans[p.name] if p.is_buffer else launch.scalars[p.name])
            value = original.values[p.name]
            if key not in arrays or isinstance(value, Symbol):
                arrays[key] = value
    found = {
        p.name: arrays[p.type, step.spans[p.name] if p.is_buffer else step.scalars[p.name]]
        for p in step.program.parameters
    }
    scalars = {p.name for p in step.program.parameters if not p.is_buffer}
    return {
        p.name: cells.operand(found[p.name], p.type) if p.is_buffer and p.name in scalars else found[p.name]
        for p in program.parameters
    }


def _decisive(step: LaunchStep) -> set[str]:
    """The symbols of arrays, and of scalars that declare work or sizes."""
    arrays = [step.values[p.name] for p in step.kernel.program.parameters if p.is_buffer]
    return _of_geometry(step) | {value.name for value in arrays if isinstance(value, Symbol)}


def _of_geometry(step: LaunchStep) -> set[str]:
    """The symbols of scalars that declare work or sizes."""
    named = of_geometry(step.kernel.program)
    return {value.name for name in named if isinstance(value := step.values[name], Symbol)}


def _fixed(group: Group, launches: Sequence[merged.Step], recorded: Sequence[LaunchStep]) -> frozenset[str]:
    """The symbols of sizes and work, and of arrays that are not parameters of the kernel by themselves: what something
    else stands for, too, what has no elements, and what ends the loop."""
    found: set[str] = set()
    stand_for: dict[merged.Span, set[str | None]] = {}
    for launch, step in zip(launches, recorded, strict=True):
        found |= _of_geometry(step)
        for name, span in launch.spans.items():
            value = step.values[name]
            stand_for.setdefault(span, set()).add(value.name if isinstance(value, Symbol) else None)
    until = None if group.until is None else (group.until.memory, group.until.first)
    for span, names in stand_for.items():
        if len(names) > 1 or span.count == 0 or (span.memory, span.first) == until:
            found.update(name for name in names if name is not None)
    return frozenset(found)


def _holds(one: Fused, given: Mapping[str, Any]) -> bool:
    memories = Memories()
    try:
        if any(why_apart(step, given, memories) for step in one.recorded):
            return False
        now = [memories.launch(step, given) for step in one.recorded]
    except (TypeError, ValueError, OverflowError):
        return False  # the plain graph says what is wrong
    return fuse.shares_alike(one.launches, now) and _ends_alike(one, now)


def _ends_alike(one: Fused, now: Sequence[merged.Step]) -> bool:
    """Whether the array that ends the loop of this kernel is the same as before."""
    until = one.group.until
    if until is None or until.memory:  # temporary arrays are not symbols
        return True
    begin = until.memory, until.first
    return all(
        (span.memory, span.first) != begin or new.spans[name] == span
        for old, new in zip(one.launches, now, strict=True)
        for name, span in old.spans.items()
    )


def _steps(
    recorded: Sequence[Step | RepeatStep],
    rows: Sequence[Row],
    cells: Cells,
    given: Mapping[str, Any],
    memories: Memories,
) -> tuple[list[Step | RepeatStep], dict[int, tuple[int, str]]]:
    """The steps of the fused graph, and which tables are how many launches in it, and why."""
    found: list[Step | RepeatStep] = list(cells.writers())
    split: dict[int, tuple[int, str]] = {}
    place_of = {}
    for row in rows:
        place_of[row.first] = len(found)
        original = recorded[row.first]
        if isinstance(original, TablesStep) and original.entry is not None:
            found.append(original)  # of a bundle, with its entry
            continue
        step = cells.applied(original) if row.fused is None else row.fused.step
        if isinstance(step, RowsStep) and array_places(step.launches):
            step = TablesStep([step])
        if isinstance(step, TablesStep) and isinstance(original, (RowsStep, TablesStep)):
            blocks = sum(memories.launch(launch, given).geometry.blocks for launch in original.launches)
            some, why = _as_one(step, blocks)
            found += some
            if why:
                split[row.first] = len(some), why
        else:
            found.append(step)
    place_of[len(recorded)] = len(found)
    for place, step in enumerate(found):
        if isinstance(step, RepeatStep):
            found[place] = RepeatStep(step.times, step.until, place_of[step.end])
    return found, split


def _as_one(step: TablesStep, blocks: int) -> tuple[Sequence[Step], str]:
    """The same with its entry; or its tables or launches, and why they are apart."""
    places = step.places
    if len(places) > tables_entry.MOST_ARRAYS:
        found = [each for part in _with_few_places(step) for each in _as_one(part, blocks)[0]]
        return found, f"{len(places)} of their arrays are symbols, and one launch takes {tables_entry.MOST_ARRAYS}"
    of_entry = tuple(tables_entry.Place(place.parameter.type.itemsize, place.is_written) for place in places)
    entry = tables_entry.entry_of(step.kernels, blocks, of_entry)
    if entry.prepared is None:
        return (step.launches if places else step.tables), entry.why
    return [TablesStep(step.tables, entry.prepared)], ""


def _with_few_places(step: TablesStep) -> Iterator[TablesStep]:
    """Its rows in tables of one kernel with as many of these arrays as a launch takes."""
    for table in step.tables:
        some: list[LaunchStep] = []
        places: set[tuple[str, int]] = set()
        for launch in table.launches:
            own = array_places([launch]).keys()
            if len(places | own) > tables_entry.MOST_ARRAYS:
                yield TablesStep([RowsStep(some)])
                some, places = [], set()
            some.append(launch)
            places |= own
        yield TablesStep([RowsStep(some)])
