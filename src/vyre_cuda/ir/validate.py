"""Whether a program means something: every rule is checked, and every finding is reported at once.

Header: names are identifiers, unique, none reserved; 1 to 1,024 threads per block; an index type; at most 256
parameters; sizes and work are integer expressions over scalars and sizes of buffers, free of cycles; shared arrays fit
in 227 KiB. Body: locals are declared once, before use, and used in scope with their type; only a `var` is assigned;
operands fit the op table; indices are integers; only writable buffers are written, with their type; atomics exist for
the type, with a known order and scope; conditions are bools; loop bounds are of one integer type and a literal step is
not 0; `break` and `continue` are in a loop; barriers are block-uniform. Limits are those of `limits.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.errors import Diagnostic, ProgramError
from vyre_cuda.ir.check_expr import Context, LocalInfo
from vyre_cuda.ir.check_header import check_header
from vyre_cuda.ir.nodes import (
    ATOMICS,
    ORDERS,
    SCOPES,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Break,
    Const,
    Continue,
    For,
    If,
    Let,
    Parameter,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from vyre_cuda.ir.structure import find_malformed, render_malformed
from vyre_cuda.ir.text import render_diagnostics
from vyre_cuda.ir.types import FLOATS, INTEGERS, Type, bool_
from vyre_cuda.ir.uniformity import find_divergent_barriers
from vyre_cuda.ir.walk import Path, assert_never, declared_name, statements

if TYPE_CHECKING:
    from vyre_cuda.ir.program import Program

_ATOMIC_TYPES: dict[str, tuple[Type, ...]] = {"add": INTEGERS + FLOATS, "compare_exchange": INTEGERS}


def check(program: Program) -> None:
    """Raise ProgramError with the program's text and every diagnostic in it, if there is one. Free the second time."""
    if program._valid:
        return
    found = find_malformed(program)
    if found:
        raise ProgramError(render_malformed(found), found)
    found = _find_meaningless(program)
    if found:
        raise ProgramError(render_diagnostics(program, found), found)
    program._valid.append(True)


def validate(program: Program) -> list[Diagnostic]:
    """Every diagnostic, empty if the program is valid. A malformed program gets those of its structure alone."""
    return find_malformed(program) or _find_meaningless(program)


def _find_meaningless(program: Program) -> list[Diagnostic]:
    context = Context(program.index)
    check_header(program, context)
    _Body(context, program).run()
    context.found.extend(find_divergent_barriers(program))
    return context.found


class _Body:
    """Walks the statements with the scopes and loops that are open. `loops` says in which part of each loop."""

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
                context.index_expr(statement.index)
                context.typed_expr(statement.value, type_, f"the value stored to {statement.buffer}")
            case Atomic():
                self.atomic(statement)
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
            case Return() | Barrier():
                pass
            case Assert():
                context.typed_expr(statement.condition, bool_, "the condition")
                if any("\ud800" <= character <= "\udfff" for character in statement.message):
                    context.report("the message holds half of a surrogate pair, which is no text")
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
            self.context.report(f"{name} is {what}; only a var takes a new value")
        else:
            wanted = info.type
        self.context.typed_expr(statement.value, wanted, f"the new value of {name}")

    def written(self, buffer: str) -> Type | None:
        """The element type of a buffer that this statement writes."""
        type_ = self.context.buffer_type(buffer)
        owner = self.context.parameters.get(buffer)
        if type_ is not None and isinstance(owner, Parameter) and not owner.is_writable:
            self.context.report(f"{buffer} is an `in` buffer and cannot be written; declare it `out` or `inout`")
        return type_

    def atomic(self, statement: Atomic) -> None:
        context, op = self.context, statement.op
        type_ = self.written(statement.buffer)
        context.index_expr(statement.index)
        for operand in statement.operands:
            context.typed_expr(operand, type_, "the operand")
        if op not in ATOMICS:
            context.report(f"there is no atomic operation {op}; these exist: {', '.join(ATOMICS)}")
        else:
            wanted, given = ATOMICS[op], len(statement.operands)
            if given != wanted:
                context.report(f"atomic {op} takes {wanted} operand{'s' * (wanted != 1)}, {given} given")
            if type_ is not None and type_ not in _ATOMIC_TYPES[op]:
                allowed = ", ".join(allowed.name for allowed in _ATOMIC_TYPES[op])
                context.report(f"atomic {op} is not defined for {type_}; it takes {allowed}")
        if statement.order not in ORDERS:
            context.report(f"there is no memory order {statement.order}; these exist: {', '.join(ORDERS)}")
        if statement.scope not in SCOPES:
            context.report(f"there is no memory scope {statement.scope}; these exist: {', '.join(SCOPES)}")
        if statement.result is not None:
            self.declare(statement.result, type_, "let")

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
            context.report("a step of 0 never gets anywhere", operand, statement.step.source)
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
