"""Rules proved for all numbers of their widths, by a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.terms_rules.meaning import names
from tests.unit.terms_rules.test_rules import WIDE, WRONG
from vyre_cuda.codegen.terms.conditions import Condition
from vyre_cuda.codegen.terms.patterns import Pattern
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import Type, i16, u16
from vyre_cuda.later import later

if TYPE_CHECKING:
    import z3
else:
    z3 = later("z3")

pytestmark = pytest.mark.z3

LIMIT_MS = 60_000
Bits = Any

# Products, quotients and shifts by what is no constant: more than the solver can do in this time at 16 bits or more.
# They are checked for all numbers of 8 bits; why they hold for others is said here.
ARGUED = {
    "signed quotient_and_rest_of_divisor": "the rest is defined by x = x // y * y + x % y, and both sides wrap alike",
    "signed truncated_quotient_and_rest_of_divisor": "fmod is defined by x = trunc_divide(x, y) * y + fmod(x, y)",
    "quotient_and_rest": "with y != 0 as proved for a divisor, and with y = 0 both parts are 0",
    "truncated_quotient_and_rest": "with y != 0 as proved for a divisor, and with y = 0 both parts are 0",
    "rest_divided": "the rest lies between 0 and y, on y's side, so that the quotient is 0",
    "rest_of_rest": "the rest is its own rest",
    "product_divided": "the product is exact, so that y divides it x times",
    "rest_of_product": "the product is exact, a multiple of y; with y = 0 the rest is 0",
    "row_of_index": "x * y + z is exact with 0 <= z < y, which is how quotient and rest are defined",
    "column_of_index": "x * y + z is exact with 0 <= z < y, which is how quotient and rest are defined",
    "divided_twice": "floor(floor(x / a) / b) = floor(x / (a * b)) for exact a * b above 0",
}


def side(pattern: Pattern, type_: Type, variables: Mapping[str, Bits]) -> Bits:
    """The pattern as a term of the solver."""
    if pattern.op == "variable":
        return variables[pattern.name]
    if pattern.op == "literal":
        return z3.BitVecVal(pattern.number, type_.bits)
    parts = [side(part, type_, variables) for part in pattern.parts]
    return _op(pattern.op, type_, parts)


def _op(op: str, type_: Type, parts: list[Bits]) -> Bits:
    signed, width = type_.kind == "signed", type_.bits
    x, y = parts[0], parts[-1]
    match op:
        case "add":
            return x + y
        case "subtract":
            return x - y
        case "multiply":
            return x * y
        case "negative":
            return -x
        case "invert":
            return ~x
        case "bitwise_and":
            return x & y
        case "bitwise_or":
            return x | y
        case "bitwise_xor":
            return x ^ y
        case "equal":
            return x == y
        case "not_equal":
            return x != y
        case "less":
            return x < y if signed else z3.ULT(x, y)
        case "less_equal":
            return x <= y if signed else z3.ULE(x, y)
        case "where":
            return z3.If(x, parts[1], y)
        case "minimum":
            return z3.If(x < y if signed else z3.ULT(x, y), x, y)
        case "maximum":
            return z3.If(x < y if signed else z3.ULT(x, y), y, x)
        case "left_shift":
            return z3.If(z3.ULT(y, width), x << y, z3.BitVecVal(0, width))
        case "right_shift":  # of the solver both give what is left of the number, its sign or 0
            return x >> y if signed else z3.LShR(x, y)
        case "rotate_left":
            return z3.RotateLeft(x, y & (width - 1))
    return _quotient(op, signed, width, x, y)


def _quotient(op: str, signed: bool, width: int, x: Bits, y: Bits) -> Bits:
    """0 for a divisor of 0; the least number by -1 wraps."""
    quotient = x / y if signed else z3.UDiv(x, y)
    if signed and op in ("floor_divide", "remainder"):
        rest = z3.SRem(x, y)
        quotient = z3.If(z3.And(rest != 0, (rest ^ y) < 0), quotient - 1, quotient)
    if op in ("floor_divide", "trunc_divide"):
        result = quotient
    elif op in ("remainder", "fmod"):
        result = x - quotient * y
    else:
        raise KeyError(f"{op} is not known to the solver's side")
    return z3.If(y == 0, z3.BitVecVal(0, width), result)


def condition(of: Condition, type_: Type, variables: Mapping[str, Bits]) -> Bits:
    """A condition as a formula; exact integers are numbers of so many bits that nothing wraps."""
    wide = 3 * type_.bits + 2

    def exact(pattern: Pattern) -> Bits:
        if pattern.op == "variable":
            extended = z3.SignExt if type_.kind == "signed" else z3.ZeroExt
            return extended(wide - type_.bits, variables[pattern.name])
        if pattern.op == "literal":
            return z3.BitVecVal(pattern.number, wide)
        return _op(pattern.op, type_, [exact(part) for part in pattern.parts])

    first, last = of.patterns[0], of.patterns[-1]
    match of.name:
        case "is_constant":
            return z3.BoolVal(True)
        case "not_zero":
            return exact(first) != 0
        case "fits":
            return z3.And(exact(first) >= type_.minimum, exact(first) <= type_.maximum)
        case "below":
            return z3.And(exact(first) >= 0, exact(first) < exact(last))
        case "is_count":
            return z3.And(exact(first) >= 0, exact(first) < type_.bits)
        case "is_width":
            return exact(first) == type_.bits
        case "within_ones":
            return side(first, type_, variables) & ~side(last, type_, variables) == 0
        case "no_common_ones":
            return side(first, type_, variables) & side(last, type_, variables) == 0
    raise KeyError(f"{of.name} is not known to the solver's side")


def refuted(rule: Rule, type_: Type, limit_ms: int = LIMIT_MS) -> bool | None:
    """Whether there are numbers that satisfy the conditions and for which the sides differ; None: not found in time."""
    variables = {name: z3.BitVec(name, type_.bits) for name in names(rule)}
    solver = z3.Solver()
    solver.set("timeout", limit_ms)
    for each in rule.when:
        solver.add(condition(each, type_, variables))
    solver.add(side(rule.left, type_, variables) != side(rule.right, type_, variables))
    answer = solver.check()
    return None if answer == z3.unknown else bool(answer == z3.sat)


def is_argued(rule: Rule, type_: Type) -> bool:
    return rule.name in ARGUED or f"{type_.kind} {rule.name}" in ARGUED


PROVED = [
    pytest.param(rule, type_, id=f"{rule.name}-{type_}")
    for rule in RULES
    for type_ in WIDE
    if type_ in rule.types and not is_argued(rule, type_)
]


@pytest.mark.thin(35)
@pytest.mark.parametrize(("rule", "type_"), PROVED)
def test_a_rule_is_proved(rule: Rule, type_: Type) -> None:
    assert refuted(rule, type_) is False


def test_what_is_argued_is_about_rules() -> None:
    assert {name.split()[-1] for name in ARGUED} <= {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", [rule for rule in WRONG if rule.name != "zero_divisor"], ids=lambda rule: rule.name)
def test_a_wrong_rule_is_refuted(rule: Rule) -> None:
    """All but one, with a product of a quotient, for which the solver needs minutes."""
    assert any(refuted(rule, type_, 20_000) for type_ in (u16, i16))
