"""Graphs in bundles: what is known about them without a device, and recording them again on one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda.bundles.graphs import COPY, END, FILL, HAS_DEFAULT, LAUNCH, REPEAT, SYMBOL_ARRAY, WRITTEN
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import value_of
from vyre_cuda.ir.core.types import BY_CODE, Type, bf16, u8
from vyre_cuda.runtime.base.symbol import Symbol, symbol
from vyre_cuda.runtime.graph.graph import Graph
from vyre_cuda.runtime.graph.temporary import Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel

_SPAN, _SYMBOL = 1, 2


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
    steps = sum(step[0] not in (REPEAT, END) for step in row["steps"])
    return BundledGraph(row["name"], symbols, steps, sum(nbytes for nbytes, _ in row["arrays"]))


def record(device: Device, row: Mapping[str, Any], kernels: list[Kernel | None]) -> Graph:
    """The graph on a device; `kernels` holds those that it launches, by number."""
    defaults = {
        array for _, kind, _, flags, array, _, _ in row["symbols"] if kind == SYMBOL_ARRAY and flags & HAS_DEFAULT
    }
    arrays = {
        number: device.array(np.frombuffer(contents, np.uint8)) if contents else device.zeros(nbytes, u8)
        for number, (nbytes, contents) in enumerate(row["arrays"])
        if contents or number in defaults or nbytes == 0
    }
    symbols = [_symbol(each, arrays) for each in row["symbols"]]
    loops: list[ExitStack] = []
    with device.record() as graph:
        # Nobody else sees the others, and no step reads what an earlier replay has left there.
        for number, (nbytes, _) in enumerate(row["arrays"]):
            if number not in arrays:
                arrays[number] = graph.temporary(nbytes, u8)
        reader = _Reader(arrays, symbols)
        for kind, kernel, type_, grid, times, values in row["steps"]:
            if kind == LAUNCH:
                launched = kernels[kernel]
                assert launched is not None  # the caller has loaded all that are launched
                given = reader.arguments(launched.program, values)
                graph._launch(launched, given, grid if any(grid) else None)
            elif kind == COPY:
                graph._copy(reader.value(values[0], BY_CODE[type_]), reader.value(values[1], BY_CODE[type_]))
            elif kind == FILL:
                to = reader.value(values[0], BY_CODE[type_])
                graph._fill(to, reader.value(values[1], to.type))
            elif kind == REPEAT:
                until = reader.value(values[0], BY_CODE[type_]) if values else None
                loops.append(ExitStack())
                loops[-1].enter_context(graph.repeat(times or None, until=until))
            else:
                loops.pop().close()
    return graph


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
