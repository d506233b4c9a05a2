"""Many calls of one kernel with host arrays as one launch and one wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_cuda._native.call.many_calls import Calls
from vyre_cuda._native.call.prepared import Arguments
from vyre_cuda._native.core.status import AssertReport
from vyre_cuda.errors import Error
from vyre_cuda.ir.call.call import argument_parameters
from vyre_cuda.ir.core.types import u8
from vyre_cuda.runtime.base.range_names import HOST
from vyre_cuda.runtime.kernel.many import entry, kernels_for, rows_of, taken_apart

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel


def many(kernel: Kernel, rows: Any, grid: Any) -> list[Any]:
    """`Kernel.many`."""
    listed = rows_of(kernel.program, argument_parameters(kernel.program), rows)
    kernel._refuse_in_recording()
    with kernel.device._watch.profiled(HOST, kernel.program.name):
        found = entry(kernel)
        if found.prepared is None:
            return [_apart(kernel, number, row, grid) for number, row in enumerate(listed)]
        for row in listed if kernel.device._watch.traces else ():
            kernel._note(*taken_apart(kernel.program, row))
        return _together(kernel, listed, grid)


def _apart(kernel: Kernel, number: int, row: Any, grid: Any) -> Any:
    try:
        args, kwargs = taken_apart(kernel.program, row)
        return kernel(*args, grid=grid, **kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"row {number}: {error}") from error
    except Error as error:
        error.args = (f"row {number}: {error}", *error.args[1:])
        raise


def _together(kernel: Kernel, rows: tuple[Any, ...], grid: Any) -> list[Any]:
    device = kernel.device
    calls = Calls(kernel, rows, grid, tuple(p.type.itemsize for p in kernel.program.parameters if p.is_buffer))
    memory = device.empty(max(calls.nbytes, 1), u8)
    staging = device.pinned_empty(max(calls.read_end, calls.nbytes - calls.written_at, 1), u8)
    if calls.read_end > 0:
        calls.gather(staging)
        memory[: calls.read_end].copy_from(staging[: calls.read_end])
    calls.put(memory)
    try:
        calls.launch(*kernels_for(kernel, calls))
        if calls.nbytes > calls.written_at:
            memory[calls.written_at : calls.nbytes].numpy(out=staging[: calls.nbytes - calls.written_at])
        else:
            device.synchronize()
    except AssertReport as report:
        raise kernel._assertion(report) from None
    calls.scatter(staging)
    return calls.results


def general_call(kernel: Kernel, number: int, row: Any, grid: Any) -> tuple[Arguments, Any]:
    """The arguments of one row that is not plain, and what its call returns; what is wrong with it is raised with its
    number."""
    try:
        args, kwargs = taken_apart(kernel.program, row)
        return kernel._bound(args, kwargs, None, grid, 1)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"row {number}: {error}") from error
