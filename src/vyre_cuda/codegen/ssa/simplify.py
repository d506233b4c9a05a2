"""Rules that simplify a value before it is made: constants fold, identities vanish, decided comparisons are constants.

Every rewrite keeps every bit, so floating-point arithmetic is left alone; the assembler folds what it may, and what it
folds wrongly is handled in `float_rules.py`. Commutative operands arrive with constants last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import BITS
from vyre_cuda.codegen.ssa import float_rules
from vyre_cuda.codegen.ssa.foldable import may_fold
from vyre_cuda.codegen.ssa.intervals import FULL, wrap
from vyre_cuda.codegen.ssa.logic import compared, of_two
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.ssa import contraction
    from vyre_cuda.codegen.ssa.peephole import Builder
else:
    contraction = later("vyre_cuda.codegen.ssa.contraction")

# (builder, operand type, operands) -> a simpler value, or None
Rule = Callable[..., "int | None"]

# Rules that find nothing unless the operand on the right is a constant.
OF_CONSTANTS: set[Rule] = set()


def _chain(*rules: Callable[[Builder, str, int, int], int | None]) -> Rule:
    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        for each in rules:
            simpler = each(b, type_, left, right)
            if simpler is not None:
                return simpler
        return None

    return rule


def _by_constant(
    fold: Callable[[int, int], int],
    *others: Callable[[Builder, str, int, int], int | None],
    neutral: int | None = None,
    zero: int | None = None,
    same: Callable[[Builder, str, int, int], int | None] | None = None,
) -> Rule:
    """An op on integers with a constant on the right: folded, x op neutral = x, x op zero = zero, and other rules;
    `same` is the rule where that is not a constant.
    """

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        function = b.function
        if function.ops[right] != "const":
            return same(b, type_, left, right) if same is not None else None
        if type_ not in FULL:
            return None
        constant = function.attrs[right]
        if function.ops[left] == "const":
            return b.constant(type_, wrap(type_, fold(function.attrs[left], constant)))
        if constant == neutral:
            return left
        if constant == zero:
            return right
        for each in others:
            simpler = each(b, type_, left, right)
            if simpler is not None:
                return simpler
        return None

    if same is None:
        OF_CONSTANTS.add(rule)
    return rule


def _same_zero(b: Builder, type_: str, left: int, right: int) -> int | None:
    return b.constant(type_, 0) if left == right and type_ in FULL else None


def _same_same(_b: Builder, type_: str, left: int, right: int) -> int | None:
    return left if left == right and type_ in FULL else None


def _and_mask(b: Builder, type_: str, left: int, right: int) -> int | None:
    """x & (2^k - 1) = x for x below 2^k; x & -1 = x."""
    mask = b.constant_of(right)
    if mask is None or type_ not in FULL:
        return None
    low, high = b.facts.range(left)
    covered = mask == wrap(type_, -1) or (mask & (mask + 1) == 0 and low >= 0 and high <= mask)
    return left if covered else None


def _shift(name: str, op: Callable[[int, int], int]) -> Rule:
    """Counts are 32-bit numbers read as unsigned; all from the width on are equivalent, and none is written to the
    text.

    This is needed for correctness: ptxas takes some of them modulo 64 (docs/compiler-defects.md, shift-by-width).
    """

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        count, value, width = b.constant_of(right), b.constant_of(left), BITS[type_]
        if count == 0 or value == 0:
            return left
        if b.facts.unsigned_range(right)[0] >= width:
            if name == "left_shift" or type_[0] == "u":
                return b.constant(type_, 0)
            return b.apply(name, left, b.constant("u32", width - 1)) if count != width - 1 else None
        if count is None or value is None:
            return None
        return b.constant(type_, wrap(type_, op(value, count)))

    return rule


def _right_shift_of_a_sign(b: Builder, type_: str, left: int, right: int) -> int | None:
    """The upper bytes of what a signed number of 16 bits is extended to are its sign, and said to be.

    Where a float is made of them, ptxas takes those of the number of 16 bits instead (docs/compiler-defects.md).
    """
    function, count = b.function, b.constant_of(right)
    if type_ != "u32" or count not in (16, 24) or function.ops[left] != "retype":
        return None
    number = function.args[left][0]
    if function.types[number] != "s32":
        return None
    low, high = b.facts.range(number)
    if low < -(1 << 15) or high >= 1 << 15:
        return None
    sign = b.convert("retype", "u32", b.apply("right_shift", number, b.constant("u32", 31)))
    return b.apply("bitwise_and", sign, b.constant("u32", (1 << 32 - count) - 1))


def _right_shift_of_a_negation(b: Builder, type_: str, left: int, right: int) -> int | None:
    plain = _without_negation(b, left) if type_ == "s32" else left
    return None if plain == left else b.apply("right_shift", plain, right)


def _negated(place: int, constant: int) -> Callable[[Builder, str, int, int], int | None]:
    """x * -1 and 0 - x as -x."""

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        operands = (left, right)
        if type_ not in FULL or b.constant_of(operands[place]) != wrap(type_, constant):
            return None
        return b.apply("negative", operands[1 - place])

    return rule


def _of_shifted(b: Builder, type_: str, left: int, right: int) -> int | None:
    """(x << k) * m = x * (m << k): of the former and a sum ptxas makes one with a constant of 32 bits, in 64."""
    function, factor = b.function, b.constant_of(right)
    if type_ not in ("u64", "s64") or factor is None:
        return None
    shifted = function.args[left][0] if function.ops[left] == "retype" else left
    if function.ops[shifted] != "left_shift":
        return None
    value, count = function.args[shifted]
    places = b.constant_of(count)
    if places is None:
        return None
    return b.apply("multiply", b.convert("retype", type_, value), b.integer(type_, factor << places))


def _multiply_high(b: Builder, type_: str, left: int, right: int) -> int | None:
    if b.constant_of(right) == 0:
        return right
    if b.is_constant(left) and b.is_constant(right):
        attrs = b.function.attrs
        return b.constant(type_, wrap(type_, attrs[left] * attrs[right] >> BITS[type_]))
    return None


def _fold_negative(b: Builder, type_: str, value: int) -> int | None:
    constant = b.constant_of(value)
    if constant is None:
        return None
    sign = 1 << (BITS[type_] - 1)
    return b.constant(type_, wrap(type_, -constant) if type_ in FULL else constant ^ sign)


def _fold_absolute(b: Builder, type_: str, value: int) -> int | None:
    constant = b.constant_of(value)
    if constant is not None:
        sign = 1 << (BITS[type_] - 1)
        return b.constant(type_, wrap(type_, abs(constant)) if type_ in FULL else constant & ~sign)
    if type_ not in FULL:
        return None
    low, high = b.facts.range(value)
    return value if low >= 0 else _larger_of_both_signs(b, type_, value, max(-low, high))


def _larger_of_both_signs(b: Builder, type_: str, value: int, most: int) -> int:
    """|x| as max(x, -x): of abs.s32 and abs.s64 ptxas believes that they are never negative."""
    result = b.apply("maximum", value, b.apply("negative", value))
    if most <= FULL[type_][1]:
        b.facts.set_range(result, 0, most)
    return result


def _fold_invert(b: Builder, type_: str, value: int) -> int | None:
    constant = b.constant_of(value)
    return None if constant is None else b.constant(type_, wrap(type_, ~constant))


def _extreme(op: str) -> Rule:
    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        if type_ not in FULL:
            return None
        if left == right:
            return left
        (low_l, high_l), (low_r, high_r) = b.facts.range(left), b.facts.range(right)
        if high_l <= low_r:
            return left if op == "minimum" else right
        if high_r <= low_l:
            return right if op == "minimum" else left
        plain = (_without_negation(b, left), _without_negation(b, right)) if type_ == "s32" else (left, right)
        return None if plain == (left, right) else b.apply(op, *plain)

    return rule


def _without_negation(b: Builder, value: int) -> int:
    """-x as ~x + 1: ptxas loses the sign where it makes one instruction of two minima or maxima, or of a right shift
    and a sum (docs/compiler-defects.md).
    """
    function = b.function
    negated = function.args[value][0] if function.ops[value] == "retype" else value
    if function.ops[negated] != "negative":
        return value
    type_ = function.types[negated]
    plain = b.apply("add", b.apply("invert", function.args[negated][0]), b.constant(type_, 1))
    return b.convert("retype", function.types[value], plain)


def _order(strict: bool) -> Rule:
    """less, less_equal: decided by intervals, and in the unsigned order also by what was assumed."""

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        if type_ not in FULL:
            return None
        if left == right:
            return b.false if strict else b.true
        facts = b.facts
        (low_l, high_l), (low_r, high_r) = facts.tight_range(left), facts.tight_range(right)
        if high_l + strict <= low_r:
            return b.true
        if high_r + (not strict) <= low_l:
            return b.false
        if low_l >= 0 and low_r >= 0:
            if facts.proves_less(left, right, strict=strict):
                return b.true
            if facts.proves_less(right, left, strict=not strict):
                return b.false
        return compared(b, "less" if strict else "less_equal", left, right)

    return rule


def _equality(equal: bool) -> Rule:
    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        if type_ not in FULL:
            return None
        if left == right:
            return b.true if equal else b.false
        (low_l, high_l), (low_r, high_r) = b.facts.range(left), b.facts.range(right)
        if high_l < low_r or high_r < low_l:
            return b.false if equal else b.true
        if low_l == high_l == low_r == high_r:
            return b.true if equal else b.false
        return compared(b, "equal" if equal else "not_equal", left, right)

    return rule


def _logical_and(b: Builder, _type: str, left: int, right: int) -> int | None:
    if left == right or right == b.true:
        return left
    if right == b.false:
        return b.false
    return of_two(b, "logical_and", left, right)


def _logical_or(b: Builder, _type: str, left: int, right: int) -> int | None:
    if left == right or right == b.false:
        return left
    if right == b.true:
        return b.true
    return of_two(b, "logical_or", left, right)


def _logical_xor(b: Builder, _type: str, left: int, right: int) -> int | None:
    if left == right:
        return b.false
    if right == b.false:
        return left
    if right == b.true:
        return b.apply("logical_not", left)
    return of_two(b, "logical_xor", left, right)


_OPPOSITE = {"less": "less_equal", "less_equal": "less"}


def _logical_not(b: Builder, _type: str, value: int) -> int | None:
    function = b.function
    if b.is_constant(value):
        return b.false if value == b.true else b.true
    op, args = function.ops[value], function.args[value]
    if op == "logical_not":
        return args[0]
    if op in _OPPOSITE and function.types[args[0]] in FULL:
        return b.apply(_OPPOSITE[op], args[1], args[0])
    if op in ("equal", "not_equal"):  # also for floats: they are exact opposites
        return b.apply("not_equal" if op == "equal" else "equal", *args)
    return None


def _where(b: Builder, type_: str, condition: int, chosen: int, other: int) -> int | None:
    if condition == b.true or chosen == other:
        return chosen
    if condition == b.false:
        return other
    if b.function.ops[condition] == "logical_not":
        return b.apply("where", b.function.args[condition][0], other, chosen)
    if type_ in ("f32", "f64") and _may_lose_a_sign(b, type_, chosen, other):
        return _where_of_bits(b, type_, condition, chosen, other)
    return None


def _may_lose_a_sign(b: Builder, type_: str, *values: int) -> bool:
    """Whether both could become constants, or one -0.0, which ptxas takes for a number without a sign."""
    foldable = [value for value in values if may_fold(b.function, value)]
    if len(foldable) == len(values):
        return True
    negative_zero = 1 << (BITS[type_] - 1)
    return any(not b.is_constant(value) or b.constant_of(value) == negative_zero for value in foldable)


def _where_of_bits(b: Builder, type_: str, condition: int, chosen: int, other: int) -> int:
    """A choice of floats as one of their bits: ptxas loses the sign of a zero among them (docs/compiler-defects.md)."""
    integer = f"u{BITS[type_]}"
    bits = [b.convert(f"bits.{integer}", integer, value) for value in (chosen, other)]
    return b.convert(f"bits.{type_}", type_, b.apply("where", condition, *bits))


RULES: dict[str, Rule] = {
    "add": _by_constant(lambda x, y: x + y, neutral=0),
    "subtract": _by_constant(lambda x, y: x - y, neutral=0, same=_chain(_same_zero, _negated(0, 0))),
    "multiply": _by_constant(lambda x, y: x * y, _negated(1, -1), _of_shifted, neutral=1, zero=0),
    "multiply_high": _multiply_high,
    "bitwise_and": _by_constant(lambda x, y: x & y, _and_mask, zero=0, same=_same_same),
    "bitwise_or": _by_constant(lambda x, y: x | y, neutral=0, same=_same_same),
    "bitwise_xor": _by_constant(lambda x, y: x ^ y, neutral=0, same=_same_zero),
    "left_shift": _shift("left_shift", lambda value, count: value << count),
    "right_shift": _chain(
        _shift("right_shift", lambda value, count: value >> count), _right_shift_of_a_sign, _right_shift_of_a_negation
    ),
    "negative": _fold_negative,
    "absolute": _fold_absolute,
    "invert": _fold_invert,
    "minimum": _extreme("minimum"),
    "maximum": _extreme("maximum"),
    "less": _order(True),
    "less_equal": _order(False),
    "equal": _equality(True),
    "not_equal": _equality(False),
    "logical_and": _logical_and,
    "logical_or": _logical_or,
    "logical_xor": _logical_xor,
    "logical_not": _logical_not,
    "where": _where,
}

# Ops whose rules above are for integers alone.
_OF_INTEGERS = frozenset(
    {"add", "subtract", "multiply", "minimum", "maximum", "less", "less_equal", "equal", "not_equal"}
)


def rules_of(op: str, type_: str) -> tuple[Rule, ...]:
    """The rules of an op that can apply to operands of this type, in the order in which they are tried."""
    tables = (RULES,) if type_ in FULL else (RULES, float_rules.RULES)
    if op.endswith(".fast"):
        tables = (*tables, contraction.RULES)
    of_integers = type_ in float_rules.ONES and op in _OF_INTEGERS
    return tuple([rules[op] for rules in tables[of_integers:] if op in rules])
