"""Scalar symbols with users in several nodes, as cells: memory of the graph that one node at its head writes.

A replay with another value then changes that node alone, whose parameters are the values. The kernels of the users are
compiled to read the cells. Rows of a table, which is memory too, always do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.ids import global_id
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.passes import steps as merged
from vyre_cuda.passes.cells import of_geometry, with_cells
from vyre_cuda.passes.fuse import Group
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.graph_steps import LaunchStep, RepeatStep, RowsStep, Step, TablesStep
from vyre_cuda.runtime.graph.temporary import Root, Temporary
from vyre_cuda.runtime.memory.array import dtype_of

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel

# A symbol and the type of the scalars that it stands for.
Key: TypeAlias = tuple[str, Type]

_MOST_OF_A_NODE = 64  # cells that one kernel writes: two parameters each
_SEVERAL = 2
_WRITER = "write_symbols"  # name of the kernel at the head of the graph


class Cells:
    """Those of the steps in this order, of which each group becomes one node or, in loops, more."""

    def __init__(self, device: Device, order: Sequence[Step | RepeatStep], groups: Sequence[Group]) -> None:
        self.device = device
        self.kernels: list[Kernel] = []  # that read cells, of steps that are not merged, and that write them
        self.by_value: set[str] = set()  # symbols that decide something that the host must know
        self._symbols: dict[str, Symbol] = {}
        self._named: dict[Kernel, set[str]] = {}  # the scalars of which the geometry is made
        self._made: dict[tuple[Kernel, tuple[str, ...]], Kernel] = {}
        self.users = {key: count for key, count in self._count(order, groups).items() if count >= _SEVERAL}
        empty = Buffer(device.context, 0) if self.users else None
        self._cells: dict[Key, Temporary] = {}
        for name, type_ in self.users:
            assert empty is not None  # there are users
            dtype = dtype_of(type_)
            self._cells[name, type_] = Temporary(Root(self, dtype.itemsize, empty, is_cell=True), 0, 1, dtype, (1,))

    def __bool__(self) -> bool:
        return bool(self._cells)

    def _count(self, order: Sequence[Step | RepeatStep], groups: Sequence[Group]) -> dict[Key, int]:
        """In how many nodes kernels could read each symbol."""
        users: dict[Key, int] = defaultdict(int)
        end = 0  # of the outermost loop that is unrolled, as far as it is not long
        for group in groups:
            first = order[group.first]
            if group.step is None and isinstance(first, RepeatStep) and first.until is None and first.times != 1:
                end = max(end, first.end)
            keys: set[Key] = set()
            kept: set[Key] = set()
            several = group.first < end
            for step in order[group.first : group.end]:
                launches: Sequence[Step | RepeatStep] = (step,)
                if isinstance(step, (RowsStep, TablesStep)):
                    launches, several = step.launches, True
                for launch in launches:
                    if isinstance(launch, LaunchStep):
                        found, decisive = self._keys(launch)
                        keys |= found
                        kept |= decisive
            for key in keys - kept if group.step is not None else keys:
                users[key] += _SEVERAL if several else 1
        return users

    def _keys(self, step: LaunchStep) -> tuple[set[Key], set[Key]]:
        """The symbols that its kernel could read in cells, and those that the host must know."""
        named = self._geometry(step.kernel)
        keys: set[Key] = set()
        kept: set[Key] = set()
        for p in step.kernel.program.parameters:
            value = step.values[p.name]
            if p.is_buffer or not isinstance(value, Symbol):
                continue
            self._symbols[value.name] = value
            (kept if p.name in named else keys).add((value.name, p.type))
        self.by_value.update(name for name, _ in kept)
        return (keys if can_read_cells(step.kernel) else set()), kept

    # ---- who reads them ----------------------------------------------------------------------------------------------

    def merged(self, step: merged.Step, recorded: Sequence[LaunchStep]) -> Program:
        """The program of merged steps, with cells in place of scalars."""
        kept = {key for one in recorded for key in self._keys(one)[1]}
        names = [
            p.name
            for p in step.program.parameters
            if not p.is_buffer and (key := (str(step.scalars[p.name]), p.type)) in self._cells and key not in kept
        ]
        return with_cells(step.program, names)

    def operand(self, value: Any, type_: Type) -> Any:
        """What stands for a value where a kernel reads a cell."""
        return self._cells[value.name, type_] if isinstance(value, Symbol) else value

    def applied(self, step: Step | RepeatStep) -> Step | RepeatStep:
        """A step that is not merged, with a kernel that reads the cells."""
        if isinstance(step, TablesStep):
            return TablesStep([self._rows(table) for table in step.tables])
        if isinstance(step, RowsStep):
            return self._rows(step)
        return self._launch(step) if isinstance(step, LaunchStep) else step

    def _rows(self, step: RowsStep) -> RowsStep:
        return RowsStep([self._launch(launch) for launch in step.launches])

    def _launch(self, step: LaunchStep) -> LaunchStep:
        kernel = step.kernel
        keys, _ = self._keys(step)
        named = self._geometry(kernel)
        names = tuple(
            p.name
            for p in kernel.program.parameters
            if isinstance(value := step.values[p.name], Symbol)
            and not p.is_buffer
            and p.name not in named
            and (key := (value.name, p.type)) in keys
            and key in self._cells
        )
        if not names:
            return step
        made = self._reading(kernel, names)
        types = {p.name: p.type for p in kernel.program.parameters}
        values = {
            p.name: self.operand(value, types[p.name]) if p.name in names else value
            for p in made.program.parameters
            for value in (step.values[p.name],)
        }
        return LaunchStep(made, values, step.grid)

    def _reading(self, kernel: Kernel, names: tuple[str, ...]) -> Kernel:
        """The kernel for the program that reads these scalars from cells."""
        found = self._made.get((kernel, names))
        if found is None:
            program = with_cells(kernel.program, names)
            found = self.device._kernels.kernel(
                self.device, program, kernel.precision, kernel.bounds, kernel.max_ulp, ()
            )
            self._made[kernel, names] = found
            self._keep(found)
        return found

    def _geometry(self, kernel: Kernel) -> set[str]:
        found = self._named.get(kernel)
        if found is None:
            found = self._named[kernel] = of_geometry(kernel.program)
        return found

    def _keep(self, kernel: Kernel) -> None:
        if kernel not in self.kernels:
            self.kernels.append(kernel)

    # ---- who writes them ---------------------------------------------------------------------------------------------

    def writers(self) -> Iterator[LaunchStep]:
        """The steps at the head of the graph: each writes many cells, from scalars of its own."""
        keys = list(self._cells)
        for first in range(0, len(keys), _MOST_OF_A_NODE):
            some = keys[first : first + _MOST_OF_A_NODE]
            kernel = self.device.compile(_writing([type_ for _, type_ in some]))
            self._keep(kernel)
            values: dict[str, Any] = {f"value{k}": self._symbols[name] for k, (name, _) in enumerate(some)}
            values.update((f"cell{k}", self._cells[key]) for k, key in enumerate(some))
            yield LaunchStep(kernel, values, None)


def can_read_cells(kernel: Kernel) -> bool:
    """Whether the kernel can be compiled again, for any value of its scalars."""
    return not kernel.is_without_body and not kernel.known


def _writing(types: Sequence[Type]) -> Program:
    """cell[0] = value, for each type; each cell is an output that the launch is sure to write, so it is not cleared"""
    b = Builder(_WRITER, block=32)
    values = [b.scalar(f"value{k}", type_) for k, type_ in enumerate(types)]
    cells = [b.output(f"cell{k}", type_, size=1) for k, type_ in enumerate(types)]
    b.work(1)
    i = b.let("i", global_id.x)
    with b.if_(i < 1):
        for cell, value in zip(cells, values, strict=True):
            cell[i] = value
    return b.build()


def writes_cells(program: Program) -> bool:
    """Whether it is such a program, also one from a bundle, where it has a name of its own and may lack its body."""
    if not program.name.startswith(_WRITER):
        return False
    return _writing([p.type for p in program.parameters if not p.is_buffer]).parameters == program.parameters


def writers_of_cells(steps: Sequence[Step | RepeatStep]) -> list[LaunchStep]:
    return [step for step in steps if isinstance(step, LaunchStep) and writes_cells(step.kernel.program)]
