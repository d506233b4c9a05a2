"""A graph of values and control flow, with an edge from each thing to what it can make different between threads.

A level says how far a thing may differ: between blocks, between warps of a block, between threads of a warp. What
differs on one level may differ on those below. A node has the highest level that reaches it from a source, at most its
cap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vyre_cuda.ir.core.nodes import Expr, Source
from vyre_cuda.later import later
from vyre_cuda.records import Record, field

if TYPE_CHECKING:
    from vyre_cuda.ir.text import text as texts
else:
    texts = later("vyre_cuda.ir.text.text")

_SHOWN_TEXT = 80

SAME, BLOCKS, WARPS, THREADS = range(4)

_LEAVES = {
    "return": "some threads leave by a `return`",
    "break": "some threads leave the loop by a `break`",
    "continue": "some threads skip it by a `continue`",
}


class Node(Record, eq=False):
    """A value or a place in control flow. `kind` is source, condition, return, break, continue or empty.

    `text` says what it is, or is the expression whose text does.
    """

    kind: str = ""
    text: str | Expr = ""
    source: Source | None = None
    cap: int = THREADS
    leads_to: list[Node] = field(default_factory=list)
    cause: Node | None = None
    level: int = SAME


def node(
    influences: Iterable[Node | None],
    kind: str = "",
    text: str | Expr = "",
    source: Source | None = None,
    *,
    cap: int = THREADS,
) -> Node | None:
    """A node that any of the influences makes divergent; None, which is the same everywhere, if there are none."""
    present = [influence for influence in influences if influence is not None]
    if not present:
        return None
    out = Node(kind, text, source, cap)
    for influence in present:
        influence.leads_to.append(out)
    return out


def joined(*influences: Node | None) -> Node | None:
    """Like `node`, but without a new node where an existing one is enough."""
    present = [influence for influence in influences if influence is not None]
    return node(present) if len(present) > 1 else next(iter(present), None)


def lead(influence: Node | None, to: Node) -> None:
    """Let `influence`, if there is one, make `to` divergent."""
    if influence is not None:
        influence.leads_to.append(to)


def spread(sources: Iterable[tuple[Node, int]]) -> None:
    """Give every node its level, starting from the sources; `cause` leads back along a shortest path of that level."""
    waiting: dict[int, deque[tuple[Node, Node | None]]] = {level: deque() for level in (THREADS, WARPS, BLOCKS)}
    for source, level in sources:
        waiting[level].append((source, None))
    for level, queue in waiting.items():  # highest first, so each node is entered once
        while queue:
            reached, cause = queue.popleft()
            if reached.level != SAME:
                continue
            reached.level = level
            reached.cause = cause
            for following in reached.leads_to:
                waiting[min(level, following.cap)].append((following, reached))


def reason(control: Node) -> str:
    """The path from the source of divergence to a place in control flow, as a sentence."""
    way = _way(control)
    leave = next((f"{_LEAVES[step.kind]}{_place(step)}: " for step in way if step.kind in _LEAVES), "")
    condition = next((f"{_shown(step)}{_place(step)}" for step in way if step.kind == "condition"), "control flow")
    return f"{leave}{condition} depends on {_shown(way[-1])}"


def origin(value: Node) -> str:
    """What makes a value divergent."""
    return _shown(_way(value)[-1])


def _way(end: Node) -> list[Node]:
    way = [end]
    while (cause := way[-1].cause) is not None:
        way.append(cause)
    return way


def _place(step: Node) -> str:
    place = texts.format_source(step.source)
    return f" ({place})" if place else ""


def _shown(step: Node) -> str:
    if isinstance(step.text, str):
        return step.text
    text = texts.format_expr(step.text)
    return f"`{text}`" if len(text) <= _SHOWN_TEXT else f"`{text[:_SHOWN_TEXT]}...`"
