"""Typed arrays in device memory."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.memory import Buffer, Span
from vyre_cuda._native.status import AssertReport
from vyre_cuda.ir.types import Type, by_dtype

if TYPE_CHECKING:
    from vyre_cuda.runtime.device import Device


# Imported when an array meets another library, which needs arrays itself.
_INTEROP = "vyre_cuda.runtime.interop"


class DeviceArray(Span):
    """A 1-D array on a device; made by `Device.array`, `empty` and `zeros`. Slices share its memory.

    Indexing gives NumPy scalars, slicing (step 1) views; `numpy()` copies to the host after all earlier work on the
    array. The memory goes back when the last array that shares it is freed or dropped.
    """

    __array_ufunc__ = None
    __iter__ = None
    device: Device

    def __init__(self, device: Device, buffer: Buffer, offset: int, count: int, dtype: np.dtype[Any]) -> None:
        super().__init__(buffer, offset, count, dtype.num)
        self.device = device
        self.dtype = dtype

    # ---- shape ------------------------------------------------------------------------------------------------------

    @property
    def type(self) -> Type:
        """The IR type of an element."""
        found = by_dtype(self.dtype)
        assert found is not None  # every array is made from a type or a dtype that has one
        return found

    @property
    def size(self) -> int:
        """Elements."""
        return self.count

    @property
    def shape(self) -> tuple[int]:
        return (self.count,)

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize

    @property
    def is_freed(self) -> bool:
        return self.buffer is None

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        state = "freed" if self.is_freed else f"{self.count} elements"
        return f"<vyre_cuda.DeviceArray {self.dtype} {state} on {self.device.properties.name}>"

    # ---- contents ---------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """A copy on the host, after all earlier work on this array on any stream."""
        host = np.empty(self.count, self.dtype)
        try:
            self._alive().copy_out(self.offset, host.view(np.uint8))
        except AssertReport as report:
            raise self.device.explain(report) from None
        return host

    def copy_from(self, data: np.ndarray[Any, np.dtype[Any]] | DeviceArray, offset: int = 0) -> None:
        """Write `data`, of this array's dtype, from element `offset` on."""
        buffer = self._alive()
        if not isinstance(data, (np.ndarray, DeviceArray)):
            raise TypeError(f"copy_from takes a NumPy array or a DeviceArray, not a {type(data).__name__}")
        if data.dtype != self.dtype:
            raise TypeError(f"copy_from of {data.dtype} into an array of {self.dtype}")
        if offset < 0 or offset + data.size > self.count:
            raise ValueError(f"{data.size} elements from element {offset} on do not fit an array of {self.count}")
        start = self.offset + offset * self.dtype.itemsize
        if isinstance(data, DeviceArray):
            if data.device is not self.device:
                raise ValueError("copy_from an array of another device")
            buffer.copy_from(start, data._alive(), data.offset, data.nbytes)
        else:
            buffer.copy_in(start, np.ascontiguousarray(data).reshape(-1).view(np.uint8))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.count)
            if step != 1:
                raise ValueError(f"a slice with step {step}; device arrays are contiguous, only step 1 is possible")
            count = max(stop - start, 0)
            offset = self.offset + start * self.dtype.itemsize
            return DeviceArray(self.device, self._alive(), offset, count, self.dtype)
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise TypeError(f"an index of type {type(index).__name__}; device arrays take ints and slices")
        position = int(index) + self.count if index < 0 else int(index)
        if not 0 <= position < self.count:
            raise IndexError(f"index {index} of an array of {self.count} elements")
        return self[position : position + 1].numpy()[0]

    # ---- other libraries --------------------------------------------------------------------------------------------

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, with the stream that a consumer has to wait for; arrays of the emulator have none."""
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
        given from now on comes after all work on the array. `dl_device=(1, 0)`: a copy on the host."""
        return import_module(_INTEROP).capsule_of(self, stream, max_version, dl_device, copy)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("a DeviceArray is in device memory; write .numpy() to copy it to the host")

    # ---- life -------------------------------------------------------------------------------------------------------

    def free(self) -> None:
        """Give up this array's share of the memory; work already given to the device still uses it safely."""
        self.release()

    def _copy(self) -> DeviceArray:
        buffer = Buffer(self.device.context, self.nbytes)
        buffer.copy_from(0, self._alive(), self.offset, self.nbytes)
        return DeviceArray(self.device, buffer, 0, self.count, self.dtype)

    def _wait(self) -> None:
        """Until all work on the memory has ended."""
        try:
            self._alive().copy_out(self.offset, np.empty(0, np.uint8))
        except AssertReport as report:
            raise self.device.explain(report) from None

    def _alive(self) -> Buffer:
        if self.buffer is None:
            raise ValueError("the array was freed")
        return self.buffer
