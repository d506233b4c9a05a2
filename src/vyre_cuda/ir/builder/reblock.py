"""Programs that do not depend on their block: they mean the same with any number of threads in it."""

from __future__ import annotations

from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import Barrier, GridBarrier, Id, Source, Warp
from vyre_cuda.ir.core.program import Program
from vyre_cuda.records import replace

_OF_BLOCKS = ("thread_id", "block_id", "block_dim", "grid_dim", "lane_id")


def what_fixes_block(program: Program) -> tuple[str, Source | None] | None:
    """What in the program depends on the number of threads of a block, and where; None when nothing does.

    Threads beyond the work, whose number may change, are not considered: a program guards against them.
    """
    if program.block[1:] != (1, 1):
        return "a block of several axes", program.source
    if program.shared:
        return f"the shared array {program.shared[0].name}", program.shared[0].source
    for statement in walk.statements(program.body):
        if isinstance(statement, (Barrier, GridBarrier)):
            return "a barrier", statement.source
        if isinstance(statement, Warp):
            return f"the warp operation {statement.op}", statement.source
        for expr in walk.expressions(walk.operands(statement)):
            if isinstance(expr, Id) and expr.kind in _OF_BLOCKS:
                return expr.kind, expr.source or statement.source
    return None


def with_block(program: Program, threads: int) -> Program:
    """The same program with this many threads per block, all along x."""
    return replace(program, block=(threads, 1, 1), auto_block=False, min_blocks=0)
