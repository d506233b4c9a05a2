"""What a device does with memory: arrays, copies of many ranges, page-locked memory, what is kept for reuse."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.call import frame
from vyre_cuda._native.memory import memory
from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.errors import ResourceError, type_name
from vyre_cuda.ir.core.types import TYPES, Type, by_dtype
from vyre_cuda.later import later
from vyre_cuda.runtime.base.properties import MemoryStats
from vyre_cuda.runtime.memory.array import DeviceArray, dtype_of

if TYPE_CHECKING:
    from vyre_cuda._native.core.context import Context
    from vyre_cuda.runtime.graph.graph import Graph
    from vyre_cuda.runtime.memory import shapes, transfers
    from vyre_cuda.runtime.memory.transfers import Host
else:
    shapes = later("vyre_cuda.runtime.memory.shapes")
    transfers = later("vyre_cuda.runtime.memory.transfers")


class Memory:
    """The part of a Device that has to do with memory."""

    if TYPE_CHECKING:  # defined by Allocator and Device

        @property
        def context(self) -> Context: ...
        def empty(self, n: int | tuple[int, ...], type: Type) -> DeviceArray: ...
        def _recorder(self) -> Graph | None: ...
        def _refuse_in_recording(self, what: str) -> None: ...

    def array(self, data: np.ndarray[Any, np.dtype[Any]]) -> DeviceArray:
        """Copy a NumPy array to device memory; in a recording at each replay.

        Parameters
        ----------
        data
            An array of a type that programs have, of any strides; in a recording a page-locked and contiguous one.

        Returns
        -------
        DeviceArray
            A device array of its shape and dtype.

        Raises
        ------
        TypeError
            Not a NumPy array, or of a type that programs do not have.
        RecordingError
            In a recording, the array is not page-locked.
        ResourceError
            The device has no memory left.
        """
        transfers.require_array("array", data)
        result = self._new(data.shape, data.dtype)
        result.copy_from(data)
        return result

    def full(self, n: int | tuple[int, ...], value: Any, type: Type) -> DeviceArray:
        """An array whose elements all have one value.

        Parameters
        ----------
        n
            The number of elements, or a tuple with the shape.
        value
            A number or, in a recording, a symbol.
        type
            The type of an element.

        Returns
        -------
        DeviceArray
            The device array.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Not a shape, not a type, or not a value of the type.
        RecordingError
            A symbol outside of a recording.
        UnsupportedError
            In a recording, a value of 8 bytes whose two halves differ, as those of 0 do not.
        ResourceError
            The device has no memory left.
        """
        result = self.empty(n, type)
        result.fill(value)
        return result

    def empty_like(self, array: DeviceArray | np.ndarray[Any, np.dtype[Any]]) -> DeviceArray:
        """An array of the same shape and dtype, with unspecified contents.

        Parameters
        ----------
        array
            A device array or a NumPy array; one without axes counts as one of one element.

        Returns
        -------
        DeviceArray
            The device array.

        Raises
        ------
        TypeError
            Neither, or a dtype that programs do not have.
        ResourceError
            The device has no memory left.
        """
        if not isinstance(array, DeviceArray):
            transfers.require_array("empty_like", array)
        return self._new(array.shape or (1,), array.dtype)

    def _empty(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
        dtype = dtype_of(type)
        return self._new(shapes.checked(n), dtype)

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        if by_dtype(dtype) is None:
            supported = ", ".join(str(type_.dtype) for type_ in TYPES)
            raise TypeError(f"arrays of {dtype} are not supported; supported are {supported}: {_remedy(dtype)}")
        count = math.prod(shape)
        try:
            buffer = Buffer(self.context, count * dtype.itemsize)
            return DeviceArray(self, buffer, 0, count, dtype, shape)
        except OverflowError:
            shapes.require_possible(shape, dtype)
            raise

    def upload(self, items: Iterable[tuple[DeviceArray, Host] | tuple[DeviceArray, int, Host]]) -> None:
        """Write many ranges, in this order; adjacent ranges are copied as one.

        It returns once all data has been read. In a recording each is copied at every replay.

        Parameters
        ----------
        items
            Tuples (array, data) or (array, element offset, data).

        Raises
        ------
        TypeError
            Not a list of such tuples, or data of another dtype; then nothing has been written.
        ValueError
            A range outside its array, or an array of another device; then nothing has been written.
        RecordingError
            In a recording, data that is not page-locked.
        """
        given = transfers.listed("upload", items)
        rows = [transfers.upload_item(self, item) for item in given]  # type: ignore[arg-type]
        graph = self._recorder()
        if graph is not None:
            for item, (_, _, data) in zip(given, rows, strict=True):
                offset = item[1] if len(item) == 3 else 0
                graph._copy(item[0]._flat(offset, offset + data.size), data)
            return
        transfers.upload(self, rows)  # type: ignore[arg-type]

    def download(self, items: Iterable[tuple[DeviceArray, int, int]]) -> list[Host]:
        """Copy many ranges to the host, with one wait for all.

        Parameters
        ----------
        items
            Tuples (array, element offset, count).

        Returns
        -------
        list of arrays
            A NumPy array for each.

        Raises
        ------
        TypeError, ValueError
            As for `upload`.
        RecordingError
            The thread is recording a graph of the device: `Graph.download` records a copy.
        """
        self._refuse_in_recording("download()")
        rows = [transfers.download_item(self, item) for item in transfers.listed("download", items)]  # type: ignore[arg-type]
        transfers.download(self, rows)  # type: ignore[arg-type]
        return [host for _, _, host in rows]

    def pinned_empty(self, n: int | tuple[int, ...], type: Type) -> np.ndarray[Any, np.dtype[Any]]:
        """A NumPy array in page-locked memory, with unspecified contents.

        Kernels and copies of this device use it, and slices and reshaped views of it, without staging. It stays valid
        when the device is closed, and then keeps the driver's context until its last view is dropped.

        Parameters
        ----------
        n
            The number of elements, or a tuple with the shape.
        type
            The type of an element.

        Returns
        -------
        array
            The array.

        Raises
        ------
        TypeError, ValueError
            Not a shape, or not a type.
        ResourceError
            The driver cannot lock as much memory.
        """
        dtype, shape = dtype_of(type), shapes.checked(n)
        shapes.require_possible(shape, dtype)
        return memory.pinned_empty(self.context, shape, dtype)

    def register(self, array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
        """Page-lock the memory of an array, which is then used without staging.

        Parameters
        ----------
        array
            A C-contiguous array.

        Returns
        -------
        array
            A view of it. The memory is unlocked, after the work that uses it, when the last view of that view is
            dropped or the device is closed.

        Raises
        ------
        ValueError
            Not contiguous, or overlapping memory that is already page-locked.
        TypeError
            Not a NumPy array, or one of Python objects.
        UnsupportedError
            The device would see the memory at another address.
        ResourceError, DriverError
            The driver cannot lock the memory.
        """
        transfers.require_array("register", array)
        if array.dtype.hasobject:
            raise TypeError(
                f"an array of {array.dtype} holds Python objects, which no device can read: give it a type of numbers"
            )
        if not array.flags.c_contiguous:
            raise ValueError("only a C-contiguous array can be registered: copy it with np.ascontiguousarray first")
        return memory.register(self.context, array)

    def memory_stats(self) -> MemoryStats:
        """Bytes live and idle, of device and page-locked memory; blocks no longer in use count as idle.

        Returns
        -------
        MemoryStats
            The current numbers.
        """
        stats = self.context.memory_stats()
        return MemoryStats(**{name: stats[name] for name in MemoryStats.__match_args__})

    def _result(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
        """Memory for a new result of a call: page-locked where it is large, because fresh pages cost more."""
        if math.prod(shape) * dtype.itemsize >= frame.LARGE_RESULT:
            try:
                return memory.pinned_empty(self.context, shape, dtype, may_fail=True)
            except ResourceError:
                pass  # ordinary memory works as well
        return np.empty(shape, dtype)

    def set_memory_budget(self, *, device_bytes: int | None = None, pinned_bytes: int | None = None) -> None:
        """Set how many bytes at most are kept idle for reuse.

        Until it is set, a device keeps up to a quarter of the size of its memory, and up to a sixteenth of that size of
        page-locked memory. What exceeds the budget is returned to the driver, least recently used first.

        Parameters
        ----------
        device_bytes
            Bytes of device memory; None leaves the budget as it is, 0 keeps nothing.
        pinned_bytes
            Bytes of page-locked memory, likewise.

        Raises
        ------
        TypeError, ValueError
            Not a number of bytes.
        """
        stats = self.memory_stats()
        device = stats.budget_bytes if device_bytes is None else _bytes("device_bytes", device_bytes)
        pinned = stats.pinned_budget_bytes if pinned_bytes is None else _bytes("pinned_bytes", pinned_bytes)
        self.context.set_memory_budget(device, pinned)

    def trim(self) -> None:
        """Return all idle memory to the driver, after the work that may still use it.

        Idle memory is blocks that nobody holds, and what kernels keep for the host arrays of their calls: space for as
        many calls as there were at a time, if no call or pending result uses it. The next call allocates it again.
        """
        self.context.trim()


def _bytes(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int, not {type_name(value)}")
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{name}={value}; it must be from 0 to 2**63 - 1")
    return int(value)


def _remedy(dtype: np.dtype[Any]) -> str:
    """How to make an array that is supported of one of this dtype."""
    if dtype.names:
        return f"pass its fields as arrays of their own, such as x[{dtype.names[0]!r}]"
    if dtype.kind == "c":
        return "pass x.real and x.imag as two arrays"
    if not dtype.isnative and by_dtype(dtype.newbyteorder("=")) is not None:
        return "write x.astype(x.dtype.newbyteorder('=')) for this machine's byte order"
    return "convert it with x.astype(...)"
