"""What merging finds out about a step, once for all launches of a program with the same blocks, threads and shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from vyre_cuda.ir.affine import affine
from vyre_cuda.ir.core.nodes import Expr, If, Load, Return
from vyre_cuda.ir.core.walk import in_any_order, operands, statements
from vyre_cuda.passes.accesses import Access, accesses
from vyre_cuda.passes.facts import ops_of
from vyre_cuda.passes.filled import fills
from vyre_cuda.passes.places import AXES, Conditions, Key, Places, hull
from vyre_cuda.passes.renaming import Renamed, UniqueNames
from vyre_cuda.passes.returns import without_returns
from vyre_cuda.passes.steps import Kind, Refused, Step
from vyre_cuda.records import FrozenRecord


class Seen(FrozenRecord, eq=False):
    """Where threads touch an array: `key` of the one index there is, None if there are several or it is not known;
    what holds of all threads that do; the index as it is written first; and whether an atomic is among them."""

    key: Key | None
    where: Conditions
    index: Expr | None
    atomic: bool

    def also(self, other: Seen) -> Seen:
        if (self.key, self.where, self.atomic) == (other.key, other.where, other.atomic):
            return self
        key = self.key if self.key == other.key else None
        return Seen(key, hull((self.where, other.where)), self.index, self.atomic or other.atomic)


def seen_of(found: Iterable[tuple[str, Expr | None, Conditions]], places: Places) -> dict[str, Seen]:
    """The same of each array among these accesses."""
    each: dict[str, list[Access]] = {}
    for name, index, here in found:
        each.setdefault(name, []).append((index, here))
    return {name: _seen(some, places) for name, some in each.items()}


def _seen(found: list[Access], places: Places) -> Seen:
    indices = [index for index, _ in found if index is not None]
    keys = {places.key(index, here) for index, here in found if index is not None}
    first = places.written_out(indices[0]) if indices else None
    key = keys.pop() if len(keys) == 1 else None
    return Seen(key, hull(here for _, here in found), first, len(indices) < len(found))


class Part:
    """A step alone. `body` has sizes as numbers and no returns; `own` are its arrays; `lets` has what its immutable
    locals are, as `places` has it; `said` has what holds where a condition is so, by identity; `scalars` are those
    that indices depend on, as terms; `loads` has the operations of the loads of each array."""

    def __init__(self, step: Step) -> None:
        self.step = step
        geometry, program = step.geometry, step.program
        self.places = Places([g * b for g, b in zip(geometry.grid, geometry.block, strict=True)])
        renamed = Renamed(step, {p.name: p.name for p in program.parameters}, UniqueNames(), self.places)
        self.own = renamed.own
        self.body = renamed.body(without_returns(program.body))
        every = list(statements(self.body))
        self.returns = any(isinstance(s, Return) for s in every)
        self.said: dict[int, Conditions] = {}
        for s in every:
            if isinstance(s, If) and (known := self.places.said(s.condition)) is not None and not known.others:
                self.said[id(s.condition)] = known
        self.loads: Counter[str] = Counter()
        for e in [e for s in every for e in in_any_order(operands(s))]:
            if type(e) is Load:
                self.loads[e.buffer] += ops_of((e,))
        self.seen = seen_of(accesses(self.body, self.places, self.places.launched), self.places)
        self.scalars: Mapping[str, int] = dict(self.places.scalars)
        self._fills: dict[str, bool] = {}

    def fills(self, name: str) -> bool:
        """Whether each element of this output gets a value before any is read."""
        if name not in self._fills:
            shape = self.step.spans[name].shape
            self._fills[name] = fills(self.places, self.step.program.index, self.body, name, shape)
        return self._fills[name]


class Parts:
    """Those of the steps so far."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Part] = {}

    def of(self, step: Step) -> Part:
        """Raises Refused."""
        shapes = tuple([span.shape for span in step.spans.values()])
        key = id(step.program), tuple(step.spans), shapes, step.geometry.grid, step.geometry.block
        part = self._found.get(key)
        if part is None:
            part = self._found[key] = Part(step)
        if part.returns:
            raise Refused(f"{step.program.name} has a return inside a loop or a branch", Kind.RETURN)
        return part


def with_terms(key: Key, terms: Mapping[int, int]) -> Key:
    """The same with other numbers of scalars."""
    found = []
    for whole, signed in key:
        changed = [(terms[term] if term >= AXES else term, factor) for term, factor in whole.terms]
        found.append((affine(whole.bits, changed, whole.constant), signed))
    return tuple(found)
