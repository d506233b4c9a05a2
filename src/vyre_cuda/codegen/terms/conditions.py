"""What a rule may require of its variables.

Each condition is defined twice: `known` asks what is known where the rule would be applied, and may say no although
the condition holds; `holds` says whether it does for given numbers, and is what the rule is checked against. So `known`
must imply `holds` for all numbers that the facts allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from vyre_cuda.codegen.terms import costs
from vyre_cuda.codegen.terms.patterns import Pattern
from vyre_cuda.errors import InternalError
from vyre_cuda.ir.core.types import Type
from vyre_cuda.records import FrozenRecord

Interval: TypeAlias = tuple[int, int]


class Facts(Protocol):
    """What is known about terms, which are numbered."""

    def interval(self, term: int) -> Interval:
        """The least and greatest exact integer that an integer term can be."""

    def ones(self, term: int) -> int:
        """The bits of an integer term that can be 1, as an unsigned number."""

    def constant(self, term: int) -> int | None:
        """The bits of a term that is a constant, as an unsigned number; None for others."""


Known: TypeAlias = Callable[..., bool]  # (facts, type, terms by name, patterns...)
Holds: TypeAlias = Callable[..., bool]  # (type, numbers by name, patterns...)


class Condition(FrozenRecord):
    """One requirement on patterns, mostly variables."""

    name: str
    patterns: tuple[Pattern, ...]

    def known(self, facts: Facts, type_: Type, terms: Mapping[str, int]) -> bool:
        """Whether the facts prove it for these terms."""
        return _CONDITIONS[self.name][0](facts, type_, terms, *self.patterns)

    def holds(self, type_: Type, numbers: Mapping[str, int]) -> bool:
        """Whether it holds where the variables have these values: integers, or the bits of floats."""
        return _CONDITIONS[self.name][1](type_, numbers, *self.patterns)


def exact(pattern: Pattern, numbers: Mapping[str, int]) -> int:
    """A pattern of + - and * on exact integers."""
    if pattern.op == "variable":
        return numbers[pattern.name]
    if pattern.op == "literal":
        return pattern.number
    left, right = (exact(part, numbers) for part in pattern.parts)
    if pattern.op == "add":
        return left + right
    if pattern.op == "subtract":
        return left - right
    if pattern.op == "multiply":
        return left * right
    raise InternalError(f"{pattern.op} in a condition")


def _interval(pattern: Pattern, facts: Facts, terms: Mapping[str, int]) -> Interval:
    """What the pattern can be on exact integers."""
    if pattern.op == "variable":
        return facts.interval(terms[pattern.name])
    if pattern.op == "literal":
        return pattern.number, pattern.number
    (a, b), (c, d) = (_interval(part, facts, terms) for part in pattern.parts)
    if pattern.op == "add":
        return a + c, b + d
    if pattern.op == "subtract":
        return a - d, b - c
    if pattern.op == "multiply":
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    raise InternalError(f"{pattern.op} in a condition")


# ---- the vocabulary -------------------------------------------------------------------------------------------------


def is_constant(x: Pattern) -> Condition:
    """x is a literal. It says nothing about its value; a rule that needs it would not pay for other operands."""
    return Condition("is_constant", (x,))


def _constant_known(facts: Facts, _type: Type, terms: Mapping[str, int], x: Pattern) -> bool:
    return facts.constant(terms[x.name]) is not None


def _constant_holds(_type: Type, _numbers: Mapping[str, int], _x: Pattern) -> bool:
    return True


def not_zero(x: Pattern) -> Condition:
    """x != 0."""
    return Condition("not_zero", (x,))


def _not_zero_known(facts: Facts, _type: Type, terms: Mapping[str, int], x: Pattern) -> bool:
    low, high = facts.interval(terms[x.name])
    return low > 0 or high < 0


def _not_zero_holds(_type: Type, numbers: Mapping[str, int], x: Pattern) -> bool:
    return numbers[x.name] != 0


def fits(x: Pattern) -> Condition:
    """The exact value of x is one of the type: it does not wrap."""
    return Condition("fits", (x,))


def _fits_known(facts: Facts, type_: Type, terms: Mapping[str, int], x: Pattern) -> bool:
    low, high = _interval(x, facts, terms)
    return type_.minimum <= low and high <= type_.maximum


def _fits_holds(type_: Type, numbers: Mapping[str, int], x: Pattern) -> bool:
    return type_.minimum <= exact(x, numbers) <= type_.maximum


def below(x: Pattern, y: Pattern) -> Condition:
    """0 <= x < y."""
    return Condition("below", (x, y))


def _below_known(facts: Facts, _type: Type, terms: Mapping[str, int], x: Pattern, y: Pattern) -> bool:
    low, high = _interval(x, facts, terms)
    return low >= 0 and high < _interval(y, facts, terms)[0]


def _below_holds(_type: Type, numbers: Mapping[str, int], x: Pattern, y: Pattern) -> bool:
    return 0 <= exact(x, numbers) < exact(y, numbers)


def is_count(x: Pattern) -> Condition:
    """x is a shift count below the width: 0 <= x < bits, on exact integers."""
    return Condition("is_count", (x,))


def _is_count_known(facts: Facts, type_: Type, terms: Mapping[str, int], x: Pattern) -> bool:
    low, high = _interval(x, facts, terms)
    return low >= 0 and high < type_.bits


def _is_count_holds(type_: Type, numbers: Mapping[str, int], x: Pattern) -> bool:
    return 0 <= exact(x, numbers) < type_.bits


def is_width(x: Pattern) -> Condition:
    """x is the number of bits of the type, on exact integers."""
    return Condition("is_width", (x,))


def _is_width_known(facts: Facts, type_: Type, terms: Mapping[str, int], x: Pattern) -> bool:
    return _interval(x, facts, terms) == (type_.bits, type_.bits)


def _is_width_holds(type_: Type, numbers: Mapping[str, int], x: Pattern) -> bool:
    return exact(x, numbers) == type_.bits


def is_no_longer(x: Pattern, a: Pattern, b: Pattern) -> Condition:
    """x // (a * b) takes hardly more instructions than x // a // b without x // a, which may be needed besides. It says
    nothing about values.
    """
    return Condition("is_no_longer", (x, a, b))


def _is_no_longer_known(
    facts: Facts, type_: Type, terms: Mapping[str, int], x: Pattern, a: Pattern, b: Pattern
) -> bool:
    first, second = facts.constant(terms[a.name]), facts.constant(terms[b.name])
    if first is None or second is None or not first or not second:
        return False
    highest, bits = facts.interval(terms[x.name])[1], max(type_.bits, 32)
    together = costs.steps_of_division(first * second, highest, bits)
    return together <= costs.steps_of_division(second, highest // first, bits) + 1


def _is_no_longer_holds(_type: Type, _numbers: Mapping[str, int], _x: Pattern, _a: Pattern, _b: Pattern) -> bool:
    return True


def within_ones(x: Pattern, y: Pattern) -> Condition:
    """Where x has a 1 bit, y has one."""
    return Condition("within_ones", (x, y))


def _within_ones_known(facts: Facts, _type: Type, terms: Mapping[str, int], x: Pattern, y: Pattern) -> bool:
    ones = facts.constant(terms[y.name])
    return ones is not None and not facts.ones(terms[x.name]) & ~ones


def _within_ones_holds(type_: Type, numbers: Mapping[str, int], x: Pattern, y: Pattern) -> bool:
    return not numbers[x.name] & ~numbers[y.name] & ((1 << type_.bits) - 1)


def no_common_ones(x: Pattern, y: Pattern) -> Condition:
    """x and y have no 1 bit in common."""
    return Condition("no_common_ones", (x, y))


def _no_common_ones_known(facts: Facts, _type: Type, terms: Mapping[str, int], x: Pattern, y: Pattern) -> bool:
    return not facts.ones(terms[x.name]) & facts.ones(terms[y.name])


def _no_common_ones_holds(type_: Type, numbers: Mapping[str, int], x: Pattern, y: Pattern) -> bool:
    return not numbers[x.name] & numbers[y.name] & ((1 << type_.bits) - 1)


_CONDITIONS: dict[str, tuple[Known, Holds]] = {
    "is_constant": (_constant_known, _constant_holds),
    "not_zero": (_not_zero_known, _not_zero_holds),
    "fits": (_fits_known, _fits_holds),
    "below": (_below_known, _below_holds),
    "is_count": (_is_count_known, _is_count_holds),
    "is_width": (_is_width_known, _is_width_holds),
    "is_no_longer": (_is_no_longer_known, _is_no_longer_holds),
    "within_ones": (_within_ones_known, _within_ones_holds),
    "no_common_ones": (_no_common_ones_known, _no_common_ones_holds),
}
