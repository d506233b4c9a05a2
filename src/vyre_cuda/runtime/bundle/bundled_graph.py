"""Graphs in bundles: what is known about them without a device, and recording them again on one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_cuda.bundles.graphs import (
    COPY,
    END,
    FILL,
    HAS_DEFAULT,
    LAUNCH,
    OTHERWISE,
    REPEAT,
    ROWS,
    SYMBOL_ARRAY,
    WRITTEN,
)
from vyre_cuda.errors import BundleError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import BY_CODE, Type, bf16, u8
from vyre_cuda.runtime.base.symbol import Symbol, symbol
from vyre_cuda.runtime.graph.arena import BYTE
from vyre_cuda.runtime.graph.bundled_plan import BundledPlan, Held, Place
from vyre_cuda.runtime.graph.cells import writes_cells
from vyre_cuda.runtime.graph.graph import Graph
from vyre_cuda.runtime.graph.graph_steps import LaunchStep, RowsStep, Step, TablesStep, array_places
from vyre_cuda.runtime.graph.temporary import Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda._native.call.prepared import PreparedKernel
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel

_SPAN, _SYMBOL = 1, 2

# kind, kernel, type, grid, times, values
_Step: TypeAlias = tuple[int, int, int, tuple[int, int, int], int, list[tuple[int, int, int, int]]]


@dataclass(frozen=True, slots=True)
class BundledSymbol:
    """A symbol of a bundled graph: an array or a scalar of `type`. `written`: a step writes the array."""

    name: str
    is_array: bool
    type: Type
    has_default: bool
    written: bool


@dataclass(frozen=True, slots=True)
class BundledGraph:
    """A graph in a bundle: its symbols by name, its number of steps, and the bytes of device memory it allocates."""

    name: str
    symbols: Mapping[str, BundledSymbol]
    steps: int
    nbytes: int


def described(row: Mapping[str, Any]) -> BundledGraph:
    """Builds the description from the tables of a bundle."""
    symbols = {
        name: BundledSymbol(
            name, kind == SYMBOL_ARRAY, BY_CODE[type_], bool(flags & HAS_DEFAULT), bool(flags & WRITTEN)
        )
        for name, kind, type_, flags, _, _, _ in row["symbols"]
    }
    merged, _ = _forms(row)
    steps = sum(step[0] not in (REPEAT, END, ROWS) for step in merged)
    return BundledGraph(row["name"], symbols, steps, sum(nbytes for nbytes, _ in row["arrays"]))


def _forms(row: Mapping[str, Any]) -> tuple[list[_Step], list[_Step]]:
    """The steps, and those that run where a condition does not hold."""
    steps = row["steps"]
    places = [place for place, step in enumerate(steps) if step[0] == OTHERWISE]
    return (steps[: places[0]], steps[places[0] + 1 :]) if places else (steps, [])


def record(
    device: Device,
    row: Mapping[str, Any],
    kernels: list[Kernel | None],
    entries: Mapping[int, PreparedKernel | None],
) -> Graph:
    """The graph on a device; `kernels` holds those that it launches, by number, `entries` those for launches as one of
    several kernels, or with arrays that are symbols."""
    defaults = {
        array for _, kind, _, flags, array, _, _ in row["symbols"] if kind == SYMBOL_ARRAY and flags & HAS_DEFAULT
    }
    arrays = {
        number: device.array(np.frombuffer(contents, np.uint8)) if contents else device.zeros(nbytes, u8)
        for number, (nbytes, contents) in enumerate(row["arrays"])
        if contents or number in defaults or nbytes == 0
    }
    symbols = [_symbol(each, arrays) for each in row["symbols"]]
    recording = _Recording(device, row, kernels, entries, arrays, symbols)
    merged, recorded = _forms(row)
    if not recorded:
        return recording.graph(merged)
    held = {
        row["symbols"][symbol][0]: Held(
            row["symbols"][symbol][1] == SYMBOL_ARRAY, BY_CODE[row["symbols"][symbol][2]], memory, value, count
        )
        for symbol, memory, value, count in row["conditions"]
    }
    graph = recording.graph(recorded, fuse=True)
    places = recording.places(recorded, defaults | {each.memory for each in held.values() if each.is_array})
    graph._merge_as(BundledPlan(recording.graph(merged, fuse=True)._steps, held, places))
    return graph


@dataclass(frozen=True, slots=True)
class _Recording:
    """Records the steps of a bundle."""

    device: Device
    row: Mapping[str, Any]
    kernels: list[Kernel | None]
    launches: Mapping[int, PreparedKernel | None]
    arrays: Mapping[int, DeviceArray]
    symbols: list[Symbol]

    def graph(self, steps: Sequence[_Step], *, fuse: bool = False) -> Graph:
        """The graph; with `fuse` it is made later."""
        loops: list[ExitStack] = []
        rows: list[LaunchStep] | None = None
        entry: PreparedKernel | None = None
        with self.device.record(fuse=fuse) as graph:
            # Nobody else sees the others, and no step reads what an earlier replay has left there.
            reader = _Reader(_Arrays(graph, self.row["arrays"], self._cells(steps), self.arrays), self.symbols)
            for kind, kernel, type_, grid, times, values in steps:
                if kind == LAUNCH:
                    launched = self.kernels[kernel]
                    assert launched is not None  # the caller has loaded all that are launched
                    given = reader.arguments(launched.program, values)
                    if rows is None:
                        graph._launch(launched, given, grid if any(grid) else None)
                    else:
                        rows.append(LaunchStep(launched, given, grid if any(grid) else None))
                elif kind == ROWS:
                    rows, entry = [], self.launches[kernel]
                elif kind == COPY:
                    graph._copy(reader.value(values[0], BY_CODE[type_]), reader.value(values[1], BY_CODE[type_]))
                elif kind == FILL:
                    to = reader.value(values[0], BY_CODE[type_])
                    graph._fill(to, reader.value(values[1], to.type))
                elif kind == REPEAT:
                    until = reader.value(values[0], BY_CODE[type_]) if values else None
                    loops.append(ExitStack())
                    loops[-1].enter_context(graph.repeat(times or None, until=until))
                elif rows is not None:
                    graph._add(*_as_one(rows, entry))
                    rows = None
                else:
                    loops.pop().close()
        return graph

    def _cells(self, steps: Sequence[_Step]) -> set[int]:
        """The numbers of the arrays that hold cells of symbols."""
        found: set[int] = set()
        for kind, kernel, _, _, _, values in steps:
            launched = self.kernels[kernel] if kind == LAUNCH else None
            if launched is not None and writes_cells(launched.program):
                found.update(index for what, index, _, _ in values if what == _SPAN)
        return found

    def places(self, steps: Sequence[_Step], reachable: Collection[int]) -> list[Place]:
        """Where arrays are that other values of symbols could meet: those that are not symbols."""
        found = {}
        for kind, kernel, type_, _, _, values in steps:
            launched = self.kernels[kernel] if kind == LAUNCH else None
            for number, (what, index, offset, count) in enumerate(values):
                if what == _SPAN and index in reachable and index in self.arrays:
                    of = BY_CODE[type_] if launched is None else launched.program.parameters[number].type
                    address = self.arrays[index]._alive().address + offset
                    place = Place(index, offset, count * of.itemsize, address)
                    found[index, offset, place.nbytes] = place
        return list(found.values())


def _as_one(rows: list[LaunchStep], entry: PreparedKernel | None) -> list[Step]:
    """The launches as one, or one after the other where the bundle has no entry for the code that was loaded."""
    tables = [RowsStep(list(some)) for _, some in groupby(rows, lambda row: id(row.kernel))]
    if any(launch.grid != table.launches[0].grid for table in tables for launch in table.launches):
        raise BundleError(f"launches of {rows[0].label} as one have several grids")
    if len(tables) > 1 or array_places(rows):
        return list(rows) if entry is None else [TablesStep(tables, entry)]
    return list(rows) if tables[0].kernel.rows_entry is None else [tables[0]]


class _Arrays(dict[int, DeviceArray]):
    """Arrays by number; those that are made when a step first needs them are the graph's alone."""

    def __init__(
        self,
        graph: Graph,
        rows: Sequence[tuple[int, bytes]],
        cells: Collection[int],
        shared: Mapping[int, DeviceArray],
    ) -> None:
        super().__init__(shared)
        self._graph = graph
        self._rows = rows
        self._cells = cells

    def __missing__(self, number: int) -> DeviceArray:
        nbytes, is_cell = self._rows[number][0], number in self._cells
        return self.setdefault(number, self._graph._temporaries.new(self._graph, (nbytes,), BYTE, is_cell=is_cell))


