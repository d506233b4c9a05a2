"""Arrays of a graph alone: they have memory only inside a driver's graph, and only where something there needs it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.errors import RecordingError, type_name
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.graph.recorder import Recorder


class Owner(Protocol):
    """A graph, or what else has arrays that are only in driver's graphs."""

    device: Device


class Root:
    """One temporary array of a graph, whatever views there are of it; or the cell of a symbol, which the graph writes
    before anything reads it."""

    __slots__ = ("device", "empty", "graph", "is_cell", "nbytes")

    def __init__(self, graph: Owner, nbytes: int, empty: Buffer, *, is_cell: bool = False) -> None:
        self.graph = weakref.ref(graph)
        self.device: Device = graph.device
        self.nbytes = nbytes
        self.is_cell = is_cell
        self.empty = empty  # in place of its memory while arguments are only checked


class Temporary(DeviceArray):
    """An array made by `Graph.temporary`, or a view of one.

    It can be given to launches, and filled and copied, while its graph is recorded. Its contents are unspecified at the
    start of each replay.
    """

    __slots__ = ("root",)

    def __init__(self, root: Root, offset: int, count: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(root.device, root.empty, offset, count, dtype, shape)
        self.release()  # so that nothing else takes it for memory
        self.root = root

    def within(self, place: DeviceArray | None) -> DeviceArray:
        """This part of where the graph has the array; without a place what has its size and no memory."""
        if isinstance(place, Temporary):
            return Temporary(place.root, place.offset + self.offset, self.count, self.dtype, self.shape)
        buffer, start = (self.root.empty, 0) if place is None else (place._alive(), place.offset)
        return DeviceArray(self.device, buffer, start + self.offset, self.count, self.dtype, self.shape)

    def check_owner(self, graph: Recorder) -> None:
        """Refuse it in the recording of another graph."""
        if self.root.graph() is not graph:
            raise RecordingError("a temporary array can be used only in the recording of its own graph")

    # ---- what a device array does -----------------------------------------------------------------------------------

    @property
    def is_freed(self) -> bool:
        return False

    def fill(self, value: Any) -> None:
        self._recording("fill()")._fill(self, value)

    def free(self) -> None:
        """Nothing: it has no memory of its own."""

    def copy(self) -> DeviceArray:
        self._recording("copy()")
        return super().copy()

    def _copy_from(self, data: Any, offset: Any) -> None:
        graph = self._recording("copy_from()")
        to = self._from(offset)
        if not isinstance(data, (DeviceArray, np.ndarray, Symbol)):
            raise TypeError(f"a recorded copy takes an array, not {type_name(data)}")
        graph._copy(to, data)

    def _numpy(self, out: Any) -> NoReturn:
        self._alive()

    def _view(self, first: int, shape: tuple[int, ...]) -> DeviceArray:
        count = 1
        for extent in shape:
            count *= extent
        return Temporary(self.root, self.offset + first * self.dtype.itemsize, count, self.dtype, shape)

    def _recording(self, what: str) -> Recorder:
        graph: Recorder | None = self.device._recorder()
        if graph is None:
            raise RecordingError(
                f"{what} of a temporary array outside the recording of its graph; it has no memory outside of replays"
            )
        self.check_owner(graph)
        return graph

    def _copy(self) -> NoReturn:
        self._alive()

    def _alive(self) -> NoReturn:
        raise RecordingError(
            "a temporary array is the graph's alone: it can be launched with, filled and copied while the graph is "
            "recorded; copy it to an array of the device to see its contents"
        )

    def __repr__(self) -> str:
        return f"<vyre_cuda.DeviceArray {self.dtype} of shape {self.shape}, temporary of a graph>"


def in_place(value: Any, given: Mapping[Any, Any]) -> Any:
    """The value, or where the graph has the temporary array."""
    return value.within(given.get(value.root)) if isinstance(value, Temporary) else value
