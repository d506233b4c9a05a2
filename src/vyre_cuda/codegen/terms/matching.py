"""Rules applied to a term when it is made: its forms are matched with the left sides, and the right sides become
equal to it.

A rule for a sum is matched with linear forms too, in which the order and what else is added do not matter: one part is
matched with each class of the sum, which binds all variables, and the rest must then be in the sum as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from vyre_cuda.codegen.terms.linear import LINEAR, form_of
from vyre_cuda.codegen.terms.patterns import Pattern, variables
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.affine import Affine, number, single
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import Type, bool_

if TYPE_CHECKING:
    from vyre_cuda.codegen.terms.terms import Terms

Bound: TypeAlias = dict[str, int]  # classes by the names of variables

# How often one sum may be rewritten.
_MOST_STEPS = 4


# A rule for sums, the part that binds all variables, and the rest.
Anchored: TypeAlias = tuple[Rule, Pattern, Pattern]


class _RulesOfOp:
    """The rules whose left side has one op, each with the ops of its parts. Without an op of `telling` none applies,
    unless that is empty.
    """

    __slots__ = ("rules", "telling")

    def __init__(self) -> None:
        self.rules: list[tuple[Rule, frozenset[str]]] = []
        self.telling: frozenset[str] = frozenset()

    def add(self, rule: Rule, needed: frozenset[str]) -> None:
        if self.telling or not self.rules:
            self.telling = self.telling.union(sorted(needed - LINEAR or needed)[:1]) if needed else frozenset()
        self.rules.append((rule, needed))


@cache
def _rules_of(type_: Type, precision: str) -> tuple[dict[str, _RulesOfOp], dict[str, list[Anchored]]]:
    """The rules for a type by the op of their left side, and those for sums by the op of their anchor."""
    by_op: dict[str, _RulesOfOp] = {}
    anchored: dict[str, list[Anchored]] = {}
    for rule in RULES:
        if type_ in rule.types and precision in rule.precisions:
            needed = frozenset(part.op for part in rule.left.parts if part.parts)
            by_op.setdefault(rule.left.op, _RulesOfOp()).add(rule, needed)
            if rule.left.op == "add":
                for anchor, rest in (rule.left.parts, rule.left.parts[::-1]):
                    if anchor.op not in LINEAR and set(variables(anchor)) == set(variables(rule.left)):
                        anchored.setdefault(anchor.op, []).append((rule, anchor, rest))
                        break
    return by_op, anchored


def rewrite(terms: Terms, term: int) -> None:
    """Find what a new integer term is equal to."""
    op, type_ = terms.ops[term], terms.types[term]
    by_op, anchored = _rules_of(type_, terms.precision)
    of_op = by_op.get(op)
    if of_op is not None and not (of_op.telling and terms.met.isdisjoint(of_op.telling)):
        _rewrite_op(terms, term, type_, of_op)
    if op in LINEAR and not terms.met.isdisjoint(anchored):
        _rewrite_sum(terms, term, type_, anchored)


def _rewrite_op(terms: Terms, term: int, type_: Type, of_op: _RulesOfOp) -> None:
    ops, forms, link = terms.ops, terms.forms, terms.link
    found = set()
    for arg in terms.args[term]:
        for form in forms[arg if link[arg] == arg else terms.find(arg)]:
            found.add(ops[form])
    if of_op.telling and found.isdisjoint(of_op.telling):
        return
    for rule, needed in of_op.rules:
        if not needed <= found:
            continue
        for bound in _matches_of_parts(terms, rule.left, term, {}):
            if all(condition.known(terms, type_, bound) for condition in rule.when):
                _equal(terms, rule, term, built(terms, rule.right, type_, bound))
                break


def _equal(terms: Terms, rule: Rule, term: int, right: int) -> None:
    if terms.fired is not None:
        terms.fired.append((rule.name, term, right))
    form = terms.linear[terms.find(right)]
    terms.union(term, right)
    # Sums above are made of the right side, so that their rules find what it leaves.
    terms.put(terms.linear, terms.find(term), form)


def _matches(terms: Terms, pattern: Pattern, class_: int, bound: Bound) -> Iterator[Bound]:
    if pattern.op == "variable":
        found = bound.get(pattern.name)
        if found is None:
            yield {**bound, pattern.name: class_}
        elif terms.find(found) == terms.find(class_):
            yield bound
    elif pattern.op == "literal":
        bits = terms.constant(class_)
        if bits is not None and bits == pattern.number & ((1 << terms.types[class_].bits) - 1):
            yield bound
    else:
        for form in terms.with_op(class_, pattern.op):
            yield from _matches_of_parts(terms, pattern, form, bound)


def _matches_of_parts(terms: Terms, pattern: Pattern, term: int, bound: Bound) -> Iterator[Bound]:
    args = terms.args[term]
    orders = (args, args[::-1]) if OPS[pattern.op].commutative and args[0] != args[1] else (args,)
    for order in orders:
        found: Iterator[Bound] = iter((bound,))
        for part, arg in zip(pattern.parts, order, strict=True):
            found = _each(terms, part, arg, found)
        yield from found


def _each(terms: Terms, part: Pattern, arg: int, found: Iterator[Bound]) -> Iterator[Bound]:
    for bound in found:
        yield from _matches(terms, part, arg, bound)


def built(terms: Terms, pattern: Pattern, type_: Type, bound: Bound) -> int:
    """The class of a right side."""
    if pattern.op == "variable":
        return terms.find(bound[pattern.name])
    if pattern.op == "literal":
        return terms.number(type_, pattern.number)
    parts = tuple([built(terms, part, type_, bound) for part in pattern.parts])
    return terms.apply(pattern.op, bool_ if OPS[pattern.op].result == "bool" else type_, parts)


# ---- sums -----------------------------------------------------------------------------------------------------------


def _rewrite_sum(terms: Terms, term: int, type_: Type, anchored: dict[str, list[Anchored]]) -> None:
    form = terms.linear[terms.find(term)]
    for _ in range(_MOST_STEPS):
        if form is None or len(form.terms) < 2:
            return
        step = _step(terms, type_, form, anchored)
        if step is None:
            return
        rule, form = step
        _equal(terms, rule, term, terms.sum(form, type_))


def _step(terms: Terms, type_: Type, form: Affine, anchored: dict[str, list[Anchored]]) -> tuple[Rule, Affine] | None:
    """The first rule that applies to a sum, and the sum that it makes."""
    ops, forms, link = terms.ops, terms.forms, terms.link
    for part in form.terms:
        class_ = part[0]
        for anchor in forms[class_ if link[class_] == class_ else terms.find(class_)]:
            for found in anchored.get(ops[anchor], ()):
                step = _applied(terms, type_, form, part, (anchor, *found))
                if step is not None:
                    return step
    return None


def _applied(
    terms: Terms, type_: Type, form: Affine, part: tuple[int, int], found: tuple[int, Rule, Pattern, Pattern]
) -> tuple[Rule, Affine] | None:
    """The rule and the sum that it makes, if the sum has what the rule's anchor, a term in it, asks for."""
    class_, coefficient = part
    term, rule, anchor, rest = found
    for bound in _matches_of_parts(terms, anchor, term, {}):
        other = _linear(terms, rest, type_, bound)
        if other is None or not _contains(form, other, coefficient):
            continue
        if all(condition.known(terms, type_, bound) for condition in rule.when):
            right = form_of(terms, built(terms, rule.right, type_, bound))
            return rule, form + (right - other - single(type_.bits, class_)) * coefficient
    return None


