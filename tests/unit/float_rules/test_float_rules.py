"""Rules of f32 and f64 while values are made: what a rule makes is the plain form, by exact arithmetic.

A rule is tried on operands of all kinds that rules tell apart: what a launch gives, constants, what could be folded,
registers, and minima, magnitudes, negations, products and bits of these. Of a product and a sum of "fast" either is
right: rounded twice, or once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from tests.unit.float_rules import exact
from tests.unit.float_rules.values import Array, value_of
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.ssa import contraction, float_rules
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, f32, f64

Rule = Callable[..., "int | None"]

RULES: dict[str, Rule] = {**float_rules.RULES, **contraction.RULES}
ONE_OPERAND = frozenset({"negative", "absolute"})
_SUMS = {"add": exact.add, "subtract": exact.subtract, "multiply": exact.multiply}
_SIMPLE = (0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 1e-30, 3e38, float("inf"))


def numbers(type_: Type) -> list[int]:
    """Bits of floats around which rules change what they do, and some whose sums are half way."""
    sign = 1 << type_.bits - 1
    normal = 1 << (23 if type_ is f32 else 52)
    near = [1, 2, normal - 1, normal, normal + 1, bits_of(type_, 1.0) + 1, bits_of(type_, 2.0) - 1]
    near += [bits_of(type_, float(normal)) + 1, bits_of(type_, float("inf")) - 1]
    found = [bits_of(type_, number) for number in _SIMPLE] + near
    return [*found, *(bits | sign for bits in found), bits_of(type_, float("nan"))]


CONSTANTS = {type_: numbers(type_)[::3] + [bits_of(type_, n) for n in (-0.0, 1.0, 2.0, -2.0)] for type_ in (f32, f64)}


class Operands:
    """Values for one rule, and what they are."""

    def __init__(self, type_: Type, suffix: str) -> None:
        self.type = type_
        self.suffix = suffix
        self.b = Builder(Target.parse("sm_90"), {"": "ieee", ".ftz": "ftz", ".fast": "fast"}[suffix])
        self.given: dict[int, Array] = {}

    def leaf(self, op: str, bits: Array) -> int:
        """What only a launch knows, or a register, which a loop may make known."""
        name = str(self.type)
        made = self.b.function.fresh(op, name, (), self.b.function.register(name))
        self.given[made] = bits
        return made

    def word(self, bits: Array) -> int:
        word = f"u{self.type.bits}"
        made = self.b.function.fresh("parameter", word, (), len(self.given))
        self.given[made] = bits
        return made

    def of(self, kind: str, bits: Array, constant: int) -> int:
        """One operand; `bits` are those of what is not known, `constant` those of what is."""
        b, name = self.b, str(self.type)
        flushing = ".ftz" if self.suffix and self.type is f32 else ""
        known = b.constant(name, constant)
        match kind:
            case "launch":
                return self.leaf("parameter", bits)
            case "register":
                return self.leaf("read", bits)
            case "constant":
                return known
            case "folded":
                return b.in_register(known)
            case "bits":
                return b.convert(f"bits.{name}", name, self.word(bits))
            case "absolute" | "negative":
                return b.emit(f"{kind}{flushing}", name, (self.leaf("parameter", bits),))
            case "negative absolute":
                magnitude = b.emit(f"absolute{flushing}", name, (self.leaf("parameter", bits),))
                return b.emit(f"negative{flushing}", name, (magnitude,))
            case "fmin" | "fmax":
                return b.emit(f"{kind}{flushing}", name, (self.leaf("parameter", bits), known))
            case "fmin folded":
                return b.emit(f"fmin{flushing}", name, (self.leaf("parameter", bits), b.in_register(known)))
            case "product":
                return b.emit(f"multiply{flushing}", name, (self.leaf("parameter", bits), known))
        raise KeyError(kind)

    def value(self, value: int) -> Array:
        return value_of(self.b.function, value, self.given)


KINDS = (
    *("launch", "register", "constant", "folded", "bits", "absolute", "negative", "negative absolute"),
    *("fmin", "fmax", "fmin folded", "product"),
)

# Kinds in which a constant is, and those that are nothing else.
ALL_KNOWN = frozenset({"constant", "folded"})
KNOWN = ALL_KNOWN | {"fmin", "fmax", "fmin folded", "product"}


def plain(made: Operands, op: str, *operands: int) -> list[Array]:
    """What the op may give: its result, and of a sum with a product in "fast" that of one rounding."""
    name, type_ = op.removesuffix(made.suffix), made.type
    values = np.broadcast_arrays(*map(made.value, operands))
    if name not in _SUMS:
        return [value_of(made.b.function, made.b.function.unplaced(op, _result(name, type_), operands), made.given)]
    flush = exact.flushed if made.suffix and type_ is f32 else lambda _type, bits: bits
    rounded = [_each(_SUMS[name], flush, type_, values)]
    if made.suffix == ".fast" and name != "multiply":
        rounded += list(_contracted(made, name, flush, operands))
    return rounded


def _result(name: str, type_: Type) -> str:
    return "pred" if name.startswith("less") else str(type_)


def _each(op: Callable[..., int], flush: Callable[[Type, int], int], type_: Type, values: list[Array]) -> Array:
    found = [flush(type_, op(type_, *(flush(type_, int(bits)) for bits in case))) for case in zip(*values, strict=True)]
    return np.array(found, values[0].dtype)


def _contracted(
    made: Operands, name: str, flush: Callable[[Type, int], int], operands: tuple[int, ...]
) -> Iterator[Array]:
    function, sign = made.b.function, 1 << made.type.bits - 1
    for place, other in ((0, 1), (1, 0)):
        if not function.ops[operands[place]].startswith("multiply"):
            continue
        x, y = map(made.value, function.args[operands[place]])
        z = made.value(operands[other])
        if name == "subtract":
            x, z = (x, z ^ z.dtype.type(sign)) if place == 0 else (x ^ x.dtype.type(sign), z)
        yield _each(exact.fma, flush, made.type, np.broadcast_arrays(x, y, z))


def is_one_of(type_: Type, found: Array, allowed: list[Array]) -> Array:
    """Where the result is allowed; any NaN is one."""
    right = np.zeros(np.broadcast_shapes(found.shape, *(each.shape for each in allowed)), np.bool_)
    infinity = bits_of(type_, float("inf"))
    magnitude = (1 << type_.bits - 1) - 1
    for each in allowed:
        both = np.broadcast_arrays(found, each)
        right |= both[0] == both[1]
        if found.dtype != np.bool_:
            mask = found.dtype.type(magnitude)
            right |= ((both[0] & mask) > infinity) & ((both[1] & mask) > infinity)
    return right


def compared(op: str, rule: Rule, type_: Type) -> Counter[str]:
    """Cases in which the rule made something, by the kinds of operands; AssertionError if it is not the plain form."""
    suffix = next((each for each in (".ftz", ".fast") if op.endswith(each)), "")
    name = op.removesuffix(suffix)
    count: Counter[str] = Counter()
    for kinds in product(KINDS, repeat=1 if name in ONE_OPERAND else 2):
        constants = [CONSTANTS[type_] if kind in KNOWN else (0,) for kind in kinds]
        bits = [(0,) if kind in ALL_KNOWN else numbers(type_) for kind in kinds]
        cases = np.array([*product(*bits)], f"u{type_.itemsize}")
        for known in product(*constants):
            made = Operands(type_, suffix)
            each = zip(kinds, cases[:: 29 if len(cases) > 100 else 1].T, known, strict=True)
            operands = [made.of(*of) for of in each]
            result = rule(made.b, str(type_), *operands)
            if result is None:
                continue
            right = is_one_of(type_, made.value(result), plain(made, op, *operands))
            assert right.all(), f"{op} of {type_} on {' and '.join(kinds)} with {[hex(bits) for bits in known]}"
            count[" and ".join(kinds)] += len(right)
    return count


# f64 is never flushed.
ROWS = [(op, type_) for op in RULES for type_ in (f32, f64) if type_ is f32 or not op.endswith(".ftz")]
# Rules that leave all operands of f64 alone.
OF_F32 = frozenset({"add", "subtract", "less", "less_equal"})


@pytest.mark.thin(4)
@pytest.mark.parametrize(("op", "type_"), ROWS, ids=str)
def test_what_a_rule_makes_is_the_plain_form(op: str, type_: Type) -> None:
    count = compared(op, RULES[op], type_)

    assert bool(count) == (type_ is f32 or op not in OF_F32), count


# ---- planted mistakes -----------------------------------------------------------------------------------------------


def _difference_the_wrong_way_round(b: Builder, type_: str, left: int, right: int) -> int | None:
    if type_ != "f32":
        return None
    return b.emit("fma", type_, (left, b.constant(type_, 0xBF800000), right))


def _difference_that_adds(b: Builder, type_: str, left: int, right: int) -> int | None:
    made = RULES["add"](b, type_, left, right)
    return None if made is None else int(made)


def _product_not_negated(b: Builder, type_: str, left: int, right: int) -> int | None:
    if not b.function.ops[right].startswith("multiply"):
        return None
    return b.emit("fma.ftz" if type_ == "f32" else "fma", type_, (*b.function.args[right], left))


def _difference_of_two_and_one(b: Builder, type_: str, left: int, right: int) -> int | None:
    """x * 2 - x is x, but not for infinities and zeros."""
    function = b.function
    if not function.ops[left].startswith("multiply"):
        return None
    x, factor = function.args[left]
    doubles = b.constant_of(factor) == bits_of(f32, 2.0)
    return b.apply("negative", right) if doubles and function.ops[right] == "negative" else x if doubles else None


def _order_that_forgets_nan(b: Builder, type_: str, left: int, right: int) -> int | None:
    asked = RULES["less_equal"](b, type_, left, right)
    return None if asked is None else b.true


@pytest.mark.parametrize(
    ("op", "rule", "type_"),
    [
        ("subtract", _difference_the_wrong_way_round, f32),
        ("subtract", _difference_that_adds, f32),
        ("subtract.fast", _product_not_negated, f32),
        ("subtract.fast", _product_not_negated, f64),
        ("subtract.fast", _difference_of_two_and_one, f32),
        ("less_equal", _order_that_forgets_nan, f32),
        ("fmax", lambda b, type_, left, right: b.emit("fmin", type_, (left, right)), f64),
        ("absolute", lambda b, type_, value: value, f32),
    ],
)
def test_a_wrong_rule_is_found(op: str, rule: Rule, type_: Type) -> None:
    with pytest.raises(AssertionError):
        compared(op, rule, type_)
