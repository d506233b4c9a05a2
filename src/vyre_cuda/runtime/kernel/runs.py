"""The ways to run a kernel beside a plain call and a launch: submitted, timed, bound, in rows, recorded, exported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.range_names import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_cuda._native.call.prepared import Arguments, PreparedKernel
    from vyre_cuda._native.call.ticket import Ticket
    from vyre_cuda.bundles import write as bundles
    from vyre_cuda.errors import Error
    from vyre_cuda.ir.core.program import Program
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import bound, many, many_calls, recorded_call
    from vyre_cuda.runtime.kernel.bound import BoundCall
    from vyre_cuda.runtime.kernel.recorded_call import RecordedCall
    from vyre_cuda.runtime.waiting import pending
    from vyre_cuda.runtime.waiting.pending import Pending
else:
    bound = later("vyre_cuda.runtime.kernel.bound")
    many = later("vyre_cuda.runtime.kernel.many")
    many_calls = later("vyre_cuda.runtime.kernel.many_calls")
    bundles = later("vyre_cuda.bundles.write")
    recorded_call = later("vyre_cuda.runtime.kernel.recorded_call")
    pending = later("vyre_cuda.runtime.waiting.pending")


class Timed(FrozenRecord, eq=False):
    """One timed call: its outputs and times in nanoseconds.

    `wall_ns` is from the call to the results, `enqueue_ns` the part until the work was given to the driver, `wait_ns`
    the rest; `device_ns` is between events right around the kernel. For a replay (`Graph.timed`) there are no outputs,
    and `device_ns` is that of the graph.
    """

    outputs: Any
    wall_ns: int
    enqueue_ns: int
    wait_ns: int
    device_ns: int


class Runs:
    """The part of a Kernel that runs it."""

    device: Device
    program: Program
    prepared: PreparedKernel
    precision: str
    bounds: str
    max_ulp: float | None
    is_without_body: bool

    if TYPE_CHECKING:  # defined by Kernel and Dispatcher

        @property
        def specialize(self) -> Mapping[str, bool | int | float]: ...
        def submit_plain(self, args: tuple[Any, ...], out: Any, grid: Any) -> tuple[Ticket, Any] | None: ...
        def _refuse_in_recording(self) -> None: ...
        def _note(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None: ...
        def _assertion(self, report: AssertReport) -> Error: ...
        def _bound(
            self, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, grid: Any, iterations: Any
        ) -> tuple[Arguments, Any]: ...

    def submit(self, *args: Any, out: Any = None, grid: Any = None, iterations: int = 1, **kwargs: Any) -> Pending:
        """Start a call and return at once.

        Inputs are copied before this returns, except page-locked ones, which must not be written until the call is
        done.

        Parameters
        ----------
        *args
            The arguments of a call.
        out
            Memory for the results, as for a call.
        grid
            The number of blocks, as for a call.
        iterations
            How often the kernel runs, each time on the results before.
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
        ResourceError
            The device has no memory left.
        RecordingError
            The thread is recording a graph of the device.
        """
        if not kwargs and type(iterations) is int and iterations == 1:
            plain = self.submit_plain(args, out, grid)
            if plain is not None:
                return pending.Pending(*plain, self)  # type: ignore[arg-type]
        self._refuse_in_recording()
        with self.device._watch.profiled(HOST, self.program.name):
            self._note(args, kwargs)
            arguments, results = self._bound(args, kwargs, out, grid, iterations)
            return pending.Pending(self.prepared.submit(arguments), results, self)  # type: ignore[arg-type]

    def timed(self, *args: Any, out: Any = None, grid: Any = None, iterations: int = 1, **kwargs: Any) -> Timed:
        """Call the kernel and measure it.

        Parameters
        ----------
        *args
            The arguments of a call.
        out, grid, iterations
            Those of a call.
        **kwargs
            Arguments by name.

        Returns
        -------
        Timed
            The results and the times in nanoseconds.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit.
        RecordingError
            The thread is recording a graph of the device.
        Error
            Those of a call.
        """
        self._refuse_in_recording()
        with self.device._watch.profiled(HOST, self.program.name):
            self._note(args, kwargs)
            arguments, results = self._bound(args, kwargs, out, grid, iterations)
            try:
                times = self.prepared.timed(arguments)
            except AssertReport as report:
                raise self._assertion(report) from None
            return Timed(outputs=results, **times)

    def bind(self, *args: Any, stream: Any = None, grid: Any = None, **kwargs: Any) -> BoundCall:
        """A launch on device arrays with bound arguments; nothing is launched yet.

        Parameters
        ----------
        *args
            All parameters in declared order, device arrays and numbers.
        stream
            A Stream, an object with `__cuda_stream__` or a CUstream handle; None for call order.
        grid
            The number of blocks, in place of those that follow from the work.
        **kwargs
            Parameters by name.

        Returns
        -------
        BoundCall
            A `BoundCall`: calling it launches again, without waiting.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit.
        """
        return bound.BoundCall(self, args, kwargs, stream, grid)  # type: ignore[arg-type]

    def launch_many(self, rows: Any, *, stream: Any = None, grid: Any = None) -> None:
        """Launch on device arrays once for each row, without waiting, as one launch.

        Rows do not depend on each other; their order is unspecified. Kernels with assertions, `bounds="trap"`, barriers
        of the grid or prints, and those whose body is not in their bundle, are launched row by row.

        Parameters
        ----------
        rows
            A sequence of rows, each with all parameters in declared order, as `launch` takes them. Or a mapping from
            each parameter to a list, tuple or NumPy array with an entry for each row, or to one device array or number
            for all rows.
        stream
            As for `launch`.
        grid
            The number of blocks of each row, in place of those that follow from its work.

        Raises
        ------
        TypeError, ValueError, OverflowError
            The arguments of a row do not fit, or two rows share memory that one of them writes, which only a recording
            allows; the message has the numbers of the rows, from 0, and nothing was launched or recorded.
        ResourceError
            The device has no memory left, or cannot launch as much.
        """
        many.launch_many(self, rows, stream, grid)  # type: ignore[arg-type]

    def many(self, rows: Any, *, grid: Any = None) -> list[Any]:
        """Call the kernel once for each row, with one launch and one wait.

        The arrays of all rows must fit on the device at the same time. Kernels that `launch_many` launches row by row
        are called row by row.

        Parameters
        ----------
        rows
            A sequence of rows, each with the arguments of a call. Or a mapping from each of these arguments to a list,
            tuple or NumPy array with an entry for each row, or to one number or device array for all rows.
        grid
            The number of blocks of each row, in place of those that follow from its work.

        Returns
        -------
        list
            What each call would have returned.

        Raises
        ------
        TypeError, ValueError, OverflowError
            The arguments of a row do not fit; the message has its number, from 0.
        ResourceError
            The device has no memory left.
        RecordingError
            The thread is recording a graph of the device.
        Error
            Those of a call.
        """
        return many_calls.many(self, rows, grid)  # type: ignore[arg-type]

    def record(
        self, *args: Any, grid: Any = None, iterations: int = 1, skip_identical: bool = False, **kwargs: Any
    ) -> RecordedCall:
        """Record a call with host arrays of these sizes, to be replayed with other contents; nothing runs yet.

        Parameters
        ----------
        *args
            The arguments of a call.
        grid, iterations
            Those of a call.
        skip_identical
            A replay whose inputs have the same bytes as those of the previous replay does not run and returns the same
            outputs again.
        **kwargs
            Arguments by name.

        Returns
        -------
        RecordedCall
            The `RecordedCall`.

        Raises
        ------
        TypeError, ValueError, OverflowError
            Arguments do not fit.
        ResourceError
            The device has no memory left.
        RecordingError
            The thread is recording a graph of the device.
        """
        self._refuse_in_recording()
        return recorded_call.RecordedCall(self, args, kwargs, grid, iterations, skip_identical)  # type: ignore[arg-type]

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        targets: Sequence[str] | None = None,
        source: bool = True,
        cubins: bool | None = None,
    ) -> None:
        """Write the kernel to a bundle.

        Parameters
        ----------
        path
            The file.
        targets
            Such as "sm_90"; None for the target of this device.
        source, cubins
            Those of `vc.bundle`.

        Raises
        ------
        UnsupportedError, CompileError, OSError
            As for `vc.bundle`.
        """
        if self.is_without_body:
            raise UnsupportedError(
                f"{self.program.name} was loaded from a bundle without its body, which is needed to compile it "
                "for a bundle",
                capability="source",
            )
        bundles.bundle(
            self.program,
            path,
            targets=[str(self.device.target)] if targets is None else targets,
            precision=self.precision,
            bounds=self.bounds,
            max_ulp=self.max_ulp,
            specialize=self.specialize,
            source=source,
            cubins=cubins,
        )
