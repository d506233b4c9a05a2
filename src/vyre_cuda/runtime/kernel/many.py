"""Many launches of one kernel as one, and how rows are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda._native.call.many import Launches, Rows
from vyre_cuda._native.call.prepared import Arguments, PreparedKernel
from vyre_cuda._native.core.context import Stream
from vyre_cuda._native.memory.adopted import named_stream
from vyre_cuda.errors import type_name
from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.program import Program
from vyre_cuda.runtime.base.range_names import RESIDENT
from vyre_cuda.runtime.kernel.arguments import all_parameters, device_arguments
from vyre_cuda.runtime.kernel.rows_entry import Entry, clearing_of

if TYPE_CHECKING:
    from vyre_cuda.runtime.kernel.kernel import Kernel


def launch_many(kernel: Kernel, rows: Any, stream: Any, grid: Any) -> None:
    """`Kernel.launch_many`."""
    listed = rows_of(kernel.program, kernel.program.parameters, rows)
    if kernel.device.context.recordings == 0:
        _launch(kernel, listed, stream, grid)
        return
    graph = kernel.device._recorder()
    if graph is not None:
        kernel._refuse_recorded_stream(stream)
        graph._launch_rows(kernel, [_values(kernel.program, number, row) for number, row in enumerate(listed)], grid)
        return
    watch = kernel.device._watch
    with watch.profiled(RESIDENT, kernel.program.name):
        if watch.traces:
            for row in listed:
                watch.note(kernel.program.name, (p.name for p in kernel.program.parameters), row, {})
        _launch(kernel, listed, stream, grid)


def _values(program: Program, number: int, row: Any) -> dict[str, Any]:
    """The parameters of one row by name; what is wrong with it is raised with its number."""
    try:
        args, kwargs = taken_apart(program, row)
        return all_parameters(program, args, kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"row {number}: {error}") from error


def _launch(kernel: Kernel, rows: tuple[Any, ...], stream: Any, grid: Any) -> None:
    on = named_stream(kernel.device.context, stream)
    launches = Launches(kernel, rows, grid, on)
    launches.launch(*kernels_for(kernel, launches))


def kernels_for(
    kernel: Kernel, rows: Rows
) -> tuple[PreparedKernel | None, PreparedKernel | None, PreparedKernel | None]:
    """The entry for these rows, the kernel that clears, and its entry; with the form for large launches if it is
    needed."""
    found = entry(kernel)
    if found.large_from != 0:
        block = kernel.program.block
        if rows.blocks() * block[0] * block[1] * block[2] >= found.large_from:
            found.provide_large(kernel)
    return found.kernels()


def clearing_for(kernels: Sequence[Kernel]) -> tuple[PreparedKernel | None, PreparedKernel | None]:
    """The kernel that clears, and its entry, if the launches of one of these may need them."""
    for kernel in kernels:
        clearing = clearing_of(kernel)
        if clearing is not None:
            return clearing.prepared, entry(clearing).prepared
    return None, None


def entry(kernel: Kernel) -> Entry:
    """The entry of the kernel that does many launches; compiled once."""
    found: Entry | None = kernel.rows_entry
    if found is None:
        found = kernel.device._kernels.rows_flights.run(id(kernel), lambda: kernel.rows_entry or Entry(kernel))
        kernel.rows_entry = found
    return found


def general_row(kernel: Kernel, number: int, row: Any, on: Stream | None, grid: Any) -> Arguments:
    """The arguments of one row that is not plain; what is wrong with it is raised with its number."""
    try:
        args, kwargs = taken_apart(kernel.program, row)
        return device_arguments(kernel, args, kwargs, on, grid)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"row {number}: {error}") from error


def taken_apart(program: Program, row: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of a row by position and by name."""
    if isinstance(row, Mapping):
        return (), row
    if not isinstance(row, Iterable) or isinstance(row, str):
        raise TypeError(f"{program.name}: a row is a sequence of arguments, not {type_name(row)}")
    return tuple(row), {}


# ---- rows ------------------------------------------------------------------------------------------------------------


def rows_of(program: Program, parameters: Sequence[Parameter], rows: Any) -> tuple[Any, ...]:
    """Rows as they were given, or from a structure of arrays; each has these parameters."""
    if isinstance(rows, Mapping):
        return _from_columns(program, [p.name for p in parameters], rows)
    if not isinstance(rows, Iterable):
        raise TypeError(
            f"{program.name}: rows are a sequence of sequences of arguments, or a mapping from parameters to "
            f"sequences, not {type_name(rows)}"
        )
    return tuple(rows)


def _from_columns(program: Program, names: Sequence[str], columns: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is not a list, tuple or array of one axis is the same in all rows."""
    if set(columns) != set(names):
        missing = [name for name in names if name not in columns]
        unknown = [str(name) for name in columns if name not in names]
        wrong = f"missing: {', '.join(missing)}" if missing else f"there is no {', '.join(unknown)}"
        raise TypeError(f"{program.name} takes the columns {', '.join(names)}; {wrong}")
    lengths = {name: len(columns[name]) for name in names if _is_column(columns[name])}
    if not lengths:
        raise ValueError(f"{program.name}: no column says how many rows there are; one must be a list, tuple or array")
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"{program.name}: columns of different lengths: {said}")
    return tuple(zip(*(columns[n] if n in lengths else repeat(columns[n]) for n in names), strict=False))


def _is_column(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
