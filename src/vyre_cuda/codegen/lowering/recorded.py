"""Lowering that says how it rewrote the expressions of a program.

What is computed is followed from each effect down: a rewritten expression counts where its class is among that, under
the statement that has it. A let counts once an effect needs it.
"""

from __future__ import annotations

from collections.abc import Callable

from vyre_cuda.codegen.lowering.expressions import Expressions, Locals
from vyre_cuda.codegen.lowering.extraction import Extraction
from vyre_cuda.codegen.lowering.isel_memory import Memory
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.terms.reasons import reason
from vyre_cuda.codegen.terms.recorded import Asked, RecordedTerms, Step
from vyre_cuda.codegen.terms.words import Words
from vyre_cuda.ir.core.nodes import Apply, Expr, Load, Local, Source, Stmt, Var
from vyre_cuda.ir.core.program import Program
from vyre_cuda.ir.text.text import format_expr, format_statement
from vyre_cuda.records import FrozenRecord, Record, replace


class Rewrite(FrozenRecord):
    """One step from an expression of a program to what is computed for it (`vc.rewrites`).

    `rule` is a row of the table of rules, or "constant" (its operands are constants), "identity" (a neutral element, a
    cast of a cast and the like), "linear_form" (sums that are equal modulo 2^n) or "rest_of_quotient" (a remainder is
    made of a quotient). `statement` is the number of the statement in the program, in pre-order from 0, `text` its
    first line and `source` the (file, line) that built it. `before` and `after` are expressions as `Program.text` has
    them, with the names that the program gives; a name with an apostrophe stands for the value that a variable or
    buffer had before. `why` says why both are equal.
    """

    rule: str
    statement: int
    before: str
    after: str
    why: str
    text: str
    source: Source | None


class RecordedExtraction(Extraction):
    """Values of classes, with the term that each class was computed by."""

    __slots__ = ("_used", "computed")

    def __init__(self, builder: Builder, terms: RecordedTerms, used: Callable[[int], None]) -> None:
        super().__init__(builder, terms)
        self._used = used
        self.computed: set[int] = set()

    def used(self, class_: int) -> int:
        value = super().used(class_)
        self._used(class_)
        return value

    def stored(self, class_: int) -> int:
        value = super().stored(class_)
        self._used(class_)
        return value

    def _of_form(self, class_: int, term: int) -> int:
        self.computed.add(term)
        return super()._of_form(class_, term)


class _Named(Record):
    """A let whose scope is open, and its rewrites until an effect needs it."""

    local: Local
    class_: int
    rewrites: list[Rewrite]
    is_needed: bool = False
    has_ended: bool = False  # its block, which has no scope of its own where the condition is known


