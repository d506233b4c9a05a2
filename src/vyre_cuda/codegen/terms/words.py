"""Terms in the program's words."""

from __future__ import annotations

from collections.abc import Callable

from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.ir.affine import Affine
from vyre_cuda.ir.core.nodes import Apply, Const, Expr
from vyre_cuda.ir.core.types import Type


def _nothing(_class: int) -> None:
    return None


class Words:
    """Expressions for the terms of one program.

    `leaf` gives the expression that a leaf stands for, by its value; `form` the term that a class is computed by;
    `name` the expression that names a class, if any.
    """

    __slots__ = ("_form", "_leaf", "_name", "_open", "_terms")

    def __init__(
        self,
        terms: Terms,
        leaf: Callable[[int], Expr],
        form: Callable[[int], int],
        name: Callable[[int], Expr | None] = _nothing,
    ) -> None:
        self._terms = terms
        self._leaf = leaf
        self._form = form
        self._name = name
        self._open: set[int] = set()  # classes being worded

    def of_class(self, class_: int) -> Expr:
        """A class by its name, or in the form that is computed."""
        found = self._terms.find(class_)
        known = self._known(found)
        if known is not None:
            return known
        if found in self._open:
            return self._as_made(class_)
        self._open.add(found)
        words = self.of_term(self._form(found))
        self._open.remove(found)
        return words

    def of_term(self, term: int) -> Expr:
        """A term on the forms of its operands."""
        return self._of(term, self.of_class)

    def _as_made(self, term: int) -> Expr:
        """A term on its operands as they were when it was made: older ones, so that this ends."""
        known = self._known(self._terms.find(term))
        return self._of(term, self._as_made) if known is None else known

    def _known(self, class_: int) -> Expr | None:
        terms = self._terms
        if terms.ops[class_] == "const":
            return Const(terms.types[class_], terms.attrs[class_])
        return self._name(class_)

    def _of(self, term: int, operand: Callable[[int], Expr]) -> Expr:
        terms = self._terms
        op, type_ = terms.ops[term], terms.types[term]
        if op == "const":
            return Const(type_, terms.attrs[term])
        if op == "leaf":
            return self._leaf(terms.attrs[term])
        if op == "sum":
            return _sum(type_, terms.attrs[term], operand)
        return Apply(type_, op, tuple([operand(arg) for arg in terms.args[term]]))


def _sum(type_: Type, form: Affine, operand: Callable[[int], Expr]) -> Expr:
    half = 1 << (type_.bits - 1)
    total: Expr | None = None
    for class_, residue in sorted(form.terms, key=lambda part: part[1] >= half):
        part = operand(class_)
        op = "add"
        coefficient = residue
        if total is not None and residue >= half:
            op, coefficient = "subtract", 2 * half - residue
        if coefficient != 1:
            part = Apply(type_, "multiply", (part, Const(type_, coefficient)))
        total = part if total is None else Apply(type_, op, (total, part))
    constant = form.constant
    if total is None or not constant:
        return Const(type_, constant) if total is None else total
    if constant > half:
        return Apply(type_, "subtract", (total, Const(type_, 2 * half - constant)))
    return Apply(type_, "add", (total, Const(type_, constant)))
