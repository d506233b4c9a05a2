"""Conditions: what they mean for numbers, and that what is known implies it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest

from tests.unit.terms_rules.meaning import CONDITIONS, satisfied
from tests.unit.terms_rules.operands import edges
from vyre_cuda.codegen.terms.conditions import Condition
from vyre_cuda.codegen.terms.patterns import variables
from vyre_cuda.codegen.terms.rules import RULES
from vyre_cuda.ir.core.types import Type, i8, u8

USED = {
    f"{condition.name}-{'-'.join(str(len(variables(p))) for p in condition.patterns)}-{type_}": (condition, type_)
    for rule in RULES
    for condition in rule.when
    for type_ in (u8, i8)
    if type_ in rule.types
}
INTERVALS = ((0, 0), (1, 1), (0, 1), (1, 7), (3, 5), (5, 8), (0, 15), (4, 4), (8, 8), (9, 16), (100, 110), (120, 127))
SIGNED_INTERVALS = (*INTERVALS, (-1, 0), (-1, 1), (-128, -128), (-128, -120), (-7, -1), (-3, 2))
UNSIGNED_INTERVALS = (*INTERVALS, (120, 130), (248, 255), (255, 255))
# None: as far as the interval says.
ONES = (None, 0x00, 0x0F, 0x55, 0xF0)


class Known:
    """Facts about each variable: an interval, and bits that can be 1. What they allow is `numbers`."""

    def __init__(self, type_: Type, facts: Mapping[str, tuple[tuple[int, int], int | None]]) -> None:
        self._type = type_
        self._facts = list(facts.values())

    def numbers(self, term: int) -> list[int]:
        (low, high), ones = self._facts[term]
        return [n for n in range(low, high + 1) if ones is None or not n & 0xFF & ~ones]

    def interval(self, term: int) -> tuple[int, int]:
        return self._facts[term][0]

    def ones(self, term: int) -> int:
        ones = self._facts[term][1]
        if ones is not None:
            return ones
        low, high = self._facts[term][0]
        return 0xFF if low < 0 else (1 << high.bit_length()) - 1

    def constant(self, term: int) -> int | None:
        low, high = self._facts[term][0]
        return low & 0xFF if low == high else None


def names(condition: Condition) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for pattern in condition.patterns for name in variables(pattern)))


def facts(condition: Condition, type_: Type) -> Iterator[Known]:
    used = names(condition)
    intervals = SIGNED_INTERVALS if type_ is i8 else UNSIGNED_INTERVALS
    about_bits = condition.name in ("within_ones", "no_common_ones")
    each = list(product(intervals, ONES if about_bits else (None,)))
    for chosen in product(each, repeat=len(used)):
        known = Known(type_, dict(zip(used, chosen, strict=True)))
        if all(known.numbers(term) for term in range(len(used))):
            yield known


def test_all_conditions_have_a_meaning() -> None:
    assert {condition.name for rule in RULES for condition in rule.when} <= set(CONDITIONS)


@pytest.mark.parametrize("case", USED)
def test_a_condition_means_the_same_for_one_number_and_for_arrays(case: str) -> None:
    condition, type_ = USED[case]
    used = names(condition)
    few = np.array(edges(type_)[:: 1 if len(used) < 3 else 3], np.uint8).view(type_.dtype)
    grid = list(product(range(len(few)), repeat=len(used)))
    arrays = {name: few[[at[i] for at in grid]] for i, name in enumerate(used)}
    found = np.broadcast_to(satisfied(condition, type_, arrays), (len(grid),))
    expected = [condition.holds(type_, {n: int(few[i]) for n, i in zip(used, at, strict=True)}) for at in grid]

    assert found.tolist() == expected
    assert any(expected)


@pytest.mark.thin(4)
@pytest.mark.parametrize("case", USED)
def test_what_is_known_of_a_condition_holds_for_all_numbers_that_the_facts_allow(case: str) -> None:
    condition, type_ = USED[case]
    used = names(condition)
    terms = {name: term for term, name in enumerate(used)}
    proved = 0
    for known in facts(condition, type_):
        if not condition.known(known, type_, terms):
            continue
        proved += 1
        arrays = {}
        for term, name in enumerate(used):
            numbers = np.array(known.numbers(term), np.int64).astype(np.uint8).view(type_.dtype)
            arrays[name] = numbers.reshape([-1 if axis == term else 1 for axis in range(len(used))])
        assert np.all(satisfied(condition, type_, arrays)), [known._facts[term] for term in range(len(used))]

    assert proved > 0


def test_a_condition_that_proves_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre_cuda.codegen.terms import conditions

    holds = conditions._CONDITIONS["not_zero"][1]
    monkeypatch.setitem(conditions._CONDITIONS, "not_zero", (lambda facts, *_: facts.interval(0)[1] > 0, holds))
    case = next(case for case in USED if case.startswith("not_zero"))

    with pytest.raises(AssertionError):
        test_what_is_known_of_a_condition_holds_for_all_numbers_that_the_facts_allow(case)
