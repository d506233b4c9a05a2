"""Typed arrays in device memory."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda._native.memory.memory import Buffer, Span
from vyre_cuda.errors import FREED, RecordingError, counted, type_name
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, by_dtype
from vyre_cuda.later import later
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.base.symbol import Symbol

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.memory import absent, shapes, transfers
else:
    absent = later("vyre_cuda.runtime.memory.absent")
    shapes = later("vyre_cuda.runtime.memory.shapes")
    transfers = later("vyre_cuda.runtime.memory.transfers")


# Imported when an array meets another library; it needs arrays itself.
_INTEROP = "vyre_cuda.runtime.memory.interop"

# What people write who know arrays of other libraries; `absent` has what to write instead.
_ABSENT = (
    *("sum", "prod", "mean", "min", "max", "any", "all", "argmin", "argmax", "cumsum", "cumprod", "dot"),
    *("sort", "argsort", "searchsorted", "nonzero", "take", "put", "transpose", "T", "flatten", "ravel"),
    *("astype", "clip", "std", "var", "round", "item", "tolist", "get", "cpu", "copy_to_host"),
)


class _Absent:
    """An attribute that raises. A `__getattr__` of the class would make each attribute that exists slower."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: object, _: object = None) -> object:
        raise AttributeError(absent.of_attribute(self.name), name=self.name, obj=array)


