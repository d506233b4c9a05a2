"""Programs with each expression in its cheapest form, so that the interpreter can say whether that means the same."""

from __future__ import annotations

import vyre_cuda as vc
from vyre_cuda.codegen.terms.conditions import Interval
from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.codegen.terms.words import Words
from vyre_cuda.ir.core.nodes import Apply, Const, Expr
from vyre_cuda.ir.core.walk import Body, bodies, operands
from vyre_cuda.ir.text.text import format_expr
from vyre_cuda.passes.rebuild import with_bodies, with_body, with_operands


class Given:
    """Terms whose leaves are expressions of the IR; `intervals` has what is known of them, by their text."""

    def __init__(self, precision: str = "ieee", intervals: dict[str, Interval] | None = None) -> None:
        self._intervals = {} if intervals is None else intervals
        self.leaves: list[Expr] = []
        self.terms = Terms(self._interval, precision)

    def _interval(self, value: int) -> Interval:
        type_ = self.leaves[value].type
        return self._intervals.get(format_expr(self.leaves[value]), (type_.minimum, type_.maximum))

    def term(self, expr: Expr) -> int:
        if isinstance(expr, Const):
            return self.terms.literal(expr.type, expr.bits)
        if isinstance(expr, Apply):
            return self.terms.apply(expr.op, expr.type, tuple(map(self.term, expr.operands)))
        if expr not in self.leaves:
            self.leaves.append(expr)
        return self.terms.leaf(expr.type, self.leaves.index(expr))

    def words(self, class_: int) -> str:
        """The cheapest form as text."""
        return format_expr(self.expression(class_))

    def expression(self, class_: int) -> Expr:
        return Words(self.terms, self.leaves.__getitem__, self.terms.choose).of_class(class_)


def simplified(program: vc.Program, *, precision: str = "ieee") -> vc.Program:
    """The program with every expression rewritten by itself, so that no load moves across a statement."""

    def body(statements: Body) -> Body:
        out = []
        for statement in statements:
            statement = with_bodies(statement, tuple(body(inner) for _, inner in bodies(statement)))
            exprs = operands(statement)
            out.append(with_operands(statement, tuple(_rewritten(expr, precision) for expr in exprs)))
        return tuple(out)

    return with_body(program, body(program.body))


def _rewritten(expr: Expr, precision: str) -> Expr:
    if not isinstance(expr, Apply):
        return expr
    given = Given(precision)
    return given.expression(given.term(expr))


def in_words(header: str, text: str, *, precision: str = "ieee", intervals: dict[str, Interval] | None = None) -> str:
    """The cheapest form of an expression of a program that begins with `header`."""
    given = Given(precision, intervals)
    (let,) = vc.parse(f"{header}let v = {text}\n").body
    (expr,) = operands(let)
    return given.words(given.term(expr))
