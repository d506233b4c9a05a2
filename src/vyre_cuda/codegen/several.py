"""A kernel's other text, for large launches: the same work with several elements a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.core.lowered import Lowered, Several
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit.instructions import STATEMENT_MARK
from vyre_cuda.codegen.emit.rows import Rows, rows_entry
from vyre_cuda.codegen.emit.text import entry_name, kernel_text, used_parameters
from vyre_cuda.codegen.lower import parameters_of
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.ssa import liveness
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.records import FrozenRecord

if TYPE_CHECKING:
    from vyre_cuda.codegen.emit import coalesce, verify
    from vyre_cuda.codegen.vectors import forms
else:
    coalesce, verify = later("vyre_cuda.codegen.emit.coalesce"), later("vyre_cuda.codegen.emit.verify")
    forms = later("vyre_cuda.codegen.vectors.forms")

LARGE = "large launches"  # what it is for, in errors


class Wide(FrozenRecord):
    """A program with `elements` elements a thread, which launches of `threads` threads and more are to use.

    `neighbors` is the same with other elements for each thread, those beside each other, to be used where the buffers
    begin where vectors of them can; None if there is no such program.
    """

    program: Program
    elements: int
    threads: int
    neighbors: Program | None = None


def lowered(
    wide: Wide,
    kernel: Lowered,
    target: Target,
    *,
    precision: str = "ieee",
    bounds: str = "check",
    debug: bool = False,
    max_ulp: float | None = None,
    rows: bool = False,
) -> Several:
    """The text of the entry, with the parameters of the kernel, and its facts. With `rows` it does many launches in
    one, as `emit.rows` says.

    UnsupportedError with the capability "large launches": the kernel lacks a parameter that the entry would read.
    """

    def made(program: Program) -> Lowering:
        lowering = Lowering(program, target, precision=precision, bounds=bounds, debug=debug, max_ulp=max_ulp)
        lowering.run()
        return lowering

    lowering = made(wide.program)
    aligned: dict[str, int] = {}
    if wide.neighbors is not None:
        near, apart = made(wide.neighbors), lowering.builder.function
        aligned = forms.with_vectors(near.builder, near.memory, near.memory.linear, otherwise=apart)
        if aligned:
            lowering = near
    function = lowering.builder.function
    if debug:
        verify.verify(function, target)
    live = liveness(function)
    if function.registers:
        coalesce.coalesce(function, live[0])
    parameters, parameter_bytes = parameters_of(kernel, used_parameters(function, live[0]), LARGE)
    name = entry_name(wide.program)
    entry = f"{rows_entry(name) if rows else name}_several"
    text = kernel_text(
        wide.program,
        target.for_parameters(parameter_bytes),
        function,
        live,
        lowering.memory,
        parameters,
        debug=debug,
        rows=Rows(parameter_bytes, reports=False) if rows else None,
        entry=entry,
    )
    said = f"// {wide.elements} elements a thread, for launches of {wide.threads} threads and more"
    # Without the marks of statements, whose numbers are not those of the kernel's program.
    lines = [line for line in text.split("\n") if not line.startswith(STATEMENT_MARK)]
    return Several("\n".join([said, *lines]), entry, wide.elements, wide.threads, tuple(aligned.items()))