@dataclass(frozen=True, slots=True)
class _Reader:
    arrays: Mapping[int, DeviceArray]
    symbols: list[Symbol]

    def arguments(self, program: Program, values: list[tuple[int, int, int, int]]) -> dict[str, Any]:
        """The arguments of a launch by name; the extents of shapes follow the parameters' values."""
        count = len(program.parameters)
        extents = iter([number for _, _, number, _ in values[count:]])
        given = {}
        for parameter, value in zip(program.parameters, values[:count], strict=True):
            shape = tuple([next(extents) for _ in parameter.shape])
            found = self.value(value, parameter.type)
            given[parameter.name] = found.reshape(shape) if shape else found
        return given

    def value(self, value: tuple[int, int, int, int], type_: Type) -> Any:
        kind, index, number, count = value
        if kind == _SPAN:
            return _span(self.arrays[index], number, count, type_)
        return self.symbols[index] if kind == _SYMBOL else _scalar(type_, number)


def _span(array: DeviceArray, offset: int, count: int, type_: Type) -> DeviceArray:
    if isinstance(array, Temporary):
        return Temporary(array.root, offset, count, type_.dtype, (count,))
    return DeviceArray(array.device, array._alive(), offset, count, type_.dtype)


def _symbol(row: tuple[str, int, int, int, int, int, int], arrays: Mapping[int, DeviceArray]) -> Symbol:
    name, kind, code, flags, array, value, count = row
    if not flags & HAS_DEFAULT:
        return symbol(name)
    if kind == SYMBOL_ARRAY:
        return symbol(name, _span(arrays[array], value, count, BY_CODE[code]))
    return symbol(name, _scalar(BY_CODE[code], value))


def _scalar(type_: Type, bits: int) -> Any:
    """The NumPy scalar with these bits; for bools and types that NumPy does not have, the Python number."""
    if type_ is bf16 or type_.kind == "bool":
        return value_of(type_, bits)
    return np.array([bits], np.uint64).view(np.uint8)[: type_.itemsize].view(type_.dtype)[0]
