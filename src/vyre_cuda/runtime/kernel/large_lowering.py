"""From a valid program to the text of its kernel for large launches. Imported when that is not in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen import several
from vyre_cuda.codegen.core.lowered import Lowered, Several
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.passes import elements
from vyre_cuda.passes.eligible import Refused
from vyre_cuda.passes.pipeline import prepared
from vyre_cuda.runtime.base.properties import DeviceProperties
from vyre_cuda.runtime.kernel.lowering import specialized

if TYPE_CHECKING:
    from vyre_cuda.ir.call.known import Known


def large_lowered(
    program: Program,
    kernel: Lowered,
    properties: DeviceProperties,
    *,
    precision: str,
    bounds: str,
    max_ulp: float | None,
    known: tuple[Known, ...],
    rows: bool = False,
) -> Several | None:
    """The text for large launches of a kernel that was made of the program with these options, with `rows` of its entry
    for many launches in one; None if these keep one element a thread."""
    wide = wide_of(prepared(specialized(program, known), bounds=bounds), bounds=bounds)
    if wide is None:
        return None
    target = target_for(properties.compute_capability, properties.driver_version)
    try:
        return several.lowered(wide, kernel, target, precision=precision, bounds=bounds, max_ulp=max_ulp, rows=rows)
    except UnsupportedError as error:
        if error.capability != several.LARGE:
            raise
        return None


def wide_of(program: Program, *, bounds: str = "check") -> several.Wide | None:
    """The prepared program with several elements a thread, for large launches; None if it keeps one."""
    sized = bounds != "off"
    try:
        count = elements.count_of(program)
        near = None if elements.why_apart(program) else elements.several(program, count, neighbors=True, sized=sized)
        apart = elements.several(program, count, sized=sized)
        return several.Wide(apart, count, elements.from_threads(program), near)
    except Refused:
        return None
