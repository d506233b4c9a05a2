"""Devices: a CUDA GPU, or the emulator behind the same driver API."""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vyre_cuda._native.call import frame
from vyre_cuda._native.core.context import Context, refuse_pickle
from vyre_cuda._native.core.context import Event as Event
from vyre_cuda._native.core.context import Stream as Stream
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda._native.memory import memory
from vyre_cuda._native.memory.memory import Buffer
from vyre_cuda.errors import DeviceUnavailableError, Error, RecordingError, ResourceError
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.program import Program, ProgramSource, program_of
from vyre_cuda.ir.core.types import TYPES, Type, bf16, by_dtype
from vyre_cuda.later import later
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.base.device_selection import cuda_driver, emulator_driver, open_driver
from vyre_cuda.runtime.base.properties import DeviceInfo, DeviceProperties, MemoryStats, PeerInfo
from vyre_cuda.runtime.base.range_names import COMPILE
from vyre_cuda.runtime.kernel import compiler_fingerprint
from vyre_cuda.runtime.kernel.kernel import Kernel
from vyre_cuda.runtime.kernel.kernels import Kernels
from vyre_cuda.runtime.memory import transfers
from vyre_cuda.runtime.memory.array import DeviceArray, dtype_of
from vyre_cuda.runtime.memory.transfers import Host
from vyre_cuda.runtime.telemetry.telemetry import Telemetry
from vyre_cuda.runtime.waiting import pending
from vyre_cuda.runtime.waiting.completion_thread import Waiter

if TYPE_CHECKING:
    from vyre_cuda.codegen.core import target as targets
    from vyre_cuda.codegen.core.target import Target
    from vyre_cuda.ir.call import known
    from vyre_cuda.ir.call.known import Known
    from vyre_cuda.runtime.device import support
    from vyre_cuda.runtime.device.support import Support
    from vyre_cuda.runtime.graph import graph as graphs
    from vyre_cuda.runtime.graph.graph import Graph
    from vyre_cuda.runtime.kernel import blocks, loaded_kernel, preloading, warmup
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel
    from vyre_cuda.runtime.memory import interop, peers, shapes
    from vyre_cuda.runtime.worker import worker as workers
    from vyre_cuda.runtime.worker.worker import Worker
else:
    blocks = later("vyre_cuda.runtime.kernel.blocks")
    loaded_kernel = later("vyre_cuda.runtime.kernel.loaded_kernel")
    graphs = later("vyre_cuda.runtime.graph.graph")
    known = later("vyre_cuda.ir.call.known")
    interop = later("vyre_cuda.runtime.memory.interop")
    peers = later("vyre_cuda.runtime.memory.peers")
    shapes = later("vyre_cuda.runtime.memory.shapes")
    preloading = later("vyre_cuda.runtime.kernel.preloading")
    support = later("vyre_cuda.runtime.device.support")
    workers = later("vyre_cuda.runtime.worker.worker")
    targets = later("vyre_cuda.codegen.core.target")
    warmup = later("vyre_cuda.runtime.kernel.warmup")

# Seconds that a process waits at exit for the work of a device that was not closed.
_EXIT_LIMIT = 1.0


