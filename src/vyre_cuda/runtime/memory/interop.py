"""Arrays of other libraries as device arrays, and device arrays for other libraries, without copying.

An imported array keeps its owner alive, is used after the stream that its interface names, or the one that its DLPack
exchange was given, and makes that stream wait for the use; this is the legacy default stream where nothing is named. An
exported array holds the memory until its consumer releases it, and is ordered by the consumer's stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.memory.adopted import (
    LEGACY_STREAM,
    adopt_memory,
    is_read_only,
    named_stream,
    order_after,
    order_stream,
)
from vyre_cuda._native.memory.dlpack import Imported, export
from vyre_cuda.errors import InternalError, type_name
from vyre_cuda.ir.core.types import TYPES, Type, by_dtype
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.memory.shapes import MAX_AXES

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device

DLDevice: TypeAlias = tuple[int, int]

# dlpack.h: DLDeviceType and DLDataTypeCode.
CPU, CUDA, CUDA_MANAGED = 1, 2, 13
_CODES = {"signed": 0, "unsigned": 1, "float": 2, "bool": 6}
_BFLOAT = 4
_NEWEST = (1, 0)  # the version of DLPack that is requested


def dlpack_dtype(type_: Type) -> tuple[int, int]:
    """(code, bits) of a type; a bool is a byte."""
    return _BFLOAT if type_.name == "bf16" else _CODES[type_.kind], type_.itemsize * 8


_TYPE_OF = {dlpack_dtype(type_): type_ for type_ in TYPES}


class Foreign(FrozenRecord):
    """What another library says about an array; `source` is the stream that its owner works on, None if unknown."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in bytes
    dtype: np.dtype[Any]
    read_only: bool
    source: int | None
    owner: object

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def is_foreign(value: Any) -> bool:
    """Whether this is an array in device memory by one of the protocols; NumPy arrays are in host memory."""
    if isinstance(value, (np.ndarray, np.generic, DeviceArray, type)):
        return False
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def adopt(device: Device, value: Any, stream: Stream | None = None) -> DeviceArray:
    """Another library's array as a device array of `device`, for use on `stream` (None: in call order).

    TypeError for a dtype that the package does not have, ValueError for memory on another device and for strides
    other than those of a C-contiguous array. It has the array's shape, and one element one axis.
    """
    foreign = _described(device, value, stream)
    if by_dtype(foreign.dtype) is None:
        raise TypeError(f"{type_name(value)} of {foreign.dtype}; supported are {', '.join(map(str, TYPES))}")
    _check_layout(value, foreign)
    if len(foreign.shape) > MAX_AXES:
        raise ValueError(
            f"{type_name(value)} with {len(foreign.shape)} axes; arrays have at most {MAX_AXES}: reshape it"
        )
    source = named_stream(device.context, LEGACY_STREAM if foreign.source is None else foreign.source)
    nbytes = foreign.size * foreign.dtype.itemsize
    buffer = adopt_memory(device.context, foreign.address, nbytes, source, foreign.read_only, foreign.owner)
    return DeviceArray(device, buffer, 0, foreign.size, foreign.dtype, foreign.shape or (1,))


