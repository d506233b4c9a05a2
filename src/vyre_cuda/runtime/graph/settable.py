"""Which symbols of a driver's graph the C layer can set by itself, and where their values go.

Those are symbols for whose values nothing else changes: scalars that decide neither sizes nor work, and arrays with one
axis where they have as many elements as those before. A replay that gives only these makes no Python objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda._native.graph.graph import Graph as NativeGraph
from vyre_cuda.descriptors.signature import width_of
from vyre_cuda.ir.core.types import Type
from vyre_cuda.passes.cells import of_geometry
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.graph_steps import CopyStep, FillStep, LaunchStep, Step

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel

# The number of a step, and that of the argument or scalar in it.
Use: TypeAlias = tuple[int, int]

_MOST_FILLED = 4  # bytes of an element that the device fills


class Settable:
    """`fixed` are symbols that the caller must look at."""

    def __init__(self, fixed: Collection[str]) -> None:
        self._fixed = fixed
        self._geometry: dict[int, set[str]] = {}

    def add(self, graph: NativeGraph, name: str, users: Sequence[tuple[int, Step]]) -> None:
        """Let the graph set the symbol, if it can in all of its steps."""
        if name in self._fixed:
            return
        uses: dict[tuple[bool, Type], list[Use]] = {}
        for number, step in users:
            for is_array, type_, use in self._uses(name, number, step):
                if type_ is None:
                    return
                uses.setdefault((is_array, type_), []).append(use)
        if len({is_array for is_array, _ in uses}) != 1:
            return
        for (is_array, type_), places in uses.items():
            row = (type_.dtype.num, width_of(type_), type_.itemsize)
            graph.add_symbol(name, is_array, row, sorted(places))

    def _uses(self, name: str, number: int, step: Step) -> Iterator[tuple[bool, Type | None, Use]]:
        """Whether the symbol is an array, its type and its place, for each use; no type: the graph cannot set it."""
        if isinstance(step, LaunchStep):
            yield from self._of_launch(name, number, step)
        elif isinstance(step, FillStep):
            type_ = step.to.type
            yield False, type_ if type_.itemsize <= _MOST_FILLED else None, (number, 0)
        elif isinstance(step, CopyStep):
            yield True, step.to.type, (number, 0)
        else:
            yield False, None, (number, 0)

    def _of_launch(self, name: str, number: int, step: LaunchStep) -> Iterator[tuple[bool, Type | None, Use]]:
        kernel = step.kernel
        places = [0, 0]  # scalars, arrays
        for p in kernel.program.parameters:
            place = places[p.is_buffer]
            places[p.is_buffer] += 1
            value = step.values[p.name]
            if not isinstance(value, Symbol) or value.name != name:
                continue
            is_fixed = bool(p.shape) if p.is_buffer else p.name in self._scalars_of_geometry(kernel)
            yield p.is_buffer, None if is_fixed or kernel.known else p.type, (number, place)

    def _scalars_of_geometry(self, kernel: Kernel) -> set[str]:
        found = self._geometry.get(id(kernel))
        if found is None:
            found = self._geometry[id(kernel)] = of_geometry(kernel.program)
        return found
