"""Recorded graphs as stored in a bundle, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeAlias

from vyre_cuda.bundles.layout import Writer
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.call.known import Known, python_values
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type

SYMBOL_ARRAY, SYMBOL_SCALAR = 1, 2
HAS_DEFAULT, WRITTEN = 1, 2
LAUNCH, COPY, FILL, REPEAT, END, ROWS, OTHERWISE = 1, 2, 3, 4, 5, 6, 7
_SPAN, _SYMBOL, _BITS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class GraphArray:
    """Memory of `nbytes`; `contents` is all of it, or empty where no step reads what none of the replay wrote."""

    nbytes: int
    contents: bytes


@dataclass(frozen=True, slots=True)
class ArraySpan:
    """`count` elements of array number `array`, starting at byte `offset`."""

    array: int
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Bits:
    """A scalar by its bits."""

    bits: int


@dataclass(frozen=True, slots=True)
class Named:
    """What the symbol of this name stands for."""

    name: str


GraphValue: TypeAlias = ArraySpan | Bits | Named


@dataclass(frozen=True, slots=True)
class GraphSymbol:
    """`default` is None if every replay must set the symbol; `written`: a step writes the array."""

    name: str
    is_array: bool
    type: Type
    default: ArraySpan | Bits | None
    written: bool


@dataclass(frozen=True, slots=True)
class GraphKernel:
    """A program with the options that it was compiled with."""

    program: Program
    precision: str
    bounds: str
    max_ulp: float | None
    known: tuple[Known, ...] = ()


class EntryArray(NamedTuple):
    """An array that a launch of an entry can replace: the code of its type, and whether rows write it."""

    type: int
    is_written: bool


class Group(NamedTuple):
    """What an entry for many launches as one is for: the names of its kernels, and its arrays."""

    members: tuple[str, ...]
    arrays: tuple[EntryArray, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphStep:
    """One step of the kinds above. `kernel` is the name of a launch's program; `type` that of the elements of others;
    `grid` is (0, 0, 0) where it follows from the work. `group` is that of launches as one, which follow up to the end;
    their values are the symbols of its arrays."""

    kind: int
    values: tuple[GraphValue, ...] = ()
    kernel: str = ""
    type: Type | None = None
    grid: tuple[int, int, int] = (0, 0, 0)
    times: int = 0
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """What a symbol stood for when steps were merged: the bits of a scalar, or `count` elements of an array from byte
    `value` on of a memory, which below the number of the graph's arrays is one of these."""

    symbol: str
    memory: int
    value: int
    count: int


@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """A graph, independent of any device. Where a condition does not hold, the steps behind OTHERWISE run instead."""

    kernels: Sequence[GraphKernel]
    arrays: Sequence[GraphArray]
    symbols: Sequence[GraphSymbol]
    steps: Sequence[GraphStep]
    conditions: Sequence[Condition] = ()


class Bundled(Protocol):
    """What `vc.bundle` takes for a graph: a `vc.Graph`."""

    def bundled(self) -> RecordedGraph: ...


def groups_of(graphs: Mapping[str, RecordedGraph]) -> set[Group]:
    """Those of all launches as one."""
    return {step.group for graph in graphs.values() for step in graph.steps if step.group is not None}


def add_graphs(
    writer: Writer,
    graphs: Mapping[str, RecordedGraph],
    kernels: Mapping[str, int],
    entries: Mapping[Group, str],
) -> None:
    """Append the rows of graphs; `kernels` has the numbers of the kernels by name, `entries` the names of entries for
    launches as one."""
    for name in sorted(graphs, key=lambda name: name.encode("utf-8")):
        if not name:
            raise ValueError("a graph in a bundle needs a name: give it one in graphs={...}")
        _add(writer, name, graphs[name], kernels, entries)


