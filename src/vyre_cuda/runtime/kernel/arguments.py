"""The general path: the arguments of any call or launch, checked and converted for the C layer.

The warm path declines what it does not recognize at a glance; every mistake in arguments is reported here or by
`ir.call.call.bind`, which the interpreter shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.call.prepared import Arguments
from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.memory.adopted import named_stream
from vyre_cuda._native.memory.memory import find_pinned
from vyre_cuda.errors import FREED, counted, type_name
from vyre_cuda.ir.call import call as calls
from vyre_cuda.ir.call.geometry import launch_geometry, wider_index
from vyre_cuda.ir.call.sizes import Extents, value_words
from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.later import later
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.memory.interop import adopt, is_foreign

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel
    from vyre_cuda.runtime.memory import peers
else:
    peers = later("vyre_cuda.runtime.memory.peers")

# The most iterations that a run's C struct can hold.
MOST_ITERATIONS = 2**32 - 1


# ---- calls -----------------------------------------------------------------------------------------------------------


def host_arguments(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    out: Any,
    grid: Any,
    iterations: Any,
) -> tuple[Arguments, Any]:
    """The C structs of a call, and what it returns after running."""
    device, program = kernel.device, kernel.program

    def accept(what: str, parameter: Parameter, value: Any) -> DeviceArray | None:
        if is_foreign(value):
            value = _adopted(device, program, what, value, None)
        return _checked(device, program, what, parameter, value) if isinstance(value, DeviceArray) else None

    count = check_iterations(program, iterations)
    call = calls.bind(program, args, kwargs, out=out, grid=grid, accept=accept)
    bindings: list[Any] = []
    results: list[Any] = []
    for parameter in program.parameters:
        if parameter.is_buffer:
            binding, result = _binding(device, call, parameter)
            bindings.append(binding)
            results += [result] if parameter.is_writable else []
    blocks = kernel._ready_for(call.geometry.grid, grid)
    arguments = Arguments(_apart(bindings), call.words(), blocks, iterations=count, of_work=grid is None)
    return arguments, results[0] if len(results) == 1 else tuple(results)


def check_iterations(program: Program, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{program.name}: iterations={value!r}; an int is needed")
    if not 1 <= value <= MOST_ITERATIONS:
        raise ValueError(f"{program.name}: iterations={value}; it must be 1 to {MOST_ITERATIONS}")
    return int(value)


def _binding(device: Device, call: calls.Call, parameter: Parameter) -> tuple[Any, Any]:
    """How one buffer is passed (`Arguments` describes the form), and what the call returns for it."""
    value, target, size = call.arrays.get(parameter.name), call.outs.get(parameter.name), call.sizes[parameter.name]
    if parameter.kind == "in":
        return (value if isinstance(value, DeviceArray) else (size, value, None)), None
    if parameter.kind == "out":
        if isinstance(target, DeviceArray):
            return target, target
        target = device._result(call.shape(parameter), parameter.type.dtype) if target is None else target
        return (size, None, target), target
    return _inout(device, parameter, value, target, call.shape(parameter))


def _inout(device: Device, parameter: Parameter, value: Any, target: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The kernel works on the result, which starts as a copy of the argument unless they are the same array."""
    if target is None and isinstance(value, DeviceArray):
        target = device.empty(shape, parameter.type)
    if isinstance(target, DeviceArray):
        if target is not value:
            target.copy_from(value)
        return target, target
    target = device._result(shape, parameter.type.dtype) if target is None else target
    return (target.size, value.numpy() if isinstance(value, DeviceArray) else value, target), target


def _apart(bindings: list[Any]) -> list[Any]:
    """Inputs that share memory with a page-locked result, which the kernel writes in place, copied first."""
    written = [b[2] for b in bindings if isinstance(b, tuple) and b[2] is not None and find_pinned(b[2]) is not None]
    if not written:
        return bindings
    return [
        (binding[0], binding[1].copy(), binding[2])
        if isinstance(binding, tuple)
        and binding[1] is not None
        and any(np.may_share_memory(binding[1], result) for result in written)
        else binding
        for binding in bindings
    ]


