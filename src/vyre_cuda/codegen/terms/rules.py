"""The rewriting rules: equalities of expressions, as data.

A rule holds bit for bit, for all values of its types that satisfy its conditions; `tests/unit/terms_rules` checks each.
Sums, differences, products with a constant, negations and shifts by a constant need no rules: they are compared as
linear forms (`linear.py`). What ptxas finds by itself needs none either.
"""

from __future__ import annotations

from vyre_cuda.codegen.terms.conditions import (
    Condition,
    below,
    fits,
    is_constant,
    is_count,
    is_no_longer,
    is_width,
    no_common_ones,
    not_zero,
    within_ones,
)
from vyre_cuda.codegen.terms.patterns import Pattern, apply, literal, variable
from vyre_cuda.ir.core.types import INTEGERS, Type
from vyre_cuda.records import FrozenRecord

ALL_PRECISIONS = ("ieee", "ftz", "fast")


class Rule(FrozenRecord):
    """left = right for operands of these types, in these precisions, under these conditions.

    All variables of `right` and of `when` occur in `left`.
    """

    name: str
    left: Pattern
    right: Pattern
    types: tuple[Type, ...] = INTEGERS
    precisions: tuple[str, ...] = ALL_PRECISIONS
    when: tuple[Condition, ...] = ()


UNSIGNED = tuple(type_ for type_ in INTEGERS if type_.kind == "unsigned")
# Of 8 and 16 bits ptxas makes as many instructions of a rotation as of two shifts and an or.
ROTATED = tuple(type_ for type_ in UNSIGNED if type_.bits >= 32)


def where(condition: Pattern, chosen: Pattern, other: Pattern | int) -> Pattern:
    return apply("where", condition, chosen, other)


def minimum(x: Pattern, y: Pattern) -> Pattern:
    return apply("minimum", x, y)


def maximum(x: Pattern, y: Pattern) -> Pattern:
    return apply("maximum", x, y)


def rotate_left(x: Pattern, count: Pattern) -> Pattern:
    return apply("rotate_left", x, count)


def trunc_divide(x: Pattern, y: Pattern) -> Pattern:
    return apply("trunc_divide", x, y)


def fmod(x: Pattern, y: Pattern) -> Pattern:
    return apply("fmod", x, y)


x, y, z, a, b = map(variable, "xyzab")
zero, ones = literal(0), literal(-1)
_IS_ROTATION = (is_constant(a), is_constant(b), is_count(a), is_count(b), is_width(a + b))
_TWO_CONSTANTS = (is_constant(a), is_constant(b))

RULES: tuple[Rule, ...] = (
    # Division. A zero divisor gives 0, so both parts of x are lost.
    Rule("quotient_and_rest_of_divisor", x // y * y + x % y, x, when=(not_zero(y),)),
    Rule("quotient_and_rest", x // y * y + x % y, where(y != 0, x, 0)),
    Rule("truncated_quotient_and_rest_of_divisor", trunc_divide(x, y) * y + fmod(x, y), x, when=(not_zero(y),)),
    Rule("truncated_quotient_and_rest", trunc_divide(x, y) * y + fmod(x, y), where(y != 0, x, 0)),
    Rule("rest_divided", (x % y) // y, zero),
    Rule("rest_of_rest", (x % y) % y, x % y),
    Rule("product_divided", x * y // y, x, when=(not_zero(y), fits(x * y))),
    Rule("rest_of_product", x * y % y, zero, when=(fits(x * y),)),
    Rule("row_of_index", (x * y + z) // y, x, when=(below(z, y), fits(x * y + z))),
    Rule("column_of_index", (x * y + z) % y, z, when=(below(z, y), fits(x * y + z))),
    Rule("small_divided", x // y, zero, when=(below(x, y),)),
    Rule("rest_of_small", x % y, x, when=(below(x, y),)),
    Rule(
        "divided_twice",
        x // a // b,
        x // (a * b),
        UNSIGNED,
        when=(*_TWO_CONSTANTS, not_zero(a), not_zero(b), fits(a * b), is_no_longer(x, a, b)),
    ),
    # Shifts and rotations.
    Rule("rotated_by_or", x << a | x >> b, rotate_left(x, a), ROTATED, when=_IS_ROTATION),
    Rule("rotated_by_xor", x << a ^ x >> b, rotate_left(x, a), ROTATED, when=_IS_ROTATION),
    Rule("rotated_by_sum", (x << a) + (x >> b), rotate_left(x, a), ROTATED, when=_IS_ROTATION),
    Rule(
        "right_shifted_twice",
        x >> a >> b,
        x >> a + b,
        when=(*_TWO_CONSTANTS, is_count(a), is_count(b), is_count(a + b)),
    ),
    # Bits.
    Rule("and_of_constants", x & a & b, x & (a & b), when=_TWO_CONSTANTS),
    Rule("or_of_constants", x | a | b, x | (a | b), when=_TWO_CONSTANTS),
    Rule("xor_of_constants", x ^ a ^ b, x ^ (a ^ b), when=_TWO_CONSTANTS),
    Rule("bits_within", x & a, x, when=(is_constant(a), within_ones(x, a))),
    Rule("bits_outside", x & a, zero, when=(is_constant(a), no_common_ones(x, a))),
    Rule("and_of_or_outside", (x | y) & a, x & a, when=(is_constant(a), no_common_ones(y, a))),
    Rule("xor_twice", x ^ y ^ y, x),
    Rule("and_absorbs_or", (x | y) & y, y),
    Rule("or_absorbs_and", x & y | y, y),
    Rule("and_with_invert", x & ~x, zero),
    Rule("or_with_invert", x | ~x, ones),
    # Order.
    Rule("minimum_of_maximum", minimum(maximum(x, y), y), y),
    Rule("maximum_of_minimum", maximum(minimum(x, y), y), y),
    Rule("minimum_of_constants", minimum(minimum(x, a), b), minimum(x, minimum(a, b)), when=_TWO_CONSTANTS),
    Rule("maximum_of_constants", maximum(maximum(x, a), b), maximum(x, maximum(a, b)), when=_TWO_CONSTANTS),
    Rule("smaller_chosen", where(x < y, x, y), minimum(x, y)),
    Rule("smaller_or_equal_chosen", where(x <= y, x, y), minimum(x, y)),
    Rule("greater_chosen", where(x < y, y, x), maximum(y, x)),
    Rule("greater_or_equal_chosen", where(x <= y, y, x), maximum(y, x)),
)
