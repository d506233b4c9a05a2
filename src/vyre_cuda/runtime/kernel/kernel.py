"""A compiled program, ready to be called.

The warm path is `Dispatcher` in the extension. This code runs when a kernel is made, when a call is not a plain one
(keywords, conversions) and when something is wrong with its arguments, which `runtime.kernel.arguments` then reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call import dispatch
from vyre_cuda._native.call.dispatch import Dispatcher
from vyre_cuda._native.call.prepared import Arguments, PreparedKernel
from vyre_cuda._native.call.ticket import require_timeout
from vyre_cuda._native.core.context import refuse_pickle
from vyre_cuda._native.core.module import Module
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.descriptors.signature import Signature, known_rows, signature
from vyre_cuda.errors import Error, Limit, RecordingError, type_name
from vyre_cuda.ir.call.geometry import grid_axes
from vyre_cuda.ir.core import limits
from vyre_cuda.ir.core.nodes import extent_names
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord
from vyre_cuda.runtime.base.completion import without
from vyre_cuda.runtime.base.properties import KernelAttributes
from vyre_cuda.runtime.base.range_names import HOST, RESIDENT
from vyre_cuda.runtime.kernel.assertions import Checks
from vyre_cuda.runtime.kernel.occupancy import Occupancy, block_limits, grid_limits, kernel_limits, occupancy, require
from vyre_cuda.runtime.kernel.runs import Runs

if TYPE_CHECKING:
    from vyre_cuda.codegen.core.lowered import Lowered, Several
    from vyre_cuda.ir.call import call as calls
    from vyre_cuda.ir.call import known as known_values
    from vyre_cuda.ir.call.known import Known
    from vyre_cuda.runtime.device.device import Device
    from vyre_cuda.runtime.kernel import arguments as general
    from vyre_cuda.runtime.kernel import large_entry, many, many_calls
    from vyre_cuda.runtime.kernel import side_by_side as together
    from vyre_cuda.runtime.kernel.rows_entry import Entry
    from vyre_cuda.runtime.kernel.side_by_side import SideBySide
else:
    calls = later("vyre_cuda.ir.call.call")
    known_values = later("vyre_cuda.ir.call.known")
    general = later("vyre_cuda.runtime.kernel.arguments")
    large_entry = later("vyre_cuda.runtime.kernel.large_entry")
    many = later("vyre_cuda.runtime.kernel.many")
    many_calls = later("vyre_cuda.runtime.kernel.many_calls")
    together = later("vyre_cuda.runtime.kernel.side_by_side")


class CompileTimes(FrozenRecord):
    """How long the stages of `Device.compile` took, in nanoseconds; 0 for those that were not needed.

    A kernel from the disk cache was only read and loaded; without a disk cache the driver compiles while it loads.
    """

    reading_ns: int = 0
    passes_ns: int = 0
    lowering_ns: int = 0
    linking_ns: int = 0
    loading_ns: int = 0
    writing_ns: int = 0

    @property
    def total_ns(self) -> int:
        """The sum of all stages."""
        return sum(
            (self.reading_ns, self.passes_ns, self.lowering_ns, self.linking_ns, self.loading_ns, self.writing_ns)
        )


@dispatch.call_by_vector
class Kernel(Dispatcher, Runs):
    """A program compiled for a device; made by `Device.compile`.

    `device`, `program`, `precision`, `bounds` and `max_ulp` are what it was compiled for and with, `ptx` is its text,
    `nbytes` the bytes of this and of its machine code, `attributes` what the driver reports about it, and
    `compile_times` how long compiling took, all 0 for a kernel of a bundle.

    `kernel(x, y, 2.0)` takes the parameters in declared order without the outs, by position or name, as NumPy arrays,
    device arrays and numbers, and returns the outs and inouts (an array for one, a tuple for several). Arrays from
    `Device.pinned_empty` and `Device.register`, and slices of them, are used in place; large results are allocated in
    such memory. inout arrays are not changed; their new contents are returned. `out=` gives memory for results, on the
    host or on the device, `grid=` overrides the number of blocks, and `iterations=` runs the kernel this many times,
    each on the results of the previous one. `timeout=` is a limit in seconds, unless a parameter has this name:
    KernelTimeoutError if the kernel takes longer. TypeError for arity, dtype and kind, ValueError for size, shape and
    contiguity, OverflowError for a number that its type does not hold, and KernelAssertionError for a failed assertion.
    """

    device: Device
    program: Program
    ptx: str
    is_without_body = False
    # Registers, memory and resident blocks as the driver reports them.
    attributes: KernelAttributes
    # Times of the compilation that made it; all 0 for a kernel from a bundle.
    compile_times = CompileTimes()
    # What does many launches in one; None: not needed so far.
    rows_entry: Entry | None = None
    # The form for large launches; None: there is none, or it was not needed so far.
    several: Several | None = None
    # From how many threads on a launch is the first that needs to know of that form; 0: it is known.
    large_from = 0

    def __init__(
        self,
        device: Device,
        program: Program,
        lowered: Lowered,
        tag: int,
        *,
        precision: str,
        bounds: str,
        max_ulp: float | None,
        known: tuple[Known, ...] = (),
        image: bytes | None = None,
        prepared: PreparedKernel | None = None,
        checks: Checks | None = None,
        label: str = "",
    ) -> None:
        """`image` is what the device's linker made of the text; if None, the driver compiles the text. `prepared` and
        `checks`, where they were not made from the program, come from a bundle. `label` is what messages call it, by
        default its name and line."""
        require(program.name, device.properties, block_limits(device.properties, program.block, lowered.shared_bytes))
        tables = signature(program, lowered)
        is_own = prepared is None
        prepared = (
            _prepare(device, program, lowered, tables, tag, image, known, label) if prepared is None else prepared
        )
        rows = tuple(
            (row.role, row.slot, row.typenum, row.width, row.itemsize, row.size, row.axes, row.extents)
            for row in tables.rows
        )
        index_bits = program.index.value_bits
        super().__init__(prepared, rows, tables.work, program.block, index_bits, tables.simple, tables.extents)
        self.device = device
        self.program = program
        self.ptx = lowered.ptx
        self.nbytes = len(lowered.ptx) + (0 if image is None else len(image))
        self.prepared = prepared
        self.precision = precision
        self.bounds = bounds
        self.max_ulp = max_ulp
        self.known = known
        self.checks = Checks(program, lowered) if checks is None else checks
        self.attributes = KernelAttributes(**prepared.function_info())
        self.lowered = lowered
        require(program.name, device.properties, self.limits())
        # A failure names an element, and so a thread has one.
        if is_own and len(tables.work) == 1 and bounds != "trap" and not device._kernels.made_for:
            self.large_from = limits.LARGE_LAUNCH
            self.leave_from(self.large_from)

    launch = dispatch.launch

    # ---- what it takes ----------------------------------------------------------------------------------------------

    @property
    def occupancy(self) -> Occupancy:
        """How its blocks fill a multiprocessor, and which resource they use up first."""
        return occupancy(self.device.properties, self.program.block, self.lowered, self.attributes)

    @property
    def specialize(self) -> Mapping[str, bool | int | float]:
        """The values by name that it was compiled for; a call with another one is a ValueError."""
        return MappingProxyType(known_values.python_values(self.program, self.known) if self.known else {})

    def side_by_side(
        self,
        other: Kernel,
        *,
        grid: int | tuple[int, ...] | None = None,
        other_grid: int | tuple[int, ...] | None = None,
    ) -> SideBySide:
        """Whether blocks of this kernel and of another one of the device can be resident at the same time.

        For them to be resident together also takes two streams, or branches of a graph, and the device decides when to
        do it: two kernels that need different splits of shared memory and L1 cache run one after the other on a
        multiprocessor.

        Parameters
        ----------
        other
            A kernel of the same device.
        grid, other_grid
            Numbers of blocks, as for a launch; without one, one block per multiprocessor is assumed.

        Returns
        -------
        SideBySide
            True where both have resident blocks, with the numbers of blocks.

        Raises
        ------
        TypeError
            Not a Kernel, or not a grid.
        ValueError
            A kernel on another device, or a grid of no blocks.
        """
        if not isinstance(other, Kernel):
            raise TypeError(f"side_by_side takes a Kernel, not {type_name(other)}")
        if other.device is not self.device:
            raise ValueError(f"{other.program.name} is a kernel on another device: compile it on this one")
        return together.side_by_side(self, other, grid, other_grid)

    def limits(self, grid: int | tuple[int, ...] | None = None) -> list[Limit]:
        """Every limit on a launch: what is required and what this device has.

        Parameters
        ----------
        grid
            The number of blocks, or a tuple of those along x, y and z; None leaves out the limits of a grid.

        Returns
        -------
        list[Limit]
            The limits.

        Raises
        ------
        TypeError, ValueError
            Not a grid.
        """
        found = kernel_limits(self.device.properties, self.program.block, self.lowered, self.attributes)
        if grid is not None:
            cooperative = self.lowered.cooperative
            found += grid_limits(self.device.properties, grid_axes(grid), self.attributes, cooperative=cooperative)
        return found

    # ---- recording --------------------------------------------------------------------------------------------------

    def _refuse_in_recording(self) -> None:
        self.device._refuse_in_recording(f"{self.program.name}: a call that returns results")

    def _record_launch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: Any, grid: Any) -> bool:
        """Whether this thread is recording a graph, which then has the launch."""
        graph = self.device._recorder()
        if graph is None:
            return self._watch_launch(args, kwargs, stream, grid)
        self._refuse_recorded_stream(stream)
        graph._launch(self, general.all_parameters(self.program, args, kwargs), grid)
        return True

    def _refuse_recorded_stream(self, stream: Any) -> None:
        """Raise RecordingError for a stream of a launch that is recorded."""
        if stream is not None:
            raise RecordingError(
                f"{self.program.name}: a recorded launch cannot have a stream of its own; give the stream to replay()"
            )

    # ---- watching ---------------------------------------------------------------------------------------------------

    def _watch_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, grid: Any, iterations: Any) -> Any:
        """The results, if the call was made inside its own profiler range; else NotImplemented."""
        self._refuse_in_recording()
        with self.device._watch.profiled(HOST, self.program.name) as opened:
            if opened:
                return self(*args, out=out, grid=grid, iterations=iterations, **kwargs)
        self._note(args, kwargs)
        return NotImplemented

    def _watch_launch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: Any, grid: Any) -> bool:
        """Whether the launch was made inside its own profiler range."""
        watch = self.device._watch
        with watch.profiled(RESIDENT, self.program.name) as opened:
            if opened:
                self.launch(*args, stream=stream, grid=grid, **kwargs)
                return True
        if watch.traces:
            watch.note(self.program.name, (p.name for p in self.program.parameters), args, kwargs)
        return False

    def _note(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        watch = self.device._watch
        if watch.traces:
            watch.note(self.program.name, (p.name for p in calls.argument_parameters(self.program)), args, kwargs)

    # ---- the general path -------------------------------------------------------------------------------------------

    def _provide_large(self) -> None:
        large_entry.provide(self)

    def _ready_for(self, blocks: tuple[int, int, int], grid: Any) -> tuple[int, int, int]:
        """The blocks of a launch that is about to be made; `grid` is the caller's, or None."""
        if grid is None and self.large_from != 0 and blocks[0] * self.program.block[0] >= self.large_from:
            large_entry.provide(self)
        return blocks

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, grid: Any, iterations: Any) -> Any:
        if "timeout" in kwargs and not any(p.name == "timeout" for p in self.program.parameters):
            timeout = kwargs.pop("timeout")
            require_timeout(timeout)
            return self.submit(*args, out=out, grid=grid, iterations=iterations, **kwargs).result(timeout)
        arguments, results = self._bound(args, kwargs, out, grid, iterations)
        try:
            self.prepared.run(arguments)
        except AssertReport as report:
            raise self._assertion(report) from None
        return results

    def _bound(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, grid: Any, iterations: Any
    ) -> tuple[Arguments, Any]:
        return general.host_arguments(self, args, kwargs, out, grid, iterations)

    def _general_launch(self, args: tuple[Any, ...], kwargs: dict[str, Any], stream: Any, grid: Any) -> None:
        self.prepared.launch(general.device_arguments(self, args, kwargs, stream, grid))

    def _general_row(self, number: int, row: Any, on: Any, grid: Any) -> Arguments:
        return many.general_row(self, number, row, on, grid)

    def _general_call(self, number: int, row: Any, grid: Any) -> tuple[Arguments, Any]:
        return many_calls.general_call(self, number, row, grid)

    def _assertion(self, report: AssertReport) -> Error:
        return self.checks.error(report)

    __dir__ = without(
        "add_row",
        "add_steps",
        "checks",
        "is_without_body",
        "known",
        "large_from",
        "leave_from",
        "lowered",
        "plain_arguments",
        "prepared",
        "rows_entry",
        "scalar",
        "several",
        "simple",
        "sizes_and_grid",
        "submit_plain",
    )
    __reduce_ex__ = refuse_pickle

    def __repr__(self) -> str:
        return f"<vyre_cuda.Kernel {self.program.name} on {self.device.properties.name}>"


