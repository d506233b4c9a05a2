"""Lowering that computes each expression as it is written, where it is written: what rewriting is compared with.

The values are built by the same builder, which folds constants, finds equal values and knows neutral elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import vyre_cuda.codegen.lower
from vyre_cuda.codegen.lowering.expressions import Expressions, Locals
from vyre_cuda.codegen.lowering.extraction import Extraction
from vyre_cuda.codegen.lowering.isel_memory import Memory
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.core.types import Type


class _WrittenTerms(Terms):
    """Terms that are equal to nothing else."""

    __slots__ = ()

    def apply(self, op: str, type_: Type, args: tuple[int, ...]) -> int:
        if op in ("cast", "bitcast") and type_ is self.types[args[0]]:
            return args[0]
        key = (op, type_.code, args)
        found = self._table.get(key)
        return self._append(key, op, type_, args) if found is None else found


class _WrittenExtraction(Extraction):
    """Each value in the range of its type, a let where it stands."""

    __slots__ = ()

    def named(self, class_: int) -> None:
        self.needed(class_)

    def _loosely(self, op: str, type_: Type, args: tuple[int, ...]) -> None:
        return None


class _WrittenExpressions(Expressions):
    def __init__(self, builder: Builder, memory: Memory, program: Program) -> None:
        super().__init__(builder, memory, program)
        self.terms = _WrittenTerms(builder.facts.tight_range, builder.precision)
        self.extraction = _WrittenExtraction(builder, self.terms)
        self.locals = Locals(builder, self.extraction)


class _WrittenLowering(Lowering):
    def _make_expressions(self, program: Program) -> Expressions:
        return _WrittenExpressions(self.builder, self.memory, program)


@contextmanager
def without_rewriting() -> Iterator[None]:
    """What is lowered here is lowered as it is written."""
    before = vyre_cuda.codegen.lower.Lowering
    vyre_cuda.codegen.lower.Lowering = _WrittenLowering  # type: ignore[misc]
    try:
        yield
    finally:
        vyre_cuda.codegen.lower.Lowering = before  # type: ignore[misc]
