"""What terms of f16 and bf16 become is what they were, for all values of the operand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.float_rules.test_halves import EVERY, HALVES, different, meant
from tests.unit.float_rules.values import Array
from vyre_cuda.codegen.terms import identities
from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import TYPES, Type, bf16, bool_, f16
from vyre_cuda.ir.semantics import elementwise
from vyre_cuda.testing.edges import EDGES

ONE_OR_TWO = sorted(op.name for op in OPS.values() if op.arity <= 2 and op.result != "explicit" and f16 in op.types)
# Ops that become something that is there already, in so many of their forms at least.
BECOME = {
    **dict.fromkeys(("add", "multiply"), 2),
    **dict.fromkeys(("subtract", "divide"), 1),
    **dict.fromkeys(("minimum", "maximum", "fmin", "fmax", "negative"), 1),
}


def new_terms() -> Terms:
    return Terms(lambda _: (0, 0))


def became(terms: Terms, class_: int, type_: Type, x: int) -> Array | None:
    """What a class is for all values of x; None if it is a term of its own."""
    if terms.ops[class_] == "const":
        return np.array([terms.attrs[class_]], np.uint16)
    return EVERY if class_ == x else None


def forms(op: str, type_: Type) -> Iterator[tuple[str, Array | None, tuple[Array, ...]]]:
    """The ways to write an op on x and constants, what it becomes, and its operands, both for all values of x."""
    result = bool_ if OPS[op].result == "bool" else type_
    terms = new_terms()
    x = terms.leaf(type_, 0)
    if OPS[op].arity == 1:
        if result is type_:
            twice = terms.apply(op, type_, (terms.apply(op, type_, (x,)),))
            yield f"{op}({op}(x))", became(terms, twice, type_, x), (meant(op, type_, EVERY),)
        return
    yield f"{op}(x, x)", became(terms, terms.apply(op, result, (x, x)), type_, x), (EVERY, EVERY)
    for bits in EDGES[type_]:
        constant = np.array([bits], np.uint16)
        terms = new_terms()
        x, other = terms.leaf(type_, 0), terms.literal(type_, bits)
        left, right = terms.apply(op, result, (x, other)), terms.apply(op, result, (other, x))
        yield f"{op}(x, {bits:#06x})", became(terms, left, type_, x), (EVERY, constant)
        yield f"{op}({bits:#06x}, x)", became(terms, right, type_, x), (constant, EVERY)


def compared(op: str, type_: Type) -> int:
    """In how many forms the op becomes something else; AssertionError if that is not the same."""
    count = 0
    for form, found, operands in forms(op, type_):
        if found is not None:
            wrong = different(type_, *np.broadcast_arrays(found, meant(op, type_, *operands)))
            assert not len(wrong), f"{form} of {type_} at {int(wrong[0]):#06x}"
            count += 1
    return count


@pytest.mark.parametrize("type_", HALVES, ids=str)
@pytest.mark.parametrize("op", ONE_OR_TWO)
def test_what_an_op_becomes_it_is_for_all_values(op: str, type_: Type) -> None:
    assert compared(op, type_) >= BECOME.get(op, 0)


@pytest.mark.parametrize("type_", HALVES, ids=str)
def test_a_cast_that_skips_another_one_is_both_for_all_values(type_: Type) -> None:
    every = EVERY.view(type_.storage)
    skipped = 0
    for middle in TYPES:
        for last in TYPES:
            terms = new_terms()
            x = terms.leaf(type_, 0)
            class_ = terms.apply("cast", last, (terms.apply("cast", middle, (x,)),))
            if class_ != x and terms.args[class_] != (x,):
                continue
            skipped += middle is not type_ is not last
            with np.errstate(all="ignore"):
                one = every if class_ == x else elementwise.apply("cast", type_, last, [every])
                both = elementwise.apply("cast", middle, last, [elementwise.apply("cast", type_, middle, [every])])
            assert _same(last, one, both), (middle, last)
    assert skipped > 0


def _same(type_: Type, one: Array, other: Array) -> bool:
    if type_ is bf16:
        return not len(different(type_, one, other))
    return bool(np.array_equal(one, other, equal_nan=type_.is_float))


@pytest.mark.parametrize(
    ("op", "number"), [("add", 0.0), ("subtract", -0.0), ("multiply", -1.0), ("divide", float("inf"))]
)
@pytest.mark.parametrize("type_", HALVES, ids=str)
def test_a_wrong_neutral_element_is_found(op: str, number: float, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(identities._FLOAT_NEUTRAL, (op, type_.code), bits_of(type_, number))

    with pytest.raises(AssertionError, match=f"{op}.x, "):
        compared(op, type_)


@pytest.mark.parametrize("op", ["subtract", "add", "multiply"])
def test_an_op_that_is_not_its_operand_is_found(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_FLOAT_WITH_ITSELF", identities._FLOAT_WITH_ITSELF | {op})

    with pytest.raises(AssertionError, match=f"{op}.x, x"):
        compared(op, bf16)
