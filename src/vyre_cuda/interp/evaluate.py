"""The reference interpreter: the meaning of a program, computed with NumPy.

A launch is cut into chunks of consecutive blocks, so that memory stays bounded; the lanes of a chunk advance together.
Results are exact in the sense of the language: every other way to run a program must match them bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_cuda.interp.execute import Execution, Failure, Scope
from vyre_cuda.interp.lanes import Lanes, Mask
from vyre_cuda.interp.memory import Memory
from vyre_cuda.ir.call.call import Call, assertion_error, bind
from vyre_cuda.ir.call.geometry import Geometry
from vyre_cuda.ir.check import validate
from vyre_cuda.ir.core.nodes import UNSPECIFIED_BYTE, Atomic, GridBarrier, LocalArray, Table, While
from vyre_cuda.ir.core.program import Program, ProgramSource, no_program, program_of
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import assert_sites, declared_name, statements
from vyre_cuda.ir.semantics.elementwise import Array
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.interp import initialized
    from vyre_cuda.interp.initialized import Reader
else:
    initialized = later("vyre_cuda.interp.initialized")

# Lanes of a chunk: enough to hide NumPy's cost per call, few enough for per-lane values to stay in a core's cache.
_LANES = 1 << 16
# Bytes that the locals and shared arrays of a chunk may take together, unless one block alone takes more.
_BYTES = 1 << 28


def evaluate(
    program: Program | ProgramSource,
    /,
    *args: Any,
    out: Any = None,
    grid: int | tuple[int, ...] | None = None,
    check: str | None = None,
    **kwargs: Any,
) -> Array | tuple[Array, ...]:
    """Run a program on NumPy arrays, without a device, and return its results.

    Parameters
    ----------
    program
        A `vc.Program`, or a kernel function without open parameters.
    *args
        The parameters except the outs, in declared order. inout arguments are not changed.
    out
        Arrays to write the results to: one, or a tuple of several.
    grid
        The number of blocks, or up to three along x, y and z, in place of those that follow from the work.
    check
        "initialized": elements of an out with `zeroed=False` that no thread wrote are neither read nor returned.
    **kwargs
        Parameters by name.

    Returns
    -------
    array or tuple of arrays
        The out and inout arrays in declared order, each with its declared axes: one array, or a tuple of several. Every
        byte of an out with `zeroed=False` that no thread writes is 0xA5.

    Raises
    ------
    TypeError, ValueError, OverflowError
        Arguments do not fit.
    ProgramError
        The program is not valid, or part of a block reaches a barrier, part of the grid a grid barrier or part of a
        warp a warp operation.
    KernelAssertionError
        An assertion failed.
    UninitializedError
        With `check="initialized"`: a thread reads, or the call returns, an element that no thread wrote.
    """
    found = program_of(program)
    if found is None:
        raise no_program("evaluate takes a Program", program)
    if check not in (None, "initialized"):
        raise ValueError(f'check={check!r}; vc.evaluate has check="initialized"')
    validate.check(found)
    call = bind(found, args, kwargs, out=out, grid=grid)
    memory = buffers(call)
    reader = None if check is None else initialized.Reader(found)
    if reader is not None:
        memory = initialized.watched(memory, found, reader)
    with np.errstate(all="ignore"):
        _launch(call, memory, reader)
    if reader is not None:
        initialized.check_results(found, memory.values())
    return call.deliver({name: buffer.data.view(buffer.type.dtype) for name, buffer in memory.items()})


def buffers(call: Call) -> dict[str, Memory]:
    """A buffer per parameter; those that the program may write are copied."""
    buffers = {}
    for parameter in call.program.parameters:
        if not parameter.is_buffer:
            continue
        size = call.sizes[parameter.name]
        dtype = memory_dtype(parameter.type)
        if parameter.kind == "out":
            data = np.full(size * dtype.itemsize, 0 if parameter.zeroed else UNSPECIFIED_BYTE, np.uint8).view(dtype)
        else:
            data = call.arrays[parameter.name].view(dtype)
            data = data.copy() if parameter.is_writable else data
        buffers[parameter.name] = Memory(parameter.type, data, size, shape=call.shapes.get(parameter.name, ()))
    return buffers


def memory_dtype(type_: Type) -> np.dtype[Any]:
    return type_.unsigned if type_ is bool_ else type_.storage


def _launch(call: Call, parameters: Mapping[str, Memory], reader: Reader | None) -> None:
    """Chunks run in the order of their blocks, so the first that fails has the lowest thread that does."""
    blocks = call.geometry.blocks
    step = _blocks_per_chunk(call.program, call.geometry)
    for first in range(0, blocks, max(step, 1)):
        lanes = Lanes(call.geometry, first, min(step, blocks - first))
        memory = {**parameters, **shared(call.program, lanes), **own_arrays(call.program, lanes)}
        scope = Scope(lanes, call.scalars, memory)
        if reader is None:
            execution = Execution(call.program, scope)
        else:
            execution = initialized.CheckedExecution(call.program, scope, reader)
        try:
            execution.run(call.program.body, Mask.full(lanes.count))
        finally:
            print(execution.printed(), end="")
        if execution.failure is not None:
            _raise_failure(call.program, execution.failure, lanes)


def shared(program: Program, lanes: Lanes) -> dict[str, Memory]:
    """A zeroed row per block; floats added to shared memory keep their subnormals (PTX ISA, "atom")."""
    return {
        array.name: Memory(
            array.type,
            np.zeros(lanes.blocks * array.size, dtype=memory_dtype(array.type)),
            array.size,
            lanes.block_rows(),
            flushes=False,
            shape=array.shape,
        )
        for array in program.shared
    }


def own_arrays(program: Program, lanes: Lanes) -> dict[str, Memory]:
    """Tables, and a zeroed row per lane for each array of a thread."""
    found = {}
    for array in program.arrays:
        dtype = memory_dtype(array.type)
        if isinstance(array, Table):
            found[array.name] = Memory(array.type, np.frombuffer(array.data, dtype), array.size, shape=array.shape)
        else:
            data = np.zeros(lanes.count * array.size, dtype=dtype)
            rows = np.arange(lanes.count, dtype=np.int64)
            found[array.name] = Memory(array.type, data, array.size, rows, shape=array.shape)
    return found


def _blocks_per_chunk(program: Program, geometry: Geometry) -> int:
    """As many as fit; all of them if the grid has a barrier, because then they must advance together; one if blocks may
    wait for those before them."""
    if any(isinstance(statement, GridBarrier) for statement in statements(program.body)):
        return geometry.blocks
    if _waits(program):
        return 1
    names = sum(declared_name(statement) is not None for statement in statements(program.body))
    widest = 8
    per_block = geometry.threads_per_block * names * widest
    per_block += sum(array.size * array.type.itemsize for array in program.shared)
    own = sum(array.size * array.type.itemsize for array in program.arrays if isinstance(array, LocalArray))
    per_block += geometry.threads_per_block * own
    return max(1, min(_LANES // geometry.threads_per_block, _BYTES // max(per_block, 1)))


def _waits(program: Program) -> bool:
    """Whether a loop may repeat until another block has written: it reads a buffer atomically, in its test or body."""
    buffers = {parameter.name for parameter in program.parameters}
    return any(
        isinstance(inner, Atomic) and inner.result is not None and inner.buffer in buffers
        for statement in statements(program.body)
        if isinstance(statement, While)
        for inner in statements((*statement.setup, *statement.body))
    )


def _raise_failure(program: Program, failure: Failure, lanes: Lanes) -> None:
    sites = assert_sites(program.body)
    site = next(number for number, (_, statement) in enumerate(sites) if statement is failure.statement)
    raise assertion_error(program, site, lanes.first_thread + failure.lane)
