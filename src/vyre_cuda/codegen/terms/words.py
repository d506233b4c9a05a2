"""Classes in the program's words: the expression of the form that would be computed."""

from __future__ import annotations

from collections.abc import Mapping

from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.ir.affine import Affine
from vyre_cuda.ir.core.nodes import Apply, Const, Expr
from vyre_cuda.ir.core.types import Type


def expression(terms: Terms, class_: int, leaves: Mapping[int, Expr]) -> Expr:
    """The cheapest form of a class; `leaves` has the expressions that leaves stand for, by their values."""
    return of_form(terms, terms.choose(terms.find(class_)), leaves)


def of_form(terms: Terms, term: int, leaves: Mapping[int, Expr]) -> Expr:
    """A term in words, on the cheapest forms of its operands."""
    op, type_ = terms.ops[term], terms.types[term]
    if op == "const":
        return Const(type_, terms.attrs[term])
    if op == "leaf":
        return leaves[terms.attrs[term]]
    if op == "sum":
        return _sum(terms, type_, terms.attrs[term], leaves)
    return Apply(type_, op, tuple([expression(terms, arg, leaves) for arg in terms.args[term]]))


def _sum(terms: Terms, type_: Type, form: Affine, leaves: Mapping[int, Expr]) -> Expr:
    total: Expr | None = None
    for class_, coefficient in form.terms:
        part = expression(terms, class_, leaves)
        if coefficient != 1:
            part = Apply(type_, "multiply", (part, Const(type_, coefficient)))
        total = part if total is None else Apply(type_, "add", (total, part))
    constant = Const(type_, form.constant)
    if total is None:
        return constant
    return Apply(type_, "add", (total, constant)) if form.constant else total
