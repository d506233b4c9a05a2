"""A recorded graph as stored in a bundle: symbols by name, memory by number, and contents only where they matter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.bundles.graphs import (
    COPY,
    END,
    FILL,
    LAUNCH,
    OTHERWISE,
    REPEAT,
    ROWS,
    ArraySpan,
    Bits,
    Condition,
    EntryArray,
    GraphArray,
    GraphKernel,
    GraphStep,
    GraphSymbol,
    GraphValue,
    Group,
    Named,
    RecordedGraph,
    under_own_name,
)
from vyre_cuda.errors import UnsupportedError, type_name
from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord, field, replace
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.collective_step import CollectiveStep
from vyre_cuda.runtime.graph.graph_steps import (
    CopyStep,
    FillStep,
    LaunchStep,
    LoadedStep,
    RepeatStep,
    RowsStep,
    Step,
    TablesStep,
    array_places,
)
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel

# Arrays begin where their views do in memory, on an alignment boundary of the driver's own blocks.
_ALIGNMENT = 256


def recorded_graph(exported: Exported, values: Mapping[str, Any]) -> RecordedGraph:
    """`values` has the defaults of symbols that have one."""
    recorder = _Recorder(values, exported.merged, exported.alone)
    graph = recorder.record(exported.steps, exported.otherwise, exported.held)
    if graph is None:  # arrays of others that may be the same memory: what they share cannot be told in a file
        return recorded_graph(replace(exported, steps=exported.otherwise, otherwise=(), held={}), values)
    return graph


class Exported(FrozenRecord, eq=False):
    """The steps of a graph for a bundle. `merged` are kernels made of several, of which others may have the name; in
    the bundle they have names of their own. `alone` is memory whose contents at the start of a replay are unspecified.
    `otherwise` are the steps that run where symbols do not stand for arrays like those in `held`, with which steps were
    merged."""

    steps: Sequence[Step | RepeatStep]
    merged: Collection[Kernel] = ()
    alone: Collection[Buffer] = ()
    otherwise: Sequence[Step | RepeatStep] = ()
    held: Mapping[str, Any] = field(default_factory=dict)


class _Memory:
    """The part of one buffer that the graph touches: from byte `begin` to byte `end`."""

    def __init__(self, number: int, span: DeviceArray) -> None:
        self.number = number
        self.span = span
        self.begin = span.offset // _ALIGNMENT * _ALIGNMENT
        self.end = span.offset + span.nbytes
        self.written: list[tuple[int, int, str]] = []  # from, to, and through which symbol
        self.is_read = False  # before it is written

    def cover(self, span: DeviceArray) -> None:
        self.begin = min(self.begin, span.offset // _ALIGNMENT * _ALIGNMENT)
        self.end = max(self.end, span.offset + span.nbytes)

    def read(self, begin: int, end: int, symbol: str) -> None:
        """What was written through a symbol can be read only through that symbol: another replay writes elsewhere."""
        for low, high, by in sorted(self.written):
            if by in ("", symbol) and low <= begin < high:
                begin = high
        self.is_read |= begin < end

    def array(self, *, is_alone: bool) -> GraphArray:
        nbytes = self.end - self.begin
        if is_alone or not self.is_read or nbytes == 0:
            return GraphArray(nbytes, b"")
        device, buffer = self.span.device, self.span._alive()
        return GraphArray(nbytes, DeviceArray(device, buffer, self.begin, nbytes, np.dtype(np.uint8)).numpy().tobytes())


class _Recorder:
    def __init__(self, values: Mapping[str, Any], merged: Collection[Kernel], alone: Collection[Buffer]) -> None:
        self._defaults = values
        self._alone = alone
        self._merged = {id(kernel) for kernel in merged}
        self._memory: dict[Buffer, _Memory] = {}
        self._symbols: dict[str, tuple[bool, Type]] = {}
        self._written: set[str] = set()
        self._kernels: dict[int, GraphKernel] = {}

    def record(
        self, steps: Sequence[Step | RepeatStep], otherwise: Sequence[Step | RepeatStep], held: Mapping[str, Any]
    ) -> RecordedGraph | None:
        """None: it cannot be told which arrays in `held` share memory."""
        for form in (steps, otherwise):
            for memory in self._memory.values():
                memory.written.clear()  # each form writes what it reads
            for step in form:
                self._touch(step)
        conditions = self._conditions(held)
        if conditions is None:
            return None
        rows = self._rows(steps)
        if conditions:
            rows += [GraphStep(OTHERWISE), *self._rows(otherwise)]
        return RecordedGraph(
            list(self._kernels.values()),
            [memory.array(is_alone=buffer in self._alone) for buffer, memory in self._memory.items()],
            [self._symbol(name, *what) for name, what in self._symbols.items()],
            rows,
            conditions,
        )

    def _rows(self, steps: Sequence[Step | RepeatStep]) -> list[GraphStep]:
        rows: list[GraphStep] = []
        ends: list[int] = []
        for place, step in enumerate(steps):
            while ends and ends[-1] == place:
                rows.append(GraphStep(END))
                ends.pop()
            rows += self._as_one(step) if isinstance(step, (RowsStep, TablesStep)) else [self._step(step)]
            if isinstance(step, RepeatStep):
                ends.append(step.end)
        return rows + [GraphStep(END)] * len(ends)

    def _as_one(self, step: RowsStep | TablesStep) -> list[GraphStep]:
        """Launches of each kernel are together, and have the same grid; else their tables are apart."""
        tables = [step] if isinstance(step, RowsStep) else step.tables
        if len({id(table.kernel) for table in tables}) < len(tables):
            return [row for table in tables for row in self._as_one(table)]
        recorded = [launch for table in tables for launch in table.launches]
        launches = [self._launch(launch) for launch in recorded]
        places = list(array_places(recorded).values())
        group = Group(
            tuple(dict.fromkeys(launch.kernel for launch in launches)),
            tuple(EntryArray(place.parameter.type.code, place.is_written) for place in places),
        )
        symbols = tuple(Named(place.symbol.name) for place in places)
        return [GraphStep(ROWS, symbols, group=group), *launches, GraphStep(END)]

    def _conditions(self, held: Mapping[str, Any]) -> list[Condition] | None:
        arrays = {name: value for name, value in held.items() if self._symbols[name][0]}
        others: dict[Buffer, _Memory] = {}
        for value in arrays.values():
            buffer = value._alive()
            memory = self._memory.get(buffer) or others.setdefault(
                buffer, _Memory(len(self._memory) + len(others), value)
            )
            memory.cover(value)
        memories = self._memory | others
        if arrays and _meet(memories):
            return None
        found = []
        for name, value in held.items():
            if name not in arrays:
                found.append(Condition(name, 0, bits_of(self._symbols[name][1], value), 0))
                continue
            memory = memories[value._alive()]
            found.append(Condition(name, memory.number, value.offset - memory.begin, value.count))
        return found

    # ---- what is touched ---------------------------------------------------------------------------------------------

    def _touch(self, step: Step | RepeatStep) -> None:
        """Record memory and symbols in the order of recording: first what a step reads, then what it writes."""
        match step:
            case LaunchStep():
                for reads in (True, False):
                    for parameter in step.kernel.program.parameters:
                        is_touched = parameter.kind != "out" if reads else parameter.is_writable
                        if parameter.is_buffer and is_touched:
                            self._use(step.values[parameter.name], parameter.type, writes=not reads)
                for parameter in step.kernel.program.parameters:
                    if not parameter.is_buffer:
                        self._scalar_symbol(step.values[parameter.name], parameter.type)
            case CopyStep():
                if isinstance(step.to, np.ndarray) or isinstance(step.source, np.ndarray):
                    raise UnsupportedError(
                        "a bundle cannot hold host memory; record the copy with device arrays", capability="host_memory"
                    )
                self._use(step.source, step.to.type, writes=False)
                self._use(step.to, step.to.type, writes=True)
            case FillStep():
                self._scalar_symbol(step.value, step.to.type)
                self._use(step.to, step.to.type, writes=True)
            case RepeatStep():
                if step.until is not None:
                    self._use(step.until, step.until.type, writes=False)
            case RowsStep() | TablesStep():
                for launch in step.launches:
                    self._touch(launch)
            case CollectiveStep():
                raise UnsupportedError(
                    f"{step.label}: a bundle cannot hold collectives, which need the communicator of this process: "
                    "leave them out",
                    capability="collectives",
                )
            case LoadedStep():
                raise UnsupportedError(
                    f"kernel {step.kernel.name} was loaded; a bundle holds only kernels compiled from Programs: "
                    "launch it beside the graph",
                    capability="loaded_kernel",
                )

    def _use(self, value: Any, type_: Type, *, writes: bool) -> None:
        name = value.name if isinstance(value, Symbol) else ""
        if isinstance(value, Symbol):
            self._know(name, True, type_)
            if writes:
                self._written.add(name)
            if name not in self._defaults:
                return
            value = self._defaults[name]
        if not isinstance(value, DeviceArray):
            raise UnsupportedError(
                f"{type_name(value)} of another library; a bundle holds DeviceArrays and symbols: "
                "copy it to a DeviceArray, or record a vc.symbol",
                capability="foreign_memory",
            )
        buffer = value._alive()
        memory = self._memory.setdefault(buffer, _Memory(len(self._memory), value))
        memory.cover(value)
        begin, end = value.offset, value.offset + value.nbytes
        if writes:
            memory.written.append((begin, end, name))
        else:
            memory.read(begin, end, name)

    def _scalar_symbol(self, value: Any, type_: Type) -> None:
        if isinstance(value, Symbol):
            self._know(value.name, False, type_)

    def _know(self, name: str, is_array: bool, type_: Type) -> None:
        known = self._symbols.setdefault(name, (is_array, type_))
        if known != (is_array, type_):
            raise UnsupportedError(
                f"symbol {name} stands for values of {known[1]} and of {type_}; a symbol in a bundle has one type: "
                "use two symbols",
                capability="symbol_types",
            )

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _step(self, step: Step | RepeatStep) -> GraphStep:
        match step:
            case LaunchStep():
                return self._launch(step)
            case CopyStep():
                return GraphStep(COPY, (self._span(step.to), self._array(step.source)), type=step.to.type)
            case FillStep():
                return GraphStep(FILL, (self._span(step.to), self._scalar(step.value, step.to.type)), type=step.to.type)
            case RepeatStep():
                if step.until is None:
                    return GraphStep(REPEAT, times=step.times)
                return GraphStep(REPEAT, (self._span(step.until),), type=step.until.type, times=step.times)
            case CollectiveStep() | LoadedStep() | RowsStep() | TablesStep():
                raise AssertionError  # refused before, or several rows

    def _launch(self, step: LaunchStep) -> GraphStep:
        kernel = step.kernel
        if kernel.is_without_body:
            raise UnsupportedError(
                f"{kernel.program.name} was loaded from a bundle without its body: write that bundle with source=True",
                capability="source",
            )
        stored = self._kernels.get(id(kernel)) or self._stored(kernel)
        values = tuple(
            self._array(step.values[p.name]) if p.is_buffer else self._scalar(step.values[p.name], p.type)
            for p in kernel.program.parameters
        )
        values += tuple(bits for p in kernel.program.parameters for bits in _extents(p, step.values[p.name]))
        axes = (0, 0, 0) if step.grid is None else step.grid if isinstance(step.grid, tuple) else (step.grid,)
        x, y, z = (*axes, 1, 1)[:3]
        return GraphStep(LAUNCH, values, kernel=stored.program.name, grid=(int(x), int(y), int(z)))

    def _stored(self, kernel: Kernel) -> GraphKernel:
        """Under its program's name, unless it was made of several or another kernel of the graph has that name."""
        stored = GraphKernel(kernel.program, kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known)
        others = [other for other in self._kernels.values() if other.program.name == kernel.program.name]
        if id(kernel) in self._merged or any(other != stored for other in others):
            stored = under_own_name(stored)
        self._kernels[id(kernel)] = stored
        return stored

    def _array(self, value: Any) -> GraphValue:
        return Named(value.name) if isinstance(value, Symbol) else self._span(value)

    def _scalar(self, value: Any, type_: Type) -> GraphValue:
        return Named(value.name) if isinstance(value, Symbol) else Bits(bits_of(type_, value))

    def _span(self, value: DeviceArray) -> ArraySpan:
        memory = self._memory[value._alive()]
        return ArraySpan(memory.number, value.offset - memory.begin, value.count)

    def _symbol(self, name: str, is_array: bool, type_: Type) -> GraphSymbol:
        default: ArraySpan | Bits | None = None
        if name in self._defaults:
            value = self._defaults[name]
            default = self._span(value) if is_array else Bits(bits_of(type_, value))
        return GraphSymbol(name, is_array, type_, default, name in self._written)


def _meet(memories: Mapping[Buffer, _Memory]) -> bool:
    """Whether two buffers are the same memory, which only others can know."""
    ends = sorted((buffer.address + each.begin, buffer.address + each.end) for buffer, each in memories.items())
    return any(behind > begin for (_, behind), (begin, _) in pairwise(ends))


def _extents(parameter: Parameter, value: Any) -> list[Bits]:
    """The shape of an array for a parameter with several axes. A symbol has none that a bundle could keep."""
    if not parameter.shape:
        return []
    if isinstance(value, Symbol):
        raise UnsupportedError(
            f"symbol {value.name} stands for the array of {parameter.name}, which has {parameter.ndim} axes; in a "
            "bundle a symbol stands for arrays with one axis",
            capability="symbol_shapes",
        )
    return [Bits(extent) for extent in value.shape]
