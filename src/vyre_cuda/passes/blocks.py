"""Launches of one block each become one: a barrier between them instead of the end of a kernel.

What a thread finds of an earlier step may be what another one left there: all of them are in the block, and have
arrived at the barrier. Values go through memory. Threads behind the end of a step's own block skip the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre_cuda.ir.core.nodes import Apply, Barrier, Const, Id, If
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import Body
from vyre_cuda.passes.facts import facts_of, with_facts_of
from vyre_cuda.passes.merge import Merge
from vyre_cuda.passes.mergeable import blocks_of, check_programs
from vyre_cuda.passes.steps import Kind, Refused, Span, Step
from vyre_cuda.records import replace

MOST_THREADS = 1024  # of a block


def merge_blocks(steps: Sequence[Step]) -> Step:
    """One step for several in a row, at least one, each with one block or as `in_one_block` takes it. Raises
    Refused."""
    check_programs(steps)
    steps = [in_one_block(step) for step in steps]
    first = steps[0].geometry
    for step in steps:
        here = step.geometry
        if here.block != first.block and (here.block[1:] != (1, 1) or first.block[1:] != (1, 1)):
            raise Refused(
                f"{step.program.name} has a block of {here.block} threads, {steps[0].program.name} one of "
                f"{first.block}",
                Kind.LAUNCH,
            )
    made = _BlockMerge(max([step.geometry for step in steps], key=lambda geometry: geometry.threads_per_block))
    for number, step in enumerate(steps):
        try:
            made.add(step)
        except Refused as why:
            why.fit = number
            raise
    return made.step()


def in_one_block(step: Step) -> Step:
    """The same threads as one block. Raises Refused where the program can tell, or where it takes longer."""
    name, geometry = step.program.name, step.geometry
    if geometry.blocks == 1:
        return step
    threads = geometry.blocks * geometry.threads_per_block
    if threads != geometry.grid[0] * geometry.block[0] or threads > MOST_THREADS:
        raise Refused(f"{name} has {blocks_of(geometry)}, which are not one", Kind.LAUNCH)
    if facts_of(step.program).has_loop:
        raise Refused(f"{name} has {blocks_of(geometry)}, not one, and a loop", Kind.LAUNCH)
    others = facts_of(step.program).ids - {"global_id"}
    if others:
        raise Refused(f"{name} has {blocks_of(geometry)}, not one, and uses {min(others)}", Kind.LAUNCH)
    block = (threads, 1, 1)
    program = with_facts_of(replace(step.program, block=block), step.program)
    return replace(step, program=program, geometry=replace(geometry, grid=(1, 1, 1), block=block))


class _BlockMerge(Merge):
    def add(self, step: Step) -> None:
        part = self._parts.of(step)
        touches = self._arrays.touches(step)
        names = self._declare(step, touches)
        renamed = self._within_its_block(step, self._copied(part, names, alike=False).made)
        clears = self._clears(step, touches, lambda array, _: self._fills(array, renamed))
        if len(self._steps) > 1:
            self._body.append(Barrier())
        if clears:
            self._body += [*self._cleared(clears), Barrier()]
        self._body += renamed

    def step(self, dropped: frozenset[Span] = frozenset()) -> Step:
        return self._made(tuple(self._body), dropped)

    def _within_its_block(self, step: Step, body: Body) -> Body:
        threads = step.geometry.threads_per_block
        if threads == self._launch.threads_per_block:
            return body
        own = Id(self._index, "global_id", 0)  # along x, as there is one block
        return (If(Apply(bool_, "less", (own, Const(self._index, threads))), body),)