def _contains(form: Affine, part: Affine, factor: int) -> bool:
    if not part.terms or part.constant:
        return False
    modulus = 1 << form.bits
    return all(form.coefficient(term) == coefficient * factor % modulus for term, coefficient in part.terms)


def _linear(terms: Terms, pattern: Pattern, type_: Type, bound: Bound) -> Affine | None:
    """The linear form of a pattern, None if a term in it was never made."""
    if pattern.op == "variable":
        return form_of(terms, bound[pattern.name])
    if pattern.op == "literal":
        return number(type_.bits, pattern.number)
    if pattern.op == "multiply":
        left, right = (_linear(terms, part, type_, bound) for part in pattern.parts)
        if left is None or right is None:
            return None
        if not right.terms:
            return left * right.constant
        if not left.terms:
            return right * left.constant
    parts = []
    for part in pattern.parts:
        class_ = bound[part.name] if part.op == "variable" else _made(terms, part, type_, bound)
        if class_ is None:
            return None
        parts.append(class_)
    found = terms.lookup(pattern.op, type_, tuple(parts))
    return None if found is None else form_of(terms, found)


def _made(terms: Terms, pattern: Pattern, type_: Type, bound: Bound) -> int | None:
    """The class of a pattern of variables, if its term was made."""
    if any(part.op != "variable" for part in pattern.parts):
        return None
    return terms.lookup(pattern.op, type_, tuple([bound[part.name] for part in pattern.parts]))
