"""Each rule holds: for all numbers of 8 bits, and for edges and random numbers of more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.unit.terms_rules.meaning import differing, names
from tests.unit.terms_rules.operands import all_of_8_bits, edges, some
from vyre_cuda.codegen.terms.conditions import fits, is_count, not_zero
from vyre_cuda.codegen.terms.patterns import apply, literal, variable, variables
from vyre_cuda.codegen.terms.rules import ALL_PRECISIONS, RULES, Rule
from vyre_cuda.ir.core.types import INTEGERS, Type, i8, u8

BYTES = (u8, i8)
WIDE = tuple(type_ for type_ in INTEGERS if type_.bits > 8)
x, y, z, a, b = map(variable, "xyzab")


def of(types: tuple[Type, ...]) -> list[object]:
    return [
        pytest.param(rule, type_, id=f"{rule.name}-{type_}") for rule in RULES for type_ in types if type_ in rule.types
    ]


def tried_on_bytes(rule: Rule, type_: Type) -> tuple[int, dict[str, int] | None]:
    tried = 0
    for numbers in all_of_8_bits(names(rule), type_):
        count, example = differing(rule, type_, numbers)
        tried += count
        if example is not None:
            return tried, example
    return tried, None


def tried_on_wide(rule: Rule, type_: Type) -> tuple[int, dict[str, int] | None]:
    few = np.array(edges(type_)[:: 1 if len(names(rule)) < 3 else 2], f"u{type_.itemsize}").view(type_.dtype)
    grid = np.array(list(product(range(len(few)), repeat=len(names(rule)))))
    tried, example = differing(rule, type_, {name: few[grid[:, i]] for i, name in enumerate(names(rule))})
    if example is None:
        count, example = differing(rule, type_, some(names(rule), type_, 1, 20_000))
        tried += count
    return tried, example


def test_a_rule_says_what_it_is_about() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        used = variables(rule.right) + tuple(n for c in rule.when for p in c.patterns for n in variables(p))
        assert set(used) <= set(variables(rule.left)), rule.name
        assert rule.types, rule.name
        assert set(rule.types) <= set(INTEGERS), f"{rule.name}: rules of floats are not checked here"
        assert set(rule.precisions) <= set(ALL_PRECISIONS), rule.name


@pytest.mark.thin(7)
@pytest.mark.parametrize(("rule", "type_"), of(BYTES))
def test_a_rule_holds_for_all_numbers_of_8_bits(rule: Rule, type_: Type) -> None:
    tried, example = tried_on_bytes(rule, type_)

    assert example is None
    assert tried >= 256


@pytest.mark.thin(5)
@pytest.mark.parametrize(("rule", "type_"), of(WIDE))
def test_a_rule_holds_for_edges_and_random_numbers(rule: Rule, type_: Type) -> None:
    tried, example = tried_on_wide(rule, type_)

    assert example is None
    assert tried >= 100


WRONG = [
    Rule("zero_divisor", x // y * y + x % y, x),
    Rule("product_that_wraps", x * y // y, x, when=(not_zero(y),)),
    Rule("row_with_a_large_rest", (x * y + z) // y, x, when=(fits(x * y + z), not_zero(y))),
    Rule("sum_of_counts_that_wraps", x >> a >> b, x >> a + b),
    Rule("shift_of_a_shift", (x >> a) << a, x, when=(is_count(a),)),
    Rule("equal_ones", x & y | y, x),
    Rule("half_of_a_negative", apply("trunc_divide", x, literal(2)), x >> 1),
    Rule("half_of_a_sum", (x + y) >> 1, (x >> 1) + (y >> 1)),
    Rule("smaller", apply("where", x < y, x, y), apply("maximum", x, y)),
]


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_a_wrong_rule_is_found(rule: Rule) -> None:
    assert any(tried_on_bytes(rule, type_)[1] is not None for type_ in BYTES)
    assert any(tried_on_wide(rule, type_)[1] is not None for type_ in WIDE)
