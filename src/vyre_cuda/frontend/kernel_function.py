"""`@vc.kernel`: a Python function that is a kernel.

The program is built when it is first needed, for the types and constants of that call; it is built again where these,
or what the function takes from around it, have other values.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from vyre_cuda.frontend import specialization
from vyre_cuda.frontend.building.program import Definition, build
from vyre_cuda.frontend.captures import Capture, captures_of, constant_key, functions_in, state_of
from vyre_cuda.frontend.dispatching import ABSENT, FREE, FunctionDispatcher, Variant, call_by_vector
from vyre_cuda.frontend.parameters import NO_DEFAULT, KernelParameter, parameters_of
from vyre_cuda.frontend.rewriting.function import rewrite
from vyre_cuda.frontend.source import source_of
from vyre_cuda.frontend.specialization import Open
from vyre_cuda.ir.core.program import Program, ProgramSource
from vyre_cuda.ir.core.types import Type, i32
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.frontend.python import run
    from vyre_cuda.runtime.device import default_device as default
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.memory import array as arrays
else:
    run = later("vyre_cuda.frontend.python.run")
    default = later("vyre_cuda.runtime.device.default_device")
    arrays = later("vyre_cuda.runtime.memory.array")

DEFAULT_INDEX = i32
Block = int | tuple[int, ...] | Literal["auto"]
# Programs that a function keeps; the oldest make room.
MOST_PROGRAMS = 256
_OPTIONS = ("out", "grid", "iterations", "timeout")
_PYTHON_OPTIONS = ("out", "grid")


@call_by_vector
class KernelFunction(FunctionDispatcher, ProgramSource):
    """A kernel made by `@vc.kernel`: calling it with arrays and numbers runs it and returns its outputs.

    NumPy arrays run on `vc.default_device()`, device arrays on their own device. Arguments, results, `out=`, `grid=`,
    `iterations=` and `timeout=` are those of a `vc.Kernel`, beside the consts, which are given by keyword or position.
    """

    def __init__(
        self,
        function: FunctionType,
        block: Block,
        index: Type,
        local_names: Mapping[str, Any],
        *,
        zeroed: bool,
        min_blocks: int,
    ) -> None:
        self._source = source_of(function, "vc.kernel")
        self._function = function
        self._name = function.__name__
        self._parameters = parameters_of(function, self._source, local_names, zeroed=zeroed)
        self._block = block
        self._index = index
        self._min_blocks = min_blocks
        self._definition: Definition | None = None
        self._programs: dict[Any, Program] = {}
        self._building = threading.RLock()
        update_wrapper(self, function)

    # ---- programs

    def program(self, **given: Any) -> Program:
        """The program of the function.

        Parameters
        ----------
        **given
            Values of open parameters, TypeVars and consts, by name: `f.program(T=vc.f16, D=4)`.

        Returns
        -------
        Program
            The `vc.Program`, which is kept for these values.

        Raises
        ------
        TypeError
            An open parameter is missing or unknown.
        ProgramError
            The function is wrong, with file, line and column.
        """
        return self._program(specialization.given_by_name(self._name, self._parameters, given))

    @property
    def is_open(self) -> bool:
        """Whether it has parameters that `program` must be given."""
        return any(each.kind == "const" and each.default is NO_DEFAULT for each in self._parameters) or bool(
            specialization.type_variables(self._parameters)
        )

    def on(self, device: Device, *, specialize: Mapping[str, Any] | None = None, **given: Any) -> Any:
        """The `vc.Kernel` of a device; with open parameters left, a callable that specializes at each call.

        Parameters
        ----------
        device
            The device to compile for.
        specialize
            Values of arguments that every call will have, as for `Device.compile`.
        **given
            Values of open parameters, TypeVars and consts, by name.

        Returns
        -------
        Kernel or callable
            A `vc.Kernel`, or a callable that takes the arguments of a call.

        Raises
        ------
        TypeError
            An open parameter is unknown; not a device.
        ProgramError
            The function is wrong, with file, line and column.
        """
        if not hasattr(device, "compile"):
            raise TypeError(f"{self._name}.on takes a device, not {device!r}: open it, vc.Device({device!r})")
        named = {*specialization.type_variables(self._parameters)}
        named |= {each.name for each in self._parameters if each.kind == "const"}
        needed = {each.name for each in self._parameters if each.kind == "const" and each.default is not NO_DEFAULT}
        if named - needed <= given.keys():
            return device.compile(self.program(**given), specialize=specialize)
        for each in given:
            if each not in named:
                raise TypeError(f"{self._name} has no open parameter {each}; it has {', '.join(sorted(named))}")
        return OnDevice(self, device, given, specialize)

    def _program(self, given: Open) -> Program:
        with self._building:
            definition = self._defined()
            captured = tuple(state_of(capture.value()) for capture in self._captures(given))
            constants = tuple(constant_key(name, value) for name, value in given.constants.items())
            key = (tuple(given.types.values()), constants, captured)
            found = self._programs.get(key)
            if found is None:
                found = build(definition, given.types, given.constants)
                found._consts.extend(given.constants)
                if len(self._programs) >= MOST_PROGRAMS:
                    del self._programs[next(iter(self._programs))]
                self._programs[key] = found
            return found

    def _captures(self, given: Open) -> tuple[Capture, ...]:
        consts = [function for value in given.constants.values() for function in functions_in(value)]
        return captures_of(self._function, consts)

    def _defined(self) -> Definition:
        if self._definition is None:
            rewritten = rewrite(self._source, self._function.__name__, returns_values=False)
            self._definition = Definition(
                self._function,
                self._source,
                rewritten,
                self._parameters,
                self._block,
                self._index,
                self._min_blocks,
            )
        return self._definition

    # ---- calls

    def python(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function as Python, thread by thread, on NumPy arrays, and return what a call returns.

        The function runs under its own file and lines, so print and a debugger work in it. Its values are typed numbers
        with the bits of `vc.evaluate`.

        Parameters
        ----------
        *args
            The arguments of `vc.evaluate`, and the consts.
        **kwargs
            The same by name, with `out=` and `grid=`.

        Returns
        -------
        array or tuple of arrays
            The contents of inout and output arrays: one array, or a tuple of several.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit.
        KernelAssertionError
            An assertion failed.
        """
        arguments, options = self._arguments(args, kwargs)
        for each in options:
            if each not in _PYTHON_OPTIONS:
                raise TypeError(f"{self._name}.python takes no {each}=")
        given = specialization.open_of(self._name, self._parameters, arguments, {})
        program = run.untraced(lambda: self._program(given))
        return run.run(self._defined(), program, given, arguments, options)

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a kind that is not remembered."""
        arguments, options = self._arguments(args, kwargs)
        device = self._device_of(arguments)
        is_default = device is None
        chosen = default.default_device() if device is None else device
        return self._run(self, chosen, arguments, options, {}, is_default=is_default)

    def _has_new_default(self, variant: Variant) -> bool:
        return variant.is_default and default.default_device() is not variant.device

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return specialization.bound(self._name, self._parameters, _OPTIONS, args, kwargs)

    def _run(
        self,
        caller: FunctionDispatcher,
        device: Device,
        arguments: Mapping[str, Any],
        options: Mapping[str, Any],
        fixed: Mapping[str, Any],
        *,
        is_default: bool,
        specialize: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the kernel for these arguments; `caller` remembers it, `fixed` are its open parameters."""
        given = specialization.open_of(self._name, self._parameters, arguments, fixed)
        captured = tuple(each.row(ABSENT) for each in self._captures(given))
        kernel = device.compile(self._program(given), specialize=specialize)
        rows = tuple(self._row(each, given, fixed) for each in self._parameters if each.is_argument)
        caller._remember(Variant(kernel, device, is_default, rows, captured))
        taken = [arguments[each.name] for each in self._parameters if each.kind not in ("const", "out")]
        return kernel(*taken, **options)

    def _row(
        self, parameter: KernelParameter, given: Open, fixed: Mapping[str, Any]
    ) -> tuple[str, object, object, int]:
        """What `Variant` takes of a parameter."""
        name = sys.intern(parameter.name)
        if parameter.kind == "const":
            default = fixed.get(parameter.name, parameter.default)
            default = FREE if default is NO_DEFAULT else default
            return name, given.constants[parameter.name], default, -1
        if parameter.kind == "scalar" or not isinstance(parameter.type, TypeVar):
            return name, FREE, FREE, -1
        return name, FREE, FREE, given.types[parameter.type.__name__].dtype.num

    def _device_of(self, arguments: Mapping[str, Any]) -> Device | None:
        """The device of the device arrays. ValueError if there are several."""
        found: dict[int, Device] = {}
        for value in arguments.values():
            if isinstance(value, arrays.DeviceArray):
                found[id(value.device)] = value.device
        if len(found) > 1:
            raise ValueError(f"{self._name}: the arrays are on {len(found)} devices; a call runs on one")
        return next(iter(found.values()), None)

    def __getitem__(self, grid: Any) -> Any:
        raise TypeError(
            f"{self._name}[...]: a call needs no grid, {self._name}(...); with one, {self._name}(..., grid=blocks)"
        )

    def __reduce__(self) -> str:
        return self._function.__qualname__

    def __repr__(self) -> str:
        return f"<vyre_cuda.kernel {self._name}({', '.join(each.name for each in self._parameters)})>"


