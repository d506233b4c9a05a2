"""Whether a program is valid: every rule is checked, and every finding is reported at once.

Header: names are identifiers, unique, none reserved; 1 to 1,024 threads per block; an index type; at most 256
parameters, which fit in the parameter space; sizes and work are integer expressions over scalars and sizes of buffers,
free of cycles; shared arrays fit in 227 KiB. Body: locals are declared once, before use, and used in scope with their
type; only a `var` is assigned; operands fit the op table; indices are integers; only writable buffers are written, with
their type; atomics and warp operations exist for the type, atomics with an order and scope that they take; conditions
are bools; loop bounds have one integer type and a literal step is not 0; `break` and `continue` are in a loop; warp
operations are in warp-uniform control flow, barriers in block-uniform, grid barriers in grid-uniform. Limits are
those of `limits.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.errors import Diagnostic, ProgramError, counted
from vyre_cuda.ir.check.check_expr import Context, LocalInfo
from vyre_cuda.ir.check.check_header import check_header
from vyre_cuda.ir.check.structure import find_malformed, render_malformed
from vyre_cuda.ir.core.nodes import (
    TOGETHER,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Const,
    Continue,
    For,
    GridBarrier,
    If,
    Let,
    LocalArray,
    Parameter,
    Print,
    Return,
    Stmt,
    Store,
    Table,
    Var,
    Warp,
    While,
)
from vyre_cuda.ir.core.ops import ATOMICS, OPS, ORDERS, SCOPES, WARP_OPS, warp_result_type
from vyre_cuda.ir.core.types import Type, bool_, u32
from vyre_cuda.ir.core.walk import Path, assert_never, declared_name, statements
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.ir.check import uniformity
    from vyre_cuda.ir.core import printing
    from vyre_cuda.ir.core.program import Program
    from vyre_cuda.ir.text import text
else:
    printing = later("vyre_cuda.ir.core.printing")
    uniformity = later("vyre_cuda.ir.check.uniformity")
    text = later("vyre_cuda.ir.text.text")


def check(program: Program) -> None:
    """Raise ProgramError with the program's text and every diagnostic in it, if there are any. Free the second time."""
    if program._valid:
        return
    found = find_malformed(program)
    if found:
        raise ProgramError(render_malformed(found), found)
    check_meaning(program)


def check_meaning(program: Program) -> None:
    """The same of a program that is as the node classes declare it, and within the limits."""
    found = _find_meaningless(program)
    if found:
        raise ProgramError(text.render_diagnostics(program, found), found)
    program._valid.append(True)


def validate(program: Program) -> list[Diagnostic]:
    """Every diagnostic; empty if the program is valid. A malformed program gets only those of its structure."""
    return find_malformed(program) or _find_meaningless(program)


def _find_meaningless(program: Program) -> list[Diagnostic]:
    context = Context(program.index)
    check_header(program, context)
    _Body(context, program).run()
    if any(isinstance(statement, TOGETHER) for statement in statements(program.body)):
        context.found.extend(uniformity.find_divergent(program))
    return context.found


