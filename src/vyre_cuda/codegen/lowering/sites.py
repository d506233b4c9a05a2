"""The numbers under which failing threads report: places of asserts and, with bounds="trap", of checked accesses."""

from __future__ import annotations

from vyre_cuda.codegen.core.lowered import Site
from vyre_cuda.ir.core import walk
from vyre_cuda.ir.core.nodes import Assert, Stmt
from vyre_cuda.ir.core.program import Program


class Sites:
    """Sites in the order in which lowering encounters them.

    They are the asserts of the program in pre-order, dead ones too; with traps, the accesses that need a check among
    them. Where `races` are looked for, a site for all of them comes last, and after it, with `initialized`, one for all
    elements that are not written.
    """

    __slots__ = ("_found", "_next", "_numbers", "_of_all", "reports", "statements", "traps")

    def __init__(self, program: Program, *, traps: bool, races: bool = False, initialized: bool = False) -> None:
        self.statements = list(walk.statements(program.body))
        self._numbers = {id(s): number for number, s in enumerate(self.statements)}
        self._next = 0
        self._found: list[Site] = []
        self.traps = traps
        race = (Site("race", "data race", "", 0, None),) if races else ()
        unwritten = (Site("unwritten", "not written", "", 0, None),) if initialized else ()
        self._of_all = (*race, *unwritten)
        self.reports = races or initialized or traps or Assert in set(map(type, self.statements))

    def skip(self, asserts: list[Assert]) -> None:
        """These are in dead code: they keep their numbers."""
        for statement in asserts:
            self.assertion(statement)

    def assertion(self, statement: Assert) -> int:
        """The number of this assert."""
        if self.traps:
            return self._add(Site("assert", statement.message, "", self.number(statement), statement.source))
        self._next += 1
        return self._next - 1

    def bounds(self, statement: Stmt, buffer: str, axis: int | None) -> int:
        """The number of an access to the buffer in this statement; of one axis of it if there are several."""
        message = f"index out of bounds of {buffer}" + ("" if axis is None else f" on axis {axis}")
        return self._add(Site("bounds", message, buffer, self.number(statement), statement.source))

    def all(self) -> tuple[Site, ...]:
        """Every site by its number."""
        if self.traps:
            return (*self._found, *self._of_all)
        asserts = [
            Site("assert", statement.message, "", number, statement.source)
            for number, statement in enumerate(self.statements)
            if type(statement) is Assert
        ]
        return (*asserts, *self._of_all)

    def _add(self, site: Site) -> int:
        self._found.append(site)
        return len(self._found) - 1

    def number(self, statement: Stmt) -> int:
        """Its number in the program, in pre-order from 0."""
        return self._numbers[id(statement)]
