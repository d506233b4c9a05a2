"""Which statement a line of the PTX text belongs to, by the comments that the lowering puts there."""

from __future__ import annotations

from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.emit.instructions import statement_comment
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.program import Program


def statement_of(program: Program, lowered: Lowered, line: int) -> int | None:
    """The number of the statement, in pre-order from 0; None for code that belongs to none."""
    lines = lowered.ptx.splitlines()[:line]
    known = {f"// {statement_comment(n)}": n for n, _ in enumerate(walk.statements(program.body))}
    return next((known[text.strip()] for text in reversed(lines) if text.strip() in known), None)
