"""A kernel that stays on the device and takes calls from memory."""

from __future__ import annotations

import sys
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.call import worker as native
from vyre_cuda._native.call.prepared import PreparedKernel
from vyre_cuda._native.call.worker import WorkerCall, WorkerHandle
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda.errors import DeviceLostError, Error, KernelTimeoutError, UnsupportedError
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.kernel import arguments as general
from vyre_cuda.runtime.kernel.kernel import Kernel
from vyre_cuda.runtime.memory.array import DeviceArray
from vyre_cuda.runtime.waiting.pending import Pending
from vyre_cuda.runtime.worker.compiled import entry_of, kernels_of, listed_of

if TYPE_CHECKING:
    from vyre_cuda.runtime.device.device import Device

_SECOND = 1_000_000_000
_LONGEST = 3600.0
_MOST_NUMBER = 2**32 - 1
MOST_BLOCKS = 32


class WorkerStats(FrozenRecord):
    """What a worker has done: how many `calls` it was given, how many `launches` of its blocks it took, and how many
    `pauses` found it on the device; `running` of its blocks are there now."""

    running: int
    calls: int
    launches: int
    pauses: int


class _PendingCall(Pending):
    """A call of a worker, which knows why it takes long while the worker is paused."""

    __slots__ = ("worker",)

    worker: weakref.ref[Worker]

    def _way_on(self) -> str:
        worker = self.worker()
        return native.PAUSED if worker is not None and worker._is_paused() else super()._way_on()


