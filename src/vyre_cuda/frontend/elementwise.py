"""The kernels of a vectorized function: one for each kind of its operands, made when a call needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda.frontend.captures import captures_of, state_of
from vyre_cuda.frontend.current import Running
from vyre_cuda.frontend.dispatching import ABSENT, FREE, FunctionDispatcher, Variant, call_by_vector
from vyre_cuda.frontend.function import Function
from vyre_cuda.frontend.parameters import KernelParameter
from vyre_cuda.frontend.rewriting.syntax import refused
from vyre_cuda.ir.builder.builder import Builder
from vyre_cuda.ir.builder.functions import fmod, trunc_divide
from vyre_cuda.ir.builder.handles import Buffer
from vyre_cuda.ir.builder.ids import global_id
from vyre_cuda.ir.builder.values import Value
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.runtime.device import default_device as default
    from vyre_cuda.runtime.memory import array as arrays
else:
    default = later("vyre_cuda.runtime.device.default_device")
    arrays = later("vyre_cuda.runtime.memory.array")


class Form(FrozenRecord):
    """A kind of call: which parameters are arrays, the number of axes, the index type.

    `axes` None: all arrays have the shape of the result, and the kernel takes the parameters alone. Otherwise the
    extent of each axis follows, and then, for each array, its stride along each axis.
    """

    arrays: tuple[bool, ...]
    axes: int | None
    index: Type


class Definition(FrozenRecord, eq=False):
    """A vectorized function: what computes one element, and the types."""

    function: Any  # a FunctionType, which mypy would take for a method
    element: Function
    parameters: tuple[KernelParameter, ...]
    types: tuple[Type, ...]
    result: Type
    block: Any


def build(definition: Definition, form: Form) -> Program:
    """The program of a form. ProgramError at the user's line for what is wrong with the function."""
    builder = Builder(definition.function.__name__, block=definition.block, index=form.index)
    operands = [
        builder.input(row.name, type_) if is_array else builder.scalar(row.name, type_)
        for row, type_, is_array in zip(definition.parameters, definition.types, form.arrays, strict=True)
    ]
    free = _free_names({row.name for row in definition.parameters})
    found = [each for each in operands if isinstance(each, Buffer)]
    extents = [builder.scalar(next(free), form.index) for _ in range(form.axes or 0)]
    strides = [[builder.scalar(next(free), form.index) for _ in extents] for _ in found]
    out = builder.output(next(free), definition.result, size=found[0].size if form.axes is None else _product(extents))
    i = builder.let("i", global_id.x)
    with builder.if_(i < out.size):
        places: Iterator[Any] = iter([i] * len(found)) if form.axes is None else _places(i, extents, strides)
        given = [each[next(places)] if isinstance(each, Buffer) else each for each in operands]
        with Running(builder):
            value = definition.element(*given)
        _check_result(definition, value)
        out[i] = value
    return builder.build()


def _free_names(taken: set[str]) -> Iterator[str]:
    """Names for what the kernel takes beside the function's parameters."""
    number = 0
    while True:
        if f"_{number}" not in taken:
            yield f"_{number}"
        number += 1


def _product(extents: Sequence[Value]) -> Any:
    size: Any = 1
    for extent in extents:
        size = extent * size
    return size


def _places(i: Value, extents: Sequence[Value], strides: Sequence[Sequence[Value]]) -> Iterator[Any]:
    """Where each array has the element for element `i` of the result."""
    coordinates: list[Value] = []
    rest = i
    for extent in reversed(extents[1:]):
        coordinates.append(fmod(rest, extent))
        rest = trunc_divide(rest, extent)
    coordinates.append(rest)
    for row in strides:
        place: Any = 0
        for coordinate, stride in zip(reversed(coordinates), row, strict=True):
            place = coordinate * stride + place
        yield place


def _check_result(definition: Definition, value: Any) -> None:
    found = value.type if isinstance(value, Value) else None
    if found is definition.result or isinstance(value, (bool, int, float)):
        return
    tree = definition.element._source.tree(definition.function.__name__)
    what = f"{found}" if found is not None else f"the Python value {value!r}"
    message = f"{tree.name} returns {what}, and its annotation says {definition.result}"
    remedy = f" (write vc.{definition.result}(...))" if found is not None else ""
    raise refused(definition.element._source.filename, tree.returns or tree, message + remedy)


class Kernels:
    """The kernels of one vectorized function, by form."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._building = threading.RLock()
        self._programs: dict[Any, Program] = {}
        self._forms: dict[Form, ElementKernel] = {}

    def of(self, form: Form) -> ElementKernel:
        """What runs calls of this form."""
        found = self._forms.get(form)
        return self._forms.setdefault(form, ElementKernel(self, form)) if found is None else found

    def program(self, form: Form) -> Program:
        """The program for the present values of what the function takes from around it."""
        with self._building:
            key = form, tuple(state_of(each.value()) for each in captures_of(self.definition.function))
            if key not in self._programs:
                self._programs[key] = build(self.definition, form)
            return self._programs[key]


@call_by_vector
class ElementKernel(FunctionDispatcher):
    """Calls of one form, on any device; the kernel of an earlier call is found without a Python frame."""

    def __init__(self, kernels: Kernels, form: Form) -> None:
        self._kernels = kernels
        self._form = form

    def _first_call(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        resident = next((each.device for each in args if isinstance(each, arrays.DeviceArray)), None)
        device = default.default_device() if resident is None else resident
        captures = captures_of(self._kernels.definition.function)
        captured = tuple(each.row(ABSENT) for each in captures)
        kernel = device.compile(self._kernels.program(self._form))
        rows = tuple((row.name, FREE, FREE, -1) for row in kernel.program.parameters[:-1])
        self._remember(Variant(kernel, device, resident is None, rows, captured))
        return kernel(*args, **options)
