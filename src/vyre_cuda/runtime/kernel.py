"""A compiled program, ready to be called.

The warm path is `Dispatcher.__call__` and `.launch` in the extension. What is here runs when a kernel is made, when
a call is not a plain one (keywords, conversions, several axes, scalars of NumPy's types) and when something is wrong
with its arguments: `ir.call.bind` then says what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.context import Stream
from vyre_cuda._native.module import Module
from vyre_cuda._native.plan import Arguments, Call, Dispatcher, Plan
from vyre_cuda._native.status import AssertReport
from vyre_cuda.errors import KernelAssertionError
from vyre_cuda.ir import call as calls
from vyre_cuda.ir.geometry import host_size, launch_geometry
from vyre_cuda.ir.nodes import Parameter
from vyre_cuda.ir.program import Program
from vyre_cuda.ir.scalars import bits_of
from vyre_cuda.plan.signature import signature
from vyre_cuda.ptx.lowered import Lowered
from vyre_cuda.runtime.array import DeviceArray
from vyre_cuda.runtime.pending import Pending
from vyre_cuda.runtime.properties import KernelAttributes

if TYPE_CHECKING:
    from vyre_cuda.runtime.device import Device


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """One timed call: its outputs and nanoseconds; `device_ns` is between events right around the kernel."""

    outputs: Any
    wall_ns: int
    enqueue_ns: int
    wait_ns: int
    device_ns: int


class Kernel(Dispatcher):
    """A program compiled for a device; made by `Device.compile`.

    `kernel(x, y, 2.0)` takes the parameters in declared order without the outs, by position or name, as host arrays
    and numbers, and returns the outs and inouts (one: an array, several: a tuple). `out=` gives memory for them,
    `grid=` overrides the number of blocks. TypeError for arity, dtype and kind, ValueError for size, shape and
    contiguity.
    """

    device: Device
    program: Program
    ptx: str

    def __init__(self, device: Device, program: Program, lowered: Lowered, tag: int) -> None:
        module = Module(device.context, lowered.ptx.encode("ascii"))
        tables = signature(program, lowered)
        plan = Plan(
            module,
            lowered.entry,
            program.block,
            lowered.dynamic_shared_bytes,
            lowered.parameter_bytes,
            list(tables.parameters),
            list(tables.bindings),
            tables.scalar_count,
            tag,
            lowered.cooperative,
        )
        super().__init__(plan, list(tables.rows), program.block[0], tables.work, tables.simple)
        self.device = device
        self.program = program
        self.ptx = lowered.ptx
        self.plan = plan
        self.sites = lowered.sites

    @property
    def attributes(self) -> KernelAttributes:
        """Registers, memory and occupancy as the driver reports them."""
        return KernelAttributes(**self.plan.function_info())

    def submit(self, *args: Any, out: Any = None, grid: Any = None, **kwargs: Any) -> Pending:
        """Start a call with host arrays and return at once; inputs are copied before this returns."""
        call = calls.bind(self.program, args, kwargs, out=out, grid=grid)
        arguments, results = self._host_arguments(call)
        return Pending(self.plan.submit(arguments), results, self.program.name, self._assertion)

    def timed(self, *args: Any, out: Any = None, grid: Any = None, **kwargs: Any) -> Timed:
        """Call with host arrays and measure: a `Timed`."""
        call = calls.bind(self.program, args, kwargs, out=out, grid=grid)
        arguments, results = self._host_arguments(call)
        try:
            times = self.plan.timed(arguments)
        except AssertReport as report:
            raise self._assertion(report) from None
        return Timed(outputs=results, **times)

    def bind(self, *args: Any, stream: Any = None, grid: Any = None, **kwargs: Any) -> BoundCall:
        """A launch on device arrays with its arguments kept: calling it launches again, without waiting."""
        return BoundCall(self, args, kwargs, stream, grid)

    # ---- the general path -------------------------------------------------------------------------------------------

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        grid = kwargs.pop("grid", None)
        call = calls.bind(self.program, args, kwargs, out=out, grid=grid)
        arguments, results = self._host_arguments(call)
        try:
            self.plan.run(arguments)
        except AssertReport as report:
            raise self._assertion(report) from None
        return results

    def _host_arguments(self, call: calls.Call) -> tuple[Arguments, Any]:
        bindings: list[Any] = []
        results: list[Any] = []
        for parameter in self.program.parameters:
            if not parameter.is_buffer:
                continue
            name = parameter.name
            target = None
            if parameter.is_writable:
                target = call.outs.get(name)
                if target is None:
                    target = np.empty(call.sizes[name], parameter.type.dtype)
                results.append(target)
            bindings.append((call.sizes[name], call.arrays.get(name), target))
        scalars = [call.scalars[p.name] for p in self.program.parameters if not p.is_buffer]
        arguments = Arguments(bindings, scalars, call.geometry.grid)
        return arguments, results[0] if len(results) == 1 else tuple(results)

    def _general_launch(self, args: tuple[Any, ...], kwargs: dict[str, Any], stream: Any) -> None:
        grid = kwargs.pop("grid", None)
        self.plan.launch(self._device_arguments(args, kwargs, stream, grid))

    def _device_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: Any, grid: Any) -> Arguments:
        program = self.program
        given = _all_parameters(program, args, kwargs)
        spans: list[DeviceArray] = []
        sizes: dict[str, int] = {}
        scalars: dict[str, int] = {}
        for parameter in program.parameters:
            value = given[parameter.name]
            if parameter.is_buffer:
                spans.append(self._device_array(parameter, value))
                sizes[parameter.name] = value.size
            else:
                try:
                    scalars[parameter.name] = bits_of(parameter.type, value)
                except (TypeError, OverflowError) as error:
                    raise type(error)(f"{program.name}: scalar {parameter.name}: {error}") from None
        for parameter in program.parameters:
            if parameter.kind == "out" and parameter.size is not None:
                declared = host_size(f"{program.name}: the size of {parameter.name}", parameter.size, sizes, scalars)
                if declared != sizes[parameter.name]:
                    raise ValueError(
                        f"{program.name}: out {parameter.name} has {sizes[parameter.name]} elements, not {declared}"
                    )
        geometry = launch_geometry(program, sizes, scalars, grid)
        return Arguments(spans, list(scalars.values()), geometry.grid, _stream(program, stream))

    def _device_array(self, parameter: Parameter, value: Any) -> DeviceArray:
        where = f"{self.program.name}: argument {parameter.name}"
        if not isinstance(value, DeviceArray):
            raise TypeError(f"{where} is a {type(value).__name__}; a launch needs a DeviceArray")
        if value.dtype != parameter.type.dtype:
            raise TypeError(f"{where} is an array of {value.dtype}; it needs {parameter.type.dtype}")
        if value.device is not self.device:
            raise ValueError(f"{where} is an array of another device")
        if value.is_freed:
            raise ValueError(f"{where} was freed")
        if value.size > self.program.index.maximum:
            raise ValueError(
                f"{where} has {value.size} elements; {self.program.index} indices reach {self.program.index.maximum}"
            )
        return value

    def _assertion(self, report: AssertReport) -> KernelAssertionError:
        number, thread = report.report & 0xFFFFF, report.report >> 20
        site = self.sites[number]
        if site.kind == "assert":
            before = sum(other.kind == "assert" for other in self.sites[:number])
            return calls.assertion_error(self.program, before, thread)
        return calls.failure(
            self.program,
            site.message,
            statement=site.statement,
            source=site.source,
            thread=thread,
            index=_signed(report.index),
        )

    def __repr__(self) -> str:
        return f"<vyre_cuda.Kernel {self.program.name} on {self.device.properties.name}>"


class BoundCall(Call):
    """A kernel with device arrays and scalars bound; made by `Kernel.bind`.

    `call()` launches and does not wait; `call(x, y, out, 3.0)`, all parameters in declared order, binds those first;
    `call.set(a=3.0)` binds by name. What is bound stays bound, and alive. Rebinding and calling from several threads
    at a time is safe, but which arguments a launch gets is then open.
    """

    def __init__(
        self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: Any, grid: Any
    ) -> None:
        self._kernel = kernel
        self._stream = _stream(kernel.program, stream)
        self._grid = grid
        values = _all_parameters(kernel.program, args, kwargs)
        super().__init__(kernel, self._arguments(values), tuple(values.values()), self._stream, grid is None)

    def set(self, **kwargs: Any) -> None:
        """Bind other arrays or scalars by name, for all later launches."""
        values = dict(zip((p.name for p in self._kernel.program.parameters), self.values, strict=True))
        unknown = kwargs.keys() - values.keys()
        if unknown:
            raise TypeError(f"{self._kernel.program.name} has no parameter {', '.join(sorted(unknown))}")
        self._rebind(tuple({**values, **kwargs}.values()))

    def _rebind(self, args: tuple[Any, ...]) -> None:
        values = _all_parameters(self._kernel.program, args, {})
        self.set_arguments(self._arguments(values), tuple(values.values()))

    def _arguments(self, values: Mapping[str, Any]) -> Arguments:
        return self._kernel._device_arguments((), values, self._stream, self._grid)


def _all_parameters(program: Program, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in program.parameters]
    takes = f"{program.name} takes {len(names)} parameters here ({', '.join(names)})"
    if len(args) > len(names):
        raise TypeError(f"{takes}, {len(args)} given")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in names:
            raise TypeError(f"{takes}; {name} is {'given twice' if name in given else 'none of them'}")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"{takes}; missing: {', '.join(missing)}")
    return {name: given[name] for name in names}


def _signed(index: int) -> int:
    """Indices are reported sign-extended to 64 bits."""
    return index - (1 << 64) if index >> 63 else index


def _stream(program: Program, stream: Any) -> Stream | None:
    if stream is None or isinstance(stream, Stream):
        return stream
    raise TypeError(f"{program.name}: stream= is a {type(stream).__name__}; it needs a Stream of this device")
