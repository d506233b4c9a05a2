"""Where a program touches its arrays, and under which conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from vyre_cuda.ir.core.nodes import Atomic, Expr, If, Load, Store
from vyre_cuda.ir.core.walk import Body, bodies, expressions, operands, statements
from vyre_cuda.passes.places import Conditions, Places

# An index, None for that of an atomic, and what holds there.
Access: TypeAlias = tuple[Expr | None, Conditions]


def accesses(body: Body, places: Places, here: Conditions) -> Iterator[tuple[str, Expr | None, Conditions]]:
    """The array and the index of each access, None for that of an atomic, and what holds there."""
    for s in body:
        for expr in expressions(operands(s)):
            if isinstance(expr, Load):
                yield expr.buffer, expr.index, here
        if isinstance(s, Store):
            yield s.buffer, s.index, here
        elif isinstance(s, Atomic):
            yield s.buffer, None, here
        elif isinstance(s, If):
            yield from accesses(s.then, places, places.assumed(here, s.condition))
            yield from accesses(s.orelse, places, places.assumed(here, s.condition, False))
        else:
            for _, inner in bodies(s):
                yield from accesses(inner, places, here)


def reads(body: Body, name: str, *, nested: bool = True) -> bool:
    """Whether it loads from the array."""
    every = statements(body) if nested else body
    return any(isinstance(e, Load) and e.buffer == name for s in every for e in expressions(operands(s)))
