"""`@vc.vectorize`: a function of numbers that works on arrays, element by element, with NumPy's broadcasting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy import ndarray

from vyre_cuda.frontend.broadcasting import Layout, layout
from vyre_cuda.frontend.current import is_running
from vyre_cuda.frontend.elementwise import Definition, ElementKernel, Form, Kernels
from vyre_cuda.frontend.function import Function
from vyre_cuda.frontend.parameters import KernelParameter, evaluated, parameters_of, wrong
from vyre_cuda.frontend.specialization import bound
from vyre_cuda.ir.call import hosts
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, i32, i64
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.runtime.memory import array as arrays
else:
    arrays = later("vyre_cuda.runtime.memory.array")

Block = int | Literal["auto"]
# The elements that kernels with i32 indices count; others take i64.
_MOST = i32.maximum


class Vectorized:
    """A function made by `@vc.vectorize`: calling it with arrays and numbers gives an array of the broadcast shape.

    NumPy arrays run on `vc.default_device()` and give a NumPy array, or a NumPy scalar where no operand has an axis.
    With a device array the call runs on its device and gives a device array. `out=` takes the result. In a kernel it is
    a function of values.
    """

    def __init__(self, function: FunctionType, block: Block, local_names: Mapping[str, Any]) -> None:
        element = Function(function, "vc.vectorize")
        self._name = function.__name__
        self._parameters = parameters_of(function, element._source, local_names, choice="a type such as vc.f32")
        types = []
        for row in self._parameters:
            if row.kind != "scalar" or not isinstance(row.type, Type):
                message = f"{row.name} of a vectorized function is a number: annotate it with a type such as vc.f32"
                raise wrong(element._source, function, row.name, message)
            types.append(row.type)
        result = _result_type(function, element, local_names)
        if not self._parameters:
            raise wrong(element._source, function, "", f"{self._name} takes no numbers: there is nothing to vectorize")
        self._element = element
        self._kernels = Kernels(Definition(function, element, self._parameters, tuple(types), result, block))
        self._result = result
        self._count = len(self._parameters)
        self._plain: dict[int, ElementKernel] = {}  # by the parameters that are arrays, one bit each
        update_wrapper(self, function)

    def program(self) -> Program:
        """The program for arrays of one shape.

        Returns
        -------
        Program
            The `vc.Program`.

        Raises
        ------
        ProgramError
            The function is wrong, with file, line and column.
        """
        return self._kernels.program(self._form(i32))

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """The results; TypeError for a wrong dtype or kind, ValueError for shapes that do not broadcast."""
        if out is None and not named and len(args) == self._count:
            first: Any = None
            is_array, bit = 0, 1
            for each in args:
                kind = type(each)
                if kind is ndarray:
                    if first is None:
                        first, shape = each, each.shape
                    elif each.shape != shape:
                        break
                    is_array |= bit
                elif kind is not float and kind is not int:
                    break
                bit <<= 1
            else:
                kernel = self._plain.get(is_array)
                if kernel is not None and shape and first.size <= _MOST:
                    return kernel(*args) if len(shape) == 1 else kernel(*args).reshape(shape)
        if is_running():
            return self._element(*args, **named)
        return self._general(args, named, out)

    # ---- calls of any kind

    def _general(self, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        given, _ = bound(self._name, self._parameters, (), args, named)
        values = [self._operand(row, given[row.name]) for row in self._parameters]
        shapes = [() if _is_number(each) else each.shape for each in values]
        device = self._device(values, out)
        if out is not None:
            self._check_out(out)
        spread = self._layout(shapes, None if out is None else out.shape)
        if device is None:
            values = [each.reshape(-1)[0] if not _is_number(each) and each.size == 1 else each for each in values]
        return self._run(values, spread, device, out)

    def _run(self, values: list[Any], spread: Layout, device: Any, out: Any) -> Any:
        """Call the kernel for these operands, whose broadcast shape is known."""
        numbers = [_is_number(each) for each in values]
        found = layout(tuple(each.shape for each in values if not _is_number(each)), spread.shape)
        index = i64 if spread.size > _MOST else i32
        extra: list[int] = []
        form = self._form(index, tuple(not each for each in numbers))
        if all(numbers) or not found.is_plain:
            form = Form(form.arrays, len(found.extents), index)
            extra = [*found.extents, *(stride for row in found.strides for stride in row)]
        kernel = self._kernels.of(form)
        if form.axes is None and index is i32:
            self._plain[sum(1 << at for at, each in enumerate(numbers) if not each)] = kernel
        if device is not None:
            target = device.empty(spread.size, self._result) if out is None else out
            kernel(*values, *extra, out=target)
            return target if out is not None or len(spread.shape) == 1 else target.reshape(spread.shape)
        if out is not None and out.flags.c_contiguous:
            return kernel(*values, *extra, out=out)
        result = kernel(*values, *extra).reshape(spread.shape)
        if out is None:
            return result if spread.shape else result[()]
        out[...] = result
        return out

    def _operand(self, row: KernelParameter, value: Any) -> Any:
        """An array of the parameter's dtype, or a number. TypeError for another."""
        if _is_number(value):
            return value
        if not (hosts.is_array(value) or isinstance(value, arrays.DeviceArray)):
            raise TypeError(
                f"{self._name}: argument {row.name} is {hosts.described(value)}; it needs a number, a NumPy array or a "
                "device array"
            )
        assert isinstance(row.type, Type)
        if value.dtype != row.type.dtype:
            raise TypeError(
                f"{self._name}: argument {row.name} is an array of {value.dtype}; it needs {row.type.dtype} (write "
                f"{row.name}.astype(vc.{row.type}.dtype))"
            )
        return value

    def _device(self, values: list[Any], out: Any) -> Any:
        """The device of the device arrays, None if there are none."""
        found = {id(each.device): each.device for each in (*values, out) if isinstance(each, arrays.DeviceArray)}
        if len(found) > 1:
            raise ValueError(f"{self._name}: the arrays are on {len(found)} devices; a call runs on one")
        if found and out is not None and not isinstance(out, arrays.DeviceArray):
            raise TypeError(f"{self._name}: out= is on the host, and an operand on a device (write .numpy())")
        return next(iter(found.values()), None)

    def _check_out(self, out: Any) -> None:
        if not (hosts.is_array(out) or isinstance(out, arrays.DeviceArray)):
            raise TypeError(f"{self._name}: out= is {hosts.described(out)}; it needs an array")
        if out.dtype != self._result.dtype:
            raise TypeError(f"{self._name}: out= is an array of {out.dtype}; it needs {self._result.dtype}")
        if hosts.is_array(out) and not out.flags.writeable:
            raise ValueError(f"{self._name}: out= is read-only")

    def _layout(self, shapes: list[tuple[int, ...]], shape: tuple[int, ...] | None) -> Layout:
        try:
            found: Layout = layout(tuple(shapes), shape)
            return found
        except ValueError:
            rows = [f"{row.name} has shape {each}" for row, each in zip(self._parameters, shapes, strict=True)]
            rows += [] if shape is None else [f"out= has shape {shape}"]
            raise ValueError(f"{self._name}: the shapes do not broadcast: {', '.join(rows)}") from None

    def _form(self, index: Type, is_array: tuple[bool, ...] | None = None) -> Form:
        """The form of a call whose arrays all have the shape of the result."""
        return Form((True,) * self._count if is_array is None else is_array, None, index)

    def __reduce__(self) -> str:
        return str(self._kernels.definition.function.__qualname__)

    def __repr__(self) -> str:
        rows = ", ".join(f"{row.name}: {row.type}" for row in self._parameters)
        return f"<vyre_cuda.vectorize {self._name}({rows}) -> {self._result}>"


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def _result_type(function: FunctionType, element: Function, local_names: Mapping[str, Any]) -> Type:
    given = function.__annotations__.get("return")
    if isinstance(given, str):
        given = evaluated(given, function, element._source, "the result", local_names)
    if not isinstance(given, Type):
        message = f"{function.__name__} needs the type of its result: write def {function.__name__}(...) -> vc.f32"
        raise wrong(element._source, function, "", message)
    return given