class DeviceArray(Span):
    """An array on a device, row by row; made by `Device.array`, `empty`, `zeros` and `full`, with up to 32 axes, or by
    `vc.algorithms`.

    `a[i]` is a NumPy scalar or, with several axes, a view of row i; `a[i, j]` and slices (of step 1, as the last index)
    work alike, and views share the memory. `a[i] = value` writes an element, or an array or a scalar to what is
    selected. `numpy()` copies to the host after all earlier work on the array. The memory is released when the last
    array that shares it is freed or dropped. `array == other` is refused: compare `numpy()`, or use `is`.
    """

    __slots__ = ()
    __iter__ = None
    __contains__ = None
    __dir__ = without("buffer", "count", "offset", "release", "typenum", *_ABSENT)
    __hash__ = Span.__hash__

    if TYPE_CHECKING:
        __array_ufunc__ = None

        @property
        def device(self) -> Device: ...

    else:  # what a type checker does not find says what to write instead

        def __array_ufunc__(self, ufunc, method, *_, **__):
            raise TypeError(absent.of_function(ufunc.__name__, method.removeprefix("__call__")))

        def __array_function__(self, function, _, arguments, named):
            if function in (np.shape, np.ndim, np.size):
                return function.__wrapped__(*arguments, **named)
            raise TypeError(absent.of_function(function.__name__))

        def _has_no_arithmetic(self, *_):
            raise TypeError(absent.ARITHMETIC)

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _has_no_arithmetic
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _has_no_arithmetic
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _has_no_arithmetic
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _has_no_arithmetic
        __lt__ = __le__ = __gt__ = __ge__ = _has_no_arithmetic

        def __matmul__(self, _):
            raise TypeError(absent.of_function("matmul"))

        __rmatmul__ = __matmul__

    # ---- shape ------------------------------------------------------------------------------------------------------

    @property
    def type(self) -> Type:
        """The type of an element, such as `vc.f32`."""
        found = by_dtype(self.dtype)
        assert found is not None  # every array is made from a type or a dtype that has one
        return found

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.count

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.count * self.dtype.itemsize

    @property
    def is_freed(self) -> bool:
        """Whether `free` was called; the array has no contents then."""
        return self.buffer is None

    def reshape(self, *shape: Any) -> DeviceArray:
        """A view of the memory with another shape.

        Parameters
        ----------
        *shape
            Ints, or a tuple of them; one may be -1.

        Returns
        -------
        DeviceArray
            The view.

        Raises
        ------
        ValueError
            Another number of elements, more than one -1, or an array that was freed.
        TypeError
            Not ints.
        """
        return self._view(0, shapes.reshaped(self.count, shape))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array without axes")
        return int(self.shape[0])

    def __eq__(self, other: object) -> bool:
        raise TypeError(
            "comparing a device array is ambiguous; compare elements with a.numpy() == b.numpy(), objects with a is b"
        )

    def __bool__(self) -> bool:
        raise TypeError(
            "whether a device array is true is ambiguous; write a.size > 0, a is not None, or a.numpy().any()"
        )

    def __repr__(self) -> str:
        state = counted(self.count, "element") if self.ndim == 1 else f"of shape {self.shape}"
        state = "freed" if self.is_freed else state
        return f"<vyre_cuda.DeviceArray {self.dtype} {state} on {self.device.properties.name}>"

    # ---- contents ---------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:  # defined by Span

        def numpy(self, out: np.ndarray[Any, np.dtype[Any]] | None = None) -> np.ndarray[Any, np.dtype[Any]]:
            """A copy on the host, after all earlier work on this array on any stream."""

        def copy_from(self, data: np.ndarray[Any, np.dtype[Any]] | DeviceArray | Symbol, offset: int = 0) -> None:
            """Write `data`, which must have this array's dtype, starting at element `offset`."""

    def _numpy(self, out: np.ndarray[Any, np.dtype[Any]] | None) -> np.ndarray[Any, np.dtype[Any]]:
        self.device._refuse_in_recording("numpy()")
        host = self.device._result(self.shape, self.dtype) if out is None else self._checked(out)
        transfers.download(self.device, [(self._alive(), self.offset, host)])
        return host

    def _copy_from(self, data: Any, offset: Any) -> None:
        buffer = self._alive()
        graph = self.device._recorder()
        if graph is not None:
            graph._copy(self._from(offset), data)
            return
        if isinstance(data, Symbol):
            raise RecordingError(f"symbol {data.name} is used outside a recording: pass an array there")
        if not isinstance(data, DeviceArray):
            transfers.require_array("copy_from", data)
        start = self._place("copy_from", data.dtype, offset, data.size)
        if isinstance(data, DeviceArray):
            self._copy_across(buffer, start, data)
        else:
            transfers.upload(self.device, [(buffer, start, data)])

    def _copy_across(self, buffer: Buffer, start: int, data: DeviceArray) -> None:
        """From an array of this device or of any other."""
        if data.device is not self.device:
            data.device._refuse_in_recording("a copy to another device")
            if data.device.properties.is_emulator != self.device.properties.is_emulator:
                transfers.upload(self.device, [(buffer, start, data.numpy())])
                return
        buffer.copy_from(start, data._alive(), data.offset, data.nbytes)

    def _place(self, what: str, dtype: np.dtype[Any], offset: int, count: int) -> int:
        """The byte offset in the buffer of `count` elements starting at element `offset`."""
        if dtype != self.dtype:
            raise TypeError(f"{what} of {dtype} with an array of {self.dtype}: convert one of them first")
        check_number(what, "offset", offset)
        check_number(what, "count", count)
        if offset + count > self.count:
            part = f"{counted(count, 'element')} from element {offset} on"
            raise ValueError(f"{what} of {part}: the array has {counted(self.count, 'element')}")
        return self.offset + int(offset) * self.dtype.itemsize

    def _from(self, offset: int) -> DeviceArray:
        """The elements from `offset` on, which a recorded copy writes."""
        check_number("copy_from", "offset", offset)
        if offset > self.count:
            raise ValueError(f"copy_from element {offset} on: the array has {counted(self.count, 'element')}")
        return self._flat(int(offset), self.count)

    def _checked(self, out: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
        transfers.require_array("out=", out)
        if out.dtype != self.dtype:
            raise TypeError(f"out is an array of {out.dtype}; it needs {self.dtype}")
        if out.size != self.count:
            raise ValueError(f"out has {counted(out.size, 'element')}; the array has {self.count}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out must be C-contiguous and writable")
        return out

    def fill(self, value: Any) -> None:
        """Set every element to one value.

        Parameters
        ----------
        value
            A number or, in a recording, a symbol.

        Raises
        ------
        TypeError, OverflowError
            Not a value of the array's type.
        ValueError
            The array was freed.
        RecordingError
            A symbol outside of a recording.
        UnsupportedError
            In a recording, a value of 8 bytes whose two halves differ, as those of 0 do not.
        """
        buffer = self._alive()
        graph = self.device._recorder()
        if graph is not None:
            graph._fill(self, value)
            return
        if isinstance(value, Symbol):
            raise RecordingError(f"symbol {value.name} is used outside a recording: pass a number there")
        bits, size = bits_of(self.type, value), self.dtype.itemsize
        if size <= 4 or bits & 0xFFFFFFFF == bits >> 32:
            buffer.fill(self.offset, bits & 0xFFFFFFFF, min(size, 4), self.nbytes)
        else:  # the device fills words of 32 bits
            transfers.upload(self.device, [(buffer, self.offset, np.full(self.count, bits, np.uint64))])

    def __getitem__(self, index: Any) -> Any:
        first, shape = shapes.selected(self.shape, index)
        return self._view(first, shape) if shape else self._flat(first, first + 1).numpy()[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write one element, or to all that is selected a scalar or an array of the same shape and dtype."""
        first, shape = shapes.selected(self.shape, index)
        if not isinstance(value, (np.ndarray, DeviceArray)) or not value.ndim:
            scalar = value[()] if isinstance(value, np.ndarray) else value
            self._flat(first, first + math.prod(shape)).fill(scalar)
            return
        if value.shape != shape:
            raise ValueError(f"an array of shape {value.shape} does not fit what is selected, which has shape {shape}")
        self._view(first, shape).copy_from(value)

    def copy(self) -> DeviceArray:
        """A new array with the same contents; in a recording they are copied at each replay.

        Returns
        -------
        DeviceArray
            The new array.

        Raises
        ------
        ValueError
            The array was freed.
        ResourceError
            The device has no memory left.
        """
        made = self.device._new(self.shape, self.dtype)
        made.copy_from(self)
        return made

    def _view(self, first: int, shape: shapes.Shape) -> DeviceArray:
        """The elements from `first` on, with this shape."""
        offset = self.offset + first * self.dtype.itemsize
        return DeviceArray(self.device, self._alive(), offset, math.prod(shape), self.dtype, shape)

    def _flat(self, start: int, stop: int) -> DeviceArray:
        """The elements from `start` to `stop` with one axis, as offsets and counts mean them."""
        return self._view(start, (stop - start,))

    # ---- other libraries --------------------------------------------------------------------------------------------

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, with the stream that a consumer must wait for; arrays of the emulator do not have it."""
        if self.device.properties.is_emulator:
            raise AttributeError("an array of the emulator is in host memory: it has no __cuda_array_interface__")
        described: dict[str, Any] = import_module(_INTEROP).interface_of(self)
        return described

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLCUDA, ordinal), or (kDLCPU, 0) for an array of the emulator."""
        own: tuple[int, int] = import_module(_INTEROP).own_device(self.device)
        return own

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule that shares the memory. What `stream` (a handle, None: the legacy default stream, -1: none) is
        given from now on runs after all work on the array. `dl_device=(1, 0)` gives a copy on the host."""
        return import_module(_INTEROP).capsule_of(self, stream, max_version, dl_device, copy)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("a DeviceArray is in device memory; write .numpy() to copy it to the host")

    # ---- life -------------------------------------------------------------------------------------------------------

    def free(self) -> None:
        """Release this array's share of the memory; work already enqueued can still use it safely."""
        self.release()

    def __copy__(self) -> DeviceArray:
        return self.copy()

    def __deepcopy__(self, _: dict[int, Any]) -> DeviceArray:
        return self.copy()

    __reduce_ex__ = refuse_pickle

    def _copy(self) -> DeviceArray:
        buffer = Buffer(self.device.context, self.nbytes)
        buffer.copy_from(0, self._alive(), self.offset, self.nbytes)
        return DeviceArray(self.device, buffer, 0, self.count, self.dtype, self.shape)

    def _wait(self) -> None:
        """Wait until all work on the memory has ended."""
        if self.count:
            self._flat(0, 1).numpy()

    def _alive(self) -> Buffer:
        if self.buffer is None:
            raise ValueError(FREED)
        return self.buffer


for _name in _ABSENT:
    setattr(DeviceArray, _name, _Absent(_name))


def check_number(what: str, name: str, number: Any) -> None:
    """Raise TypeError or ValueError for what is not a number of elements."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise TypeError(f"{what}: the {name} is {type_name(number)}; it must be an int")
    if number < 0:
        raise ValueError(f"{what}: the {name} is {number}; it must be 0 or more")


def dtype_of(type_: Type) -> np.dtype[Any]:
    if not isinstance(type_, Type):
        raise TypeError(f"{type_!r} is not a type of this package (write vc.{_same_for_arrays(type_) or 'f32'})")
    return type_.dtype


def _same_for_arrays(given: Any) -> Type | None:
    """The type whose arrays have the dtype that was given instead."""
    try:
        return None if given is None else by_dtype(np.dtype(given))
    except (TypeError, ValueError):
        return None
