"""What recording needs beside the graph: the block of a loop, and the defaults of symbols."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.errors import RecordingError, type_name
from vyre_cuda.runtime.base.symbol import Symbol
from vyre_cuda.runtime.graph.arena import BYTE, roots_of
from vyre_cuda.runtime.graph.graph_steps import RepeatStep, Step, kept
from vyre_cuda.runtime.graph.temporary import Root, Temporary
from vyre_cuda.runtime.memory.array import DeviceArray

if TYPE_CHECKING:
    from vyre_cuda.runtime.graph.recorder import Recorder


class Repeat:
    """The block of a loop while it is being recorded."""

    def __init__(self, graph: Recorder, step: RepeatStep, *, dropped: bool) -> None:
        self._graph = graph
        self._step = step
        self.dropped = dropped  # nothing inside it is recorded
        self._was_entered = False

    def __enter__(self) -> None:
        self._graph._check_recording()
        if self._was_entered:
            raise RecordingError(f"{self} was entered before; each `with` block needs a repeat of its own")
        self._was_entered = True
        self._graph._open.append(self)
        self._graph._add(self._step)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        graph = self._graph
        if not graph.is_recording:
            return  # the end of the recording has already refused it
        if graph._open and graph._open[-1] is self:
            graph._open.pop()
            self._step.end = len(graph._steps)
        elif kind is None:
            raise RecordingError(f"{self} ends inside {graph._open[-1]}; the block that began last must end first")

    def __repr__(self) -> str:
        return self._step.label


def check_times(times: Any, until: Any) -> int:
    """The number of repetitions; 0 if only `until` ends the loop."""
    if times is None:
        if until is None:
            raise TypeError("repeat takes a number of times, until=, or both")
        return 0
    if isinstance(times, bool) or not isinstance(times, (int, np.integer)):
        raise TypeError(f"repeat takes an int, not {type_name(times)}")
    if not 0 <= times < 1 << 63:
        raise ValueError(f"repeat(times={times}): the number must be from 0 to 2**63 - 1")
    return int(times)


def with_defaults(step: Step, values: Mapping[str, Any]) -> dict[str, Any]:
    """The known values of symbols, and the defaults of this step's symbols."""
    known = dict(values)
    for symbol in step.symbols:
        if not symbol.has_default:
            continue
        default = kept(symbol.default)
        if not _same(known.setdefault(symbol.name, default), default):
            raise ValueError(f"symbol {symbol.name} has two defaults: give all uses the same one, or use two symbols")
    return known


def _same(one: Any, other: Any) -> bool:
    """Whether two defaults are the same memory or the same value."""
    if isinstance(one, DeviceArray) and isinstance(other, DeviceArray):
        same_place = one.buffer is other.buffer and one.offset == other.offset
        return same_place and one.count == other.count and one.dtype == other.dtype
    if isinstance(one, (Symbol, DeviceArray, np.ndarray)):
        return one is other
    return type(one) is type(other) and bool(one == other)


class Temporaries:
    """The temporary arrays of a graph."""

    def __init__(self) -> None:
        self._empty: Buffer | None = None

    def new(self, graph: Recorder, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_cell: bool = False) -> Temporary:
        if self._empty is None:
            self._empty = Buffer(graph.device.context, 0)
        count = math.prod(shape)
        root = Root(graph, count * dtype.itemsize, self._empty, is_cell=is_cell)
        return Temporary(root, 0, count, dtype, shape)

    def anew(self, graph: Recorder, steps: Sequence[Step | RepeatStep]) -> dict[Root, Temporary]:
        """One for each that the steps of another graph have."""
        return {root: self.new(graph, (root.nbytes,), BYTE, is_cell=root.is_cell) for root in roots_of(steps)}
