"""From a valid program to its PTX: passes, then lowering. Imported when a program is not in a cache."""

from __future__ import annotations

from collections.abc import Collection
from time import perf_counter_ns
from typing import TYPE_CHECKING

from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.lower import lower
from vyre_cuda.errors import CompileError
from vyre_cuda.ir.builder.reblock import what_fixes_block
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.base.properties import DeviceProperties
from vyre_cuda.runtime.kernel.occupancy import best_block

if TYPE_CHECKING:
    from vyre_cuda._native.core.context import Context
    from vyre_cuda.ir.call.known import Known
    from vyre_cuda.passes import specialize
    from vyre_cuda.runtime.kernel import ptx_errors
else:
    specialize = later("vyre_cuda.passes.specialize")
    ptx_errors = later("vyre_cuda.runtime.kernel.ptx_errors")


def lowered(
    program: Program,
    properties: DeviceProperties,
    *,
    precision: str,
    bounds: str,
    max_ulp: float | None,
    checks: Collection[str],
    known: tuple[Known, ...],
) -> tuple[Lowered, int, int]:
    """Lower for the newest target of the device and its driver; also returns the nanoseconds of passes and lowering."""
    begin = perf_counter_ns()
    target = target_for(properties.compute_capability, properties.driver_version)
    body = prepared(specialized(program, known), bounds=bounds, as_written=bool(checks))
    improved = perf_counter_ns()
    found = lower(
        body,
        target,
        precision=precision,
        bounds=bounds,
        races="races" in checks,
        initialized="initialized" in checks,
        max_ulp=max_ulp,
        large=not checks and bounds != "trap",
    )
    return found, improved - begin, perf_counter_ns() - improved


def many_lowered(
    program: Program,
    kernel: Lowered,
    properties: DeviceProperties,
    *,
    precision: str,
    bounds: str,
    max_ulp: float | None,
    checks: Collection[str],
    known: tuple[Known, ...],
) -> Lowered:
    """The entry that does many launches in one, of a kernel that was made of the program with these options."""
    return lower(
        prepared(specialized(program, known), bounds=bounds, as_written=bool(checks)),
        target_for(properties.compute_capability, properties.driver_version),
        precision=precision,
        bounds=bounds,
        races="races" in checks,
        max_ulp=max_ulp,
        many=kernel,
    )


def body_of(program: Program, *, bounds: str, known: tuple[Known, ...]) -> Program:
    """The program that the code of a kernel is lowered from."""
    return prepared(specialized(program, known), bounds=bounds)


def explained(error: CompileError, program: Program, *, bounds: str, known: tuple[Known, ...]) -> CompileError:
    """The driver's refusal of what `lowered` made of the program, in terms of its statements."""
    return ptx_errors.explained(error, body_of(program, bounds=bounds, known=known))


def chosen_block(
    program: Program,
    context: Context,
    properties: DeviceProperties,
    *,
    precision: str,
    bounds: str,
    max_ulp: float | None,
    known: tuple[Known, ...],
) -> int:
    """The block size with the most resident threads. ValueError: the program depends on its block."""
    fixed = what_fixes_block(program)
    if fixed is not None:
        raise ValueError(f'{program.name}: block="auto" cannot be used with {fixed[0]}, which depends on the block')
    target = target_for(properties.compute_capability, properties.driver_version)
    body = prepared(specialized(program, known), bounds=bounds)
    found = lower(body, target, precision=precision, bounds=bounds, max_ulp=max_ulp, fixed_block=False)
    return best_block(context, found, properties.warp_size)


def specialized(program: Program, known: tuple[Known, ...]) -> Program:
    """The program with the known values in it."""
    return specialize.specialized(program, known) if known else program
