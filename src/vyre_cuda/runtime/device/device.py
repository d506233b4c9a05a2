"""Devices: a CUDA GPU, or the emulator behind the same driver API."""

from __future__ import annotations

import sys
import weakref
from _thread import _local, allocate_lock  # threading takes two milliseconds to import
from collections.abc import Iterable
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.core.context import Context, refuse_pickle
from vyre_cuda._native.core.context import Event as Event
from vyre_cuda._native.core.context import Stream as Stream
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda._native.memory import memory
from vyre_cuda.errors import DeviceUnavailableError, Error, RecordingError, type_name
from vyre_cuda.ir.core.program import Program, ProgramSource
from vyre_cuda.ir.core.types import TYPES, Type, bf16
from vyre_cuda.later import later
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.base.device_selection import cuda_driver, emulator_driver, open_driver
from vyre_cuda.runtime.base.properties import DeviceInfo, DeviceProperties, PeerInfo
from vyre_cuda.runtime.device.compiling import Compiling
from vyre_cuda.runtime.device.device_memory import Memory
from vyre_cuda.runtime.kernel import compiler_fingerprint
from vyre_cuda.runtime.kernel.kernel import Kernel
from vyre_cuda.runtime.kernel.kernels import Kernels
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.telemetry.telemetry import Telemetry
from vyre_cuda.runtime.waiting.completion_thread import Waiter

if TYPE_CHECKING:
    from vyre_cuda.codegen.core import target as targets
    from vyre_cuda.codegen.core.target import Target
    from vyre_cuda.runtime.device import support
    from vyre_cuda.runtime.graph import graph as graphs
    from vyre_cuda.runtime.graph.graph import Graph
    from vyre_cuda.runtime.kernel import blocks, preloading
    from vyre_cuda.runtime.memory import interop, peers
    from vyre_cuda.runtime.worker import worker as workers
    from vyre_cuda.runtime.worker.worker import Worker
else:
    blocks = later("vyre_cuda.runtime.kernel.blocks")
    graphs = later("vyre_cuda.runtime.graph.graph")
    interop = later("vyre_cuda.runtime.memory.interop")
    peers = later("vyre_cuda.runtime.memory.peers")
    preloading = later("vyre_cuda.runtime.kernel.preloading")
    support = later("vyre_cuda.runtime.device.support")
    workers = later("vyre_cuda.runtime.worker.worker")
    targets = later("vyre_cuda.codegen.core.target")

# Seconds that a process waits at exit for the work of a device that was not closed.
_EXIT_LIMIT = 1.0


