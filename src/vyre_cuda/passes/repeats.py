"""A loop around steps that became one kernel goes into the kernel.

Where each thread finds of an earlier pass only what it left there itself, as `merge` says of the step with itself, the
passes follow each other without more. In one block a barrier is at the end of each pass. Where an array ends the loop,
one thread reads it there and tells the others.
"""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import (
    Apply,
    Barrier,
    Break,
    Const,
    Expr,
    For,
    Id,
    If,
    Let,
    Load,
    Local,
    Position,
    SharedArray,
    Stmt,
    Store,
    While,
)
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.core.walk import Body, statements
from vyre_cuda.passes.blocks import in_one_block
from vyre_cuda.passes.merge import Merge, merge
from vyre_cuda.passes.mergeable import check_programs
from vyre_cuda.passes.steps import Kind, Refused, Step
from vyre_cuda.records import FrozenRecord, replace


class Until(FrozenRecord):
    """Memory, first byte and type of the element that ends a loop once it is not 0."""

    memory: int
    first: int
    type: Type


def merge_repeated(step: Step, times: int, until: Until | None = None) -> Step:
    """The step `times` times, one after the other; with `until` at most, and 0 means without end. Raises Refused."""
    if not (until is None) <= times <= most_times(step):
        raise Refused(f"{times} repetitions are more than {step.program.index} indices can count", Kind.SIZE)
    if until is not None:
        check_programs([step], barriers=bool(step.origins))
        return _Repeat(in_one_block(step)).until(times, until)
    try:
        merge([step, step])
    except Refused:
        pass
    else:
        return _Repeat(step).repeated(times, barriers=False)
    # Barriers between merged steps; those of a program of its own may stand where returns were taken out.
    check_programs([step], barriers=bool(step.origins))
    return _Repeat(in_one_block(step)).repeated(times, barriers=True)


def merge_again(step: Step, times: int) -> Step:
    """The same for a step that `merge_repeated` made without `until`: its loop has so many times as many passes, which
    are at most `most_times`."""
    (loop,) = step.program.body
    assert isinstance(loop, For)
    assert isinstance(loop.stop, Const)
    more = replace(loop, stop=Const(step.program.index, times * loop.stop.bits))
    return replace(step, program=replace(step.program, body=(more,)))


def most_times(step: Step) -> int:
    """How many passes a loop around it can count."""
    return int((1 << step.program.index.bits - 1) - 1)


class _Repeat(Merge):
    def __init__(self, step: Step) -> None:
        super().__init__(step.geometry)
        part = self._parts.of(step)
        names = self._declare(step, self._arrays.touches(step))
        self._once = self._copied(part, names, alike=True).made

    def repeated(self, times: int, *, barriers: bool) -> Step:
        return self._made((self._counted(times, self._pass(barriers=barriers)),))

    def until(self, times: int, until: Until) -> Step:
        body = (*self._pass(barriers=True), *self._end(self._element(until)))
        arrays = self._arrays.found.values()
        self._filled = {array.name for array in arrays if self._fills(array, body)}
        return self._made((self._counted(times, body) if times else While((), Const(bool_, 1), body),))

    def _pass(self, *, barriers: bool) -> Body:
        (step,) = self._steps
        clears = self._clears(step, self._arrays.touches(step), lambda array, _: self._fills(array, self._once))
        body: list[Stmt] = [*self._cleared(clears)]
        if barriers and clears:
            body.append(Barrier())
        body += self._once
        if barriers:
            body.append(Barrier())
        return tuple(body)

    def _counted(self, times: int, body: Body) -> Stmt:
        zero, one, last = (Const(self._index, n) for n in (0, 1, times))
        return For(self._names.take("repeat"), zero, last, one, body)

    def _element(self, until: Until) -> Load:
        """What ends the loop, as the step's program reads it."""
        for array in self._arrays.found.values():
            span = array.span
            if (
                array.is_written
                and span.count
                and (span.memory, span.first, array.type)
                == (
                    until.memory,
                    until.first,
                    until.type,
                )
            ):
                zero = Const(self._index, 0)
                axes = len(span.shape)
                return Load(until.type, array.name, zero if axes == 1 else Position(self._index, (zero,) * axes))
        raise Refused(
            "no step in it writes to the array that ends it, with its type and from its beginning",
            Kind.VIEW,
        )

    def _end(self, element: Load) -> Body:
        """After a barrier: leave the loop, or not, all threads alike."""
        said, found = self._names.take("stop"), self._names.take("stops")
        self._shared.append(SharedArray(said, element.type, 1))
        zero, one = Const(self._index, 0), Const(self._index, 1)
        value: Expr = Local(element.type, found)
        if element.type is not bool_:
            value = Apply(bool_, "not_equal", (value, Const(element.type, 0)))
        return (
            If(Apply(bool_, "less", (Id(self._index, "global_id", 0), one)), (Store(said, zero, element),)),
            Barrier(),
            Let(found, Load(element.type, said, zero)),
            Barrier(),
            If(value, (Break(),)),
        )


def barriers_of(step: Step) -> int:
    return sum(isinstance(s, Barrier) for s in statements(step.program.body))