@overload
def vectorize(function: Callable[..., Any], /) -> Vectorized: ...
@overload
def vectorize(*, block: Block = 256) -> Callable[[Callable[..., Any]], Vectorized]: ...
def vectorize(
    function: Callable[..., Any] | None = None, /, *, block: Block = 256
) -> Vectorized | Callable[[Callable[..., Any]], Vectorized]:
    """A function of numbers as a function of arrays: `@vc.vectorize`, or `@vc.vectorize(block=128)`, above its `def`.

    A call takes numbers and arrays of exactly the annotated types, of shapes that broadcast as NumPy's do.

    Parameters
    ----------
    function
        Parameters and result are annotated with types: `def mix(a: vc.f32, b: vc.f32) -> vc.f32: return a * 2 + b`.
        The body may do what a `vc.func` does.
    block
        Threads per block, or "auto" for the choice of the device.

    Returns
    -------
    Vectorized
        The function of arrays; without a function, what decorates one.

    Raises
    ------
    ProgramError
        No source, or a parameter or a result without a type.
    TypeError
        Not a function.
    """
    local_names = sys._getframe(1).f_locals

    def decorated(given: Callable[..., Any]) -> Vectorized:
        return Vectorized(given, block, local_names)  # type: ignore[arg-type]

    return decorated if function is None else decorated(function)
