"""The steps of a recorded graph: what each one holds, and what it becomes for given symbols.

A step keeps views of its arrays, so freeing the arrays that it was recorded with does not affect it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_cuda._native.call.many import Launches
from vyre_cuda._native.call.prepared import Arguments, PreparedKernel
from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.graph.graph import Transfer
from vyre_cuda._native.memory.memory import find_pinned
from vyre_cuda.errors import FREED, RecordingError, UnsupportedError, counted, type_name
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord, Record, field
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.collective_step import CollectiveStep
from vyre_cuda.runtime.graph.temporary import Temporary, in_place
from vyre_cuda.runtime.kernel.arguments import check_array, device_arguments
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.memory.interop import adopt, is_foreign
from vyre_cuda.runtime.memory.transfers import require_array

if TYPE_CHECKING:
    from vyre_cuda.ir.core.nodes import Parameter
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel
    from vyre_cuda.runtime.memory import peers
else:
    peers = later("vyre_cuda.runtime.memory.peers")

# The values of symbols by name, and the places of temporary arrays by root.
Given: TypeAlias = Mapping[Any, Any]


def kept(value: Any) -> Any:
    """The value as a graph keeps it: for an array, a view of its own."""
    return value._view(0, value.shape) if isinstance(value, DeviceArray) else value


def resolve(value: Any, given: Given) -> Any:
    """The value, or what is given for the symbol; a temporary array where the graph has it."""
    return given[value.name] if isinstance(value, Symbol) else in_place(value, given)


def for_replay(device: Device, value: Any, stream: Stream | None) -> Any:
    """The value as a replay uses it: another library's array is ordered with the stream, as for a launch; an array of
    a peer is one of this device."""
    if isinstance(value, DeviceArray):
        return value if value.device is device else peers.here_if_array(device, value, "an argument")
    return adopt(device, value, stream) if stream is not None and is_foreign(value) else value


class LaunchStep(Record, eq=False):
    """A launch: `values` holds every parameter by name."""

    kernel: Kernel
    values: dict[str, Any]
    grid: Any

    @property
    def operands(self) -> tuple[Any, ...]:
        return tuple(self.values.values())

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(value for value in self.values.values() if isinstance(value, Symbol))

    @property
    def label(self) -> str:
        return self.kernel.program.name

    def copied(self, given: Given, _: int) -> LaunchStep:
        """A copy for recording the step again, at this place among other steps."""
        values = {name: resolve(value, given) for name, value in self.values.items()}
        return LaunchStep(self.kernel, values, self.grid)

    def check(self) -> None:
        """Refuse what no value of a symbol could fix."""
        for parameter in self.kernel.program.parameters:
            value = in_place(self.values[parameter.name], {})
            if isinstance(value, Symbol):
                continue
            if parameter.is_buffer:
                check_array(self.kernel.device, self.kernel.program, parameter, value, None)
            else:
                bits_of(parameter.type, value)

    def bind(self, given: Given, stream: Stream | None = None) -> Arguments:
        device = self.kernel.device
        values = {name: for_replay(device, resolve(value, given), stream) for name, value in self.values.items()}
        plain = self.kernel.plain_arguments(tuple(values.values())) if self.grid is None else None
        if plain is not None:
            return plain
        return device_arguments(self.kernel, (), values, None, self.grid)

    def try_out(self, given: Given) -> Arguments:
        """As `bind`, and refuse what the driver's graph would refuse of the memory of its arrays."""
        arguments = self.bind(given)
        if not has_temporaries(self):
            self.kernel.prepared.try_out(arguments)
        return arguments


class RowsStep(Record, eq=False):
    """Launches of one kernel as one: they have the same grid=, do not depend on each other, and have no symbols but for
    arrays."""

    launches: list[LaunchStep]
    symbols: tuple[Symbol, ...] = field(default=(), init=False)

    @property
    def kernel(self) -> Kernel:
        return self.launches[0].kernel

    @property
    def operands(self) -> tuple[Any, ...]:
        return tuple(value for launch in self.launches for value in launch.operands)

    @property
    def label(self) -> str:
        return f"{len(self.launches)} launches of {self.kernel.program.name}"

    def copied(self, given: Given, place: int) -> RowsStep:
        return RowsStep([launch.copied(given, place) for launch in self.launches])

    def check(self) -> None:
        for launch in self.launches:
            launch.check()

    def bind(self, given: Given, stream: Stream | None = None) -> Launches:
        names = [parameter.name for parameter in self.kernel.program.parameters]
        rows = tuple(tuple(resolve(launch.values[name], given) for name in names) for launch in self.launches)
        return Launches(self.kernel, rows, self.launches[0].grid, None)


class ArrayPlace(FrozenRecord, eq=False):
    """A symbol that stands for an array of rows, and a parameter that it is there."""

    symbol: Symbol
    kernel: Kernel
    parameter: Parameter
    is_written: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.symbol.name, self.parameter.type.itemsize


