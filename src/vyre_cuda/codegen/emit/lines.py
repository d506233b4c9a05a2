"""Which statement of a program each line of its PTX belongs to, by the marks in the text.

The instructions of statement 12 come after the comment s12. Statements are numbered in the order of the program's
text; this is the program that was lowered, which passes may have changed.
"""

from __future__ import annotations

from vyre_cuda.codegen.emit.instructions import statement_comment
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import Stmt
from vyre_cuda.ir.core.program import Program


def statements_of_lines(program: Program, ptx: str) -> list[Stmt | None]:
    """The statement of each line of `ptx`, which is what `lower` made of the program; None where there is none."""
    marks = {f"  // {statement_comment(n)}": statement for n, statement in enumerate(walk.statements(program.body))}
    found: list[Stmt | None] = []
    current: Stmt | None = None
    for line in ptx.splitlines():
        current = None if line == "}" else marks.get(line, current)
        found.append(current)
    return found
