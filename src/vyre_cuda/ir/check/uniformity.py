"""Finds statements that some threads of a warp, a block or the grid may not reach together with the others.

Warp operations need all threads of their warp, barriers all of their block, grid barriers all of the grid. The program
becomes a graph (`divergence.py`) of values and of the control flow that statements run under. A variable has one node
per assignment, so overwriting a divergent value with a uniform one is seen; where branches or passes of a loop meet,
their nodes meet too.

Sources: ids of threads on an axis with more than one, ids of blocks, elements of memory that the program writes,
results of atomics and scans; what a warp agrees on (any, all, ballot, reduce, broadcast) is the same in the warp, and
what all threads of a block read of one element of a shared array in lets with a barrier before and behind them.
Control is divergent inside a branch or loop whose condition is; after a divergent `continue` to the end of the pass;
in the whole loop if a `break` is; after a divergent `return` to the end of the program. A failing assert does not
count: outputs are unspecified then. The graph is linear in the program except for the nesting of loops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_cuda.errors import Diagnostic
from vyre_cuda.ir.check.aligned import Aligned
from vyre_cuda.ir.check.divergence import BLOCKS, THREADS, WARPS, Node, joined, lead, node, origin, reason, spread
from vyre_cuda.ir.core.nodes import (
    AXES,
    WARP_SIZE,
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
    Print,
    Return,
    Source,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.walk import Path, assert_never, buffers_written, children
from vyre_cuda.records import Record, field

if TYPE_CHECKING:
    from vyre_cuda.ir.core.program import Program

# The level on which control must not differ, and the threads that must come together.
_NEEDS: dict[type[Stmt], tuple[int, str]] = {
    Warp: (THREADS, "threads of a warp"),
    Barrier: (WARPS, "threads of a block"),
    GridBarrier: (BLOCKS, "threads of the grid"),
}


class _Loop(Record):
    """`assigned` and `irregular` (has a break or continue) are known in advance.

    `active` diverges when threads leave the loop after different numbers of passes. `heads` are the variables as
    a pass begins.
    """

    assigned: set[str] = field(default_factory=set)
    irregular: bool = False
    active: Node = field(default_factory=Node)
    heads: dict[str, Node] = field(default_factory=dict)


class _Left(Record):
    """Control of the threads that a statement sends to the next pass or out of the program; None if there are none."""

    to_next_pass: Node | None = None
    to_end: Node | None = None


def find_divergent(program: Program) -> list[Diagnostic]:
    """A diagnostic for each barrier and warp operation in control flow that may differ but must not."""
    graph = _Graph(program)
    graph.body(program.body, (), None)
    spread(graph.sources.values())
    found = []
    for path, statement, control in graph.together:
        level, who = _NEEDS[type(statement)]
        if control.level >= level:
            message = f"some {who} may not reach this {_what(statement)}: {reason(control)}"
            found.append(Diagnostic(message, path, None, statement.source))
    for path, statement, lane in graph.lanes:
        if lane.level == THREADS:
            message = f"the lane of this broadcast may differ within a warp: it depends on {origin(lane)}"
            found.append(Diagnostic(message, path, None, statement.source))
    return found


def _between_barriers(body: tuple[Stmt, ...]) -> frozenset[int]:
    """The places of lets with nothing but lets to a barrier before and behind them."""
    found: list[int] = []
    since: list[int] | None = None
    for number, statement in enumerate(body):
        if isinstance(statement, Barrier):
            found += since or ()
            since = []
        elif not isinstance(statement, Let):
            since = None
        elif since is not None:
            since.append(number)
    return frozenset(found)


def _what(statement: Stmt) -> str:
    match statement:
        case Warp():
            return f"warp {statement.op}"
        case Barrier():
            return "barrier"
        case _:
            return "grid barrier"


class _Graph:
    """Built in one pass over the statements. A uniform value without influences is None instead of a node."""

    def __init__(self, program: Program) -> None:
        self.block = program.block
        self.written = buffers_written(program.body)
        self.shared = {array.name for array in program.shared}
        self.threads = math.prod(program.block)
        self.aligned = Aligned(program.block)
        self.sources: dict[str, tuple[Node, int]] = {}
        self.values: dict[str, Node | None] = {}
        self.variables: set[str] = set()
        self.changes: list[dict[str, Node | None]] = []
        self.loops: list[_Loop] = []
        self.surveyed: dict[int, _Loop] = {}
        self.together: list[tuple[Path, Stmt, Node]] = []
        self.lanes: list[tuple[Path, Stmt, Node]] = []
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

    # ---- nodes ----

    def divergence(self, text: str, level: int = THREADS) -> Node:
        """A source of this level. In a block of one warp, or of one thread, only blocks can differ."""
        if (level == WARPS and self.threads <= WARP_SIZE) or self.threads == 1:
            level = BLOCKS
        source, _ = self.sources.setdefault(text, (Node("source", text), level))
        return source

    def warp_wide(self, *influences: Node | None) -> Node | None:
        """A value that the threads of a warp agree on, whatever it comes from."""
        return node(influences, cap=WARPS if self.threads > WARP_SIZE else BLOCKS)

    def id(self, expr: Id) -> Node | None:
        name = expr.kind if expr.kind == "lane_id" else f"{expr.kind}.{AXES[expr.axis]}"
        if expr.kind == "lane_id":
            return self.divergence(name) if self.threads > 1 else None
        if expr.kind in ("thread_id", "global_id") and self.block[expr.axis] != 1:
            stride = math.prod(self.block[: expr.axis])  # consecutive threads that have this number
            return self.divergence(name, WARPS if stride % WARP_SIZE == 0 else THREADS)
        return self.divergence(name, BLOCKS) if expr.kind in ("global_id", "block_id") else None

    def influences(self, *exprs: Expr, settled: bool = False) -> list[Node | None]:
        """What can make the values of these expressions different; `settled`: while no thread of the block writes to
        shared arrays."""
        found: list[Node | None] = []
        stack = list(exprs)
        while stack:
            expr = stack.pop()
            shared = self.aligned.uniform_part(expr)
            if shared is not None:
                found.append(self.warp_wide(*self.influences(shared, settled=settled)))
                continue
            match expr:
                case Local():
                    found.append(self.values.get(expr.name))
                case Id():
                    found.append(self.id(expr))
                case Load() if settled and expr.buffer in self.shared:
                    of_block = f"an element of {expr.buffer}, of which each block has its own"
                    found.append(self.divergence(of_block, BLOCKS))
                    stack.append(expr.index)
                case Load() if expr.buffer in self.written:
                    found.append(self.divergence(self.written_element(expr.buffer)))
                case _:
                    stack.extend(children(expr))
        return found

    def written_element(self, buffer: str) -> str:
        """How a message names one."""
        way_out = " (all see the same with a barrier before and behind the lets that read it)"
        return f"an element of {buffer}, which the program writes{way_out if buffer in self.shared else ''}"

    def warp_result(self, statement: Warp) -> Node | None:
        """What a warp operation returns to its threads. The last warp of a block may have fewer of them than others."""
        value = self.influences(*statement.operands[:1])
        lane = self.influences(*statement.operands[1:])
        if self.threads > WARP_SIZE and self.threads % WARP_SIZE:
            fewer = [self.divergence("how many threads the warp has", WARPS)]
        else:
            fewer = []
        match statement.op:
            case "any" | "all":
                return self.warp_wide(*value)
            case "ballot" | "reduce":
                return self.warp_wide(*value, *fewer)
            case "broadcast" | "shuffle":  # one lane for all threads gives one value to all
                return node([self.warp_wide(*value, *fewer), *lane])
            case "shuffle_up" | "shuffle_down" | "shuffle_xor":  # of equal values, whichever lane is asked
                return node(value)
            case "match":
                return node([*value, *fewer])
            case _:
                return self.divergence(f"the result of a warp {statement.op}")

    def assign(self, name: str, value: Node | None) -> None:
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

    def body(self, body: tuple[Stmt, ...], prefix: Path, control: Node | None) -> _Left:
        left = _Left()
        settled = _between_barriers(body) if self.shared else frozenset()
        for number, statement in enumerate(body):
            if isinstance(statement, Let):
                self.aligned.let(statement.name, statement.value)
                self.values[statement.name] = node(self.influences(statement.value, settled=number in settled))
                continue
            out = self.statement(statement, (*prefix, number), control)
            if out.to_next_pass is not None or out.to_end is not None:
                left.to_next_pass = joined(left.to_next_pass, out.to_next_pass)
                left.to_end = joined(left.to_end, out.to_end)
                control = joined(control, out.to_next_pass, out.to_end)
        return left

    def statement(self, statement: Stmt, path: Path, control: Node | None) -> _Left:
        match statement:
            case Var():
                self.variables.add(statement.name)
                self.values[statement.name] = node([*self.influences(statement.value), control])
            case Assign():
                self.assign(statement.name, node([*self.influences(statement.value), control]))
            case Atomic():
                if statement.result is not None:
                    self.values[statement.result] = self.divergence(f"the result of an atomic on {statement.buffer}")
            case If():
                return self.branch(statement, path, control)
            case For() | While():
                return self.loop(statement, path, control)
            case Break():
                left = node([control], "break", "", statement.source)
                if left is not None and self.loops:
                    left.leads_to.append(self.loops[-1].active)
            case Continue():
                return _Left(to_next_pass=node([control], "continue", "", statement.source))
            case Return():
                gone = node([control], "return", "", statement.source)
                if gone is not None and self.loops:
                    gone.leads_to.append(self.loops[0].active)
                return _Left(to_end=gone)
            case Warp():
                self.values[statement.result] = self.warp_result(statement)
                if statement.op == "broadcast":
                    lane = node(self.influences(*statement.operands[1:]))
                    if lane is not None:
                        self.lanes.append((path, statement, lane))
                self.meet(statement, path, control)
            case Barrier() | GridBarrier():
                self.meet(statement, path, control)
            case Store() | Assert() | Print() | Let():
                pass
            case _:
                assert_never(statement)
        return _Left()

    def meet(self, statement: Stmt, path: Path, control: Node | None) -> None:
        if control is not None:
            self.together.append((path, statement, control))

    def condition(self, text: str | Expr, source: Source | None, *exprs: Expr) -> Node | None:
        return node(self.influences(*exprs), "condition", text, source)

    def branch(self, statement: If, path: Path, control: Node | None) -> _Left:
        inside = joined(control, self.condition(statement.condition, statement.source, statement.condition))
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
            self.assign(changed, joined(*(end.get(changed, unchanged) for end in ends)))
        return _Left(joined(*(left.to_next_pass for left in lefts)), joined(*(left.to_end for left in lefts)))

    def loop(self, statement: For | While, path: Path, control: Node | None) -> _Left:
        loop = self.surveyed[id(statement)]
        loop.active, loop.heads = Node(), {}
        if isinstance(statement, For):
            bounds = (statement.start, statement.stop, statement.step)
            lead(self.condition(f"the range of {statement.name}", statement.source, *bounds), loop.active)
            self.values[statement.name] = node(self.influences(statement.start, statement.step))
        for name in sorted(loop.assigned & self.variables):
            head = Node()
            lead(self.values[name], head)
            self.assign(name, head)
            loop.heads[name] = head
        self.loops.append(loop)
        inside = joined(control, loop.active)
        at_test: dict[str, Node | None] = dict(loop.heads)
        gone = None
        if isinstance(statement, While):
            gone = self.body(statement.setup, (*path, "setup"), inside).to_end
            inside = joined(inside, gone)
            lead(self.condition(statement.condition, statement.source, statement.condition), loop.active)
            at_test = {name: self.values[name] for name in loop.heads}
        left = self.body(statement.body, (*path, "body"), inside)
        for name, head in loop.heads.items():
            lead(self.values[name], head)
        self.loops.pop()
        for name, head in loop.heads.items():
            self.assign(name, joined(at_test[name], head if loop.irregular else None))
        return _Left(to_end=joined(gone, left.to_end))
