"""Rules, linear forms, facts of scopes and what is known of terms."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.codegen.terms.patterns import Pattern
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Local
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import Type, i8, u8, u32
from vyre_cuda.ir.semantics.elementwise import apply

from .simplified import Given, in_words

HEADER = "program k\nblock 64\ninout h: u32\n" + "".join(f"scalar {n}: u32\n" for n in "xyzw") + "scalar s: i32\n\n"


def words(text: str, **intervals: tuple[int, int]) -> str:
    return in_words(HEADER, text, intervals=intervals)


# ---- rules and sums -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add(multiply(floor_divide(x, y), y), remainder(x, y))", "where(not_equal(y, u32:0), x, u32:0)"),
        ("add(remainder(x, u32:7), multiply(u32:7, floor_divide(x, u32:7)))", "x"),
        (
            "add(multiply(add(floor_divide(x, y), u32:2), y), add(remainder(x, y), u32:1))",
            "add(add(multiply(y, u32:2), where(not_equal(y, u32:0), x, u32:0)), u32:1)",
        ),
        ("bitwise_or(left_shift(x, u32:13), right_shift(x, u32:19))", "rotate_left(x, u32:13)"),
        ("bitwise_or(right_shift(x, u32:19), left_shift(x, u32:13))", "rotate_left(x, u32:13)"),
        ("subtract(add(x, y), x)", "y"),
        ("add(subtract(x, y), y)", "x"),
        ("subtract(multiply(x, u32:7), multiply(x, u32:6))", "x"),
        ("floor_divide(floor_divide(x, u32:3), u32:5)", "floor_divide(x, u32:15)"),
        ("bitwise_and(bitwise_and(x, u32:255), u32:15)", "bitwise_and(x, u32:15)"),
        ("where(less(x, y), x, y)", "minimum(x, y)"),
        ("where(greater(x, y), x, y)", "maximum(x, y)"),
    ],
)
def test_an_expression_takes_its_cheapest_form(text: str, expected: str) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "intervals", "expected"),
    [
        ("add(multiply(floor_divide(x, y), y), remainder(x, y))", {"y": (1, 9)}, "x"),
        ("floor_divide(multiply(x, y), y)", {"x": (0, 99), "y": (1, 9)}, "x"),
        ("floor_divide(add(multiply(x, u32:28), z), u32:28)", {"x": (0, 99), "z": (0, 27)}, "x"),
        ("remainder(add(multiply(x, u32:28), z), u32:28)", {"x": (0, 99), "z": (0, 27)}, "z"),
        ("remainder(x, y)", {"x": (0, 4), "y": (5, 9)}, "x"),
    ],
)
def test_what_is_known_of_operands_allows_more(text: str, intervals: dict[str, tuple[int, int]], expected: str) -> None:
    assert words(text, **intervals) == expected
    assert words(text) != expected


def test_a_form_is_taken_only_where_it_is_cheaper() -> None:
    for text in (
        "multiply(add(x, y), z)",
        "add(multiply(add(multiply(x, u32:3), u32:1), x), u32:7)",
        "remainder(x, y)",
    ):
        assert words(text).count("multiply") == text.count("multiply")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_fires(rule: Rule) -> None:
    """Its left side, on literals where a condition asks for them, and on intervals that make the others hold."""
    literals = {"a": 3, "b": 29 if "rotated" in rule.name else 5}
    intervals = {"x": (0, 9), "y": (4, 7), "z": (0, 3)} if rule.when else {}
    if rule.name in ("small_divided", "rest_of_small"):
        intervals = {"x": (0, 3), "y": (4, 7)}
    if rule.name == "bits_within":
        intervals = {"x": (0, 3)}
    if rule.name == "bits_outside":
        literals, intervals = {"a": 8}, {"x": (0, 3)}
    if rule.name == "and_of_or_outside":
        literals, intervals = {"a": 8}, {"y": (0, 3)}
    named = {condition.patterns[0].name for condition in rule.when if condition.name == "is_constant"}

    def expr(pattern: Pattern) -> Expr:
        if pattern.op == "literal":
            return Const(u32, pattern.number % (1 << 32))
        if pattern.op == "variable":
            return Const(u32, literals[pattern.name]) if pattern.name in named else Local(u32, pattern.name)
        parts = tuple(map(expr, pattern.parts))
        return Apply(vc.bool_ if OPS[pattern.op].result == "bool" else u32, pattern.op, parts)

    given = Given(intervals=intervals)
    given.terms.fired = []
    given.term(expr(rule.left))

    assert rule.name in {name for name, _, _ in given.terms.fired}


# ---- scopes ---------------------------------------------------------------------------------------------------------


def test_what_holds_in_a_scope_is_forgotten_with_it() -> None:
    intervals: dict[str, tuple[int, int]] = {}
    given = Given(intervals=intervals)
    terms = given.terms
    x, y = (given.term(Local(u32, name)) for name in "xy")
    quotient = terms.apply("floor_divide", u32, (x, y))
    rows = terms.apply("multiply", u32, (quotient, y))
    made = len(terms.ops)
    before = (terms.forms[:made], terms.best[:made])

    terms.open_scope()
    intervals["y"] = (1, 9)
    whole = terms.apply("add", u32, (rows, terms.apply("remainder", u32, (x, y))))
    assert terms.find(whole) == x
    terms.close_scope()
    del intervals["y"]

    assert len(terms.ops) == made
    assert (terms.forms[:made], terms.best[:made]) == before
    again = terms.apply("add", u32, (rows, terms.apply("remainder", u32, (x, y))))
    assert given.words(again) == "where(not_equal(y, u32:0), x, u32:0)"


def test_classes_joined_in_a_scope_part_with_it() -> None:
    intervals: dict[str, tuple[int, int]] = {}
    given = Given(intervals=intervals)
    terms = given.terms
    x, y = (given.term(Local(u32, name)) for name in "xy")
    quotient, plain = terms.apply("floor_divide", u32, (x, y)), terms.apply("add", u32, (x, y))
    above = terms.apply("add", u32, (quotient, plain))

    terms.open_scope()
    terms.union(quotient, plain)
    assert terms.apply("bitwise_xor", u32, (quotient, plain)) == terms.number(u32, 0)
    terms.close_scope()

    assert terms.find(quotient) != terms.find(plain)
    assert given.words(above) == "add(floor_divide(x, y), add(x, y))"
    assert given.words(terms.apply("bitwise_xor", u32, (quotient, plain))) != "u32:0"


SCOPED = """\
program k
block 32
index u32
out h: u32[size(x)]
in x: u32
scalar w: u32

