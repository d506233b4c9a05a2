"""What one call does on a device: its memory and its launches, at once, in a recording, or noted for a plan."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda.errors import FREED, RecordingError, type_name
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type, by_dtype, u32, u64
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel

Shape = tuple[int, ...]

_SHARED = "shares memory with an argument; give a separate array"
# Beyond this many elements ids need 64 bits: a tile past the last element is still counted in the index type.
_MOST_OF_U32 = 1 << 31


class Launch(FrozenRecord):
    """A launch of a call."""

    kernel: Kernel
    arguments: tuple[Any, ...]
    blocks: int


class _Noted(threading.local):
    launches: list[Launch] | None = None


_noted = _Noted()


@contextmanager
def noting() -> Iterator[list[Launch]]:
    """The launches that calls of this thread make meanwhile."""
    if _noted.launches is not None:
        raise RecordingError("a plan cannot be made inside another one: a plan is made of one call")
    found: list[Launch] = []
    _noted.launches = found
    try:
        yield found
    finally:
        _noted.launches = None


class Work:
    """One call on the device of its arrays."""

    def __init__(self, *arrays: DeviceArray) -> None:
        self.device: Device = arrays[0].device
        for array in arrays:
            if array.device is not self.device:
                raise ValueError("the arrays are on different devices; copy one to the other's device first")
            if array.is_freed:
                raise ValueError(FREED)

    @property
    def is_recorded(self) -> bool:
        return self.device._recorder() is not None

    def refuse_in_recording(self, what: str, remedy: str) -> None:
        """Refuse what waits for a size that only the device knows."""
        if self.is_recorded:
            raise RecordingError(
                f"{what} waits for a size that only the device knows, so it cannot be recorded: {remedy}"
            )

    # ---- memory -----------------------------------------------------------------------------------------------------

    def empty(self, shape: Shape, type_: Type) -> DeviceArray:
        """A new array, for a result; it may have no axes."""
        return self.device._new(shape, type_.dtype)

    def result(self, shape: Shape, type_: Type, out: DeviceArray | None, *inputs: DeviceArray) -> DeviceArray:
        """`out`, where it has this shape and type and no memory of the inputs; otherwise a new array."""
        if out is None:
            return self.empty(shape, type_)
        require_device_array("out", out)
        if out.device is not self.device:
            raise ValueError("out is on another device than the other arrays: pass one on the same device")
        if out.type is not type_:
            raise TypeError(f"out is an array of {out.dtype}; the result has {type_.dtype}")
        if out.shape != shape:
            raise ValueError(f"out has the shape {out.shape}; the result has {shape}")
        refuse_shared("out", out, *inputs)
        return out

    def scratch(self, count: int, type_: Type) -> DeviceArray:
        """Memory that only this call uses."""
        graph = self.device._recorder()
        made: DeviceArray = self.device.empty(count, type_) if graph is None else graph.temporary(count, type_)
        return made

    def fill(self, array: DeviceArray, value: Any) -> None:
        """All elements set to a value; graphs fill with 32 bits, so others are copied from the host."""
        if self.is_recorded and array.type.itemsize == 8:
            kept = self.device.pinned_empty(array.shape, array.type)
            kept[...] = value
            array.copy_from(kept)
        else:
            array.fill(value)

    # ---- work -------------------------------------------------------------------------------------------------------

    def launch(self, program: Program, *arguments: Any, blocks: int) -> None:
        """A launch in call order; none if there are no blocks."""
        if not blocks:
            return
        kernel = self.device.compile(program, bounds="off")
        if _noted.launches is not None:
            _noted.launches.append(Launch(kernel, arguments, blocks))
        kernel.launch(*arguments, grid=blocks)


def require_array(function: str, x: Any) -> None:
    if not isinstance(x, (DeviceArray, np.ndarray)):
        raise TypeError(f"{function} takes a DeviceArray or a NumPy array, not {type_name(x)}")


def require_device_array(name: str, array: Any) -> None:
    if not isinstance(array, DeviceArray):
        raise TypeError(f"{name} is {type_name(array)}; a DeviceArray is needed beside device arrays")


def refuse_shared(name: str, array: DeviceArray, *others: DeviceArray) -> None:
    """ValueError where an array that is written shares memory with one that is read."""
    for other in others:
        if array.buffer is not None and array.buffer is other.buffer:
            first, second = sorted((each.offset, each.offset + each.nbytes) for each in (array, other))
            if second[0] < first[1] and array.nbytes and other.nbytes:
                raise ValueError(f"{name} {_SHARED}")


def refuse_shared_on_host(name: str, array: Any, *others: Any) -> None:
    """The same of NumPy arrays; anything else is refused elsewhere."""
    if any(isinstance(each, np.ndarray) and np.shares_memory(array, each) for each in others):
        raise ValueError(f"{name} {_SHARED}")


def index_type(*counts: int) -> Type:
    """The type of ids for arrays of so many elements."""
    return u32 if max(counts, default=0) <= _MOST_OF_U32 else u64


def type_of(array: np.ndarray[Any, Any]) -> Type:
    """The type of a NumPy array's elements."""
    found = by_dtype(array.dtype)
    if found is None:
        raise TypeError(f"arrays of {array.dtype} are not supported: convert them with astype()")
    return found


def tiles(count: int, tile: int) -> int:
    return -(-count // tile)


def normal_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The axes that `axis=` names, ascending, each from 0 on. NumPy's errors."""
    if axis is None:
        return tuple(range(ndim))
    found = [normal_axis(each, ndim) for each in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(found))


def normal_axis(axis: Any, ndim: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis is {type_name(axis)}; it must be an int")
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(int(axis), ndim)
    return int(axis) % ndim


def delivered(found: np.ndarray[Any, Any], out: Any, *inputs: Any) -> np.ndarray[Any, Any]:
    """A result of NumPy arrays, in `out` where that is given; it is refused where a device refuses it."""
    if out is None:
        return found
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is {type_name(out)}; a NumPy array is needed beside NumPy arrays")
    if out.dtype != found.dtype:
        raise TypeError(f"out is an array of {out.dtype}; the result has {found.dtype}")
    if out.shape != found.shape:
        raise ValueError(f"out has the shape {out.shape}; the result has {found.shape}")
    refuse_shared_on_host("out", out, *inputs)
    out[...] = found
    return out
