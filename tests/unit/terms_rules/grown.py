"""Programs grown from the left sides of rules, so that every rule is met: random programs seldom meet one.

An instance is the left side with a literal, or a number between two bounds, for each variable; the bounds are drawn
until the facts prove the conditions. Most variables of which no condition speaks have no bounds, and few literals are
0 or 1: other rules know more of those. What lies between the bounds is an element, or ops on one and literals, so that
there are many instances of each rule. A program has many instances, each of which stores a result of its own. Whether
the rule fired in an instance, so that what it made is computed, is seen while it is lowered (`watched.py`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import vyre_cuda as vc
from tests.unit.terms_rules import watched
from tests.unit.terms_rules.meaning import Array, names
from tests.unit.terms_rules.operands import some
from vyre_cuda.codegen.terms.patterns import Pattern
from vyre_cuda.codegen.terms.patterns import variables as variables_of
from vyre_cuda.codegen.terms.rules import Rule
from vyre_cuda.ir.core.nodes import Apply, Const, Expr, Load, Local, Stmt, Store
from vyre_cuda.ir.core.ops import OPS
from vyre_cuda.ir.core.types import Type

INSTANCES = 16
ELEMENTS = 32
_TRIES = 20_000
_PRODUCTS = {"multiply", "floor_divide", "trunc_divide", "remainder", "fmod"}

Interval = tuple[int, int]

# What stands around the instances, which are put into it as they are.
_FRAME = """program grown
block {}
{}
out out: {}[multiply(size(x), u32:{})]
work size(x)

let i = global_id.x
"""
_I = Local(vc.u32, "i")


class Bounds:
    """What is known of variables that lie between bounds."""

    def __init__(self, type_: Type, intervals: Mapping[str, Interval]) -> None:
        self._type = type_
        self._intervals = list(intervals.values())

    def interval(self, term: int) -> Interval:
        return self._intervals[term]

    def ones(self, term: int) -> int:
        low, high = self._intervals[term]
        every = (1 << self._type.bits) - 1
        if low == high:
            return low & every
        return every if low < 0 else (1 << high.bit_length()) - 1

    def constant(self, term: int) -> int | None:
        low, high = self._intervals[term]
        return low & ((1 << self._type.bits) - 1) if low == high else None


def _number(rng: random.Random, type_: Type, most: int) -> int:
    """Of any size, small ones as often as large ones; most have at most so many bits."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randrange(min(type_.bits + 1, type_.maximum))
    if kind == 1 and most == type_.bits:
        return rng.choice((type_.minimum, type_.maximum, type_.maximum - 1, 1))
    number = rng.getrandbits(rng.randrange(1, most + (type_.minimum == 0)))
    return -number if kind == 2 and type_.minimum < 0 else number


def _mask(rule: Rule, type_: Type, rng: random.Random) -> dict[str, Interval]:
    """Bounds of a number and a literal, of which one has the upper bits or the other all that the first can have."""
    for condition in rule.when:
        if condition.name in ("within_ones", "no_common_ones"):
            bits = rng.randrange(1, type_.bits)
            low, high = sorted(rng.randrange(1 << rng.randrange(1, bits + 1)) for _ in range(2))
            upper = rng.randrange(1, 1 << type_.bits - bits) << bits
            if condition.name == "within_ones":
                upper = (upper | (1 << bits) - 1) & ~(1 << rng.randrange(bits, type_.bits))
            mask = upper - (1 << type_.bits) if upper > type_.maximum else upper
            number, literal = (pattern.name for pattern in condition.patterns)
            return {number: (low, min(high, type_.maximum)), literal: (mask, mask)}
    return {}


def _element(name: str, type_: Type, rng: random.Random) -> Expr:
    """An element of an array, mostly with ops on it, so that there are many also of 8 bits."""
    element: Expr = Load(type_, name, _I)
    for op in (rng.choice(("", "multiply")), rng.choice(("", "bitwise_xor", "add", "subtract"))):
        number = rng.getrandbits(type_.bits) | 1
        element = Apply(type_, op, (element, _literal(type_, number))) if op else element
    return element


def _ops(pattern: Pattern) -> set[str]:
    return {pattern.op}.union(*map(_ops, pattern.parts))


