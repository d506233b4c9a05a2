"""Programs to PTX, in pure Python and without a GPU.

`lower` takes a valid program and a target and gives the text with what a host must know to launch it; `ptx_text` also
validates, for callers who only want to read.
"""

from __future__ import annotations

from vyre_cuda.ir.program import Program
from vyre_cuda.ir.validate import check
from vyre_cuda.ptx.lower import lower
from vyre_cuda.ptx.lowered import Access, KernelParameter, Lowered, Site
from vyre_cuda.ptx.target import Target, target_for

__all__ = ["Access", "KernelParameter", "Lowered", "Site", "Target", "lower", "ptx_text", "target_for"]


def ptx_text(
    program: Program,
    target: str = "sm_90",
    precision: str = "ieee",
    bounds: str = "check",
    *,
    max_ulp: float | None = None,
) -> str:
    """The PTX of a program for a target such as "sm_90". ProgramError when the program is not valid."""
    check(program)
    return lower(program, Target.parse(target), precision=precision, bounds=bounds, max_ulp=max_ulp).ptx
