"""The sizes and shapes of the buffers of a call: what the arguments have, what outs get, what declarations demand.

The checks are the same for calls, launches and the interpreter, and every error says both numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from vyre_cuda.errors import ProgramError, counted
from vyre_cuda.ir.call.geometry import Sizes, array_sizes, host_size, numbers_of, wider_index
from vyre_cuda.ir.core.nodes import Expr, Parameter, Size
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.walk import expressions
from vyre_cuda.records import Record, field


class Extents(Record):
    """The sizes of the buffers of one call. `known` is what size expressions may use; `given` has the words for each
    array that was passed, as errors name it."""

    program: Program
    known: dict[str | tuple[str, int], int] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)

    def take(self, what: str, parameter: Parameter, value: Any) -> None:
        """Note an array that was passed. ValueError if it has other axes or more elements than indices can count."""
        self._enter(what, parameter, value.size, tuple(value.shape) if parameter.shape else ())
        self.given[parameter.name] = what

    def size_outs(self, scalars: Mapping[str, int]) -> None:
        """Work out the outs that declare their size; one may need the size of another. TypeError for an out that
        neither declares its size nor was passed."""
        self.known.update(array_sizes(self.program))
        pending: dict[str, Parameter] = {}
        for parameter in self.program.parameters:
            if parameter.kind == "out" and parameter.name not in self.given:
                if parameter.size is None:
                    raise TypeError(
                        f"{self.program.name}: out {parameter.name} has no declared size; pass an array for it by out="
                    )
                pending[parameter.name] = parameter
        while pending:
            ready = [p for p in pending.values() if not pending.keys() & _named(p)]
            if not ready:
                raise ProgramError(
                    f"program {self.program.name}: the sizes of {', '.join(pending)} depend on each other"
                )
            for parameter in ready:
                shape = tuple(
                    [self._declared(parameter, axis, e, scalars) for axis, e in enumerate(parameter.declared)]
                )
                self._enter(f"buffer {parameter.name}", parameter, math.prod(shape), shape if parameter.shape else ())
                del pending[parameter.name]

    def check(self, scalars: Mapping[str, int]) -> None:
        """ValueError for an array that was passed and is not as its parameter declares."""
        for parameter in self.program.parameters:
            if parameter.name in self.given and (parameter.shape or parameter.size is not None):
                self._check(parameter, scalars)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each buffer that is declared with several axes."""
        return {
            p.name: tuple([self.known[p.name, axis] for axis in range(p.ndim)])
            for p in self.program.parameters
            if p.shape
        }

    def _enter(self, what: str, parameter: Parameter, size: int, shape: tuple[int, ...]) -> None:
        if len(shape) != len(parameter.shape):
            raise ValueError(
                f"{self.program.name}: {what} has the shape {shape}; {parameter.name} is declared with "
                f"{parameter.ndim} axes"
            )
        check_indexable(self.program, what, size)
        for axis, extent in enumerate(shape):
            if extent > self.program.index.maximum:  # of an array without elements
                raise ValueError(
                    f"{self.program.name}: extent {axis} of {what} is {extent}; {self.program.index} indices reach "
                    f"{self.program.index.maximum} ({wider_index(self.program)})"
                )
        self.known[parameter.name] = size
        for axis, extent in enumerate(shape):
            self.known[parameter.name, axis] = extent

    def _check(self, parameter: Parameter, scalars: Mapping[str, int]) -> None:
        name = parameter.name
        exprs = parameter.shape or (parameter.size,)
        wanted = [None if e is None else self._declared(parameter, axis, e, scalars) for axis, e in enumerate(exprs)]
        shape = [self.known[name, axis] for axis in range(parameter.ndim)] if parameter.shape else [self.known[name]]
        if all(want is None or want == extent for want, extent in zip(wanted, shape, strict=True)):
            return
        known: Sizes = self.known
        used = sorted({text for e in parameter.declared for text in numbers_of(e, known, scalars)})
        because = f" ({', '.join(used)})" if used else ""
        has, needs = counted(shape[0], "element"), f"{wanted[0]}"
        if parameter.shape:
            has = f"the shape {tuple(shape)}"
            needs = f"({', '.join(':' if want is None else str(want) for want in wanted)})"
        raise ValueError(f"{self.program.name}: {self.given[name]} has {has}, not {needs}{because}")

    def _declared(self, parameter: Parameter, axis: int, expr: Expr, scalars: Mapping[str, int]) -> int:
        what = f"extent {axis}" if parameter.shape else "the size"
        kind = "out " if parameter.kind == "out" else ""
        return host_size(f"{self.program.name}: {what} of {kind}{parameter.name}", expr, self.known, scalars)


def value_words(program: Program, scalars: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> list[int]:
    """The by-value arguments of the kernel: the scalars in declared order, then the extents of all shapes."""
    given = [scalars[p.name] for p in program.parameters if not p.is_buffer]
    return [*given, *(extent for shape in shapes.values() for extent in shape)]


def check_indexable(program: Program, what: str, size: int) -> None:
    """ValueError for more elements than the program's indices can number."""
    if size > program.index.maximum:
        raise ValueError(
            f"{program.name}: {what} has {size} elements; a program with {program.index} indices "
            f"takes at most {program.index.maximum} per buffer ({wider_index(program)})"
        )


def _named(parameter: Parameter) -> set[str]:
    """The buffers whose sizes its declaration uses."""
    return {part.buffer for part in expressions(parameter.declared) if isinstance(part, Size)}
