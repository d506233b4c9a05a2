"""The PTX of a program for callers who only want to read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.call.known import known_values
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.program import Program, ProgramSource, no_program, program_of
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.passes import specialize as specializing
else:
    specializing = later("vyre_cuda.passes.specialize")


def ptx(
    program: Program | ProgramSource,
    target: str = "sm_90",
    precision: str = "ieee",
    bounds: str = "check",
    *,
    max_ulp: float | None = None,
    specialize: Mapping[str, Any] | None = None,
) -> str:
    """The PTX of a program.

    Parameters
    ----------
    program
        A `vc.Program`, or a kernel function without open parameters.
    target
        A GPU generation, such as "sm_90".
    precision, bounds, max_ulp, specialize
        The options of `Device.compile`.

    Returns
    -------
    str
        The text of a PTX module.

    Raises
    ------
    ProgramError
        The program is not valid.
    UnsupportedError
        The target lacks what the program needs, or no form of an op is that accurate.
    ValueError
        An option's unknown word, or an unknown target. Or `specialize` names what the program does not have, or a size
        that its declarations contradict.
    TypeError, OverflowError
        Not a program, or a value of `specialize` that is not of the parameter's type.
    """
    found = program_of(program)
    if found is None:
        raise no_program("ptx takes a Program", program)
    check(found)
    known = known_values(found, specialize)
    body = specializing.specialized(found, known) if known else found
    return lower(body, Target.parse(target), precision=precision, bounds=bounds, max_ulp=max_ulp).ptx
