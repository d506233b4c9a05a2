"""Terms that remember why they are equal: each equality is a step between two nodes, and a way of steps leads from what
is written to what is computed.

A node is a term, or an op on classes that was asked for and may have become none. Steps of a scope go with its terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from vyre_cuda.codegen.terms.conditions import Interval
from vyre_cuda.codegen.terms.linear import LINEAR, LINEAR_FORM
from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord

# An op on classes that was asked for: its name, the type of its result, the classes.
Asked: TypeAlias = tuple[str, Type, tuple[int, ...]]
Node: TypeAlias = "int | Asked"

CONSTANT = "constant"
IDENTITY = "identity"

# Terms have these as the other comparison.
_MIRRORED = {"greater": "less", "greater_equal": "less_equal"}


class Step(FrozenRecord):
    """Two nodes are equal by a rule; without one they are the same op on operands that are equal."""

    rule: str
    before: Node
    after: int


class _Fired(list[tuple[str, int, int]]):
    """What the rules and linear forms report, term by term, becomes steps."""

    def __init__(self, terms: RecordedTerms) -> None:
        self._terms = terms

    def append(self, fired: tuple[str, int, int]) -> None:
        self._terms.note(*fired)


class RecordedTerms(Terms):
    """Terms with their steps. `asked` is the node of the last `apply`."""

    __slots__ = ("_last", "_steps", "_steps_at", "_steps_of", "asked")

    def __init__(self, interval_of: Callable[[int], Interval], precision: str = "ieee") -> None:
        super().__init__(interval_of, precision)
        self.asked: Asked | None = None
        self.fired = _Fired(self)
        self._steps: list[Step] = []
        self._steps_of: dict[Node, list[Step]] = {}
        self._steps_at: list[int] = []  # how many there were when each scope was opened
        self._last: tuple[int, int] = (-1, -1)  # the last sum that a rule was used on, and what it made of it

    def open_scope(self) -> None:
        super().open_scope()
        self._steps_at.append(len(self._steps))

    def close_scope(self) -> None:
        super().close_scope()
        self._last = (-1, -1)
        kept = self._steps_at.pop()
        while len(self._steps) > kept:
            step = self._steps.pop()
            for node in (step.before, step.after):
                self._steps_of[node].pop()

    def apply(self, op: str, type_: Type, args: tuple[int, ...]) -> int:
        asked = (op, type_, tuple([self.find(arg) for arg in args]))
        key_before = self._made(asked)
        class_ = super().apply(op, type_, args)
        if not self._steps_of.get(asked):
            made = key_before if key_before is not None else self._made(asked)
            if made is None:
                folded = all(self.ops[arg] == "const" for arg in asked[2])
                self._join(Step(CONSTANT if folded else IDENTITY, asked, class_))
            else:
                self._join(Step("", asked, made))
        self.asked = asked
        return class_

    def _made(self, asked: Asked) -> int | None:
        """The term of an op on classes, None if there is none because it is something simpler."""
        op, type_, args = asked
        keys = [(op, args)]
        if op in _MIRRORED or (op in OPS and OPS[op].commutative):
            keys.append((_MIRRORED.get(op, op), args[::-1]))
        for name, order in keys:
            made = self._table.get((name, type_.code, order))
            if made is not None and self.ops[made] == name and self._same_operands(made, args):
                return int(made)
        return None

    def _same_operands(self, made: int, args: tuple[int, ...]) -> bool:
        find = self.find
        return sorted(map(find, self.args[made])) == sorted(map(find, args))

    def note(self, rule: str, term: int, right: int) -> None:
        """A rule made `right` equal to a term; of a sum, it may have been used on what another rule left."""
        before = term
        if self._last[0] == term and self.ops[term] in LINEAR and self.ops[self._last[1]] in (*LINEAR, "sum"):
            before = self._last[1]
        if rule != LINEAR_FORM:
            self._last = (term, right)
        if before != right:
            self._join(Step(rule, before, right))

    def _congruent(self, parents: list[int]) -> Iterator[tuple[int, int]]:
        for one, other in super()._congruent(parents):
            self._join(Step("", one, other))
            yield one, other

    def _join(self, step: Step) -> None:
        self._steps.append(step)
        for node in (step.before, step.after):
            self._steps_of.setdefault(node, []).append(step)

    def has(self, step: Step) -> bool:
        """Whether the terms of a step are still there."""
        terms = len(self.ops)
        return step.after < terms and not (isinstance(step.before, int) and step.before >= terms)

    def way(self, start: Node, goal: int) -> list[Step]:
        """The shortest way of steps from a node to a term of the same class, each in the direction of the way."""
        came: dict[Node, Step | None] = {start: None}
        work: list[Node] = [start]
        for node in work:
            if node == goal:
                break
            for step in self._steps_of.get(node, ()):
                other = step.after if step.before == node else step.before
                # Only the term that an op became leads on from it.
                if isinstance(other, int) and other not in came:
                    came[other] = Step(step.rule, node, other)
                    work.append(other)
        else:
            raise InternalError(f"no steps lead from {start} to term {goal}")
        way: list[Step] = []
        at = came[goal]
        while at is not None:
            way.append(at)
            at = came[at.before]
        return way[::-1]
