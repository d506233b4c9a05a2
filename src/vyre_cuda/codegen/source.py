"""The PTX of a program for callers who only want to read it."""

from __future__ import annotations

from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.check.validate import check
from vyre_cuda.ir.core.program import Program


def ptx(
    program: Program,
    target: str = "sm_90",
    precision: str = "ieee",
    bounds: str = "check",
    *,
    max_ulp: float | None = None,
) -> str:
    """The PTX of a program for a target such as "sm_90". ProgramError if the program is not valid."""
    check(program)
    return lower(program, Target.parse(target), precision=precision, bounds=bounds, max_ulp=max_ulp).ptx