class Worker(WorkerHandle):
    """Kernels of a device, compiled as one that stays there; made by `Device.worker`.

    A call costs no launch: it is written to page-locked memory that the worker looks at. With one block of the device,
    all calls run one after the other, in the order in which they were submitted. With several, calls run side by side,
    unless one writes a part of a device array that the other uses: these keep their order. A block starts at its first
    call, ends after `idle` seconds without one, and starts again. `call` and `submit` may be used by several threads.
    `device`, `kernels`, `blocks` and `idle` are what it was made with. It is also a context manager that closes it.
    """

    device: Device
    blocks: int
    idle: float

    def __init__(
        self,
        device: Device,
        kernels: Any,
        *,
        blocks: int = 1,
        idle: float = 1.0,
        busy: float = 0.01,
        first: int = 1,
        entry: tuple[PreparedKernel, Kernel] | None = None,
    ) -> None:
        """`busy`: seconds after which it ends between two calls, and is launched again. `first`: the number of the
        first call, modulo 2^32. `entry`: the kernels as one, and the kernel that clears; None: they are compiled."""
        if isinstance(blocks, bool) or not isinstance(blocks, (int, np.integer)):
            raise TypeError(f"blocks={blocks!r}; it must be an int")
        most = min(MOST_BLOCKS, device.properties.multiprocessor_count)
        if not 1 <= blocks <= most:
            raise ValueError(f"blocks={blocks!r}; a worker on this device has 1 to {most}")
        if isinstance(idle, bool) or not isinstance(idle, (int, float, np.integer, np.floating)):
            raise TypeError(f"idle={idle!r}; it must be a number of seconds")
        if not 0 < idle <= _LONGEST:
            raise ValueError(f"idle={idle!r}; it must be more than 0 and at most {_LONGEST:.0f} seconds")
        given = listed_of(kernels)
        listed = given if entry is not None else kernels_of(device, given)
        own, clearing = entry if entry is not None else entry_of(device, listed)
        times = max(round(idle * _SECOND), 1), round(busy * _SECOND)
        super().__init__(own, listed, given, clearing.prepared, *times, first & _MOST_NUMBER, blocks)
        self.device = device
        self.blocks = blocks
        self.idle = idle
        self._clearing = clearing

    call = native.call

    def submit(self, kernel: Any, *args: Any, out: Any = None, grid: Any = None, **kwargs: Any) -> Pending:
        """Start a call with host arrays and return at once.

        With one block, calls run in the order in which they are submitted. Inputs are copied before this returns.

        Parameters
        ----------
        kernel
            One of the worker's kernels.
        *args
            The arguments of `kernel(...)`.
        out, grid
            As for `kernel(...)`.
        **kwargs
            Arguments by name.

        Returns
        -------
        Pending
            A `Pending`, to be polled, waited for or awaited.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit.
        UnsupportedError
            A device array, which a later launch could use before the call has ended; or more than 1 MiB of arrays.
        RecordingError
            The thread is recording a graph of the device.
        DeviceUnavailableError
            The worker is closed.
        """
        number = self.number_of(kernel)
        kernel = self.kernels[number]
        if self.context.recordings:
            self._refuse_in_recording(kernel)
        plain = self.submit_plain(kernel, number, args, out, grid) if not kwargs else None
        if plain is None:
            _refuse_device_arrays(kernel, (*args, *kwargs.values(), out))
            arguments, results = general.host_arguments(kernel, args, kwargs, out, grid, 1)
            plain = self.submit_arguments(number, arguments), results
        pending = _PendingCall(*plain, kernel)
        pending.worker = weakref.ref(self)
        return pending

    def bind(self, kernel: Any, *args: Any, grid: Any = None, **kwargs: Any) -> WorkerCall:
        """A call on device arrays with its arguments bound.

        Parameters
        ----------
        kernel
            One of the worker's kernels.
        *args
            All parameters in declared order, device arrays and numbers.
        grid
            The number of blocks, in place of those that follow from the work.
        **kwargs
            Parameters by name.

        Returns
        -------
        WorkerCall
            Calling it runs the kernel and waits.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit, or it is not a kernel of the worker.
        """
        kernel = self.kernels[self.number_of(kernel)]
        return WorkerCall(self, kernel, general.device_arguments(kernel, args, kwargs, None, grid))

    def pause(self, timeout: float | None = None) -> None:
        """Leave the device until `resume`; pauses add up.

        Calls that were submitted end first; later ones wait until the worker is resumed. What a handler of signals
        raises meanwhile, such as KeyboardInterrupt, undoes the pause.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Raises
        ------
        KernelTimeoutError
            A call has not ended; the worker is paused all the same.
        ValueError
            The timeout is NaN.
        """
        if not self.try_pause(timeout):
            raise KernelTimeoutError(
                f"the worker is paused, but has not left the device after {timeout} s: "
                "resume() undoes this pause, and another pause() waits again",
                launches=self.context.in_flight(),
            )

    def resume(self) -> None:
        """Undo one pause.

        Raises
        ------
        ValueError
            The worker is not paused.
        """
        self.end_pause()

    def stats(self) -> WorkerStats:
        """What the worker has done so far.

        Returns
        -------
        WorkerStats
            The counters.
        """
        values = self.read_stats()
        return WorkerStats(values["running"], values["calls"], values["launches"], values["pauses"])

    def close(self, timeout: float | None = 10.0) -> None:
        """Finish the calls that were submitted, and take no more. Closing again does nothing.

        Parameters
        ----------
        timeout
            Seconds to wait; None for no limit.

        Raises
        ------
        KernelTimeoutError
            Calls have not ended in this time.
        ValueError
            The timeout is NaN.
        """
        if self.device.is_closed:
            return
        if not self.try_close(timeout):
            raise KernelTimeoutError(
                f"calls of the worker have not ended after {timeout} s; close() waits for them again",
                launches=self.context.in_flight(),
            )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. An exception that leaves the block propagates, with a note on calls that have not ended."""
        try:
            self.close()
        except Error as failure:
            if error is None:
                raise
            if sys.version_info >= (3, 11) and not isinstance(error, DeviceLostError):
                error.add_note(f"closing the worker: {failure}")

    __dir__ = without(
        "end_pause",
        "number_of",
        "read_stats",
        "run_arguments",
        "submit_arguments",
        "submit_plain",
        "try_close",
        "try_pause",
    )
    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        names = ", ".join(kernel.program.name for kernel in self.kernels)
        return f"<vyre_cuda.Worker of {names} on {self.device.properties.name}>"

    # ---- the general path -------------------------------------------------------------------------------------------

    def _general(
        self, kernel: Kernel, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, grid: Any
    ) -> Any:
        timeout = None
        if "timeout" in kwargs and not any(p.name == "timeout" for p in kernel.program.parameters):
            timeout = kwargs.pop("timeout")
        if out is None and _is_launch(kernel, args, kwargs):
            launch = general.device_arguments(kernel, args, kwargs, None, grid)
            self.run_arguments(number, launch, timeout)
            return None
        arguments, results = general.host_arguments(kernel, args, kwargs, out, grid, 1)
        self.run_arguments(number, arguments, timeout)
        return results

    def _refuse_in_recording(self, kernel: Kernel) -> None:
        self.device._refuse_in_recording(f"{kernel.program.name}: a call of a worker")


def _is_launch(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether these are all parameters, with device arrays alone."""
    names = [p.name for p in kernel.program.parameters]
    if len(args) + len(kwargs) != len(names):
        return False
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    buffers = [p.name for p in kernel.program.parameters if p.is_buffer]
    return bool(buffers) and all(isinstance(given.get(name), DeviceArray) for name in buffers)


def _refuse_device_arrays(kernel: Kernel, values: tuple[Any, ...]) -> None:
    flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,))]
    if any(isinstance(value, DeviceArray) for value in flat):
        raise UnsupportedError(
            f"{kernel.program.name}: submit takes host arrays; a later launch could use a device array before the call "
            "has ended: use call, or launch the kernel",
            capability="worker",
        )
