"""Launches of one block each become one: a barrier between them instead of the end of a kernel.

What a thread finds of an earlier step may be what another one left there: all of them are in the block, and have
arrived at the barrier. Values go through memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.ir.core.nodes import Barrier, Stmt
from vyre_cuda.passes.merge import Merge, check_launches
from vyre_cuda.passes.steps import Kind, Refused, Step


def merge_blocks(steps: Sequence[Step]) -> Step:
    """One step for several in a row, at least one, each with one block. Raises Refused."""
    check_launches(steps)
    if steps[0].geometry.blocks != 1:
        raise Refused(f"{steps[0].program.name} has {steps[0].geometry.blocks} blocks, not one", Kind.LAUNCH)
    return _BlockMerge(steps, frozenset()).step()


class _BlockMerge(Merge):
    def step(self) -> Step:
        maps = self._declare()
        self._check_ranges()
        body: list[Stmt] = []
        for number in range(len(self._steps)):
            renamed = self._renamed(number, maps[number])
            clears = self._clears(number, renamed)
            if number:
                body.append(Barrier())
            if clears:
                body += [*clears, Barrier()]
            body += renamed
        return self._made(tuple(body))
