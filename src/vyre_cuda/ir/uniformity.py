"""Which barriers the threads of a block may not all reach together.

The program becomes a graph of values and of the control flow that statements run under, with an edge from each thing
to what it can make different between the threads of a block. What can be reached from a source of divergence may
diverge; the rest is the same in all threads of a block. A variable has one node per assignment, so overwriting a
divergent value with a uniform one is seen; where branches or passes of a loop meet, their nodes meet too.

Sources: ids of threads on an axis with more than one, elements of memory that the program writes, results of atomics.
Control is divergent inside a branch or loop whose condition is; after a divergent `continue` to the end of the pass;
in the whole loop if a `break` is; after a divergent `return` to the end of the program. A failing assert counts for
nothing: outputs are unspecified then. The graph is linear in the program but for the nesting of loops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_cuda.errors import Diagnostic
from vyre_cuda.ir.nodes import (
    AXES,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Continue,
    Expr,
    For,
    GridBarrier,
    Id,
    If,
    Let,
    Load,
    Local,
    Return,
    Source,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.text import format_expr, format_source
from vyre_cuda.ir.walk import Path, assert_never, buffers_written, expressions, statements

if TYPE_CHECKING:
    from vyre_cuda.ir.program import Program

_SHOWN_TEXT = 80
_LEAVES = {
    "return": "some threads leave by a `return`",
    "break": "some threads leave the loop by a `break`",
    "continue": "some threads skip it by a `continue`",
}


@dataclass(slots=True, eq=False)
class _Node:
    """A value or a place in control flow. `kind` is source, condition, return, break, continue or empty."""

    kind: str = ""
    text: str = ""
    source: Source | None = None
    leads_to: list[_Node] = field(default_factory=list)
    cause: _Node | None = None
    divergent: bool = False


@dataclass(slots=True)
class _Loop:
    """`assigned` and `irregular` (has a break or continue) are known beforehand.

    `active` diverges when threads leave the loop after different numbers of passes. `heads` are the variables as
    a pass begins.
    """

    assigned: set[str] = field(default_factory=set)
    irregular: bool = False
    active: _Node = field(default_factory=_Node)
    heads: dict[str, _Node] = field(default_factory=dict)


@dataclass(slots=True)
class _Left:
    """Control of the threads that a statement sends to the next pass or out of the program; None if of none."""

    to_next_pass: _Node | None = None
    to_end: _Node | None = None


def find_divergent(program: Program) -> list[Diagnostic]:
    """A diagnostic for each barrier in control flow that may differ between the threads of a block."""
    if not any(isinstance(statement, (Barrier, GridBarrier)) for statement in statements(program.body)):
        return []
    graph = _Graph(program)
    graph.body(program.body, (), None)
    graph.spread()
    return [
        Diagnostic(f"not all threads of a block may reach this barrier: {_reason(control)}", path, None, source)
        for path, source, control in graph.barriers
        if control.divergent
    ]


class _Graph:
    """Built in one pass over the statements. A uniform value without influences is None instead of a node."""

    def __init__(self, program: Program) -> None:
        self.block = program.block
        self.written = buffers_written(program.body)
        self.sources: dict[str, _Node] = {}
        self.values: dict[str, _Node | None] = {}
        self.variables: set[str] = set()
        self.changes: list[dict[str, _Node | None]] = []
        self.loops: list[_Loop] = []
        self.surveyed: dict[int, _Loop] = {}
        self.barriers: list[tuple[Path, Source | None, _Node]] = []
        self.survey(program.body, [])

    def survey(self, body: tuple[Stmt, ...], around: list[_Loop]) -> None:
        """Find out what each loop assigns."""
        for statement in body:
            match statement:
                case Assign():
                    for loop in around:
                        loop.assigned.add(statement.name)
                case Break() | Continue():
                    for loop in around[-1:]:
                        loop.irregular = True
                case If():
                    self.survey(statement.then, around)
                    self.survey(statement.orelse, around)
                case For() | While():
                    inside = [*around, _Loop()]
                    self.surveyed[id(statement)] = inside[-1]
                    if isinstance(statement, While):
                        self.survey(statement.setup, inside)
                    self.survey(statement.body, inside)
                case _:
                    pass

    def spread(self) -> None:
        """Mark what the sources reach; `cause` leads back by a shortest way."""
        queue = deque(self.sources.values())
        for node in queue:
            node.divergent = True
        while queue:
            node = queue.popleft()
            for reached in node.leads_to:
                if not reached.divergent:
                    reached.divergent = True
                    reached.cause = node
                    queue.append(reached)

    # ---- nodes ----

    def node(
        self, influences: Iterable[_Node | None], kind: str = "", text: str = "", source: Source | None = None
    ) -> _Node | None:
        """A node that any of the influences makes divergent; None if there are none."""
        present = [influence for influence in influences if influence is not None]
        if not present:
            return None
        out = _Node(kind, text, source)
        for influence in present:
            influence.leads_to.append(out)
        return out

    def joined(self, *influences: _Node | None) -> _Node | None:
        """As `node`, without a new one where one is enough."""
        present = [influence for influence in influences if influence is not None]
        return self.node(present) if len(present) > 1 else next(iter(present), None)

    def divergence(self, text: str) -> _Node:
        return self.sources.setdefault(text, _Node("source", text))

    def influences(self, *exprs: Expr) -> list[_Node | None]:
        """What can make the values of these expressions different."""
        found: list[_Node | None] = []
        for expr in expressions(exprs):
            match expr:
                case Local():
                    found.append(self.values.get(expr.name))
                case Id() if expr.kind in ("thread_id", "global_id") and self.block[expr.axis] != 1:
                    found.append(self.divergence(f"{expr.kind}.{AXES[expr.axis]}"))
                case Load() if expr.buffer in self.written:
                    found.append(self.divergence(f"an element of {expr.buffer}, which the program writes"))
                case _:
                    pass
        return found

    def assign(self, name: str, value: _Node | None) -> None:
        """Give a variable a new value, noted for the branch and, where its end is not the only way on, the loop.

        In a loop that threads leave at different times the value is divergent through the control it is given under.
        """
        if self.changes:
            self.changes[-1].setdefault(name, self.values.get(name))
        self.values[name] = value
        for loop in reversed(self.loops):
            if name in loop.heads:
                if loop.irregular and value is not None:
                    value.leads_to.append(loop.heads[name])
                return

    # ---- statements ----

    def body(self, body: tuple[Stmt, ...], prefix: Path, control: _Node | None) -> _Left:
        left = _Left()
        for number, statement in enumerate(body):
            out = self.statement(statement, (*prefix, number), control)
            if out.to_next_pass is not None or out.to_end is not None:
                left.to_next_pass = self.joined(left.to_next_pass, out.to_next_pass)
                left.to_end = self.joined(left.to_end, out.to_end)
                control = self.joined(control, out.to_next_pass, out.to_end)
        return left

    def statement(self, statement: Stmt, path: Path, control: _Node | None) -> _Left:
        match statement:
            case Let():
                self.values[statement.name] = self.node(self.influences(statement.value))
            case Var():
                self.variables.add(statement.name)
                self.values[statement.name] = self.node([*self.influences(statement.value), control])
            case Assign():
                self.assign(statement.name, self.node([*self.influences(statement.value), control]))
            case Atomic():
                if statement.result is not None:
                    self.values[statement.result] = self.divergence(f"the result of an atomic on {statement.buffer}")
            case If():
                return self.branch(statement, path, control)
            case For() | While():
                return self.loop(statement, path, control)
            case Break():
                left = self.node([control], "break", "", statement.source)
                if left is not None and self.loops:
                    left.leads_to.append(self.loops[-1].active)
            case Continue():
                return _Left(to_next_pass=self.node([control], "continue", "", statement.source))
            case Return():
                gone = self.node([control], "return", "", statement.source)
                if gone is not None and self.loops:
                    gone.leads_to.append(self.loops[0].active)
                return _Left(to_end=gone)
            case Warp():
                self.values[statement.result] = self.divergence(f"the result of warp {statement.op}")
            case Barrier() | GridBarrier():
                if control is not None:
                    self.barriers.append((path, statement.source, control))
            case Store() | Assert():
                pass
            case _:
                assert_never(statement)
        return _Left()

    def condition(self, text: str, source: Source | None, *exprs: Expr) -> _Node | None:
        return self.node(self.influences(*exprs), "condition", text, source)

    def branch(self, statement: If, path: Path, control: _Node | None) -> _Left:
        shown = _shown(statement.condition)
        inside = self.joined(control, self.condition(shown, statement.source, statement.condition))
        lefts = []
        ends = []
        for name, body in (("then", statement.then), ("orelse", statement.orelse)):
            self.changes.append({})
            lefts.append(self.body(body, (*path, name), inside))
            before = self.changes.pop()
            ends.append({changed: self.values[changed] for changed in before})
            self.values.update(before)
        for changed in ends[0] | ends[1]:
            unchanged = self.values[changed]
            self.assign(changed, self.joined(*(end.get(changed, unchanged) for end in ends)))
        return _Left(self.joined(*(left.to_next_pass for left in lefts)), self.joined(*(left.to_end for left in lefts)))

    def loop(self, statement: For | While, path: Path, control: _Node | None) -> _Left:
        loop = self.surveyed[id(statement)]
        loop.active, loop.heads = _Node(), {}
        if isinstance(statement, For):
            bounds = (statement.start, statement.stop, statement.step)
            self.lead(self.condition(f"the range of {statement.name}", statement.source, *bounds), loop.active)
            self.values[statement.name] = self.node(self.influences(statement.start, statement.step))
        for name in sorted(loop.assigned & self.variables):
            head = _Node()
            self.lead(self.values[name], head)
            self.assign(name, head)
            loop.heads[name] = head
        self.loops.append(loop)
        inside = self.joined(control, loop.active)
        at_test: dict[str, _Node | None] = dict(loop.heads)
        gone = None
        if isinstance(statement, While):
            gone = self.body(statement.setup, (*path, "setup"), inside).to_end
            inside = self.joined(inside, gone)
            shown = _shown(statement.condition)
            self.lead(self.condition(shown, statement.source, statement.condition), loop.active)
            at_test = {name: self.values[name] for name in loop.heads}
        left = self.body(statement.body, (*path, "body"), inside)
        for name, head in loop.heads.items():
            self.lead(self.values[name], head)
        self.loops.pop()
        for name, head in loop.heads.items():
            self.assign(name, self.joined(at_test[name], head if loop.irregular else None))
        return _Left(to_end=self.joined(gone, left.to_end))

    def lead(self, influence: _Node | None, to: _Node) -> None:
        if influence is not None:
            influence.leads_to.append(to)


def _shown(expr: Expr) -> str:
    text = format_expr(expr)
    return f"`{text}`" if len(text) <= _SHOWN_TEXT else f"`{text[:_SHOWN_TEXT]}...`"


def _reason(control: _Node) -> str:
    """The way from the source of divergence to a barrier, as a sentence."""
    way: list[_Node] = [control]
    while (cause := way[-1].cause) is not None:
        way.append(cause)
    leave = next((f"{_LEAVES[node.kind]}{_place(node)}: " for node in way if node.kind in _LEAVES), "")
    condition = next((f"{node.text}{_place(node)}" for node in way if node.kind == "condition"), "control flow")
    return f"{leave}{condition} depends on {way[-1].text}"


def _place(node: _Node) -> str:
    place = format_source(node.source)
    return f" ({place})" if place else ""
