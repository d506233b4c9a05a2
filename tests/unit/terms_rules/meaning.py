"""What the sides of a rule and its conditions are on arrays of numbers.

Ops have the meaning of `ir/semantics`; conditions are written here a second time, on exact integers, and compared with
their own definition in `test_conditions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vyre_cuda.codegen.terms.conditions import Condition
from vyre_cuda.codegen.terms.patterns import Pattern, variables
from vyre_cuda.codegen.terms.rules import Rule
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import Type, bool_
from vyre_cuda.ir.semantics import elementwise

Array = np.ndarray[Any, np.dtype[Any]]
Numbers = Mapping[str, Array]

_TRUTHS = frozenset(("equal", "not_equal", "less", "less_equal"))


def value(pattern: Pattern, type_: Type, numbers: Numbers) -> Array:
    """The pattern with arrays of this type for its variables."""
    if pattern.op == "variable":
        return numbers[pattern.name]
    if pattern.op == "literal":
        return elementwise.constant(type_, pattern.number & ((1 << type_.bits) - 1))
    operands = [value(part, type_, numbers) for part in pattern.parts]
    if pattern.op not in OPS:
        raise KeyError(f"{pattern.op} is no op")
    with np.errstate(all="ignore"):
        return elementwise.apply(pattern.op, type_, bool_ if pattern.op in _TRUTHS else type_, operands)


def differing(rule: Rule, type_: Type, numbers: Numbers) -> tuple[int, dict[str, int] | None]:
    """How many of these numbers satisfy the conditions, and the first for which the sides differ all the same."""
    allowed = np.broadcast_to(np.bool_(True), np.broadcast_shapes(*(each.shape for each in numbers.values())))
    for condition in rule.when:
        allowed = allowed & satisfied(condition, type_, numbers)
    if not allowed.any():
        return 0, None
    chosen = {name: np.broadcast_to(each, allowed.shape)[allowed] for name, each in numbers.items()}
    left, right = (np.broadcast_to(value(s, type_, chosen), (len(chosen["x"]),)) for s in (rule.left, rule.right))
    wrong = np.flatnonzero(left.view(f"u{left.itemsize}") != right.view(f"u{right.itemsize}"))
    example = {name: int(each[wrong[0]]) for name, each in chosen.items()} if len(wrong) else None
    return len(chosen["x"]), example


def names(rule: Rule) -> tuple[str, ...]:
    """The variables of a rule."""
    return variables(rule.left)


# ---- conditions -----------------------------------------------------------------------------------------------------


def satisfied(condition: Condition, type_: Type, numbers: Numbers) -> Array:
    """For which of these numbers the condition holds."""
    return _HOLDS[condition.name](type_, numbers, *condition.patterns)


def _exact(pattern: Pattern, type_: Type, numbers: Numbers) -> Array:
    """On integers that do not wrap: Python's own where the results do not fit 64 bits."""
    if pattern.op == "variable":
        return numbers[pattern.name].astype(np.int64 if type_.bits <= 16 else object)
    if pattern.op == "literal":
        return np.array([pattern.number], np.int64 if type_.bits <= 16 else object)
    left, right = (_exact(part, type_, numbers) for part in pattern.parts)
    return {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[pattern.op](left, right)


def _within(low: int, number: Array, high: int) -> Array:
    return ((low <= number) & (number <= high)).astype(np.bool_)


_HOLDS: dict[str, Callable[..., Any]] = {
    "is_constant": lambda type_, numbers, x: np.bool_(True),
    "is_no_longer": lambda type_, numbers, x, a, b: np.bool_(True),
    "not_zero": lambda type_, numbers, x: numbers[x.name] != 0,
    "fits": lambda type_, numbers, x: _within(type_.minimum, _exact(x, type_, numbers), type_.maximum),
    "below": lambda type_, numbers, x, y: (
        (_exact(x, type_, numbers) >= 0) & (_exact(x, type_, numbers) < _exact(y, type_, numbers))
    ).astype(np.bool_),
    "is_count": lambda type_, numbers, x: _within(0, _exact(x, type_, numbers), type_.bits - 1),
    "is_width": lambda type_, numbers, x: _within(type_.bits, _exact(x, type_, numbers), type_.bits),
    "within_ones": lambda type_, numbers, x, y: (numbers[x.name] & ~numbers[y.name]) == 0,
    "no_common_ones": lambda type_, numbers, x, y: (numbers[x.name] & numbers[y.name]) == 0,
}
CONDITIONS = tuple(_HOLDS)