def kernel_label(program: Program) -> str:
    """The name, and the source line of the program."""
    return program.name if program.source is None else f"{program.name} ({program.source[0]}:{program.source[1]})"


def _argument_labels(program: Program) -> list[tuple[bytes, int]]:
    """The names of the arguments in messages: the buffers, then the scalars and the extents."""
    buffers_first = sorted(program.parameters, key=lambda p: not p.is_buffer)
    named = [(p.name.encode(), p.type.code) for p in buffers_first]
    return named + [(name.encode(), program.index.code) for name in extent_names(program.parameters)]


def _prepare(
    device: Device,
    program: Program,
    lowered: Lowered,
    tables: Signature,
    tag: int,
    image: bytes | None,
    known: tuple[Known, ...],
    label: str,
) -> PreparedKernel:
    return PreparedKernel(
        Module(device.context, lowered.ptx.encode("ascii") if image is None else image),
        lowered.entry,
        program.block,
        lowered.dynamic_shared_bytes,
        lowered.parameter_bytes,
        list(tables.parameters),
        list(tables.bindings),
        tables.scalar_count,
        tag,
        lowered.cooperative,
        prints=lowered.prints,
        label=label or kernel_label(program),
        labels=_argument_labels(program),
        known=known_rows(program, known) if known else (),
    )