class _Body:
    """Walks the statements with the scopes and loops that are open. `loops` says which part of each loop this is."""

    def __init__(self, context: Context, program: Program) -> None:
        self.context = context
        self.program = program
        self.loops: list[str] = []
        self.scopes: list[list[LocalInfo]] = []
        context.declared_later = frozenset(filter(None, map(declared_name, statements(program.body))))

    def run(self) -> None:
        self.scoped(self.program.body, ())

    # ---- scopes ----

    def scoped(self, body: tuple[Stmt, ...], prefix: Path) -> None:
        self.scopes.append([])
        self.body(body, prefix)
        self.end_scope()

    def end_scope(self) -> None:
        for info in self.scopes.pop():
            info.in_scope = False

    def declare(self, name: str, type_: Type | None, kind: str) -> None:
        info = self.context.declare(name, type_, kind)
        if info is not None:
            self.scopes[-1].append(info)

    # ---- statements ----

    def body(self, body: tuple[Stmt, ...], prefix: Path) -> None:
        for number, statement in enumerate(body):
            path = (*prefix, number)
            self.context.at(path, statement.source)
            self.statement(statement, path)

    def statement(self, statement: Stmt, path: Path) -> None:
        context = self.context
        match statement:
            case Let() | Var():
                type_ = context.type_of(statement.value)
                self.declare(statement.name, type_, "let" if isinstance(statement, Let) else "var")
            case Assign():
                self.assign(statement)
            case Store():
                type_ = self.written(statement.buffer)
                context.index_expr(statement.index, statement.buffer)
                context.typed_expr(statement.value, type_, f"the value stored to {statement.buffer}")
            case Atomic():
                self.atomic(statement)
            case Warp():
                self.warp(statement)
            case If():
                context.typed_expr(statement.condition, bool_, "the condition")
                self.scoped(statement.then, (*path, "then"))
                self.scoped(statement.orelse, (*path, "orelse"))
            case For():
                self.for_(statement, path)
            case While():
                self.while_(statement, path)
            case Break():
                self.leaves_loop("break")
            case Continue():
                self.leaves_loop("continue")
            case Return() | Barrier() | GridBarrier():
                pass
            case Assert():
                context.typed_expr(statement.condition, bool_, "the condition")
                if any("\ud800" <= character <= "\udfff" for character in statement.message):
                    context.report("the message contains half of a surrogate pair, which is not text")
            case Print():
                fault = printing.format_fault(statement.format, len(statement.values))
                if fault is not None:
                    context.report(fault)
                for value in statement.values:
                    context.type_of(value)
            case _:
                assert_never(statement)

    def assign(self, statement: Assign) -> None:
        name = statement.name
        info = self.context.locals.get(name)
        wanted = None
        if info is None or not info.in_scope:
            self.context.report(f"{name} is not a var that is defined here")
        elif info.kind != "var":
            what = "a loop counter" if info.kind == "counter" else "a let"
            self.context.report(f"{name} is {what}; only a var can be assigned")
        else:
            wanted = info.type
        self.context.typed_expr(statement.value, wanted, f"the new value of {name}")

    def written(self, buffer: str) -> Type | None:
        """The element type of a buffer that this statement writes."""
        type_ = self.context.buffer_type(buffer)
        owner = self.context.parameters.get(buffer)
        if type_ is not None and isinstance(owner, Parameter) and not owner.is_writable:
            self.context.report(f"{buffer} is an `in` buffer and cannot be written; declare it `out` or `inout`")
        if isinstance(self.context.arrays.get(buffer), Table):
            self.context.report(f"{buffer} is a table and cannot be written")
        return type_

    def atomic(self, statement: Atomic) -> None:
        context, op = self.context, statement.op
        type_ = self.written(statement.buffer)
        if isinstance(context.arrays.get(statement.buffer), LocalArray):
            context.report(f"{statement.buffer} belongs to one thread and has no atomics; read and store it")
        context.index_expr(statement.index, statement.buffer)
        for operand in statement.operands:
            context.typed_expr(operand, type_, "the operand")
        row = ATOMICS.get(op)
        if row is None:
            context.report(f"there is no atomic operation {op}; choose from {', '.join(ATOMICS)}")
        else:
            wanted, given = row.operands, len(statement.operands)
            if given != wanted:
                context.report(f"atomic {op} takes {counted(wanted, 'operand')}, {given} given")
            if type_ is not None and type_ not in row.types:
                allowed = ", ".join(allowed.name for allowed in row.types)
                context.report(f"atomic {op} is not defined for {type_}; it takes {allowed}")
            if not row.result and statement.result is not None:
                context.report(f"atomic {op} returns no result")
        orders = ORDERS if row is None else row.orders
        if statement.order not in ORDERS:
            context.report(f"there is no memory order {statement.order}; choose from {', '.join(ORDERS)}")
        elif statement.order not in orders:
            context.report(f"atomic {op} has no order {statement.order}; it takes {', '.join(orders)}")
        if statement.scope not in SCOPES:
            context.report(f"there is no memory scope {statement.scope}; choose from {', '.join(SCOPES)}")
        if statement.result is not None:
            self.declare(statement.result, type_, "let")

    def warp(self, statement: Warp) -> None:
        context, op = self.context, statement.op
        row = WARP_OPS.get(op)
        types = []
        for position, operand in enumerate(statement.operands):
            number = context.number
            type_ = context.type_of(operand)
            types.append(type_)
            if row is not None and row.lane and position == 1 and type_ not in (u32, None):
                context.report(f"the lane operand is {type_}; it must be u32", number, operand.source)
        value = types[0] if types else None
        if row is None:
            context.report(f"there is no warp operation {op}; choose from {', '.join(WARP_OPS)}")
            self.declare(statement.result, None, "let")
            return
        wanted, given = 1 + row.lane, len(types)
        if given != wanted:
            context.report(f"warp {op} takes {counted(wanted, 'operand')}, {given} given")
        if value is not None and value not in row.types:
            context.report(f"warp {op} is not defined for {value}; it takes {', '.join(t.name for t in row.types)}")
        elif statement.combine not in (row.combines or ("",)):
            combines = f"choose from {', '.join(row.combines)}" if row.combines else "it takes none"
            context.report(f"warp {op} has no combining op {statement.combine!r}; {combines}")
        elif statement.combine and value is not None and value not in OPS[statement.combine].types:
            allowed = ", ".join(t.name for t in OPS[statement.combine].types)
            context.report(f"{statement.combine} is not defined for {value}; it takes {allowed}")
        known = value is not None or row.result != "same"
        self.declare(statement.result, warp_result_type(row, value or u32) if known else None, "let")

    def for_(self, statement: For, path: Path) -> None:
        context = self.context
        operand = context.number
        type_ = context.type_of(statement.start)
        if type_ is not None and not type_.is_integer:
            context.report(f"the start is {type_}; loop bounds are of an integer type", operand, statement.start.source)
            type_ = None
        context.typed_expr(statement.stop, type_, "the stop")
        operand = context.number
        context.typed_expr(statement.step, type_, "the step")
        if isinstance(statement.step, Const) and statement.step.bits == 0:
            context.report("with a step of 0 the loop never runs", operand, statement.step.source)
        self.scopes.append([])
        self.declare(statement.name, type_, "counter")
        self.loops.append("body")
        self.body(statement.body, (*path, "body"))
        self.loops.pop()
        self.end_scope()

    def while_(self, statement: While, path: Path) -> None:
        self.scopes.append([])
        self.loops.append("setup")
        self.body(statement.setup, (*path, "setup"))
        self.context.at(path, statement.source)
        self.context.typed_expr(statement.condition, bool_, "the condition")
        self.loops[-1] = "body"
        self.body(statement.body, (*path, "body"))
        self.loops.pop()
        self.end_scope()

    def leaves_loop(self, word: str) -> None:
        if not self.loops:
            self.context.report(f"`{word}` is outside of any loop")
        elif self.loops[-1] == "setup":
            self.context.report(f"`{word}` is in the setup of a while; it belongs in the body")
