"""The steps of a recorded graph: what each one holds, and what it becomes for given symbols.

A step keeps views of its arrays, so freeing the arrays that it was recorded with does not affect it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_cuda._native.call.prepared import Arguments, PreparedKernel
from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.graph.graph import Transfer
from vyre_cuda._native.memory.memory import find_pinned
from vyre_cuda.errors import RecordingError, UnsupportedError
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.records import dataclass, field
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.kernel.arguments import check_array, device_arguments
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.memory.interop import adopt, is_foreign
from vyre_cuda.runtime.memory.transfers import require_array

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel

Given: TypeAlias = Mapping[str, Any]


def kept(value: Any) -> Any:
    """The value as a graph keeps it: for an array, a view of its own."""
    return value[:] if isinstance(value, DeviceArray) else value


def resolve(value: Any, given: Given) -> Any:
    """The value, or the value given for the symbol."""
    return given[value.name] if isinstance(value, Symbol) else value


def told(device: Device, value: Any, stream: Stream | None) -> Any:
    """Another library's array, whose owner is told the stream of the replay like that of a launch."""
    return adopt(device, value, stream) if stream is not None and is_foreign(value) else value


@dataclass(slots=True, eq=False)
class LaunchStep:
    """A launch: `values` holds every parameter by name."""

    kernel: Kernel
    values: dict[str, Any]
    grid: Any
    number: int = -1

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
            value = self.values[parameter.name]
            if isinstance(value, Symbol):
                continue
            if parameter.is_buffer:
                check_array(self.kernel.device, self.kernel.program, parameter, value, None)
            else:
                bits_of(parameter.type, value)

    def bind(self, given: Given, stream: Stream | None = None) -> Arguments:
        device = self.kernel.device
        values = {name: told(device, resolve(value, given), stream) for name, value in self.values.items()}
        plain = self.kernel.plain_arguments(tuple(values.values())) if self.grid is None else None
        if plain is not None:
            return plain
        return device_arguments(device, self.kernel.program, (), values, None, self.grid)


@dataclass(slots=True, eq=False)
class LoadedStep:
    """A launch of a loaded kernel: arguments by position, then grid, block, shared bytes and cooperative."""

    kernel: ForeignKernel
    values: tuple[Any, ...]
    shape: tuple[Any, Any, int, bool]
    number: int = -1
    prepared: PreparedKernel | None = None

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
        values = tuple(told(self.kernel.device, resolve(value, given), stream) for value in self.values)
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


@dataclass(slots=True, eq=False)
class CopyStep:
    """A copy to or from device memory; host memory is page-locked, and a symbol may stand for what is read."""

    to: Any
    source: Any
    number: int = -1

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return (self.source,) if isinstance(self.source, Symbol) else ()

    @property
    def label(self) -> str:
        host_to, host_from = isinstance(self.to, np.ndarray), isinstance(self.source, np.ndarray)
        return "copy to the host" if host_to else "copy from the host" if host_from else "copy"

    def copied(self, given: Given, _: int) -> CopyStep:
        return CopyStep(self.to, resolve(self.source, given))

    def check(self) -> None:
        if not isinstance(self.source, Symbol):
            self.bind({})

    def bind(self, given: Given, stream: Stream | None = None) -> Transfer:
        source = resolve(self.source, given)
        if not isinstance(source, (np.ndarray, DeviceArray)):
            raise TypeError(f"a recorded copy takes an array, not a {type(source).__name__}")
        if source.dtype != self.to.dtype:
            raise TypeError(f"a recorded copy of {source.dtype} into an array of {self.to.dtype}")
        if source.size > self.to.size:
            raise ValueError(f"{source.size} elements do not fit into an array of {self.to.size}")
        for side in (source, self.to):
            if isinstance(side, np.ndarray):
                _check_host(side)
            elif side.is_freed:
                raise ValueError("the array was freed")
        return Transfer(self.to, source, source.nbytes)


@dataclass(slots=True, eq=False)
class FillStep:
    """Sets every element of an array to one value."""

    to: DeviceArray
    value: Any
    number: int = -1
    label: str = field(default="fill", init=False)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return (self.value,) if isinstance(self.value, Symbol) else ()

    def copied(self, given: Given, _: int) -> FillStep:
        return FillStep(self.to, resolve(self.value, given))

    def check(self) -> None:
        if not isinstance(self.value, Symbol):
            self.bind({})

    def bind(self, given: Given, stream: Stream | None = None) -> Transfer:
        bits = bits_of(self.to.type, resolve(self.value, given))
        size = self.to.dtype.itemsize
        if size <= 4:
            return Transfer.fill(self.to, bits, size)
        if bits & 0xFFFFFFFF != bits >> 32:
            raise UnsupportedError(
                f"a recorded fill of {self.to.dtype} with a value whose 32-bit halves "
                "differ; the device fills 32-bit words",
                capability="fill_64_bits",
            )
        words = DeviceArray(self.to.device, self.to._alive(), self.to.offset, 2 * self.to.count, np.dtype(np.uint32))
        return Transfer.fill(words, bits & 0xFFFFFFFF, 4)


@dataclass(slots=True, eq=False)
class RepeatStep:
    """Repeats the steps up to `end`, the position after the last of them in the list of steps."""

    times: int
    until: DeviceArray | None
    end: int = -1
    number: int = -1
    symbols: tuple[Symbol, ...] = field(default=(), init=False)

    def copied(self, _: Given, place: int) -> RepeatStep:
        return RepeatStep(self.times, self.until, place + self.end)

    @property
    def label(self) -> str:
        return "repeat" if self.times == 0 else f"repeat {self.times} times"


Step: TypeAlias = LaunchStep | LoadedStep | CopyStep | FillStep


def _check_host(array: np.ndarray[Any, Any]) -> None:
    require_array("a recorded copy", array)
    if not array.flags.c_contiguous:
        raise ValueError("a recorded copy takes C-contiguous arrays")
    if find_pinned(array) is None:
        raise RecordingError(
            "a recorded copy reads or writes host memory at every replay and needs a page-locked array: "
            "one of Device.pinned_empty() or Device.register()"
        )