def array_places(launches: Sequence[LaunchStep]) -> dict[tuple[str, int], ArrayPlace]:
    """Those of launches, each once."""
    found: dict[tuple[str, int], ArrayPlace] = {}
    for launch in launches:
        for p in launch.kernel.program.parameters:
            value = launch.values[p.name]
            if p.is_buffer and isinstance(value, Symbol):
                place = ArrayPlace(value, launch.kernel, p, p.is_writable)
                before = found.setdefault(place.key, place)
                if place.is_written and not before.is_written:
                    found[place.key] = place
    return found


class TablesStep(Record, eq=False):
    """Launches of several kernels as one, and the entry that does them, once it was made. Symbols stand for arrays."""

    tables: list[RowsStep]
    entry: PreparedKernel | None = None
    _places: list[ArrayPlace] | None = field(default=None, init=False)

    @property
    def places(self) -> list[ArrayPlace]:
        """The arrays that the entry has, in order."""
        if self._places is None:
            self._places = list(array_places(self.launches).values())
        return self._places

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(place.symbol for place in self.places)

    @property
    def kernels(self) -> list[Kernel]:
        return [table.kernel for table in self.tables]

    @property
    def launches(self) -> list[LaunchStep]:
        return [launch for table in self.tables for launch in table.launches]

    @property
    def operands(self) -> tuple[Any, ...]:
        return tuple(value for table in self.tables for value in table.operands)

    @property
    def label(self) -> str:
        return f"{len(self.launches)} launches of {', '.join(kernel.program.name for kernel in self.kernels)}"

    def copied(self, given: Given, place: int) -> TablesStep:
        return TablesStep([table.copied(given, place) for table in self.tables], self.entry)

    def check(self) -> None:
        for table in self.tables:
            table.check()

    def bind(self, given: Given, stream: Stream | None = None) -> list[Launches]:
        found = [table.bind(given, stream) for table in self.tables]
        numbers = {place.key: number for number, place in enumerate(self.places, 1)}
        for table, launches in zip(self.tables, found, strict=True):
            if numbers:
                launches.set_places(bytes(_numbers(table, numbers)))
        return found

    def arrays(self, given: Given) -> Arguments:
        """What other values make of a launch of the entry. Raises what is wrong with one."""
        spans: list[Any] = []
        for place in self.places:
            value = given[place.symbol.name]
            check_array(place.kernel.device, place.kernel.program, place.parameter, value, None)
            spans.append(value)
        return Arguments(spans, [], (1, 1, 1))


def _numbers(table: RowsStep, numbers: Mapping[tuple[str, int], int]) -> Iterator[int]:
    """For each array of each row the number of its place, 0 for one of its own."""
    arrays = [p for p in table.kernel.program.parameters if p.is_buffer]
    for launch in table.launches:
        for p in arrays:
            value = launch.values[p.name]
            yield numbers[value.name, p.type.itemsize] if isinstance(value, Symbol) else 0


class LoadedStep(Record, eq=False):
    """A launch of a loaded kernel: arguments by position, then grid, block, shared bytes and cooperative."""

    kernel: ForeignKernel
    values: tuple[Any, ...]
    shape: tuple[Any, Any, int, bool]
    prepared: PreparedKernel | None = None

    @property
    def operands(self) -> tuple[Any, ...]:
        return self.values

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(value for value in self.values if isinstance(value, Symbol))

    @property
    def label(self) -> str:
        return self.kernel.name

    def copied(self, given: Given, _: int) -> LoadedStep:
        return LoadedStep(self.kernel, tuple(resolve(value, given) for value in self.values), self.shape)

    def check(self) -> None:
        if not self.symbols:
            self.bind({})

    def bind(self, given: Given, stream: Stream | None = None) -> Arguments:
        values = tuple(for_replay(self.kernel.device, resolve(value, given), stream) for value in self.values)
        for parameter, value in zip(self.kernel.parameters, values, strict=False):
            if parameter.is_pointer and isinstance(value, (int, np.integer)):
                raise RecordingError(
                    f"{self.kernel.name}: a recorded launch takes arrays, not addresses: "
                    "what an address points to is not known"
                )
        prepared, arguments = self.kernel.prepared_and_arguments(values, *self.shape)
        if self.prepared is not None and prepared is not self.prepared:
            raise TypeError(f"{self.kernel.name}: a pointer that was recorded as an array must stay an array")
        self.prepared = prepared
        return arguments