class Device(memory.Allocator, Compiling, Memory, Telemetry):
    """An open device, which is also a context manager that closes it.

    `properties` is what it reports about itself, and `is_closed` says whether it was closed.

    Parameters
    ----------
    which
        The number of a CUDA device, or "cuda:1"; "cuda" for the first one; "emulator", which runs on the CPU, or
        "emulator:1"; or "auto" for what VYRE_CUDA_DEVICE names, else the first CUDA device, else the emulator with a
        RuntimeWarning, unless VYRE_CUDA_REQUIRE_GPU is set.
    check
        The mistakes in programs, one name or several, that the emulator looks for: for "races", a wait raises
        DataRaceError, for "initialized" UninitializedError.

    Raises
    ------
    DeviceUnavailableError
        There is no such device; it says what was looked for and what is missing.
    UnsupportedError
        `check` is given for a CUDA device.
    TypeError, ValueError
        An unknown name of a device or of a check, or VYRE_CUDA_EMULATOR_DEVICES is not a number from 1 to 8.
    """

    def __init__(self, which: int | str = 0, *, check: str | Iterable[str] | None = None) -> None:
        if check is None:  # else nothing is kept on disk
            compiler_fingerprint.begin()
        driver, ordinal, checks = open_driver(which, check)
        is_emulator = driver.info()[2]  # which makes a context at once
        with nullcontext() if is_emulator else preloading.beside_a_driver():
            context = Context(driver, ordinal)
        super().__init__(context, DeviceArray, _rows())
        self.properties = DeviceProperties.of(self.context.caps())
        self._kernels = Kernels(self.context, checks=checks)
        self._blocks: blocks.Blocks | None = None
        self.context.explain = self._kernels.checks.error
        self.waiter = Waiter()
        self.context.awaiting = self.waiter.awaited
        weakref.finalize(self, self.waiter.stop)
        weakref.finalize(self.context, _limit_wait_at_exit, weakref.ref(self.context))
        self._recording = _local()
        self._watch_lock = allocate_lock()
        self.is_closed = False

    @property
    def target(self) -> Target:
        """What kernels are compiled for: the newest known target that the device and the driver support."""
        return targets.target_for(self.properties.compute_capability, self.properties.driver_version)

    # ---- other devices ----------------------------------------------------------------------------------------------

    @property
    def peers(self) -> tuple[PeerInfo, ...]:
        """The other devices of the same driver, in order of their numbers, and whether this one can reach their memory.

        Where it can, copies between arrays go from memory to memory, and `enable_peer` is possible; else copies go by
        way of the host.
        """
        return peers.peers_of(self)

    def enable_peer(self, other: Device) -> None:
        """Let kernels of this device take arrays of another one, in launches, calls and recorded graphs.

        Each use runs after the work on the array that the other device was given before, and later work of that device
        runs after the use. The other direction takes a call of its own. Copies between devices need none.

        Parameters
        ----------
        other
            Another open device of the same driver.

        Raises
        ------
        UnsupportedError
            The devices cannot reach each other's memory: copy arrays instead.
        TypeError
            Not a Device.
        ValueError
            This device itself.
        """
        peers.enable(self, other)

    # ---- recording --------------------------------------------------------------------------------------------------

    def record(self, *, fuse: bool = False) -> Graph:
        """A graph that records, in a `with` statement, what this thread gives to the device instead of running it.

        Parameters
        ----------
        fuse
            Whether launches in a row may become one kernel, as by `Graph.fuse`.

        Returns
        -------
        Graph
            The graph, for a `with` statement, which raises RecordingError if this thread is already recording a graph
            of the device.
        """
        return graphs.Graph(self, fuse=fuse)

    def _begin_recording(self, graph: Graph) -> None:
        if self._recorder() is not None:
            raise RecordingError("this thread is already recording a graph of this device: end that recording first")
        self._recording.graph = weakref.ref(graph)  # a dropped graph no longer records

    def _record_zeros(self, array: DeviceArray) -> bool:
        """Whether this thread is recording a graph, which then clears the array at each replay."""
        graph = self._recorder()
        if graph is not None:
            graph._fill(array, np.zeros((), array.dtype)[()])
        return graph is not None

    def _recorder(self) -> Graph | None:
        """The graph that this thread is recording."""
        if self.context.recordings == 0:
            return None
        reference: weakref.ref[Graph] | None = getattr(self._recording, "graph", None)
        graph = None if reference is None else reference()
        return graph if graph is not None and graph.is_recording else None

    def _refuse_in_recording(self, what: str) -> None:
        if self._recorder() is not None:
            raise RecordingError(
                f"{what} cannot be recorded, because it waits for results: "
                "call it before or after, or launch on device arrays"
            )

    # ---- workers -----------------------------------------------------------------------------------------------------

    def worker(
        self,
        kernels: Kernel | Program | ProgramSource | Iterable[Kernel | Program | ProgramSource],
        *,
        blocks: int = 1,
        idle: float = 1.0,
    ) -> Worker:
        """A kernel that stays on the device and runs calls of these kernels, without a launch for each: docs/worker.md.

        Use it in a `with` statement, or close it. It starts at the first call.

        Parameters
        ----------
        kernels
            Kernels of this device, programs or kernel functions without open parameters, one or up to 63.
        blocks
            Blocks of the device that take calls, up to 32 and as many as it has multiprocessors. 1: it runs all calls,
            one after the other. With several, calls run side by side, except those of which one writes a device array
            that the other uses.
        idle
            Seconds without a call after which it ends, until the next call; more than 0 and at most 3,600.

        Returns
        -------
        Worker
            The worker.

        Raises
        ------
        UnsupportedError
            A kernel has grid barriers, assertions, `bounds="trap"` or prints, comes from `load`, or from a
            bundle without its body; or the kernels do not fit into one.
        ValueError
            No kernel, a kernel of another device, or a duration or a number of blocks out of range.
        TypeError
            Not a kernel or program, or the number of blocks is not an int.
        """
        return workers.Worker(self, kernels, blocks=blocks, idle=idle)

    # ---- streams and life -------------------------------------------------------------------------------------------

    def stream(self) -> Stream:
        """A new stream; its work is ordered only within the stream and by events.

        Returns
        -------
        Stream
            The stream.

        Raises
        ------
        DeviceUnavailableError
            The device is closed.
        """
        return Stream(self.context)

    if TYPE_CHECKING:  # defined by Allocator

        def empty(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
            """An array of `n` elements, or of this shape, with unspecified contents."""

        def zeros(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
            """An array of `n` zeros, or of zeros in this shape."""

        def synchronize(self, timeout: float | None = None) -> None:
            """Wait for all work given to this device. Raises the errors of asynchronous launches."""

    def close(self, timeout: float | None = 10.0) -> None:
        """Wait, then free everything; later use raises DeviceUnavailableError. Closing again does nothing.

        Parameters
        ----------
        timeout
            Seconds to wait for work that has not ended; None for no limit.

        Raises
        ------
        ValueError
            The timeout is NaN; the device stays open.
        KernelTimeoutError
            Work has not ended. The device is closed anyway, and the driver keeps what that work uses until the process
            ends.
        Error
            Those of asynchronous launches.
        """
        try:
            self.context.close(timeout, self.waiter.collect)
        except AssertReport as report:
            self._closed()
            raise self.explain(report) from None
        except Error:
            self._closed()
            raise
        self._closed()  # not reached after Ctrl-C: the device is still open then

    def _closed(self) -> None:
        self.is_closed = True
        self._kernels.clear()  # on an open device this would wait for their runs
        self.waiter.stop()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close. An exception that leaves the block propagates, with a note on unfinished work."""
        try:
            self.close()
        except Error as failure:
            if error is None:
                raise
            if sys.version_info >= (3, 11):
                error.add_note(f"closing the device: {failure}")

    __dir__ = without("context", "explain", "waiter")
    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.Device {self.properties.label}: {self.properties.name}>"


def devices() -> list[DeviceInfo]:
    """The devices that can be opened, without opening one: CUDA devices by number, then emulated ones.

    Returns
    -------
    list of DeviceInfo
        What names each; without a CUDA driver only the emulated ones.

    Raises
    ------
    ValueError
        VYRE_CUDA_EMULATOR_DEVICES is not a number from 1 to 8.
    """
    found = []
    try:
        driver = cuda_driver()
        found = [DeviceInfo("cuda", i, driver.device_name(i)) for i in range(driver.info()[1])]
    except DeviceUnavailableError:
        found = []
    emulator = emulator_driver()
    return found + [DeviceInfo("emulator", i, emulator.device_name(i)) for i in range(emulator.info()[1])]


def _limit_wait_at_exit(context: weakref.ref[Context]) -> None:
    """Runs when the process ends, if the context still exists."""
    alive = context()
    if alive is not None:
        alive.set_patience(_EXIT_LIMIT)


def from_dlpack(array: Any, /, *, device: Device | None = None) -> DeviceArray:
    """The memory of another library's array, by DLPack, as a device array; nothing is copied.

    Parameters
    ----------
    array
        An object with `__dlpack__`, in the memory of a GPU; of a device array, a view. With `device`, an object with
        `__cuda_array_interface__` will do.
    device
        The device that the array is to belong to; None opens the Device of its GPU.

    Returns
    -------
    DeviceArray
        A device array that shares the memory.

    Raises
    ------
    BufferError, TypeError, ValueError
        Not such an array or not a Device, or an array that is not supported: in host memory or on another GPU, with
        another dtype or with strides.
    """
    if isinstance(array, DeviceArray) and (device is None or device is array.device):
        view: DeviceArray = array._view(0, array.shape)
        return view
    if device is None:
        if not hasattr(array, "__dlpack_device__"):
            raise TypeError(f"{type_name(array)} has no __dlpack__; if it has __cuda_array_interface__, pass device=")
        kind, ordinal = array.__dlpack_device__()
        if int(kind) not in (interop.CUDA, interop.CUDA_MANAGED):
            raise ValueError(
                f"{type_name(array)} on DLPack device {(int(kind), int(ordinal))}: name the device, or copy "
                "host memory with Device.array(np.from_dlpack(x))"
            )
        device = Device(int(ordinal))
    elif not isinstance(device, Device):
        raise TypeError(f"device= is {type_name(device)}; it must be a Device, or None")
    return interop.adopt(device, array)


def _rows() -> tuple[tuple[Type, np.dtype[Any]], ...]:
    """The types whose arrays are made the fast way; nothing is imported here for the dtype of bf16."""
    return tuple((type_, type_.dtype) for type_ in TYPES if type_ is not bf16 or "ml_dtypes" in sys.modules)
