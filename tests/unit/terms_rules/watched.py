"""In which statements of a kernel a rule fires, so that what it made is computed: seen while the kernel is lowered.

`vc.rewrites` says the same in words, and takes several times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import vyre_cuda as vc
from vyre_cuda.codegen import lower
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lowering.expressions import Expressions, Locals
from vyre_cuda.codegen.lowering.extraction import Extraction
from vyre_cuda.codegen.lowering.isel_memory import Memory
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.ir.core.nodes import Stmt
from vyre_cuda.passes.pipeline import prepared

Made = TypeVar("Made")

_TARGET = Target.parse("sm_90")


class _Fired(list[tuple[str, int, int]]):
    """Firings with the statement, the term, and the forms of what the rule made of it."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.statement = -1
        self.all: list[tuple[str, int, int, tuple[int, ...]]] = []

    def append(self, fired: tuple[str, int, int]) -> None:
        rule, term, right = fired
        terms = self._terms
        self.all.append((rule, self.statement, term, terms.forms[terms.find(right)]))


class _Extraction(Extraction):
    __slots__ = ("computed", "roots")

    def __init__(self, builder: Builder, terms: Terms) -> None:
        super().__init__(builder, terms)
        self.computed: set[int] = set()
        self.roots: set[int] = set()

    def stored(self, class_: int) -> int:
        self.roots.add(class_)
        return super().stored(class_)

    def _of_form(self, class_: int, term: int) -> int:
        self.computed.add(term)
        return super()._of_form(class_, term)


class _Expressions(Expressions):
    __slots__ = ("fired", "watched")

    def __init__(self, builder: Builder, memory: Memory, program: vc.Program) -> None:
        super().__init__(builder, memory, program)
        self.fired = self.terms.fired = _Fired(self.terms)
        self.watched = self.extraction = _Extraction(builder, self.terms)
        self.locals = Locals(builder, self.extraction)

    def where(self, rule: str) -> set[int]:
        """The statements, of a program without scopes; not those where another rule found the same."""
        terms, computed = self.terms, self.watched.computed
        stored = {terms.find(class_) for class_ in self.watched.roots}
        rules: dict[tuple[int, int], set[str]] = {}  # by statement and class, those that made what is computed
        for name, statement, term, forms in self.fired.all:
            class_ = terms.find(term)
            if terms.ops[class_] in ("const", "leaf"):
                is_computed = class_ in stored and class_ in forms
            else:
                is_computed = any(form in computed and form != term for form in forms)
            if is_computed:
                rules.setdefault((statement, class_), set()).add(name)
        return {statement for (statement, _), names in rules.items() if names == {rule}}


class _Watched(Lowering):
    """The last program that was lowered so is `last`."""

    last: _Expressions | None = None

    def _make_expressions(self, program: vc.Program) -> Expressions:
        made = _Watched.last = _Expressions(self.builder, self.memory, program)
        return made

    def _number(self, statement: Stmt) -> None:
        super()._number(statement)
        assert _Watched.last is not None
        _Watched.last.fired.statement = self.sites.number(statement)


def while_lowered(rule: str, compile_: Callable[[], Made]) -> tuple[Made, set[int]]:
    """What this returns, and in which statements the rule fired in the kernel that it lowers. One thread at a time."""
    _Watched.last = None
    plain = lower.Lowering
    lower.Lowering = _Watched  # type: ignore[misc]
    try:
        made = compile_()
    finally:
        lower.Lowering = plain  # type: ignore[misc]
    if _Watched.last is None:
        raise RuntimeError("nothing was lowered: the kernel came from a cache")
    return made, _Watched.last.where(rule)


def statements(rule: str, program: vc.Program) -> set[int]:
    """In which statements of a program the rule fires."""
    return while_lowered(rule, lambda: lower.lower(prepared(program), _TARGET))[1]