def _described(device: Device, value: Any, stream: Stream | None) -> Foreign:
    """Described by DLPack, unless the other interface names a stream, which says more about the owner's order."""
    if not (hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")):
        raise TypeError(f"{type_name(value)} has neither __dlpack__ nor __cuda_array_interface__")
    if not hasattr(value, "__dlpack__"):
        return _by_interface(value, value.__cuda_array_interface__)
    if hasattr(type(value), "__cuda_array_interface__"):
        try:
            interface = value.__cuda_array_interface__
        except (AttributeError, TypeError, RuntimeError):
            interface = {}  # PyTorch has none for some tensors; its DLPack export says why
        if interface.get("stream") is not None:
            return _by_interface(value, interface)
    return _by_dlpack(device, value, stream)


# ---- __cuda_array_interface__ ----------------------------------------------------------------------------------------


def _by_interface(value: Any, interface: dict[str, Any]) -> Foreign:
    """Versions 2 and 3: https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html."""
    if type(interface) is not dict and not isinstance(interface, Mapping):
        raise TypeError(
            f"the __cuda_array_interface__ of {type_name(value)} is {type_name(interface)}; it must be a dict: update "
            "its library"
        )
    version = interface.get("version", 0)
    if not isinstance(version, int) or version < 2:
        raise ValueError(
            f"__cuda_array_interface__ of version {version}; versions 2 and 3 are supported: update its library"
        )
    if interface.get("mask") is not None:
        raise ValueError("an array with a mask; kernels take plain arrays: fill it first, and pass the result")
    source = interface.get("stream")
    if source == 0:
        raise ValueError("__cuda_array_interface__ names stream 0, which the protocol forbids: 1 is the legacy stream")
    try:  # without a call for each entry: this is done for each array of each launch
        address, read_only = interface["data"]
        address, typestr = index(address or 0), interface["typestr"]
        dtype, shape = np.dtype(typestr), tuple(map(index, interface["shape"]))
        strides = interface.get("strides")
        if strides is not None:
            strides = tuple(map(index, strides))
    except (KeyError, TypeError, ValueError):
        raise _wrong_entry(value, interface) from None
    if (
        not isinstance(typestr, str)
        or not 0 <= address <= _LAST
        or len(shape if strides is None else strides) != len(shape)
    ):
        raise _wrong_entry(value, interface)
    if not dtype.isnative:
        raise TypeError(f"an array of {dtype}, in another byte order than this machine's: convert it first")
    if shape and min(shape) < 0:
        raise ValueError(f"__cuda_array_interface__ with the shape {shape}; an extent cannot be negative")
    if math.prod(shape) * dtype.itemsize > _LAST - address:
        raise ValueError(f"__cuda_array_interface__ with the shape {shape}; it goes beyond the last address")
    return Foreign(address, shape, strides, dtype, bool(read_only), source, value)


def _wrong_entry(value: Any, interface: Mapping[str, Any]) -> TypeError:
    """The first entry that is wrong; one that is missing counts as None."""
    axes = 0
    for name, what, read in _ENTRIES:
        given = interface.get(name)
        try:
            found = read(given)
            if name == "shape":
                axes = len(found)
            elif name == "strides" and found is not None and len(found) != axes:
                raise ValueError
        except (TypeError, ValueError):
            return TypeError(
                f"the __cuda_array_interface__ of {type_name(value)} has {given!r} as its {name!r}; it must be {what}: "
                "update its library"
            )
    raise InternalError("no entry of __cuda_array_interface__ is wrong")


def _data(given: Any) -> None:
    address, _ = given
    if not 0 <= index(address or 0) <= _LAST:
        raise ValueError


def _dtype(given: Any) -> None:
    if not isinstance(given, str):  # NumPy takes None for f64
        raise TypeError
    np.dtype(given)


def _ints(given: Any) -> tuple[int, ...]:
    return tuple(map(index, given))


_LAST = 2**64 - 1  # address
_ENTRIES: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("data", "an address and whether it is read-only", _data),
    ("typestr", "the text of a dtype", _dtype),
    ("shape", "a tuple of ints", _ints),
    ("strides", "None, or an int for each axis", lambda given: None if given is None else _ints(given)),
)


# ---- DLPack ----------------------------------------------------------------------------------------------------------


def _by_dlpack(device: Device, value: Any, stream: Stream | None) -> Foreign:
    kind, number = value.__dlpack_device__()
    _check_device(device, int(kind), int(number), value)
    told = None if device.properties.is_emulator else LEGACY_STREAM if stream is None else stream.handle
    imported = Imported(_capsule(value, told))
    _check_device(device, *imported.device, value)
    code, bits, lanes = imported.dtype
    type_ = _TYPE_OF.get((code, bits)) if lanes == 1 else None
    if type_ is None:
        raise TypeError(
            f"{type_name(value)} of DLPack dtype (code {code}, {bits} bits, {lanes} lanes); "
            f"supported are {', '.join(map(str, TYPES))}"
        )
    strides = imported.strides
    return Foreign(
        imported.address,
        imported.shape,
        None if strides is None else tuple(stride * type_.itemsize for stride in strides),
        type_.dtype,
        imported.read_only,
        told,
        imported,
    )


