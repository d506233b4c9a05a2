"""A loop around steps that became one kernel goes into the kernel.

Where each thread finds of an earlier pass only what it left there itself, as `merge` says of the step with itself, the
passes follow each other without more. In one block a barrier is at the end of each pass.
"""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import Barrier, Const, For, Stmt
from vyre_cuda.ir.core.walk import statements
from vyre_cuda.passes.blocks import in_one_block
from vyre_cuda.passes.merge import Merge, check_programs, merge
from vyre_cuda.passes.steps import Kind, Refused, Step


def merge_repeated(step: Step, times: int) -> Step:
    """The step `times` times, one after the other. Raises Refused."""
    if not 1 <= times <= (1 << step.program.index.bits - 1) - 1:
        raise Refused(f"{times} times are beyond {step.program.index} indices", Kind.SIZE)
    try:
        merge([step, step])
    except Refused:
        pass
    else:
        return _Repeat([step], frozenset()).repeated(times, barriers=False)
    # Barriers between merged steps; those of a program of its own may stand where returns were taken out.
    check_programs([step], barriers=bool(step.origins))
    return _Repeat([in_one_block(step)], frozenset()).repeated(times, barriers=True)


class _Repeat(Merge):
    def repeated(self, times: int, *, barriers: bool) -> Step:
        (names,) = self._declare()
        self._check_ranges()
        counter = self._names.take("repeat")
        renamed = self._renamed(0, names)
        clears = self._clears(0, renamed, again=True)
        body: list[Stmt] = [*clears]
        if barriers and clears:
            body.append(Barrier())
        body += renamed
        if barriers:
            body.append(Barrier())
        zero, one, last = (Const(self._index, n) for n in (0, 1, times))
        return self._made((For(counter, zero, last, one, tuple(body)),))


def barriers_of(step: Step) -> int:
    return sum(isinstance(s, Barrier) for s in statements(step.program.body))