def _add(
    writer: Writer,
    name: str,
    graph: RecordedGraph,
    kernels: Mapping[str, int],
    entries: Mapping[Group, str],
) -> None:
    symbols = sorted(graph.symbols, key=lambda symbol: symbol.name.encode("utf-8"))
    numbers = {symbol.name: number for number, symbol in enumerate(symbols)}
    arrays = writer.count("graph_arrays"), len(graph.arrays)
    for array in graph.arrays:
        writer.row("graph_arrays", array.nbytes, *writer.data(array.contents))
    named = writer.count("graph_symbols"), len(symbols)
    for symbol in symbols:
        _symbol(writer, symbol)
    steps = writer.count("graph_steps"), len(graph.steps)
    for step in graph.steps:
        values = writer.count("graph_values"), len(step.values)
        for value in step.values:
            writer.row("graph_values", *_fields(value, numbers))
        if step.kind in (ROWS, OTHERWISE):
            writer.needs(6)
        launched = step.kernel if step.group is None else entries[step.group]
        kernel = kernels[launched] if launched else 0
        code = 0 if step.type is None else step.type.code
        writer.row("graph_steps", step.kind, kernel, *step.grid, code, *values, step.times)
    for condition in sorted(graph.conditions, key=lambda each: numbers[each.symbol]):
        number = numbers[condition.symbol]
        of_graph = writer.count("graphs")
        writer.row("conditions", of_graph, number, condition.memory, 0, condition.value, condition.count)
    writer.row("graphs", *writer.text(name), *arrays, *named, *steps)


def _symbol(writer: Writer, symbol: GraphSymbol) -> None:
    flags = (WRITTEN if symbol.written else 0) | (0 if symbol.default is None else HAS_DEFAULT)
    kind = SYMBOL_ARRAY if symbol.is_array else SYMBOL_SCALAR
    array = value = count = 0
    match symbol.default:
        case ArraySpan():
            array, value, count = symbol.default.array, symbol.default.offset, symbol.default.count
        case Bits():
            value = symbol.default.bits
    writer.row("graph_symbols", *writer.text(symbol.name), kind, symbol.type.code, flags, array, value, count)


def _fields(value: GraphValue, numbers: Mapping[str, int]) -> tuple[int, int, int, int]:
    match value:
        case ArraySpan():
            return _SPAN, value.array, value.offset, value.count
        case Named():
            return _SYMBOL, numbers[value.name], 0, 0
        case Bits():
            return _BITS, 0, value.bits, 0


def named_apart(
    programs: Sequence[GraphKernel], graphs: Mapping[str, RecordedGraph]
) -> tuple[list[GraphKernel], dict[str, RecordedGraph]]:
    """The kernels of a bundle, without duplicates, and the graphs with the names that their kernels have there.

    UnsupportedError: a program that was given has other options in a graph.
    """
    found = {kernel.program.name: kernel for kernel in programs}
    renamed = {}
    for name, graph in graphs.items():
        others = {}
        for kernel in graph.kernels:
            known = found.setdefault(kernel.program.name, kernel)
            if known in programs and known.program == kernel.program and known != kernel:
                raise UnsupportedError(
                    f"program {kernel.program.name} is compiled with {_options(known)} and with {_options(kernel)}; "
                    "give it the options that it has in the graph, or leave it out",
                    capability="two_options",
                )
            if known != kernel:
                own = under_own_name(kernel)
                found[own.program.name] = own
                others[kernel.program.name] = own.program.name
        steps = [_with_kernels(step, others) for step in graph.steps] if others else graph.steps
        renamed[name] = replace(graph, steps=steps)
    return list(found.values()), renamed


def _with_kernels(step: GraphStep, names: Mapping[str, str]) -> GraphStep:
    group = step.group
    if group is not None:
        group = group._replace(members=tuple([names.get(member, member) for member in group.members]))
    return replace(step, kernel=names.get(step.kernel, step.kernel), group=group)


def _options(kernel: GraphKernel) -> str:
    values = python_values(kernel.program, kernel.known)
    return (
        f"precision={kernel.precision!r}, bounds={kernel.bounds!r}, max_ulp={kernel.max_ulp!r}, specialize={values!r}"
    )


def under_own_name(kernel: GraphKernel) -> GraphKernel:
    """The kernel with a name that no other has."""
    options = repr((kernel.precision, kernel.bounds, kernel.max_ulp, kernel.known)).encode()
    digest = sha256(kernel.program.to_bytes() + options).hexdigest()[:8]
    return replace(kernel, program=replace(kernel.program, name=f"{kernel.program.name}_{digest}"))
