"""The steps of a recording in the order in which they run, with those together that are rows of one launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.ir.core import limits
from vyre_cuda.later import later
from vyre_cuda.passes import tables
from vyre_cuda.passes.cells import of_geometry
from vyre_cuda.passes.floors import Floors
from vyre_cuda.passes.tables import Item
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.cells import can_read_cells
from vyre_cuda.runtime.graph.graph_steps import (
    CopyStep,
    FillStep,
    LaunchStep,
    RepeatStep,
    RowsStep,
    Step,
    TablesStep,
    array_places,
)
from vyre_cuda.runtime.graph.launches import Memories, value_of, why_apart
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel import rows_entry, tables_entry
else:
    rows_entry = later("vyre_cuda.runtime.kernel.rows_entry")
    tables_entry = later("vyre_cuda.runtime.kernel.tables_entry")

_WALL = Item(None)


class Arrangement(FrozenRecord, eq=False):
    """`places` are those of the recording that each step stands for; `refused` says of some why they are not rows.
    `moving` are symbols of arrays on which the order depends."""

    steps: list[Step | RepeatStep]
    places: list[tuple[int, ...]]
    refused: dict[int, str]
    moving: frozenset[str] = frozenset()


def arrangement(
    recorded: Sequence[Step | RepeatStep], given: Mapping[str, Any], memories: Memories, floors: Floors
) -> Arrangement:
    keys = [_key(step) if isinstance(step, LaunchStep) else None for step in recorded]
    many = {key for key, count in Counter(keys).items() if key is not None and count >= floors.rows}
    if not many:
        return Arrangement(list(recorded), [(place,) for place in range(len(recorded))], {})
    refused: dict[int, str] = {}
    items: list[Item] = []
    for place, (step, key) in enumerate(zip(recorded, keys, strict=True)):
        why = _why_refused(step, given, memories) if isinstance(step, LaunchStep) and key in many else ""
        if why:
            refused[place] = why
        items.append(_item(step, given, memories, None if why else key))
    seams = {step.end for step in recorded if isinstance(step, RepeatStep)}
    places = tables.decide(items, floors, seams)
    moving: set[str] = set()
    if any(len(unit) > 1 for unit in places):
        for step, item in zip(recorded, items, strict=True):
            if isinstance(step, LaunchStep) and item.touched is not None:
                moving.update(symbol.name for symbol in array_symbols(step))
    return Arrangement(_steps(recorded, places), places, refused, frozenset(moving))


def _key(step: LaunchStep) -> Hashable:
    """What launches have in common that can be rows of one launch, where symbols are cells that all of them read."""
    grid = tuple(step.grid) if isinstance(step.grid, (list, tuple)) else step.grid
    parameters = step.kernel.program.parameters
    scalars = [p.name for p in parameters if not p.is_buffer and isinstance(step.values[p.name], Symbol)]
    return id(step.kernel), grid, tuple(scalars)


def _why_refused(step: LaunchStep, given: Mapping[str, Any], memories: Memories) -> str:
    program = step.kernel.program
    scalars = [p.name for p in program.parameters if not p.is_buffer and isinstance(step.values[p.name], Symbol)]
    if scalars and can_read_cells(step.kernel):
        named = of_geometry(program)
        scalars = [name for name in scalars if name in named]
    if scalars:
        fixed = {step.values[name].name for name in scalars}
        return f"it has the symbol{'s' if len(fixed) > 1 else ''} {', '.join(sorted(fixed))}, which cannot be a cell"
    what = rows_entry.what_keeps_apart(step.kernel)
    if what is not None:
        return f"the kernel has {what}"
    return _why_not_moving(step, given, memories)


def _why_not_moving(step: LaunchStep, given: Mapping[str, Any], memories: Memories) -> str:
    """Why a launch with arrays that are symbols stays apart; empty: it may be a row."""
    symbols = array_symbols(step)
    values = [given[symbol.name] for symbol in symbols]
    if not symbols or any(not isinstance(value, DeviceArray) for value in values):
        return ""
    if any(value.device is not step.kernel.device for value in values):
        return "it has an array of another device"
    if len(symbols) > tables_entry.MOST_ARRAYS and len(array_places([step])) > tables_entry.MOST_ARRAYS:
        return f"it has more than {tables_entry.MOST_ARRAYS} arrays that are symbols"
    geometry = memories.geometry(step, given)
    if geometry.blocks * geometry.threads_per_block >= limits.LARGE_LAUNCH:
        names = ", ".join(sorted({symbol.name for symbol in symbols}))
        return f"it has arrays that are symbols, {names}, and so many threads that a launch of its own is as fast"
    for p in step.kernel.program.parameters:
        value = step.values[p.name]
        if p.kind != "out" or not p.zeroed or not isinstance(value, Symbol):
            continue
        cover = step.kernel.lowered.covered.get(p.name)
        reached = geometry.grid[0] * geometry.block[0]
        if cover is None or cover.loops or cover.elements != (1,) or given[value.name].count > reached:
            return f"it has the symbol {value.name}, which is an output that may have to be cleared"
    return ""


def array_symbols(step: LaunchStep) -> list[Symbol]:
    """The symbols that stand for arrays of a launch."""
    values = (step.values[p.name] for p in step.kernel.program.parameters if p.is_buffer)
    return [value for value in values if isinstance(value, Symbol)]


def _item(step: Step | RepeatStep, given: Mapping[str, Any], memories: Memories, key: Hashable) -> Item:
    """What it touches; a launch with a key may be a row. Nothing passes a step whose memory is not known, or can be
    another at each replay."""
    if isinstance(step, LaunchStep):
        return _of_launch(step, given, memories, key)
    if isinstance(step, FillStep):
        written = _range(step.to, memories)
        return Item([written], [written])
    if isinstance(step, CopyStep) and isinstance(step.to, DeviceArray) and isinstance(step.source, DeviceArray):
        first, size = memories.of(step.to), step.source.nbytes
        written = (*first, first[1] + size)
        return Item([written, _range(step.source, memories)], [written])
    return _WALL


def _of_launch(step: LaunchStep, given: Mapping[str, Any], memories: Memories, key: Hashable) -> Item:
    for parameter in step.kernel.program.parameters:
        if parameter.is_buffer and not isinstance(value_of(step, parameter, given), DeviceArray):
            return _WALL
    if key is None and array_symbols(step):
        return _WALL
    if step.kernel.is_without_body:
        return _WALL
    launch = memories.launch(step, given)
    if key is None or why_apart(step, given, memories):
        return tables.of_launch(launch, None)
    return tables.of_launch(launch, key, launch.geometry.block)


def _range(array: DeviceArray, memories: Memories) -> tables.Range:
    memory, first = memories.of(array)
    return memory, first, first + array.nbytes


def _steps(recorded: Sequence[Step | RepeatStep], places: Sequence[tuple[int, ...]]) -> list[Step | RepeatStep]:
    behind = _behind(recorded, places)
    found: list[Step | RepeatStep] = []
    for unit in places:
        step = recorded[unit[0]]
        if isinstance(step, RepeatStep):
            step = RepeatStep(step.times, step.until, behind[step.end])
        elif len(unit) > 1:
            step = _as_one([each for place in unit if isinstance(each := recorded[place], LaunchStep)])
        found.append(step)
    return found


def _as_one(launches: Sequence[LaunchStep]) -> RowsStep | TablesStep:
    alike: dict[Hashable, list[LaunchStep]] = {}
    for launch in launches:
        alike.setdefault(_key(launch), []).append(launch)
    of_each = [RowsStep(some) for some in alike.values()]
    return of_each[0] if len(of_each) == 1 else TablesStep(of_each)


def _behind(recorded: Sequence[Step | RepeatStep], places: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """For each end of a loop the place there: nothing passes it, so as many places as there are steps before it."""
    ends = {step.end for step in recorded if isinstance(step, RepeatStep)}
    found: dict[int, int] = {}
    steps = 0
    for place in range(len(places) + 1):
        if steps in ends:
            found.setdefault(steps, place)
        if place < len(places):
            steps += len(places[place])
    return found
