"""Statement lines of program text to nodes.

A line that cannot be read does not stop the reading of those after it: blocks are still opened and closed, so that
one mistake gives one message.
"""

from __future__ import annotations

from collections.abc import Callable

from vyre_cuda.ir.core.limits import MAX_NESTING, MAX_STATEMENTS
from vyre_cuda.ir.core.nodes import (
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Continue,
    Expr,
    For,
    GridBarrier,
    If,
    Let,
    Print,
    Return,
    Source,
    Stmt,
    Store,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import ATOMICS, WARP_OPS, warp_result_type
from vyre_cuda.ir.core.types import u32
from vyre_cuda.ir.read.lexer import IDENTIFIER, Fault, Scanner
from vyre_cuda.ir.read.parse_expr import Names, Stop, read_element, read_expr
from vyre_cuda.records import Record, field

_WORDS = (
    "let",
    "var",
    "store",
    "atomic",
    "if",
    "else",
    "for",
    "while",
    "test",
    "end",
    "break",
    "continue",
    "return",
    "barrier",
    "grid_barrier",
    "assert",
    "print",
)
_PLAIN: dict[str, Callable[[Source], Stmt]] = {
    "break": Break,
    "continue": Continue,
    "return": Return,
    "barrier": Barrier,
    "grid_barrier": GridBarrier,
}


class Frame(Record):
    """A statement whose `end` is still to come: its finished bodies and the one being read."""

    keyword: str
    line: str
    source: Source
    name: str = ""
    operands: tuple[Expr, ...] = ()
    done: list[tuple[Stmt, ...]] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)