class RecordedExpressions(Expressions):
    """Expressions of a program, with `rewrites` of those that are computed."""

    __slots__ = (
        "_at",
        "_ended_vars",
        "_extraction",
        "_leaves",
        "_lets",
        "_lets_at",
        "_lets_of",
        "_number",
        "_ready",
        "_shown",
        "_terms",
        "_told",
        "_words",
        "_writable",
        "_written",
        "rewrites",
    )

    def __init__(self, builder: Builder, memory: Memory, program: Program) -> None:
        super().__init__(builder, memory, program)
        self.terms = self._terms = RecordedTerms(builder.facts.tight_range, builder.precision)
        self.extraction = self._extraction = RecordedExtraction(builder, self._terms, self._use)
        self.locals = Locals(builder, self.extraction)
        self.rewrites: list[Rewrite] = []
        self._words = Words(self.terms, self._leaf, self._goal, self._name)
        self._writable = {p.name for p in program.parameters if p.is_writable} | {a.name for a in program.shared}
        self._writable |= {array.name for array in program.arrays}
        self._number, self._at = 0, -1  # the statement, and how many were started: a loop's condition starts it again
        self._shown: tuple[str, Source | None] = ("", None)
        self._leaves: dict[int, tuple[Expr, int]] = {}  # by value: the expression, and where it was met
        self._written: list[tuple[Apply, Asked, int]] = []  # of this statement, inner ones first
        self._lets: list[_Named] = []
        self._lets_at: list[int] = []
        self._lets_of: dict[int, list[_Named]] = {}  # by the class that they had when they were made
        self._ready: list[_Named] = []  # lets of constants and leaves that were read
        self._told: set[Step] = set()
        self._ended_vars: set[str] = set()

    def begin_block(self) -> int:
        """The mark that `end_block` takes."""
        return len(self._lets)

    def end_block(self, statements: tuple[Stmt, ...], mark: int) -> None:
        """What these statements have named has no name behind them."""
        for let in self._lets[mark:]:
            let.has_ended = True
        self._ended_vars.update(each.name for each in statements if isinstance(each, Var))

    def at(self, number: int, statement: Stmt) -> None:
        """The following expressions are those of this statement."""
        self._number = number
        if isinstance(statement, Var):
            self._ended_vars.discard(statement.name)
        self._shown = (format_statement(statement).splitlines()[0], statement.source)

    def start_statement(self) -> None:
        super().start_statement()
        self._at += 1
        self._written.clear()

    def open_scope(self) -> None:
        super().open_scope()
        self._lets_at.append(len(self._lets))

    def close_scope(self) -> None:
        super().close_scope()
        kept = self._lets_at.pop()
        for let in self._lets[kept:]:
            self._lets_of[let.class_].remove(let)
        gone = {let.local.name for let in self._lets[kept:]}
        self._ready = [let for let in self._ready if let.local.name not in gone]
        del self._lets[kept:]
        self._told = {step for step in self._told if self._terms.has(step)}

    def let(self, name: str, expr: Expr) -> None:
        super().let(name, expr)
        class_ = self.locals.values[name]
        let = _Named(Local(expr.type, name), class_, self._rewrites_for(self._needed(class_)))
        self._lets.append(let)
        self._lets_of.setdefault(class_, []).append(let)

    def ahead(self, name: str | None, expr: Expr) -> None:
        """The statement itself reads the lets, if it is reached."""
        ready, self._ready = self._ready, []
        super().ahead(name, expr)
        self._ready = ready

    def term(self, expr: Expr) -> int:
        is_new = isinstance(expr, Apply) and id(expr) not in self._memo
        class_ = super().term(expr)
        if is_new and isinstance(expr, Apply) and self._terms.asked is not None:
            self._written.append((expr, self._terms.asked, class_))
        # A constant is not part of a sum with it, and a leaf is needed by others too.
        if isinstance(expr, Local) and self.terms.ops[class_] in ("const", "leaf"):
            self._ready += [let for let in self._lets_named(class_) if let.local.name == expr.name]
        if not isinstance(expr, Apply) and self.terms.ops[class_] == "leaf":
            value = self.terms.attrs[class_]
            if value not in self._leaves or not (isinstance(expr, Local) and self.locals.is_var(expr.name)):
                self._leaves[value] = expr, self._at
        return class_

    def _operands(self, operands: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple(map(self.term, operands))  # each is looked at

    # ---- what is computed ----

    def _use(self, class_: int) -> None:
        """An effect needs the class."""
        needed = self._needed(class_)
        work = self._made_lets(needed) + self._ready
        self._ready = []
        while work:
            let = work.pop()
            if not let.is_needed:
                let.is_needed = True
                self.rewrites += let.rewrites
                work += self._made_lets(self._needed(let.class_, inside=True))
        self.rewrites += self._rewrites_for(needed)

    def _is_constant(self, class_: int) -> bool:
        return self.terms.constant(class_) is not None

    def _goal(self, class_: int) -> int:
        """The term that the class is computed by."""
        terms = self.terms
        if terms.ops[class_] in ("const", "leaf"):
            return class_
        computed = (form for form in terms.forms[class_] if form in self._extraction.computed)
        return next(computed, terms.best[class_])

    def _needed(self, class_: int, *, inside: bool = False) -> set[int]:
        """The class and all that it is computed from, down to lets; `inside`: the class is that of a let."""
        terms = self.terms
        found: set[int] = set()
        work = [class_]
        while work:
            at = terms.find(work.pop())
            if at not in found:
                found.add(at)
                if inside or not self._lets_named(at):
                    work.extend(terms.parts(self._goal(at)))
                inside = False
        return found

    def _made_lets(self, classes: set[int]) -> list[_Named]:
        """The lets that have these classes, but for those of constants and leaves."""
        ops = self.terms.ops
        return [let for at in classes if ops[at] not in ("const", "leaf") for let in self._lets_named(at)]

    def _lets_named(self, class_: int) -> list[_Named]:
        """The lets that have a class."""
        return [let for form in self.terms.forms[self.terms.find(class_)] for let in self._lets_of.get(form, ())]

    def _rewrites_for(self, needed: set[int]) -> list[Rewrite]:
        """The rewrites of this statement's expressions that are needed, each reported once."""
        ways = []
        kept = []
        for expr, asked, made in reversed(self._written):
            at = self.terms.find(made)
            if at not in needed:
                kept.append((expr, asked, made))
                continue
            # A constant is not part of a sum or a product with it.
            needed.update(self.terms.find(arg) for arg in asked[2] if self._is_constant(arg))
            ways.append((expr, asked, at))
        self._written = kept[::-1]
        return [rewrite for way in reversed(ways) for rewrite in self._of_way(*way)]

    def _of_way(self, expr: Expr, asked: Asked, class_: int) -> list[Rewrite]:
        """The steps that rewrite an expression, which was asked for like this and is of this class."""
        op, type_, args = asked
        steps = self._new_steps([step for step in self._terms.way(asked, self._goal(class_)) if step.rule])
        found = []
        before = expr
        for step in steps:
            if step is steps[-1]:
                after = self._name(class_) or self._words.of_term(self._goal(class_))
            else:
                after = self._words.of_term(step.after)
            texts = format_expr(before), format_expr(after)
            if texts[0] != texts[1]:
                met = Apply(type_, op, tuple([self._words.of_class(arg) for arg in args]))
                why = reason(step.rule, met, after)
                found.append(Rewrite(step.rule, self._number, *texts, why, *self._shown))
            before = after
        return found

    def _new_steps(self, steps: list[Step]) -> list[Step]:
        """The steps up to those that an inner expression, or one before, was rewritten by already."""
        for position, step in enumerate(steps):
            if position and step in self._told:
                return steps[:position]
        self._told.update(steps)
        return steps

    # ---- words ----

    def _name(self, class_: int) -> Expr | None:
        """The let that has a class, what is given with the launch, or the var that holds it now."""
        find, terms = self.terms.find, self.terms
        class_ = find(class_)
        let = next((each for each in self._lets_named(class_) if not each.has_ended), None)
        if let is not None:
            return let.local
        if terms.ops[class_] == "leaf":
            expr, _ = self._leaves[terms.attrs[class_]]
            if not isinstance(expr, (Load, Local)):
                return expr
        type_ = terms.types[class_]
        held = (name for name, now in self.locals.state.items() if find(now) == class_)
        return next((Local(type_, name) for name in held if name not in self._ended_vars), None)

    def _leaf(self, value: int) -> Expr:
        """What a leaf stands for; a var or an element that may have changed since has an apostrophe."""
        expr, at = self._leaves[value]
        if isinstance(expr, Local) and self.locals.is_var(expr.name):
            return Local(expr.type, f"{expr.name}'")
        if isinstance(expr, Load) and at != self._at and expr.buffer in self._writable:
            return replace(expr, buffer=f"{expr.buffer}'")
        return expr


class RecordedLowering(Lowering):
    """A program being lowered, with its rewrites."""

    def rewrites(self) -> tuple[Rewrite, ...]:
        """Those of the whole program, in the order of its statements; equal steps of one statement once."""
        expressions = self._expressions
        assert isinstance(expressions, RecordedExpressions)
        return tuple(dict.fromkeys(sorted(expressions.rewrites, key=lambda rewrite: rewrite.statement)))

    def _make_expressions(self, program: Program) -> Expressions:
        return RecordedExpressions(self.builder, self.memory, program)

    def _block(self, statements: tuple[Stmt, ...]) -> bool:
        expressions = self._expressions
        assert isinstance(expressions, RecordedExpressions)
        mark = expressions.begin_block()
        falls = super()._block(statements)
        expressions.end_block(statements, mark)
        return falls

    def _number(self, statement: Stmt) -> None:
        super()._number(statement)
        assert isinstance(self._expressions, RecordedExpressions)
        self._expressions.at(self.sites.number(statement), statement)
