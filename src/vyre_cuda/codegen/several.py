"""The second entry of a kernel's text: the same work with several elements a thread, for large launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.core.lowered import KernelParameter, Several
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit.text import STATEMENT_MARK, entry_lines, entry_name, used_parameters
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.ssa import liveness
from vyre_cuda.ir.core.program import Program
from vyre_cuda.later import later
from vyre_cuda.records import dataclass

if TYPE_CHECKING:
    from vyre_cuda.codegen.emit import coalesce, verify
    from vyre_cuda.codegen.vectors import forms
else:
    coalesce, verify = later("vyre_cuda.codegen.emit.coalesce"), later("vyre_cuda.codegen.emit.verify")
    forms = later("vyre_cuda.codegen.vectors.forms")


@dataclass(frozen=True, slots=True)
class Wide:
    """A program with `elements` elements a thread, which launches of `threads` threads and more are to use.

    `neighbors` is the same with other elements for each thread, those beside each other, to be used where the buffers
    begin where vectors of them can; None if there is no such program.
    """

    program: Program
    elements: int
    threads: int
    neighbors: Program | None = None


class Entry:
    """The lowered program, which reads the parameters `used` of its kernel."""

    def __init__(
        self, wide: Wide, target: Target, *, precision: str, bounds: str, debug: bool, max_ulp: float | None
    ) -> None:
        self._program = wide.program
        self._debug = debug

        def lowered(program: Program) -> Lowering:
            made = Lowering(program, target, precision=precision, bounds=bounds, debug=debug, max_ulp=max_ulp)
            made.run()
            return made

        self._lowering = lowered(wide.program)
        aligned: dict[str, int] = {}
        if wide.neighbors is not None:
            near, apart = lowered(wide.neighbors), self._lowering.builder.function
            aligned = forms.with_vectors(near.builder, near.memory, near.memory.linear, otherwise=apart)
            if aligned:
                self._lowering = near
        self._function = self._lowering.builder.function
        if debug:
            verify.verify(self._function, target)
        self._live = liveness(self._function)
        if self._function.registers:
            coalesce.coalesce(self._function, self._live[0])
        self.used = used_parameters(self._function, self._live[0])
        self.facts = Several(f"{entry_name(wide.program)}_several", wide.elements, wide.threads, tuple(aligned.items()))

    def text(self, target: Target, parameters: tuple[KernelParameter, ...]) -> str:
        """The entry, without the marks of statements, whose numbers are those of the kernel's program."""
        facts = self.facts
        lines = entry_lines(
            self._program,
            target,
            self._function,
            self._live,
            self._lowering.memory,
            parameters,
            facts.entry,
            debug=self._debug,
        )
        said = f"// {facts.elements} elements a thread, for launches of {facts.threads} threads and more"
        return "\n".join(["", said, *(line for line in lines if not line.startswith(STATEMENT_MARK)), ""])