def _intervals(rule: Rule, type_: Type, rng: random.Random) -> dict[str, Interval]:
    """Bounds under which the conditions are known to hold."""
    used = names(rule)
    asked = {name for condition in rule.when for pattern in condition.patterns for name in variables_of(pattern)}
    constants = {c.patterns[0].name for c in rule.when if c.name == "is_constant"}
    are_masks = {c.name for c in rule.when} == {"is_constant"}
    trivial = {0, 1} if _ops(rule.left) & _PRODUCTS else {0}  # literals with which an op is its operand, or nothing
    must_fit = any(c.name == "fits" for c in rule.when)
    widths = any(c.name == "is_width" for c in rule.when)
    few = (
        4 if rule.when else 12
    )  # one in so many variables is a literal, with which rules without conditions are seldom
    for _ in range(_TRIES):
        found: dict[str, Interval] = {}
        most = rng.randrange(2, type_.bits // 2 + 1) if must_fit and rng.randrange(8) else type_.bits
        for name in used:
            if rule.when and name not in asked and rng.randrange(8):
                found[name] = type_.minimum, type_.maximum  # other rules know what is small
                continue
            if are_masks and name in constants and rng.randrange(8):
                mask = rng.randint(type_.minimum, type_.maximum)
                found[name] = mask, mask
                continue
            ends = sorted((_number(rng, type_, most), _number(rng, type_, most)))
            is_literal = name in constants or rng.randrange(few) == 0
            found[name] = (ends[0], ends[0]) if is_literal else (ends[0], ends[1])
        if widths:
            count = rng.randrange(1, type_.bits)
            found["a"], found["b"] = (count, count), (type_.bits - count, type_.bits - count)
        elif not rule.when and rng.randrange(8) >= (7 if len(used) == 1 else 2):  # of one variable there are few
            found = dict.fromkeys(used, (type_.minimum, type_.maximum))
        found |= _mask(rule, type_, rng)
        if all(low == high for low, high in found.values()):
            continue  # it would be folded
        if rng.randrange(8) and any(low == high and low in trivial for low, high in found.values()):
            continue
        facts = Bounds(type_, found)
        terms = {name: term for term, name in enumerate(found)}
        if all(condition.known(facts, type_, terms) for condition in rule.when):
            return found
    raise ValueError(f"no bounds found for which the conditions of {rule.name} hold in {type_}")


def _expression(pattern: Pattern, type_: Type, variables: Mapping[str, Expr]) -> Expr:
    if pattern.op == "variable":
        return variables[pattern.name]
    if pattern.op == "literal":
        return _literal(type_, pattern.number)
    parts = tuple([_expression(part, type_, variables) for part in pattern.parts])
    return Apply(vc.bool_ if OPS[pattern.op].result == "bool" else type_, pattern.op, parts)


def _literal(type_: Type, number: int) -> Const:
    return Const(type_, number & ((1 << type_.bits) - 1))


def _bounded(element: Expr, type_: Type, low: int, high: int) -> Expr:
    above = Apply(type_, "maximum", (element, _literal(type_, low)))
    return Apply(type_, "minimum", (above, _literal(type_, high)))


def program(rule: Rule, type_: Type, seed: int, instances: int = INSTANCES) -> vc.Program:
    """Instances of the rule: out[k * ELEMENTS + i] is the left side of the k-th, in statement k + 1."""
    rng = random.Random(f"{rule.name} {type_} {seed}")
    used = names(rule)
    stores: list[Stmt] = []
    for k in range(instances):
        variables: dict[str, Expr] = {}
        for name, (low, high) in _intervals(rule, type_, rng).items():
            element = _element(name, type_, rng)
            whole = (low, high) == (type_.minimum, type_.maximum)
            number = _literal(type_, low) if low == high else element
            variables[name] = number if low == high or whole else _bounded(element, type_, low, high)
        place = Apply(vc.u32, "add", (_I, Const(vc.u32, k * ELEMENTS)))
        stores.append(Store("out", place, _expression(rule.left, type_, variables)))
    frame = vc.parse(_FRAME.format(ELEMENTS, "\n".join(f"in {name}: {type_}" for name in used), type_, instances))
    return replace(frame, body=(*frame.body, *stores))


def operands(rule: Rule, type_: Type, seed: int) -> tuple[Array, ...]:
    """Numbers for the variables, from which the bounds choose."""
    return tuple(np.ascontiguousarray(each) for each in some(names(rule), type_, seed, ELEMENTS).values())


def fired(rule: Rule, grown: vc.Program) -> set[int]:
    """The instances in which what the rule made is computed."""
    return {statement - 1 for statement in watched.statements(rule.name, grown)}
