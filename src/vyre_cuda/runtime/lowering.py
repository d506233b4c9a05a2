"""From a valid program to its text: passes, then lowering. Imported when a program is in no cache."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.lower import lower
from vyre_cuda.errors import CompileError
from vyre_cuda.ir.builder.reblock import what_fixes_block
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.passes.pipeline import optimize
from vyre_cuda.runtime.occupancy import best_block
from vyre_cuda.runtime.properties import DeviceProperties

if TYPE_CHECKING:
    from vyre_cuda._native.context import Context
    from vyre_cuda.runtime import refused
else:
    refused = later("vyre_cuda.runtime.refused")


def lowered(
    program: Program,
    properties: DeviceProperties,
    *,
    precision: str,
    bounds: str,
    max_ulp: float | None,
    races: bool,
) -> tuple[Lowered, int, int]:
    """For the newest target that the device has and its driver takes; nanoseconds of passes and of lowering."""
    begin = perf_counter_ns()
    target = target_for(properties.compute_capability, properties.driver_version)
    body = program if races else _improved(program, precision, bounds)
    improved = perf_counter_ns()
    found = lower(body, target, precision=precision, bounds=bounds, races=races, max_ulp=max_ulp)
    return found, improved - begin, perf_counter_ns() - improved


def explained(error: CompileError, program: Program, *, precision: str, bounds: str) -> CompileError:
    """The driver's refusal of what `lowered` made of the program, told in its statements."""
    return refused.explained(error, _improved(program, precision, bounds))


def chosen_block(
    program: Program,
    context: Context,
    properties: DeviceProperties,
    *,
    precision: str,
    bounds: str,
    max_ulp: float | None,
) -> int:
    """Threads of the block of which the most are resident. ValueError: the program depends on its block."""
    fixed = what_fixes_block(program)
    if fixed is not None:
        raise ValueError(f'{program.name}: block="auto", and {fixed[0]}, which depends on the block')
    target = target_for(properties.compute_capability, properties.driver_version)
    body = _improved(program, precision, bounds)
    found = lower(body, target, precision=precision, bounds=bounds, max_ulp=max_ulp, fixed_block=False)
    return best_block(context, found, properties.warp_size)


def _improved(program: Program, precision: str, bounds: str) -> Program:
    """With traps the user's own program, as under a check: failures then name the statements that he wrote."""
    return program if bounds == "trap" else optimize(program, precision=precision, bounds=bounds)
