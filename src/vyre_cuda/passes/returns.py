"""Bodies without returns at their top, so that statements can follow them."""

from __future__ import annotations

from vyre_cuda.ir.core.nodes import Apply, If, Return, Stmt
from vyre_cuda.ir.core.types import bool_
from vyre_cuda.ir.core.walk import Body


def without_returns(body: Body) -> Body:
    """The same, where a return under a condition ends what stands in its body: the rest moves under the contrary."""
    out: list[Stmt] = []
    for at, statement in enumerate(body):
        if isinstance(statement, Return):
            break
        if isinstance(statement, If) and _returns(statement.then) and not statement.orelse:
            rest = without_returns(body[at + 1 :])
            kept = without_returns(statement.then)
            if kept:
                out.append(If(statement.condition, kept, rest, statement.source))
            elif rest:
                contrary = Apply(bool_, "logical_not", (statement.condition,), statement.source)
                out.append(If(contrary, rest, (), statement.source))
            break
        out.append(statement)
    return tuple(out)


def _returns(body: Body) -> bool:
    return bool(body) and isinstance(body[-1], Return)