class Device(memory.Allocator, Telemetry):
    """An open device, which is also a context manager that closes it.

    Parameters
    ----------
    which
        The number of a CUDA device, or "cuda:1"; "cuda" for the first one; "emulator", which runs on the CPU, or
        "emulator:1"; or "auto" for what VYRE_CUDA_DEVICE names, else a CUDA device if there is one, else the emulator
        with a RuntimeWarning.
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
        Another name of a device or of a check.
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
        self.context.awaiting = partial(pending.awaited, self.waiter)
        weakref.finalize(self, self.waiter.stop)
        weakref.finalize(self.context, _hurry, weakref.ref(self.context))
        self._recording = threading.local()
        self._watch_lock = threading.Lock()
        self.is_closed = False

    @property
    def target(self) -> Target:
        """What kernels are compiled for: the newest known target that the device and the driver support."""
        return targets.target_for(self.properties.compute_capability, self.properties.driver_version)

    # ---- other devices ----------------------------------------------------------------------------------------------

    @property
    def peers(self) -> tuple[PeerInfo, ...]:
        """The other devices of the same driver, in order of their numbers, and whether this one can reach their memory.

        Copies between arrays go from memory to memory then, and `enable_peer` is possible; else copies go by way of the
        host.
        """
        return peers.peers_of(self)

    def enable_peer(self, other: Device) -> None:
        """Let kernels of this device take arrays of another one, in launches, calls and recorded graphs.

        Each use comes after the work that the other device was given on the array, and its later work after the use.
        The other direction is a call of its own. Copies between devices need none.

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

    # ---- kernels ----------------------------------------------------------------------------------------------------

    def compile(
        self,
        program: Program | ProgramSource,
        *,
        precision: str = "ieee",
        bounds: str = "check",
        max_ulp: float | None = None,
        block: int | Literal["auto"] | None = None,
        specialize: Mapping[str, Any] | None = None,
    ) -> Kernel:
        """Compile the program for this device; the same program and options return the same kernel.

        A kernel compiled before, in any process of this user, is read from the disk cache: docs/caching.md.

        Parameters
        ----------
        program
            A `vc.Program`, or a kernel function without open parameters.
        precision
            "ieee", "ftz" or "fast": docs/programs.md.
        bounds
            What an index out of bounds does: "check" (a load gives 0, a store does nothing), "trap" (an assertion
            fails) or "off" (undefined behavior).
        max_ulp
            Each op uses the cheapest form whose error is at most this many units in the last place; None leaves that
            to the precision.
        block
            Threads per block, all along x, instead of the program's own. "auto", here or in the Builder, lets the
            device choose it, so that as many threads as possible are resident; `kernel.program.block` says what it is.
        specialize
            Values that every call will have, such as `{"w": 28, "x.size": 784, "img.shape[0]": 64}`: scalars, numbers
            of elements, and extents of arrays with several axes. The code is compiled for these values alone. Calls
            still take all arguments; one with another value is a ValueError. A float is compared by its bits.

        Returns
        -------
        Kernel
            The kernel, which can be called and launched.

        Raises
        ------
        ValueError
            `block` is given for a program that depends on its block, because it has shared arrays, barriers, warp
            operations, or thread_id, block_id, block_dim, grid_dim or lane_id. Or `specialize` names what the program
            does not have, or a size that its declarations contradict.
        TypeError, OverflowError
            A value of `specialize` is not of the parameter's type.
        UnsupportedError
            No form of an op is that accurate, or no launch of the kernel could work; it names every limit then.
        """
        found = program_of(program)
        if found is None:
            raise TypeError(f"compile takes a Program, not a {type(program).__name__} (a Builder needs .build())")
        program = found
        values: tuple[Known, ...] = ()
        if specialize is not None:
            check(program)
            values = known.known_values(program, specialize)
        if block is not None or program.auto_block:
            program = self._blocked(program, block, precision, bounds, max_ulp, values)
        with self._watch.profiled(COMPILE, program.name):
            check(program)
            return self._kernels.kernel(self, program, precision, bounds, max_ulp, values)

    def warmup(
        self,
        programs: Iterable[Program | ProgramSource],
        *,
        precision: str = "ieee",
        bounds: str = "check",
        max_ulp: float | None = None,
        block: int | Literal["auto"] | None = None,
        specialize: Mapping[str, Any] | None = None,
    ) -> list[Kernel]:
        """Compile programs in parallel; a later `compile` with these options finds them.

        Parameters
        ----------
        programs
            Programs, or kernel functions without open parameters.
        precision, bounds, max_ulp, block, specialize
            The options of `compile`.

        Returns
        -------
        list[Kernel]
            The kernels in the same order.

        Raises
        ------
        Error
            Those of `compile`: the first one, after all have ended.
        """
        options = {
            "precision": precision,
            "bounds": bounds,
            "max_ulp": max_ulp,
            "block": block,
            "specialize": specialize,
        }
        return warmup.compiled(programs, partial(self.compile, **options))  # type: ignore[arg-type]

    def supports(
        self,
        what: Program | ProgramSource | Type | str,
        type: Type | None = None,
        *,
        order: str | None = None,
        scope: str | None = None,
        precision: str = "ieee",
        bounds: str = "check",
        max_ulp: float | None = None,
        block: int | Literal["auto"] | None = None,
        specialize: Mapping[str, Any] | None = None,
    ) -> Support:
        """Whether this device can, and why not: the checks that would refuse it are asked.

        Parameters
        ----------
        what
            A program, which is compiled with these options; a type; the name of an op ("exp") or of an atomic or warp
            method of the Builder ("atomic_add"); or a capability: "cooperative_launch" of grid barriers,
            "conditional_nodes" of loops that end on the device, "captured_replay" of graphs on streams that others
            capture, "cuFuncGetParamInfo" of loaded kernels, a target such as "sm_90", the check "races", "nvtx".
        type
            The type of the operands of an op, an atomic or a warp operation.
        order, scope
            Those of an atomic.
        precision, bounds, max_ulp, block, specialize
            The options of `compile`.

        Returns
        -------
        Support
            The answer, true where the device can.

        Raises
        ------
        ValueError
            Another name.
        TypeError
            An op without a type.
        """
        used = {name: value for name, value in (("order", order), ("scope", scope)) if value is not None}
        options = {
            "precision": precision,
            "bounds": bounds,
            "max_ulp": max_ulp,
            "block": block,
            "specialize": specialize,
        }
        return support.support(self, what, type, used, **options)

    def _blocked(
        self,
        program: Program,
        block: Any,
        precision: str,
        bounds: str,
        max_ulp: float | None,
        values: tuple[Known, ...],
    ) -> Program:
        """The program with a block that is given, or chosen once by this device."""
        check(program)
        if block not in (None, "auto"):
            return blocks.given(program, block, self.properties)
        if self._blocks is None:
            self._blocks = blocks.Blocks(self.context, self.properties, self._kernels.store)
        return self._blocks.chosen(program, precision, bounds, max_ulp, values)

    def load(self, image: str | bytes, name: str, *, signature: str) -> ForeignKernel:
        """Load the kernel `name` from PTX text, a cubin or a fat binary from another compiler, such as NVRTC, nvcc or
        Triton.

        Parameters
        ----------
        image
            PTX as text, or the bytes of a cubin or fat binary.
        name
            The kernel's name in it.
        signature
            A word for each parameter: ptr, const_ptr (the kernel only reads there), i8 to i64, u8 to u64, f16, bf16,
            f32, f64. Offsets follow C's alignment, and are checked against what the driver reports about the kernel,
            where it can (CUDA 12.4).

        Returns
        -------
        ForeignKernel
            The kernel, which can be launched.

        Raises
        ------
        ValueError
            No such kernel, or another signature.
        CompileError
            The driver rejected the image.
        """
        return loaded_kernel.ForeignKernel(self, image, name, signature)

    def run(self, program: Program | ProgramSource, *args: Any, **kwargs: Any) -> Any:
        """Compile the program (cached) and call it with host arrays.

        Parameters
        ----------
        program
            A program, or a kernel function without open parameters.
        *args
            The arguments of the call: docs/devices.md.
        **kwargs
            The same by name, and the options of a call.

        Returns
        -------
        array or tuple of arrays
            What the kernel returns: an array, or a tuple of several.

        Raises
        ------
        Error
            Those of `compile` and of a call.
        """
        return self.compile(program)(*args, **kwargs)

    def explain(self, report: AssertReport) -> Error:
        """The error for an assertion that an asynchronous launch failed."""
        return self._kernels.checks.error(report)

    # ---- memory -----------------------------------------------------------------------------------------------------

    def array(self, data: np.ndarray[Any, np.dtype[Any]]) -> DeviceArray:
        """Copy a NumPy array to device memory.

        Parameters
        ----------
        data
            An array of a type that programs have, of any strides.

        Returns
        -------
        DeviceArray
            A device array of its shape and dtype.

        Raises
        ------
        TypeError
            Not a NumPy array, or of a type that programs do not have.
        ResourceError
            The device has no memory left.
        """
        transfers.require_array("array", data)
        result = self._new(data.shape, data.dtype)
        result.copy_from(data)
        return result

    if TYPE_CHECKING:  # defined by Allocator

        def empty(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
            """An array of `n` elements, or of this shape, with unspecified contents."""

        def zeros(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
            """An array of `n` zeros, or of zeros in this shape."""

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
            A device array or a NumPy array.

        Returns
        -------
        DeviceArray
            The device array.

        Raises
        ------
        TypeError
            A dtype that programs do not have.
        ResourceError
            The device has no memory left.
        """
        return self._new(array.shape or (1,), array.dtype)

    def _empty(self, n: int | tuple[int, ...], type: Type) -> DeviceArray:
        dtype = dtype_of(type)
        return self._new(shapes.checked(n), dtype)

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        if by_dtype(dtype) is None:
            supported = ", ".join(str(type_.dtype) for type_ in TYPES)
            raise TypeError(f"arrays of {dtype} are not supported; supported are {supported}")
        count = math.prod(shape)
        return DeviceArray(self, Buffer(self.context, count * dtype.itemsize), 0, count, dtype, shape)

    def upload(self, items: Iterable[tuple[DeviceArray, Host] | tuple[DeviceArray, int, Host]]) -> None:
        """Write many ranges, in this order; adjacent ranges are copied as one.

        It returns once all data has been read.

        Parameters
        ----------
        items
            Tuples (array, data) or (array, element offset, data).

        Raises
        ------
        TypeError
            Data of another dtype; then nothing has been written.
        ValueError
            A range outside its array, or an array of another device; then nothing has been written.
        """
        given = transfers.listed("upload", items)
        rows = [transfers.upload_item(self, item) for item in given]
        graph = self._recorder()
        if graph is not None:
            for item, (_, _, data) in zip(given, rows, strict=True):
                offset = item[1] if len(item) == 3 else 0
                graph._copy(item[0]._flat(offset, offset + data.size), data)
            return
        transfers.upload(self, rows)

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
        """
        self._refuse_in_recording("download()")
        rows = [transfers.download_item(self, item) for item in transfers.listed("download", items)]
        transfers.download(self, rows)
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
        ResourceError
            The driver cannot lock as much memory.
        """
        dtype, shape = dtype_of(type), shapes.checked(n)
        return memory.pinned_empty(self.context, math.prod(shape), dtype).reshape(shape)

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
            dropped.

        Raises
        ------
        ValueError
            Not contiguous, or overlapping memory that is already page-locked.
        TypeError
            An array of Python objects.
        """
        transfers.require_array("register", array)
        if array.dtype.hasobject:
            raise TypeError(f"an array of {array.dtype} holds Python objects; it cannot be registered")
        if not array.flags.c_contiguous:
            raise ValueError("only a C-contiguous array can be registered")
        return memory.register(self.context, array)

    def memory_stats(self) -> MemoryStats:
        """Bytes live and idle, of device and page-locked memory; blocks no longer in use count as idle."""
        stats = self.context.memory_stats()
        return MemoryStats(**{name: stats[name] for name in MemoryStats.__slots__})

    def _result(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
        """Memory for a new result of a call: page-locked where it is large, because fresh pages cost more."""
        count = math.prod(shape)
        if count * dtype.itemsize >= frame.LARGE_RESULT:
            try:
                return memory.pinned_empty(self.context, count, dtype, may_fail=True).reshape(shape)
            except ResourceError:
                pass  # ordinary memory works as well
        return np.empty(shape, dtype)

    def set_memory_budget(self, *, device_bytes: int | None = None, pinned_bytes: int | None = None) -> None:
        """Set how many bytes at most are kept idle for reuse.

        A device starts with a quarter of its memory, and a sixteenth of that size of page-locked memory. What exceeds
        the budget is returned to the driver, least recently used first.

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
            The graph, for a `with` statement.
        """
        return graphs.Graph(self, fuse=fuse)

    def _begin_recording(self, graph: Graph) -> None:
        if self._recorder() is not None:
            raise RecordingError("this thread is already recording a graph of this device")
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
            raise RecordingError(f"{what} cannot be recorded: it waits for results")

    # ---- workers -----------------------------------------------------------------------------------------------------

    def worker(
        self,
        kernels: Iterable[Kernel | Program | ProgramSource],
        *,
        blocks: int = 1,
        idle: float = 1.0,
    ) -> Worker:
        """A kernel that stays on the device and runs calls of these kernels, without a launch for each: docs/worker.md.

        Use it in a `with` statement, or close it. It starts at the first call.

        Parameters
        ----------
        kernels
            Kernels of this device, programs or kernel functions without open parameters; up to 63.
        blocks
            Blocks of the device that take calls, up to 32. 1: it runs all calls, one after the other. With several,
            calls run side by side, except those of which one writes a device array that the other uses.
        idle
            Seconds without a call after which it ends, until the next call; more than 0 and at most 3,600.

        Returns
        -------
        Worker
            The worker.

        Raises
        ------
        UnsupportedError
            A kernel has barriers of the grid, assertions, `bounds="trap"` or prints, or was loaded without its source;
            or the kernels do not fit into one.
        ValueError
            A kernel of another device, or a duration or a number of blocks out of range.
        """
        return workers.Worker(self, kernels, blocks=blocks, idle=idle)

    # ---- streams and life -------------------------------------------------------------------------------------------

    def stream(self) -> Stream:
        """A new stream; its work is ordered only within the stream and by events."""
        return Stream(self.context)

    if TYPE_CHECKING:  # defined by Allocator

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
    """The devices that can be opened, without creating a context: CUDA devices in ordinal order, then emulated ones."""
    found = []
    try:
        driver = cuda_driver()
        found = [DeviceInfo("cuda", i, driver.device_name(i)) for i in range(driver.info()[1])]
    except DeviceUnavailableError:
        found = []
    emulator = emulator_driver()
    return found + [DeviceInfo("emulator", i, emulator.device_name(i)) for i in range(emulator.info()[1])]


def _hurry(context: weakref.ref[Context]) -> None:
    """Runs when the process ends, if the context still exists."""
    alive = context()
    if alive is not None:
        alive.set_patience(_EXIT_LIMIT)


def from_dlpack(array: Any, /, *, device: Device | None = None) -> DeviceArray:
    """The memory of another library's array, by DLPack, as a device array; nothing is copied.

    Parameters
    ----------
    array
        An object with `__dlpack__`, in the memory of a GPU.
    device
        The device that the array is to belong to; None for a Device of its GPU.

    Returns
    -------
    DeviceArray
        A device array that shares the memory.

    Raises
    ------
    BufferError, TypeError, ValueError
        What is not supported about the array: host memory, another GPU, a dtype, strides.
    """
    if isinstance(array, DeviceArray) and (device is None or device is array.device):
        view: DeviceArray = array._view(0, array.shape)
        return view
    if device is None:
        kind, ordinal = array.__dlpack_device__()
        if int(kind) not in (interop.CUDA, interop.CUDA_MANAGED):
            raise ValueError(
                f"a {type(array).__name__} on DLPack device {(int(kind), int(ordinal))}: name the device, or copy "
                "host memory with Device.array(np.from_dlpack(x))"
            )
        device = Device(int(ordinal))
    return interop.adopt(device, array)


def _rows() -> tuple[tuple[Type, np.dtype[Any]], ...]:
    """The types whose arrays are made the fast way; nothing is imported here for the dtype of bf16."""
    return tuple((type_, type_.dtype) for type_ in TYPES if type_ is not bf16 or "ml_dtypes" in sys.modules)


def _bytes(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int, not a {type(value).__name__}")
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{name}={value}; it must be from 0 to 2**63 - 1")
    return int(value)