# ---- launches --------------------------------------------------------------------------------------------------------


def device_arguments(
    kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: Any, grid: Any
) -> Arguments:
    """The C structs of a launch, which takes all parameters in declared order or by name."""
    device, program = kernel.device, kernel.program
    given = all_parameters(program, args, kwargs)
    on = named_stream(device.context, stream)
    spans: list[DeviceArray] = []
    extents = Extents(program)
    scalars: dict[str, int] = {}
    for parameter in program.parameters:
        value = given[parameter.name]
        if parameter.is_buffer:
            spans.append(check_array(device, program, parameter, value, on))
            kind = "out" if parameter.kind == "out" else "argument"
            extents.take(f"{kind} {parameter.name}", parameter, spans[-1])
        else:
            try:
                scalars[parameter.name] = bits_of(parameter.type, value)
            except (TypeError, OverflowError) as error:
                order = _order(program) if isinstance(value, (DeviceArray, np.ndarray)) else ""
                raise type(error)(f"{program.name}: scalar {parameter.name}: {error}{order}") from None
    extents.size_outs(scalars)
    extents.check(scalars)
    blocks = kernel._ready_for(launch_geometry(program, extents.known, scalars, grid).grid, grid)
    return Arguments(spans, value_words(program, scalars, extents.shapes()), blocks, on, of_work=grid is None)


def check_array(
    device: Device, program: Program, parameter: Parameter, value: Any, stream: Stream | None
) -> DeviceArray:
    what = f"argument {parameter.name}"
    if is_foreign(value):
        value = _adopted(device, program, what, value, stream)
    if isinstance(value, (int, float, np.generic)):
        raise TypeError(f"{program.name}: {what} is {type_name(value)}; an array is needed{_order(program)}")
    if not isinstance(value, DeviceArray):
        raise TypeError(
            f"{program.name}: {what} is {type_name(value)}; a launch needs an array in device memory (write "
            f"device.array({parameter.name}), or call the kernel)"
        )
    array = _checked(device, program, what, parameter, value)
    if array.size > program.index.maximum:
        raise ValueError(
            f"{program.name}: {what} has {array.size} elements; {program.index} indices reach {program.index.maximum} "
            f"({wider_index(program)})"
        )
    return array


def _order(program: Program) -> str:
    """For an array in the place of a number, or the reverse: what stands where."""
    return f"; a launch takes ({', '.join(parameter.name for parameter in program.parameters)}) in this order"


def _adopted(device: Device, program: Program, what: str, value: Any, stream: Stream | None) -> DeviceArray:
    try:
        return adopt(device, value, stream)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{program.name}: {what}: {error}") from error


def _checked(device: Device, program: Program, what: str, parameter: Parameter, value: DeviceArray) -> DeviceArray:
    where = f"{program.name}: {what}"
    if value.dtype != parameter.type.dtype:
        raise TypeError(f"{where} is an array of {value.dtype}; it needs {parameter.type.dtype}")
    if value.is_freed:
        raise ValueError(f"{where}: {FREED}")
    value._alive()  # a temporary array of a graph has no memory that anything else could use
    return value if value.device is device else peers.here(device, value, where)


def all_parameters(program: Program, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in program.parameters]
    takes = f"{program.name} takes {counted(len(names), 'parameter')} here ({', '.join(names)})"
    if len(args) > len(names):
        raise TypeError(f"{takes}, {len(args)} given{calls.consts_hint(program)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given or name not in names:
            wrong = "given twice" if name in given else "not one of them"
            raise TypeError(f"{takes}; {name} is {wrong}{calls.consts_hint(program, name)}")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"{takes}; missing: {', '.join(missing)}")
    return {name: given[name] for name in names}
