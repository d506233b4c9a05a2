"""The linear forms of terms: sums of coefficients times classes, modulo 2^n, in place of rules for + - * and <<.

Terms with one linear form are equal. The form of a term is taken where it is cheaper, because something canceled or
factors met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.ir.affine import Affine, number, single
from vyre_cuda.ir.core.types import Type

if TYPE_CHECKING:
    from vyre_cuda.codegen.terms.terms import Terms

# What linear forms do, as rules are named.
LINEAR_FORM = "linear_form"
REST = "rest_of_quotient"

LINEAR = frozenset({"add", "subtract", "multiply", "negative", "invert", "left_shift"})
# A sum of more classes is one class in the sums above it, so that the work is linear in the program.
_MOST_TERMS = 8
# The most parts of a sum that is multiplied out.
_MOST_PRODUCTS = 3
# The most classes of a sum of which parts are looked for among the sums that have values.
_MOST_REPLACED = 5
# What a sum costs as written where its linear form costs no less: nothing met, or a product is multiplied out, which
# may cancel with something else.
_NO_GAIN = 0


def form_of(terms: Terms, class_: int) -> Affine:
    """The linear form of a class, itself if it has none."""
    if terms.link[class_] != class_:
        class_ = terms.find(class_)
    found = terms.linear[class_]
    if found is not None:
        return found
    bits = terms.types[class_].bits
    return number(bits, terms.attrs[class_]) if terms.ops[class_] == "const" else single(bits, class_)


def note(terms: Terms, term: int) -> None:
    """Give a new integer term of one of these ops its linear form, and find the classes that have the same."""
    type_ = terms.types[term]
    form, parts = _form(terms, terms.ops[term], type_, terms.args[term])
    if form is None or len(form.terms) > _MOST_TERMS:
        return
    terms.linear[term] = form
    same = terms.same_sum(term, form, type_)
    if same is not None:
        _equal(terms, LINEAR_FORM, term, same)
    elif parts and weight(form, type_) < parts:
        terms.add_sum(LINEAR_FORM, term, form, type_)


def note_rest(terms: Terms, term: int, quotient: str) -> None:
    """A new rest of a quotient by a constant is made of the next quotient, whose best form may be another one than that
    which a rest alone is computed from: i // 5 % 7 of i // 5 // 7, which is i // 35.
    """
    x, y = terms.args[term]
    divisor = terms.attrs[y]
    if divisor & (divisor - 1) == 0 or not any(
        terms.ops[terms.args[f][1]] == "const" for f in terms.with_op(x, quotient)
    ):
        return
    type_ = terms.types[term]
    whole = terms.apply(quotient, type_, (x, y))
    if len(terms.forms[whole]) > 1:
        terms.attrs[term] = whole
        terms.add_sum(REST, term, form_of(terms, x) - single(type_.bits, whole) * divisor, type_)


def _equal(terms: Terms, rule: str, term: int, same: int) -> None:
    if terms.fired is not None:
        terms.fired.append((rule, term, same))
    form = terms.linear[term]
    terms.union(term, same)
    kept = terms.find(term)
    if terms.linear[kept] is None and terms.ops[kept] not in ("leaf", "const"):
        terms.put(terms.linear, kept, form)


def _form(terms: Terms, op: str, type_: Type, args: tuple[int, ...]) -> tuple[Affine | None, int]:
    """The linear form of an op, and what it would cost as written if the sums in it are as they were written."""
    left = form_of(terms, args[0])
    if op == "negative":
        return -left, weight(left, type_) + 1
    if op == "invert":
        return -left - number(type_.bits, 1), weight(left, type_) + 1
    if op in ("add", "subtract"):
        right = form_of(terms, args[1])
        total = left + right if op == "add" else left - right
        met = len(total.terms) != len(left.terms) + len(right.terms) or (left.constant and right.constant)
        if (op == "add" and not met) or (not right.terms and _adds_constant(terms, args[0])):
            return total, _NO_GAIN
        return total, _joined(left, right, type_)
    factor = terms.constant(args[1])
    if op == "left_shift":
        if factor is None:
            return None, 0
        return (left << factor if factor < type_.bits else number(type_.bits, 0)), weight(left, type_) + 1
    if factor is not None:
        form = left * factor
        alone = left.terms and left.terms[-1][1] == 1 and not left.constant
        if alone and not factor & 1 and len(form.terms) == len(left.terms):
            return form, _NO_GAIN  # each term is a product now, which one of them was not
        return form, weight(left, type_) + 1
    right = form_of(terms, args[1])
    for sum_, by in ((left, args[1]), (right, args[0])):
        if terms.linear[by] is None and _is_short_sum(sum_):
            return _multiplied_out(terms, type_, sum_, by), _NO_GAIN
    return None, 0


def _adds_constant(terms: Terms, class_: int) -> bool:
    """Whether it is written as a sum with a constant: ptxas joins that with a second one, unless both are needed."""
    class_ = terms.find(class_)
    return terms.ops[class_] in ("add", "subtract") and terms.constant(terms.args[class_][1]) is not None


def _joined(left: Affine, right: Affine, type_: Type) -> int:
    """The cost of both and their sum, where nothing meets."""
    terms = len(left.terms) + len(right.terms)
    products = 0
    for _, coefficient in left.terms + right.terms:
        if coefficient != 1:
            products += 1
    constants = bool(left.constant) + bool(right.constant)
    return max(products, terms + constants - 1) << (type_.bits == 64)


def _is_short_sum(form: Affine) -> bool:
    size = len(form.terms) + bool(form.constant)
    return 1 < size <= _MOST_PRODUCTS


def _multiplied_out(terms: Terms, type_: Type, form: Affine, by: int) -> Affine:
    """(a + b + c) * y as a * y + b * y + c * y."""
    total = single(type_.bits, by) * form.constant
    for term, coefficient in form.terms:
        total += form_of(terms, terms.apply("multiply", type_, (term, by))) * coefficient
    return total


def of_values(terms: Terms, form: Affine, type_: Type) -> Affine | None:
    """The sum with classes that have values in place of parts of it, None if there are none that make it cheaper.

    x - a - b - 1 is x - y where y is a + b + 1.
    """
    price = weight(form, type_)
    found = None
    if len(form.terms) > _MOST_REPLACED:
        return None
    while price > 1 << (type_.bits == 64):
        coefficients = dict(form.terms)
        better = None
        for term, coefficient in form.terms:
            for class_, own in terms.sums_above(term):
                if all(part in coefficients for part, _ in own.terms):
                    factor = _factor(coefficient, own.coefficient(term), form.bits)
                    other = form + (single(form.bits, class_) - own) * factor
                    if weight(other, type_) < price:
                        better, price = other, weight(other, type_)
        if better is None:
            break
        found = form = better
    return found


def _factor(coefficient: int, other: int, bits: int) -> int:
    """How often a sum with one coefficient may be in a sum with the other: so that they cancel, or 0."""
    least = (1 << bits) - 1
    if other == 1:
        return coefficient
    if other == least:
        return -coefficient
    return 1 if other == coefficient else -1 if other + coefficient == least + 1 else 0


def weight(form: Affine, type_: Type) -> int:
    """Instructions of a sum: a multiply-add for each product, a sum for each other part."""
    terms = form.terms
    sums = len(terms) if form.constant else len(terms) - 1
    products = 0
    for part in terms:
        if part[1] != 1:
            products += 1
    return (products if products > sums else sums) << (type_.bits == 64)