class CopyStep(Record, eq=False):
    """A copy to or from device memory; host memory is page-locked, and a symbol may stand for what is read."""

    to: Any
    source: Any

    @property
    def operands(self) -> tuple[Any, ...]:
        return self.to, self.source

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return (self.source,) if isinstance(self.source, Symbol) else ()

    def try_out(self, given: Given) -> Transfer:
        """As `LaunchStep.try_out`."""
        transfer, source, to = self.bind(given), resolve(self.source, given), self.to
        if isinstance(source, DeviceArray) and isinstance(to, DeviceArray) and not has_temporaries(self):
            begin, other = to.offset, source.offset
            is_one = to._alive() is source._alive()
            if is_one and begin < other + source.nbytes and other < begin + source.nbytes:
                raise ValueError("the ranges of a recorded copy overlap: copy by way of other memory")
        return transfer

    @property
    def label(self) -> str:
        host_to, host_from = isinstance(self.to, np.ndarray), isinstance(self.source, np.ndarray)
        return "copy to the host" if host_to else "copy from the host" if host_from else "copy"

    def copied(self, given: Given, _: int) -> CopyStep:
        return CopyStep(in_place(self.to, given), resolve(self.source, given))

    def check(self) -> None:
        if not isinstance(self.source, Symbol):
            self.bind({})

    def bind(self, given: Given, stream: Stream | None = None) -> Transfer:
        source, to = resolve(self.source, given), in_place(self.to, given)
        if not isinstance(source, (np.ndarray, DeviceArray)):
            raise TypeError(f"a recorded copy takes an array, not {type_name(source)}")
        if source.dtype != to.dtype:
            raise TypeError(f"a recorded copy of {source.dtype} into an array of {to.dtype}: convert one of them first")
        if source.size > to.size:
            raise ValueError(
                f"a recorded copy of {counted(source.size, 'element')}: the array to copy to has {to.size}"
            )
        for side in (source, to):
            if isinstance(side, np.ndarray):
                _check_host(side)
            elif side.is_freed:
                raise ValueError(FREED)
        return Transfer(to, source, source.nbytes)


class FillStep(Record, eq=False):
    """Sets every element of an array to one value."""

    to: DeviceArray
    value: Any
    label: str = field(default="fill", init=False)

    @property
    def operands(self) -> tuple[Any, ...]:
        return self.to, self.value

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return (self.value,) if isinstance(self.value, Symbol) else ()

    def copied(self, given: Given, _: int) -> FillStep:
        return FillStep(in_place(self.to, given), resolve(self.value, given))

    def check(self) -> None:
        if not isinstance(self.value, Symbol):
            self.bind({})

    def bind(self, given: Given, stream: Stream | None = None) -> Transfer:
        to = in_place(self.to, given)
        bits = bits_of(to.type, resolve(self.value, given))
        size = to.dtype.itemsize
        if size <= 4:
            return Transfer.fill(to, bits, size)
        if bits & 0xFFFFFFFF != bits >> 32:
            raise UnsupportedError(
                f"a recorded fill of {to.dtype} with a value whose 32-bit halves differ; the device fills 32-bit words",
                capability="fill_64_bits",
            )
        words = DeviceArray(to.device, to._alive(), to.offset, 2 * to.count, np.dtype(np.uint32))
        return Transfer.fill(words, bits & 0xFFFFFFFF, 4)


class RepeatStep(Record, eq=False):
    """Repeats the steps up to `end`, the position after the last of them in the list of steps."""

    times: int
    until: DeviceArray | None
    end: int = -1
    symbols: tuple[Symbol, ...] = field(default=(), init=False)

    @property
    def operands(self) -> tuple[Any, ...]:
        return (self.until,)

    def placed(self, given: Given) -> DeviceArray | None:
        """The array that ends it, where the graph has it."""
        found: DeviceArray | None = in_place(self.until, given)
        return found

    def copied(self, given: Given, place: int) -> RepeatStep:
        return RepeatStep(self.times, in_place(self.until, given), place + self.end)

    @property
    def label(self) -> str:
        return "repeat" if self.times == 0 else f"repeat {counted(self.times, 'time')}"


Step: TypeAlias = LaunchStep | RowsStep | TablesStep | LoadedStep | CopyStep | FillStep | CollectiveStep


def has_temporaries(step: Step | RepeatStep) -> bool:
    return any(isinstance(value, Temporary) for value in step.operands)


def try_out(step: Step, given: Given) -> Any:
    """The parameters of a step for these values. Raises whatever is wrong with them."""
    return step.try_out(given) if isinstance(step, (LaunchStep, CopyStep)) else step.bind(given)


def is_host(value: Any) -> bool:
    """Whether it is host memory, which a copy keeps reading."""
    return isinstance(value, np.ndarray)


def _check_host(array: np.ndarray[Any, Any]) -> None:
    require_array("a recorded copy", array)
    if not array.flags.c_contiguous:
        raise ValueError("a recorded copy takes C-contiguous arrays: copy with np.ascontiguousarray first")
    if find_pinned(array) is None:
        raise RecordingError(
            "a recorded copy reads or writes host memory at every replay and needs a page-locked array: "
            "one of Device.pinned_empty() or Device.register()"
        )
