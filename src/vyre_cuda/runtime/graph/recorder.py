"""What a graph records, and what it knows of its symbols."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.graph import graph as native
from vyre_cuda.errors import RecordingError, type_name
from vyre_cuda.ir.core.types import Type
from vyre_cuda.later import later
from vyre_cuda.runtime.base.elsewhere import elsewhere
from vyre_cuda.runtime.graph.collective_step import CollectiveStep
from vyre_cuda.runtime.graph.graph_steps import (
    CopyStep,
    FillStep,
    LaunchStep,
    LoadedStep,
    RepeatStep,
    Step,
    has_temporaries,
    kept,
    try_out,
)
from vyre_cuda.runtime.graph.recording import Repeat, Temporaries, check_times, with_defaults
from vyre_cuda.runtime.graph.temporary import Temporary
from vyre_cuda.runtime.graph.versions import Versions
from vyre_cuda.runtime.memory import shapes
from vyre_cuda.runtime.memory.array import DeviceArray, dtype_of

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel.kernel import Kernel
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel
    from vyre_cuda.runtime.memory import peers
else:
    peers = later("vyre_cuda.runtime.memory.peers")


class Recorder(native.Replayer):
    """The part of a Graph that has its steps."""

    def __init__(self, device: Device, *, fuse: bool = False) -> None:
        super().__init__(device.context)
        self.device = device
        self._fuse = fuse
        self._state = "new"
        self._steps: list[Step | RepeatStep] = []
        self._extent = "0 steps"  # for profilers and traces
        self._open: list[Repeat] = []
        self._end: weakref.finalize[[int], Recorder] | None = None
        self._bound: dict[int, Any] = {}  # the parameters of steps without symbols, by place
        self._communicates = False  # some steps are collectives
        self._group: object | None = None  # what records it beside the graphs of other devices
        self._temporaries = Temporaries()
        self._versions = Versions(device, self._steps)
        self._lock = threading.RLock()  # binding values may run user code

    @property
    def is_recording(self) -> bool:
        """Whether the graph is recording what its thread gives to the device."""
        return self._state == "recording"

    def repeat(self, times: int | None = None, *, until: DeviceArray | None = None) -> AbstractContextManager[None]:
        """Record a loop around the steps of the `with` block.

        Parameters
        ----------
        times
            How often they run, or at most run with `until`; None for no limit.
        until
            An array of integers or bools, whose first element the device reads after each repetition; it stops when
            that is not 0.

        Returns
        -------
        context manager
            The block, for a `with` statement.

        Raises
        ------
        RecordingError
            The graph is not being recorded in this thread; or a block ends that is not the innermost one, or is still
            open when the recording ends.
        UnsupportedError
            When the graph is made: the driver is older than CUDA 12.4 and has no loops that end on the device.
        TypeError, ValueError
            Neither times nor until, or wrong ones, such as an array of another device.
        """
        self._check_recording()
        step = RepeatStep(check_times(times, until), kept(self._check_until(until)))
        return Repeat(self, step, dropped=times == 0)

    def temporary(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
        """An array of this graph alone, for what steps leave to later ones.

        It can be given to launches, filled, copied and sliced while the graph is recorded, and has no other use. Its
        contents are unspecified at the start of each replay. Arrays that are not needed at the same time share memory,
        and one that only merged steps use may have none.

        Parameters
        ----------
        n
            The number of elements, or a tuple with the shape.
        type
            The type of an element.

        Returns
        -------
        DeviceArray
            The array.

        Raises
        ------
        TypeError, ValueError
            Not a shape, or not a type.
        RecordingError
            The graph is not being recorded in this thread.
        ResourceError
            No device has as much memory.
        """
        self._check_recording()
        dtype, shape = dtype_of(type), shapes.checked(n)
        shapes.require_possible(shape, dtype)
        return self._temporaries.new(self, shape, dtype)

    def download(self, array: DeviceArray, out: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Record a copy of a device array to the host.

        The bytes are there when the replay has ended, for example after `Device.synchronize()`.

        Parameters
        ----------
        array
            A device array.
        out
            A page-locked array of its dtype, contiguous and of at least its size.

        Raises
        ------
        TypeError, ValueError
            Other arrays.
        RecordingError
            The graph is not being recorded in this thread, or `out` is not page-locked.
        """
        self._check_recording()
        if not isinstance(array, DeviceArray) or not isinstance(out, np.ndarray):
            raise TypeError("download takes a DeviceArray and a NumPy array")
        self._check_device(array)
        if not out.flags.writeable:
            raise ValueError("out= is read-only")
        self._add(CopyStep(out, kept(array)))

    def _launch(self, kernel: Kernel, values: Mapping[str, Any], grid: Any) -> None:
        self._add(self._launch_step(kernel, values, grid))

    def _launch_rows(self, kernel: Kernel, rows: Sequence[Mapping[str, Any]], grid: Any) -> None:
        """Record a launch for each row, or none; what is wrong with one is raised with its number."""
        steps = []
        for number, values in enumerate(rows):
            try:
                steps.append(self._launch_step(kernel, values, grid))
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"row {number}: {error}") from error
        self._add(*steps, are_rows=True)

    def _launch_step(self, kernel: Kernel, values: Mapping[str, Any], grid: Any) -> LaunchStep:
        given = {
            name: kept(peers.here_if_array(self.device, value, f"{kernel.program.name}: argument {name}"))
            for name, value in values.items()
        }
        return LaunchStep(kernel, given, grid)

    def _launch_loaded(self, kernel: ForeignKernel, args: tuple[Any, ...], shape: tuple[Any, Any, int, bool]) -> None:
        self._add(LoadedStep(kernel, tuple(kept(value) for value in args), shape))

    def _copy(self, to: DeviceArray, source: Any) -> None:
        self._add(CopyStep(to, kept(peers.here_if_array(self.device, source, "what a recorded copy reads"))))

    def _fill(self, to: DeviceArray, value: Any) -> None:
        self._add(FillStep(kept(to), value))

    def _collectives(self, step: CollectiveStep) -> None:
        self._check_recording()
        self._add(step)

    def _add(self, *steps: Step | RepeatStep, are_rows: bool = False) -> None:
        """Record all of the steps or none: an error in a step is raised where it is recorded, with its number among
        rows."""
        if any(each.dropped for each in self._open):
            return
        communicates = any(isinstance(step, CollectiveStep) for step in steps)
        if communicates and self._open:
            raise RecordingError(
                f"a collective inside {self._open[-1]}: the device cannot repeat it alone; record it for each pass, in "
                "a Python loop"
            )
        values, bound = self._values, {}
        place = first = len(self._steps)
        try:
            for place, step in enumerate(steps, first):
                for value in step.operands:
                    if isinstance(value, Temporary):
                        value.check_owner(self)
                if isinstance(step, RepeatStep):
                    continue
                if not step.symbols:
                    parameters = try_out(step, {})
                    if not has_temporaries(step):
                        bound[place] = parameters
                    continue
                values = with_defaults(step, values)
                if all(symbol.name in values for symbol in step.symbols):
                    try_out(step, values)
                else:
                    step.check()
        except (TypeError, ValueError, OverflowError) as error:
            if are_rows:
                raise type(error)(f"row {place - first}: {error}") from error
            raise
        self._values = values
        self._bound.update(bound)
        self._steps += steps
        self._communicates |= communicates
        for step in steps:
            if not isinstance(step, RepeatStep):
                for name in {symbol.name for symbol in step.symbols}:
                    self._users.setdefault(name, []).append(step)

    def _record_replay(self, stream: Any, symbols: Mapping[str, Any]) -> bool:
        """Whether this thread is recording a graph, which then has the steps of this one, with their current values."""
        graph = self.device._recorder()
        if graph is None:
            return False
        if stream is not None:
            raise RecordingError(
                "a recorded replay cannot have a stream of its own; give the stream to the replay() of the outer graph"
            )
        with self._lock:
            given: dict[Any, Any] = {name: kept(value) for name, value in self._given(symbols).items()}
            given.update(graph._temporaries.anew(graph, self._steps))
            graph._add(*(step.copied(given, len(graph._steps)) for step in self._steps))
        return True

    # ---- symbols ----------------------------------------------------------------------------------------------------

    def _given(self, symbols: Mapping[str, Any]) -> dict[str, Any]:
        self._check_recorded()
        self._check_known(symbols)
        given = {**self._values, **symbols}
        missing = sorted(self._users.keys() - given.keys())
        if missing:
            raise TypeError(f"replay() needs a value for {', '.join(missing)}, which has no default")
        return given

    def _check_bound(self, names: Iterable[str], values: Mapping[str, Any]) -> None:
        """Refuse values that do not fit the steps of these symbols, as far as those have all of theirs."""
        for name in names:
            users = self._users[name]
            if all(symbol.name in values for step in users for symbol in step.symbols):
                for step in users:
                    try_out(step, values)

    def _missing(self) -> bool:
        return len(self._users) > len(self._values)

    # ---- checks -----------------------------------------------------------------------------------------------------

    def _check_recording(self) -> None:
        if self.device._recorder() is not self:
            raise RecordingError("the graph is not being recorded in this thread")

    def _check_recorded(self) -> None:
        if self._state != "recorded":
            raise RecordingError(
                "the graph is still being recorded" if self._state == "recording" else "the graph was not recorded"
            )

    def _check_known(self, symbols: Mapping[str, Any]) -> None:
        unknown = sorted(symbols.keys() - self._users.keys())
        if unknown:
            known = ", ".join(sorted(self._users)) or "none"
            raise TypeError(f"the graph has no symbol {', '.join(unknown)}; its symbols are: {known}")

    def _check_device(self, array: DeviceArray) -> None:
        if array.device is not self.device:
            other, own = array.device.properties.label, self.device.properties.label
            raise ValueError(f"the array is {elsewhere(other, own, 'the graph')}")

    def _check_until(self, until: Any) -> Any:
        if until is None:
            return None
        if not isinstance(until, DeviceArray):
            raise TypeError(f"until= is {type_name(until)}; it needs a DeviceArray")
        if until.dtype.kind not in "iub":
            raise TypeError(f"until= is an array of {until.dtype}; it needs integers or bools")
        if until.size == 0:
            raise ValueError("until= is an empty array; its first element ends the loop: give one that has elements")
        self._check_device(until)
        return until
