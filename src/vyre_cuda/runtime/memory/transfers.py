"""Copies of many ranges between the host and the arrays of a device, with one wait for all.

Everything is checked before anything is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre_cuda._native.core.status import AssertReport
from vyre_cuda._native.memory.memory import Buffer, Span, Transfers
from vyre_cuda.errors import counted, type_name
from vyre_cuda.later import later
from vyre_cuda.runtime.base.elsewhere import elsewhere
from vyre_cuda.runtime.base.range_names import READBACK, UPLOAD

if TYPE_CHECKING:
    from vyre_cuda.ir.call import hosts
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.memory.array import DeviceArray
else:
    hosts = later("vyre_cuda.ir.call.hosts")

Host: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def require_array(what: str, data: Any) -> None:
    """Raise TypeError unless it is a NumPy array with all of its elements."""
    if not (type(data) is np.ndarray or hosts.is_array(data)):
        raise TypeError(f"{what} takes a NumPy array, not {hosts.described(data)}")


def upload(device: Device, items: list[tuple[Buffer, int, Host]]) -> None:
    """Write each (buffer, byte offset, array), in this order."""
    with device._watch.profiled(UPLOAD, _ranges(items)):
        whole = [(buffer, offset, np.ascontiguousarray(data)) for buffer, offset, data in items]
        Transfers(device.context, whole).upload()


def download(device: Device, items: list[tuple[Buffer, int, Host]]) -> None:
    """Read each (buffer, byte offset, C-contiguous array to write)."""
    try:
        with device._watch.profiled(READBACK, _ranges(items)):
            Transfers(device.context, items).download()
    except AssertReport as report:
        raise device.explain(report) from None


def upload_item(
    device: Device, item: tuple[DeviceArray, Host] | tuple[DeviceArray, int, Host]
) -> tuple[Buffer, int, Host]:
    """The item of `upload` for (array[, element offset], data)."""
    if not isinstance(item, tuple) or len(item) not in (2, 3):
        raise TypeError(f"upload takes tuples (array, data) or (array, element offset, data), not {_item_given(item)}")
    array, offset, data = item if len(item) == 3 else (item[0], 0, item[1])
    buffer = _buffer(device, "upload", array)
    require_array("upload", data)
    return buffer, array._place("upload", data.dtype, offset, data.size), data


def download_item(device: Device, item: tuple[DeviceArray, int, int]) -> tuple[Buffer, int, Host]:
    """The item of `download` for (array, element offset, count)."""
    if not isinstance(item, tuple) or len(item) != 3:
        raise TypeError(f"download takes tuples (array, element offset, count), not {_item_given(item)}")
    array, offset, count = item
    buffer = _buffer(device, "download", array)
    start = array._place("download", array.dtype, offset, count)
    return buffer, start, device._result((int(count),), array.dtype)


def _item_given(item: Any) -> str:
    return f"a tuple of {len(item)}" if isinstance(item, tuple) else type_name(item)


def _ranges(items: list[tuple[Buffer, int, Host]]) -> str:
    return counted(len(items), "range")


def listed(what: str, items: Iterable[Any]) -> list[Any]:
    """The items as a list; what is not a list or other iterable of tuples is refused, as is one tuple alone."""
    if isinstance(items, (np.ndarray, tuple, str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise TypeError(f"{what} takes a list of tuples, not {type_name(items)}")
    return list(items)


def _buffer(device: Device, what: str, array: Any) -> Buffer:
    if not isinstance(array, Span):
        raise TypeError(f"{what}: {type_name(array)} where a DeviceArray is needed")
    if array.device is not device:
        other, own = array.device.properties.label, device.properties.label
        raise ValueError(f"{what}: the array is {elsewhere(other, own, 'this device')}")
    buffer: Buffer = array._alive()  # type: ignore[attr-defined]  # the Spans there are are DeviceArrays
    return buffer
