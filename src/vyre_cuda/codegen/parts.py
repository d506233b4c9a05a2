"""A kernel as a part of an entry for several: the program that is lowered, and its instructions in a scope of their
own."""

from __future__ import annotations

from vyre_cuda.codegen.core.lowered import KernelParameter, Lowered
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.emit import coalesce
from vyre_cuda.codegen.emit.instructions import STATEMENT_MARK
from vyre_cuda.codegen.emit.resident import Resident
from vyre_cuda.codegen.emit.rows import Rows
from vyre_cuda.codegen.emit.text import resident_lines, table_lines, used_parameters
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.ssa import liveness
from vyre_cuda.codegen.vectors import forms
from vyre_cuda.errors import UnsupportedError
from vyre_cuda.ir.core.program import Program
from vyre_cuda.records import FrozenRecord


class Part(FrozenRecord):
    """The program, and the kernel that was made of it with these options."""

    program: Program
    lowered: Lowered
    precision: str
    bounds: str
    max_ulp: float | None


class Body(FrozenRecord):
    """What an entry has of a part. Variables have names of their own for each prefix."""

    lowering: Lowering
    lines: list[str]
    tables: list[str]

    @property
    def dynamic_shared_bytes(self) -> int:
        return self.lowering.memory.dynamic_shared_bytes

    @property
    def static_shared_bytes(self) -> int:
        return self.lowering.memory.shared_bytes - self.dynamic_shared_bytes


def body_of(part: Part, target: Target, prefix: str, within: Resident | Rows, what: str) -> Body:
    """The instructions of one block, where `within` says how they find their block and parameters. UnsupportedError
    with the capability `what`: it has no parameter for what they read."""
    program = part.program
    lowering = Lowering(
        program,
        target,
        precision=part.precision,
        bounds=part.bounds,
        debug=False,
        max_ulp=part.max_ulp,
        prefix=prefix,
    )
    lowering.run()
    memory, function = lowering.memory, lowering.builder.function
    if memory.has_many():
        forms.with_vectors(lowering.builder, memory, memory.linear)
    live = liveness(function)
    if function.registers:
        coalesce.coalesce(function, live[0])
    parameters = _parameters(part, used_parameters(function, live[0]), what)
    lines = resident_lines(program, target, function, live, memory, parameters, within)
    # The marks of statements are those of a kernel's text, whose numbers begin anew with each.
    lines = [line for line in lines if not line.startswith(STATEMENT_MARK)]
    return Body(lowering, lines, table_lines(program, memory))


def _parameters(part: Part, used: set[object], what: str) -> tuple[KernelParameter, ...]:
    """Those of the kernel's launches; one that another version made may lack some that this code reads."""
    if not used <= {(p.kind, p.name) for p in part.lowered.parameters}:
        raise UnsupportedError(
            f"{part.program.name} does not have all parameters that its part of a kernel for several needs: compile it "
            "anew",
            capability=what,
        )
    return part.lowered.parameters
