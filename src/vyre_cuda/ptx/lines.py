"""Which statement of a program each line of its PTX was made for.

The text that a driver gets has no marks: they would be read, hashed and kept with every kernel. When a line is to be
explained the program is lowered once more with its statements numbered in comments.
"""

from __future__ import annotations

from vyre_cuda.ir import walk
from vyre_cuda.ir.nodes import Stmt
from vyre_cuda.ir.program import Program
from vyre_cuda.ptx.lower import lower
from vyre_cuda.ptx.statements import statement_comment
from vyre_cuda.ptx.target import Target


def statements_of_lines(
    program: Program, target: Target, ptx: str, *, precision: str, bounds: str, max_ulp: float | None = None
) -> list[Stmt | None]:
    """The statement of each line of `ptx`, which is what `lower` gave for these; None where there is none."""
    numbered = lower(program, target, precision=precision, bounds=bounds, max_ulp=max_ulp, numbered=True).ptx
    marks = {f"// {statement_comment(n)}": statement for n, statement in enumerate(walk.statements(program.body))}
    found: list[Stmt | None] = []
    lines: list[str] = []
    current: Stmt | None = None
    for line in numbered.splitlines():
        mark = marks.get(line.strip())
        if mark is not None:
            current = mark
            continue
        found.append(None if line == "}" else current)
        lines.append(line)
    return found if lines == ptx.splitlines() else [None] * len(ptx.splitlines())