class BodyReader:
    """Reads statement lines one after the other; `body` is the program's, `open` the frames not yet closed.

    Set `broken` after a line that could not be read: nodes are no longer kept then.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.body: list[Stmt] = []
        self.open: list[Frame] = []
        self.broken = False
        self._statements = 0

    def read(self, scan: Scanner) -> None:
        """Read one line. Raises Fault where it stops being a statement."""
        if scan.following() == "=":
            self._assign(scan)
            return
        word, column = scan.word, scan.column
        if word not in _WORDS:
            raise Fault(
                f"`{word[:40]}` does not begin a statement; a statement begins with NAME =, {', '.join(_WORDS)}", column
            )
        scan.take()
        match word:
            case "let":
                self._let(scan)
            case "var":
                self._var(scan)
            case "store":
                self._store(scan)
            case "atomic":
                self._atomic(None, scan)
            case "assert":
                self._assert(scan)
            case "print":
                self._print(scan)
            case "if" | "for" | "while":
                self._begin(word, scan)
            case "else":
                self._else(scan, column)
            case "test":
                self._test(scan, column)
            case "end":
                scan.end()
                self._close(column)
            case _:
                self._add(_PLAIN[word](self.names.source), scan)

    # ---- plain statements ----

    def _add(self, statement: Stmt, scan: Scanner) -> None:
        scan.end()
        self._keep(statement)

    def _keep(self, statement: Stmt) -> None:
        self._statements += 1
        if self._statements > MAX_STATEMENTS:
            raise Stop(f"the text has more than {MAX_STATEMENTS} statements")
        if not self.broken:
            (self.open[-1].body if self.open else self.body).append(statement)

    def _assign(self, scan: Scanner) -> None:
        name = scan.take()
        scan.expect("=")
        self._add(Assign(name, read_expr(scan, self.names), self.names.source), scan)

    def _let(self, scan: Scanner) -> None:
        name = scan.name("a name")
        scan.expect("=")
        if scan.word == "atomic" and IDENTIFIER.match(scan.following()):
            scan.take()
            self._atomic(name, scan)
        elif scan.word == "warp" and IDENTIFIER.match(scan.following()):
            scan.take()
            self._warp(name, scan)
        else:
            self._add(Let(name, self._first_value(name, scan), self.names.source), scan)

    def _var(self, scan: Scanner) -> None:
        name = scan.name("a name")
        scan.expect("=")
        self._add(Var(name, self._first_value(name, scan), self.names.source), scan)

    def _first_value(self, name: str, scan: Scanner) -> Expr:
        value = read_expr(scan, self.names)
        self.names.locals[name] = value.type
        return value

    def _store(self, scan: Scanner) -> None:
        buffer, index = read_element(scan, self.names)
        scan.expect(",")
        self._add(Store(buffer, index, read_expr(scan, self.names), self.names.source), scan)

    def _atomic(self, result: str | None, scan: Scanner) -> None:
        if scan.word not in ATOMICS:
            raise scan.fault(f"an atomic operation ({', '.join(ATOMICS)})")
        op = scan.take()
        buffer, index = read_element(scan, self.names)
        operands: list[Expr] = []
        while len(operands) < ATOMICS[op].operands and scan.accept(","):
            operands.append(read_expr(scan, self.names))
        scan.expect("order")
        order = scan.name("a memory order")
        scan.expect("scope")
        scope = scan.name("a memory scope")
        if result is not None:
            self.names.locals[result] = self.names.buffers.get(buffer, u32)
        self._add(Atomic(result, op, buffer, index, tuple(operands), order, scope, self.names.source), scan)

    def _warp(self, result: str, scan: Scanner) -> None:
        row = WARP_OPS.get(scan.word)
        if row is None:
            raise scan.fault(f"a warp operation ({', '.join(WARP_OPS)})")
        scan.take()
        operands = [read_expr(scan, self.names)]
        if row.lane:
            scan.expect(",")
            operands.append(read_expr(scan, self.names))
        combine = ""
        if row.combines:
            scan.expect("combine")
            combine = scan.name("an op")
        self.names.locals[result] = warp_result_type(row, operands[0].type)
        self._add(Warp(result, row.name, tuple(operands), combine, self.names.source), scan)

    def _assert(self, scan: Scanner) -> None:
        condition = read_expr(scan, self.names)
        scan.expect(",")
        self._add(Assert(condition, scan.string(), self.names.source), scan)

    def _print(self, scan: Scanner) -> None:
        format_ = scan.string()
        values: list[Expr] = []
        while scan.accept(","):
            values.append(read_expr(scan, self.names))
        self._add(Print(format_, tuple(values), self.names.source), scan)

    # ---- statements with bodies ----

    def _begin(self, keyword: str, scan: Scanner) -> None:
        if len(self.open) == MAX_NESTING:
            raise Stop(f"statements are nested more than {MAX_NESTING} levels deep")
        frame = Frame(keyword, scan.line, self.names.source)
        self.open.append(frame)
        match keyword:
            case "if":
                frame.operands = (read_expr(scan, self.names),)
            case "for":
                frame.name = scan.name("the name of the loop counter")
                scan.expect("=")
                start = read_expr(scan, self.names)
                self.names.locals[frame.name] = start.type
                scan.expect("to")
                stop = read_expr(scan, self.names)
                scan.expect("step")
                frame.operands = (start, stop, read_expr(scan, self.names))
            case _:
                pass
        scan.end()

    def _else(self, scan: Scanner, column: int) -> None:
        if not self.open or self.open[-1].keyword != "if" or self.open[-1].done:
            raise Fault("`else` belongs between an `if` and its `end`, once", column)
        self._next_body()
        scan.end()

    def _test(self, scan: Scanner, column: int) -> None:
        if not self.open or self.open[-1].keyword != "while" or self.open[-1].done:
            raise Fault("`test` belongs between a `while` and its `end`, once", column)
        self._next_body()
        self.open[-1].operands = (read_expr(scan, self.names),)
        scan.end()

    def _next_body(self) -> None:
        frame = self.open[-1]
        frame.done.append(tuple(frame.body))
        frame.body = []

    def _close(self, column: int) -> None:
        if not self.open:
            raise Fault("`end` closes nothing", column)
        self._next_body()
        frame = self.open.pop()
        if frame.keyword == "while" and len(frame.done) == 1:
            raise Fault(f"the `while` of line {frame.source[1]} has no `test`", column)
        if not self.broken:
            self._keep(_finished(frame))


def _finished(frame: Frame) -> Stmt:
    match frame.keyword:
        case "if":
            return If(frame.operands[0], frame.done[0], frame.done[1] if len(frame.done) > 1 else (), frame.source)
        case "for":
            start, stop, step = frame.operands
            return For(frame.name, start, stop, step, frame.done[0], frame.source)
        case _:
            return While(frame.done[0], frame.operands[0], frame.done[1], frame.source)
