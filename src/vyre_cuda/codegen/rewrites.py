"""How the expressions of a program are rewritten, for callers who want to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import check_options
from vyre_cuda.codegen.lowering.recorded import RecordedLowering
from vyre_cuda.codegen.lowering.recorded import Rewrite as Rewrite
from vyre_cuda.ir.call.known import known_values
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.program import Program, ProgramSource, no_program, program_of
from vyre_cuda.passes.specialize import specialized


def rewrites(
    program: Program | ProgramSource,
    target: str = "sm_90",
    precision: str = "ieee",
    bounds: str = "check",
    *,
    max_ulp: float | None = None,
    specialize: Mapping[str, Any] | None = None,
) -> tuple[Rewrite, ...]:
    """How the expressions of a program are rewritten where it is lowered, step by step.

    Only steps to what is computed are reported. An expression that several steps rewrite has a record for each, one
    after the other. Moves of whole statements, and
    the choice of instructions for an op, are not among them.

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
    tuple[Rewrite, ...]
        The records, in the order of the statements.

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
        raise no_program("rewrites takes a Program", program)
    check(found)
    check_options(precision, bounds, max_ulp)
    body = specialized(found, known_values(found, specialize))
    lowering = RecordedLowering(
        body, Target.parse(target), precision=precision, bounds=bounds, debug=False, max_ulp=max_ulp
    )
    lowering.run()
    return lowering.rewrites()