@call_by_vector
class OnDevice(FunctionDispatcher):
    """A kernel function on one device, whose open parameters are taken from each call."""

    def __init__(
        self,
        function: KernelFunction,
        device: Device,
        given: Mapping[str, Any],
        specialize: Mapping[str, Any] | None,
    ) -> None:
        self._function = function
        self._device = device
        self._given = dict(given)
        self._specialize = None if specialize is None else dict(specialize)

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a kind that is not remembered."""
        function = self._function
        consts = {each.name for each in function._parameters if each.kind == "const"}
        fixed = {name: value for name, value in self._given.items() if name in consts and name not in kwargs}
        positions = [each.name for each in function._parameters if each.is_argument][: len(args)]
        fixed = {name: value for name, value in fixed.items() if name not in positions}
        arguments, options = function._arguments(args, {**fixed, **kwargs})
        return function._run(
            self, self._device, arguments, options, self._given, is_default=True, specialize=self._specialize
        )

    def __repr__(self) -> str:
        return f"<{self._function!r} on {self._device.properties.name}>"


@overload
def kernel(function: Callable[..., None], /) -> KernelFunction: ...
@overload
def kernel(
    *, block: Block = 256, index: Type = DEFAULT_INDEX, zeroed: bool = True, min_blocks: int = 0
) -> Callable[[Callable[..., None]], KernelFunction]: ...
def kernel(
    function: Callable[..., None] | None = None,
    /,
    *,
    block: Block = 256,
    index: Type = DEFAULT_INDEX,
    zeroed: bool = True,
    min_blocks: int = 0,
) -> KernelFunction | Callable[[Callable[..., None]], KernelFunction]:
    """A Python function as a kernel: `@vc.kernel`, or `@vc.kernel(block=128)`, above its `def`.

    Parameters
    ----------
    function
        Its parameters are annotated with `vc.In[type]`, `vc.InOut[type]`, `vc.Out[type]`, a type, or `vc.const`:
        docs/kernels.md.
    block
        Threads per block: a number, up to three numbers along x, y and z, or "auto" for the choice of the device.
    index
        The type of ids, sizes and counters: `vc.i32`, `vc.i64`, `vc.u32` or `vc.u64`.
    zeroed
        False: arrays of `vc.Out` parameters are not cleared, and their contents are unspecified where the kernel does
        not write. `vc.output` has an option of its own.
    min_blocks
        How many blocks a multiprocessor should hold at the same time, which limits the registers of a thread; 0 leaves
        that to the compiler.

    Returns
    -------
    KernelFunction
        The kernel; without a function, what decorates one.

    Raises
    ------
    ProgramError
        No source, or a parameter that a kernel cannot have.
    TypeError
        Not a function.
    """
    local_names = sys._getframe(1).f_locals

    def decorated(given: Callable[..., None]) -> KernelFunction:
        return KernelFunction(
            given,  # type: ignore[arg-type]
            block,
            index,
            local_names,
            zeroed=zeroed,
            min_blocks=min_blocks,
        )

    return decorated if function is None else decorated(function)
