"""Float operations in forms that the assembler does not fold wrongly (docs/compiler-defects.md).

Each gives the same bits as the plain form. The rules are like those of `simplify.py`: (builder, operand type,
operands) -> another value, or None for the plain form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import BITS
from vyre_cuda.codegen.ssa.foldable import may_fold

if TYPE_CHECKING:
    from vyre_cuda.codegen.ssa.peephole import Builder

Rule = Callable[["Builder", str, int, int], "int | None"]

# The bits of 1.0.
ONES = {"f32": 0x3F800000, "f64": 0x3FF0000000000000}
_ONE = ONES["f32"]
_INFINITIES = {"f32": 0x7F800000, "f64": 0x7FF0000000000000}
_INFINITY = _INFINITIES["f32"]
_MINUS_ONE = 0xBF800000
_SIGN = 0x80000000
_LEAST_NORMAL = 0x00800000
_NEVER_NEGATIVE = frozenset({"absolute", "absolute.ftz", "ex2.approx", "ex2.approx_ftz"})
_SIGN_OPS = frozenset({"negative", "negative.ftz", "absolute", "absolute.ftz"})
_OF_BOTH = frozenset({"fmin", "fmin.ftz", "fmax", "fmax.ftz", "where"})
_DEPTH = 4


def flushed_constant(b: Builder, value: int) -> int:
    """A subnormal f32 constant as the zero that a flushing operation treats it as."""
    if b.is_constant(value) and b.function.types[value] == "f32":
        bits = b.function.attrs[value]
        if 0 < bits & ~_SIGN < _LEAST_NORMAL:
            return b.constant("f32", bits & _SIGN)
    return value


# ---- orders ---------------------------------------------------------------------------------------------------------


def _never_negative(b: Builder, value: int, depth: int = _DEPTH) -> bool:
    """Whether the value is NaN or has no sign, as far as the assembler can see."""
    function = b.function
    op = function.ops[value]
    if op == "const":
        return int(function.attrs[value]) <= _INFINITY
    if op in _NEVER_NEGATIVE:
        return True
    if op not in _OF_BOTH or depth == 0:
        return False
    return all(_never_negative(b, arg, depth - 1) for arg in function.args[value][-2:])


def _never_positive(b: Builder, value: int) -> bool:
    function = b.function
    return function.ops[value] in ("negative", "negative.ftz") and _never_negative(b, function.args[value][0])


def _is_below(bits: int, strict: bool, flushes: bool) -> bool:
    """Whether a constant is below (or at) every number without a sign."""
    if bits > _SIGN | _INFINITY:
        return False
    least = _LEAST_NORMAL if flushes else 1
    return bits >= (_SIGN | least) if strict else bits == 0 or bits >= _SIGN


def order(strict: bool, flushes: bool) -> Rule:
    """For a constant and an absolute value the assembler forgets NaN: all that is left to test is whether it is one."""

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        if type_ != "f32":
            return None
        asked = None
        if b.is_constant(left) and _never_negative(b, right):
            asked = right if _is_below(b.function.attrs[left], strict, flushes) else None
        elif b.is_constant(right) and _never_positive(b, left):
            asked = left if _is_below(b.function.attrs[right] ^ _SIGN, strict, flushes) else None
        return None if asked is None else b.apply("logical_not", b.apply("unordered", asked, asked))

    return rule


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def total(suffix: str, *, subtract: bool) -> Rule:
    """Sums of what could be folded as x * 1 + y, which is the same number and is not folded: sums round wrongly.

    What may be contracted with a product is left alone where it is not surely folded.
    """
    fma = "fma.ftz" if suffix else "fma"
    registers = suffix != ".fast"

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        if type_ != "f32" or not may_fold(b.function, left, registers=registers):
            return None
        if not may_fold(b.function, right, registers=registers):
            return None
        if subtract:
            return b.emit(fma, "f32", (right, b.constant("f32", _MINUS_ONE), left))
        return b.emit(fma, "f32", (left, b.constant("f32", _ONE), right))

    return rule


def extreme_of_one(suffix: str) -> Rule:
    """min and max of x and x: after a negation, ptxas forgets to truncate when it is converted to an integer."""

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        if left != right or type_ not in ONES:
            return None
        return b.apply("multiply.ftz", left, b.constant("f32", _ONE)) if suffix else left

    return rule


def _only_operand(b: Builder, type_: str, left: int, right: int) -> int | None:
    """What a minimum or maximum that ignores NaN is, if both operands are the same, or one is a constant NaN."""
    if left == right:
        return left
    for constant, other in ((left, right), (right, left)):
        bits = b.constant_of(constant)
        if type_ in _INFINITIES and bits is not None and bits & ~(1 << (BITS[type_] - 1)) > _INFINITIES[type_]:
            return other
    return None


# ---- saturation -----------------------------------------------------------------------------------------------------


def maximum_ignoring(suffix: str) -> Rule:
    """max with a zero, of which a min with 1.0 before or behind it makes a saturation.

    That gives +0.0 for -0.0, and 0.0 for NaN where min(NaN, 1.0) is 1.0. Of max with NaN and then min with a positive
    constant, ptxas has it that there is no sign.
    """

    one_operand = extreme_of_one(suffix)

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        only = _only_operand(b, type_, left, right)
        if only is not None:
            return one_operand(b, type_, only, only)
        constant, other = (right, left) if b.is_constant(right) else (left, right)
        if type_ not in ONES or not b.is_constant(constant):
            return None
        bits = b.function.attrs[constant]
        if bits == 1 << (BITS[type_] - 1):
            return _limited_by_negative_zero(b, "less_equal", suffix, other, constant)
        limited = _limited_to_one(b, type_, suffix, other) if bits == 0 else None
        if limited is None:
            return None
        saturated = b.emit(f"fmax{suffix}", type_, (other, constant))
        one = b.constant(type_, ONES[type_])
        return b.apply("where", b.apply("unordered", limited, limited), one, saturated)

    return rule


def minimum_ignoring(suffix: str) -> Rule:
    """min with -0.0: of that and an absolute value ptxas has it that there is no sign, and drops what removes one."""

    one_operand = extreme_of_one(suffix)

    def rule(b: Builder, type_: str, left: int, right: int) -> int | None:
        only = _only_operand(b, type_, left, right)
        if only is not None:
            return one_operand(b, type_, only, only)
        for constant, other in ((left, right), (right, left)):
            if type_ == "f32" and b.constant_of(constant) == _SIGN:
                return _limited_by_negative_zero(b, "less", suffix, other, constant)
        return None

    return rule


def _limited_by_negative_zero(b: Builder, order: str, suffix: str, other: int, zero: int) -> int:
    """The number where it is less than (or at least) 0.0, else -0.0, also for NaN."""
    type_ = b.function.types[other]
    if suffix:
        other = b.apply("multiply.ftz", other, b.constant("f32", _ONE))
    operands = (other, b.constant(type_, 0)) if order == "less" else (b.constant(type_, 0), other)
    return b.apply("where", b.apply(order, *operands), other, zero)


def negative(suffix: str) -> Callable[[Builder, str, int], int | None]:
    """The negation of a value given as bits (see sign_in_bits)."""

    def rule(b: Builder, type_: str, value: int) -> int | None:
        return _as_float(b, type_, f"negative{suffix}", value) if _comes_as_bits(b, value) else None

    return rule


def absolute(suffix: str) -> Callable[[Builder, str, int], int | None]:
    """Of what comes as bits (see sign_in_bits), and of a minimum with what could become -0.0 (see minimum_ignoring)."""

    def rule(b: Builder, type_: str, value: int) -> int | None:
        function = b.function
        masks = _comes_as_bits(b, value)
        if type_ == "f32" and function.ops[value] == f"fmin{suffix}":
            masks = any(may_fold(function, arg) and not b.is_constant(arg) for arg in function.args[value])
        return _as_float(b, type_, f"absolute{suffix}", value) if masks else None

    return rule


def sign_in_bits(b: Builder, value: int) -> int | None:
    """The bits of a negation or an absolute value, made of those of its operand; None for other values.

    Where a float is made of an integer's bits, or bits are taken of it, ptxas makes of -x and |x| the negation and the
    absolute value of the integer.
    """
    op = b.function.ops[value]
    if op not in _SIGN_OPS or b.function.types[value] not in ONES:
        return None
    return _changed_sign(b, op, b.function.args[value][0])


def _comes_as_bits(b: Builder, value: int) -> bool:
    return b.function.ops[value] in ("bits.f32", "bits.f64", "pair")


def _as_float(b: Builder, type_: str, op: str, value: int) -> int:
    return b.convert(f"bits.{type_}", type_, _changed_sign(b, op, value))


def _changed_sign(b: Builder, op: str, value: int) -> int:
    """The bits of a float with its sign flipped or removed."""
    type_ = b.function.types[value]
    if op.endswith(".ftz"):
        value = b.apply("multiply.ftz", value, b.constant(type_, ONES[type_]))
    unsigned, sign = f"u{BITS[type_]}", 1 << (BITS[type_] - 1)
    bits = b.convert(f"bits.{unsigned}", unsigned, value)
    if op.startswith("negative"):
        return b.apply("bitwise_xor", bits, b.constant(unsigned, sign))
    return b.apply("bitwise_and", bits, b.constant(unsigned, sign - 1))


def _limited_to_one(b: Builder, type_: str, suffix: str, value: int) -> int | None:
    """x where the value is min(x, 1.0)."""
    function = b.function
    if function.ops[value] != f"fmin{suffix}":
        return None
    left, right = function.args[value]
    constant, other = (right, left) if b.is_constant(right) else (left, right)
    return other if b.constant_of(constant) == ONES[type_] else None


RULES: dict[str, Callable[..., int | None]] = {
    **{f"less{suffix}": order(True, bool(suffix)) for suffix in ("", ".ftz")},
    **{f"less_equal{suffix}": order(False, bool(suffix)) for suffix in ("", ".ftz")},
    **{f"add{suffix}": total(suffix, subtract=False) for suffix in ("", ".ftz")},
    **{f"subtract{suffix}": total(suffix, subtract=True) for suffix in ("", ".ftz")},
    **{f"fmax{suffix}": maximum_ignoring(suffix) for suffix in ("", ".ftz")},
    **{f"fmin{suffix}": minimum_ignoring(suffix) for suffix in ("", ".ftz")},
    **{f"{op}{suffix}": extreme_of_one(suffix) for op in ("minimum", "maximum") for suffix in ("", ".ftz")},
    **{f"negative{suffix}": negative(suffix) for suffix in ("", ".ftz")},
    **{f"absolute{suffix}": absolute(suffix) for suffix in ("", ".ftz")},
}