let i = global_id.x
if not_equal(w, u32:0)
  store h[i], add(multiply(floor_divide(i, w), w), remainder(i, w))
end
store h[add(i, u32:1)], add(multiply(floor_divide(i, w), w), remainder(i, w))
"""


def test_a_divisor_that_is_tested_in_one_branch_may_be_zero_after_it() -> None:
    text = lower(vc.parse(SCOPED), Target.parse("sm_90")).ptx

    assert "div" not in text
    assert text.count("selp.u32") == 1


def test_terms_on_top_of_equal_classes_become_equal() -> None:
    given = Given()
    terms = given.terms
    x, y = (given.term(Local(u32, name)) for name in "xy")
    first, second = terms.apply("reverse_bits", u32, (x,)), terms.apply("reverse_bits", u32, (y,))
    assert terms.find(first) != terms.find(second)

    terms.union(x, y)

    assert terms.find(first) == terms.find(second)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_terms_become_equal_in_a_scope_and_again_behind_it(levels: int) -> None:
    given = Given()
    terms = given.terms
    x, y = (given.term(Local(u32, name)) for name in "xy")
    outer = [terms.apply("reverse_bits", u32, (each,)) for each in (x, y)]
    for _ in range(levels):
        terms.open_scope()
    inner = [terms.apply("bitwise_count", u32, (each,)) for each in (x, y)]

    terms.union(x, y)
    assert terms.find(outer[0]) == terms.find(outer[1])
    assert terms.find(inner[0]) == terms.find(inner[1])
    for _ in range(levels):
        terms.close_scope()
    assert terms.find(outer[0]) != terms.find(outer[1])

    later = [terms.apply("bitwise_count", u32, (each,)) for each in (x, y)]
    terms.union(x, y)
    assert terms.find(outer[0]) == terms.find(outer[1])
    assert terms.find(later[0]) == terms.find(later[1])


def test_a_weight_that_was_asked_for_follows_the_forms_of_its_operands() -> None:
    given = Given()
    terms = given.terms
    x, y, z = (given.term(Local(u32, name)) for name in "xyz")
    counted = terms.apply("bitwise_count", u32, (x,))
    total = terms.apply("add", u32, (counted, z))
    assert terms.difference(total, z, ()) == 2

    product = terms.apply("multiply", u32, (x, y))
    terms.union(counted, product)
    terms.put(terms.best, terms.find(counted), product)
    terms.union(y, terms.number(u32, 5))  # whatever changes classes may change weights

    assert terms.difference(total, z, ()) == 1


# ---- what is known --------------------------------------------------------------------------------------------------

_OF_TWO = [
    *("add", "subtract", "multiply", "floor_divide", "remainder", "trunc_divide", "fmod", "left_shift", "right_shift"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "minimum", "maximum", "multiply_high", "rotate_left"),
    *("add_saturate", "subtract_saturate", "integer_power"),
]
_OF_ONE = ["negative", "absolute", "invert", "bitwise_count", "count_leading_zeros", "reverse_bits", "sign"]


@pytest.mark.thin(35)
@pytest.mark.parametrize("type_", [u8, i8], ids=str)
@pytest.mark.parametrize("op", [*_OF_TWO, *_OF_ONE])
def test_every_result_is_in_its_interval_and_has_no_other_ones(op: str, type_: Type) -> None:
    """With all operands of random intervals."""
    random = Random(op)
    arity = 2 if op in _OF_TWO else 1
    for _ in range(60):
        ranges = [sorted(random.choices(range(type_.minimum, type_.maximum + 1), k=2)) for _ in range(arity)]
        if random.random() < 0.3:
            ranges[-1] = [ranges[-1][0]] * 2
        given = Given(intervals={name: (found[0], found[1]) for name, found in zip("xy", ranges, strict=False)})
        parts = tuple(
            Const(type_, low & 0xFF) if low == high else Local(type_, name)
            for name, (low, high) in zip("xy", ranges, strict=False)
        )
        class_ = given.term(Apply(type_, op, parts))
        grid = np.array(list(itertools.product(*(range(low, high + 1) for low, high in ranges))), type_.dtype)
        with np.errstate(all="ignore"):
            results = apply(op, type_, type_, list(grid.T.copy()))

        low, high = given.terms.interval(class_)
        assert low <= results.min()
        assert results.max() <= high
        assert not (results.view(np.uint8) & ~np.uint8(given.terms.ones(class_))).any()
