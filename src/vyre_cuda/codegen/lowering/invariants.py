"""What a loop computes again in each trip, although nothing in it changes: lowered before the first trip, it is found.

These are lets, and the largest parts of other statements, that read no memory that the program writes, no counter and
no local that the loop gives a value. What runs only under a branch in the loop stays: no trip may reach it.
"""

from __future__ import annotations

from collections.abc import Iterator

from vyre_cuda.ir.core.nodes import Apply, Assign, Expr, For, Let, Load, Local, Stmt, While
from vyre_cuda.ir.core.walk import bodies, children, declared_name, operands, statements


def invariants(loop: For | While, readable: frozenset[str]) -> Iterator[tuple[Stmt, Expr]]:
    """Expressions of a loop, inner loops included, with their statements, in order.

    The expression of a let is all of it. `readable` are the arrays whose elements may be loaded before the loop.
    """
    return _Search(loop, readable).found(loop)


class _Search:
    """One loop; `changing` are its counters and locals, and the vars that it assigns, but for invariant lets."""

    def __init__(self, loop: For | While, readable: frozenset[str]) -> None:
        self._readable = readable
        self._changing = {name for statement in statements((loop,)) if (name := _written(statement)) is not None}

    def found(self, loop: For | While) -> Iterator[tuple[Stmt, Expr]]:
        """Those of the bodies of this loop or one in it."""
        for _, body in bodies(loop):
            for statement in body:
                if isinstance(statement, Let) and self._is_invariant(statement.value):
                    self._changing.discard(statement.name)
                    yield statement, statement.value
                    continue
                if not isinstance(statement, While):
                    yield from self._in_operands(statement)
                if isinstance(statement, (For, While)):
                    yield from self.found(statement)
        if isinstance(loop, While):
            yield from self._in_operands(loop)

    def _in_operands(self, statement: Stmt) -> Iterator[tuple[Stmt, Expr]]:
        for expr in operands(statement):
            for part in self._parts(expr):
                yield statement, part

    def _parts(self, expr: Expr) -> Iterator[Expr]:
        """The largest invariant parts of an expression that compute something."""
        if isinstance(expr, (Apply, Load)) and self._is_invariant(expr):
            yield expr
        else:
            for part in children(expr):
                yield from self._parts(part)

    def _is_invariant(self, expr: Expr) -> bool:
        if isinstance(expr, Local):
            return expr.name not in self._changing
        if isinstance(expr, Load) and expr.buffer not in self._readable:
            return False
        return all(map(self._is_invariant, children(expr)))


def _written(statement: Stmt) -> str | None:
    """The local that a statement gives a value."""
    return statement.name if isinstance(statement, Assign) else declared_name(statement)
