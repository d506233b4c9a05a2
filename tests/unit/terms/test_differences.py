"""What one form costs more than another: compared with the counting of all that both need."""

from __future__ import annotations

from random import Random

import pytest

from vyre_cuda.codegen.terms.terms import Terms
from vyre_cuda.ir.core.nodes import Local
from vyre_cuda.ir.core.types import u32

from .simplified import Given

_OPS = ("bitwise_xor", "minimum", "multiply_high", "rotate_left", "add", "multiply")


def _grown(rng: Random, count: int) -> tuple[Terms, list[int]]:
    """Terms on a few leaves, some of them equal, and some of them used for sure."""
    given = Given()
    terms = given.terms
    made = [given.term(Local(u32, name)) for name in "wxyz"]
    for _ in range(count):
        made.append(terms.apply(rng.choice(_OPS), u32, (rng.choice(made[-6:]), rng.choice(made))))
        if rng.random() < 0.1:
            terms.put(terms.values, terms.find(made[-1]), len(made))
            terms.put(terms.committed, terms.find(made[-1]), True)
    return terms, made


def _counted(terms: Terms, form: int) -> int:
    """The cost of all that a form needs."""
    needed: set[int] = set()
    work = [form]
    while work:
        for part in terms.parts(work.pop()):
            class_ = terms.find(part)
            is_used = terms.committed[class_] and terms.values[class_] is not None
            if class_ not in needed and not is_used:
                needed.add(class_)
                work.append(terms.best[class_])
    return sum(terms._weight(each) for each in {form, *(terms.best[class_] for class_ in needed)})


@pytest.mark.parametrize("seed", range(40))
def test_a_difference_is_that_of_all_that_is_needed(seed: int) -> None:
    rng = Random(seed)
    terms, made = _grown(rng, rng.randint(5, 40))
    compared = 0
    for _ in range(60):
        one, other = (terms.best[terms.find(rng.choice(made))] for _ in range(2))
        found = terms.difference(one, other, ())
        if found is not None:
            compared += 1
            assert found == _counted(terms, one) - _counted(terms, other)
    assert compared > 50


def test_what_both_need_may_be_any_number_of_terms() -> None:
    given = Given()
    terms = given.terms
    x, below = given.term(Local(u32, "x")), given.term(Local(u32, "y"))
    for _ in range(1000):
        below = terms.apply("multiply_high", u32, (below, x))
    short = terms.apply("rotate_left", u32, (below, x))
    long = terms.apply("rotate_left", u32, (terms.apply("bitwise_count", u32, (below,)), x))
    assert terms.difference(long, short, ()) == 1
    assert terms.difference(short, long, ()) == -1
    assert terms.difference(short, x, ()) is None


def test_a_form_that_needs_what_is_being_computed_is_endless() -> None:
    given = Given()
    terms = given.terms
    x = given.term(Local(u32, "x"))
    below = terms.apply("bitwise_count", u32, (x,))
    above = terms.apply("minimum", u32, (below, x))
    other = terms.apply("maximum", u32, (x, given.term(Local(u32, "y"))))
    more = terms.difference(above, other, (below,))
    assert more is not None
    assert more > 1 << 20
    assert terms.difference(other, above, (below,)) == -more