def _capsule(value: Any, told: int | None) -> Any:
    """Producers older than DLPack 1.0 do not know max_version."""
    try:
        return value.__dlpack__(stream=told, max_version=_NEWEST)
    except TypeError:
        return value.__dlpack__(stream=told)


def own_device(device: Device) -> DLDevice:
    """(type, id) of the device's arrays: the emulator has host memory, which is always exported as such."""
    return (CPU, 0) if device.properties.is_emulator else (CUDA, device.properties.ordinal)


def _check_device(device: Device, kind: int, number: int, value: Any) -> None:
    own = own_device(device)
    if (kind, number) == own or (kind == CUDA_MANAGED and own[0] == CUDA):
        return
    if kind == CPU:
        raise ValueError(
            f"{type_name(value)} in host memory; copy it to the device with Device.array(np.from_dlpack(x))"
        )
    raise ValueError(f"{type_name(value)} on DLPack device {(kind, number)}; {device!r} has {own}")


# ---- what both have --------------------------------------------------------------------------------------------------


def _check_layout(value: Any, foreign: Foreign) -> None:
    itemsize = foreign.dtype.itemsize
    if foreign.size and foreign.address % itemsize != 0:
        raise ValueError(
            f"{type_name(value)} of {foreign.dtype} at the address {foreign.address:#x}: misaligned, so copy it first"
        )
    if foreign.strides is None or foreign.size == 0:
        return
    step = itemsize
    for extent, stride in zip(reversed(foreign.shape), reversed(foreign.strides), strict=True):
        if extent != 1 and stride != step:
            raise ValueError(
                f"{type_name(value)} of shape {foreign.shape} with strides of {foreign.strides} bytes; "
                "kernels take C-contiguous arrays, so copy it first"
            )
        step *= extent


# ---- export ----------------------------------------------------------------------------------------------------------


def interface_of(array: DeviceArray) -> dict[str, Any]:
    """`__cuda_array_interface__` of a CUDA array: its consumer must wait for the stream that it names."""
    buffer = array._alive()
    order_after(buffer, None)
    address = buffer.address + array.offset if array.count else 0
    return {
        "version": 3,
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (address, is_read_only(buffer)),
        "strides": None,
        "stream": order_stream(array.device.context),
    }


def capsule_of(
    array: DeviceArray, stream: Any, max_version: tuple[int, int] | None, dl_device: DLDevice | None, copy: bool | None
) -> Any:
    """What `DeviceArray.__dlpack__` returns."""
    own = own_device(array.device)
    wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    versioned = max_version is not None and max_version[0] >= 1
    if wanted != own:
        return _host_copy(array, wanted, versioned, copy)
    exported = array._copy() if copy else array
    buffer = exported._alive()
    consumer = _consumer(array.device, stream)
    if consumer is WAIT:
        exported._wait()
    elif consumer is not NO_ORDER:
        order_after(buffer, consumer)
    return export(
        buffer,
        exported.offset,
        exported.shape,
        dlpack_dtype(array.type),
        own,
        versioned,
        is_read_only(buffer),
        bool(copy),
    )


def _host_copy(array: DeviceArray, wanted: DLDevice, versioned: bool, copy: bool | None) -> Any:
    if wanted[0] != CPU:
        raise BufferError(f"the array is on DLPack device {own_device(array.device)}, not on {wanted}")
    if copy is False:
        raise BufferError("an array in device memory can be exported to the host only as a copy: leave copy=False out")
    return array.numpy().__dlpack__(max_version=_NEWEST if versioned else None)


class _Order:
    """What a consumer can ask for instead of a stream."""


WAIT, NO_ORDER = _Order(), _Order()


def _consumer(device: Device, stream: Any) -> Any:
    """None means 1, the legacy stream; -1 means no order; 0 is ambiguous and refused; else a stream or a handle."""
    if device.properties.is_emulator:
        if stream is not None:
            raise ValueError(f"stream={stream!r}: an array in host memory is exchanged without a stream")
        return WAIT
    if stream is None:
        return named_stream(device.context, LEGACY_STREAM)
    if isinstance(stream, int) and stream == -1:
        return NO_ORDER
    if isinstance(stream, int) and stream == 0:
        raise ValueError("stream=0 is ambiguous in DLPack: 1 is the legacy default stream, 2 the thread's own")
    return named_stream(device.context, stream)
