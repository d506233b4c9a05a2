"""Integer division with the rules of the IR: a zero divisor gives 0, MIN by -1 wraps, quotients floor or truncate.

A literal divisor becomes a multiplication by its reciprocal (Granlund and Montgomery, 1994), which the assembler does
not do by itself. Signed division by a value is unsigned division of magnitudes, so nothing depends on what the
instruction does with MIN by -1 or with zero.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import BITS, SIGNED, UNSIGNED
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.codegen.terms.costs import unsigned_magic

_UNSIGNED = ("u32", "u64")


def trunc_divide(b: Builder, left: int, right: int) -> int:
    """Quotient toward zero."""
    type_ = b.function.types[left]
    divisor = b.constant_of(right)
    if type_ in _UNSIGNED:
        return _divide_unsigned(b, left, right)
    if divisor is not None:
        return _trunc_by_constant(b, left, divisor)
    return _divide_signed(b, left, right)


def fmod(b: Builder, left: int, right: int) -> int:
    """Remainder with the sign of the dividend."""
    return _remainder(b, left, right, trunc_divide(b, left, right))


def floor_divide(b: Builder, left: int, right: int) -> int:
    """Quotient toward minus infinity."""
    if b.function.types[left] in _UNSIGNED:
        return _divide_unsigned(b, left, right)
    divisor = b.constant_of(right)
    if divisor is not None and divisor > 0:
        return _floor_by_positive(b, left, divisor)
    quotient = trunc_divide(b, left, right)
    rest = _remainder(b, left, right, quotient)
    below = b.apply("subtract", quotient, b.constant(b.function.types[left], 1))
    return b.apply("where", _signs_differ(b, rest, right), below, quotient)


def remainder(b: Builder, left: int, right: int) -> int:
    """Remainder with the sign of the divisor."""
    type_ = b.function.types[left]
    divisor = b.constant_of(right)
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        return b.apply("bitwise_and", left, b.constant(type_, divisor - 1))
    if type_ in _UNSIGNED or (divisor is not None and divisor > 0):
        return _remainder(b, left, right, floor_divide(b, left, right))
    rest = fmod(b, left, right)
    return b.apply("where", _signs_differ(b, rest, right), b.apply("add", rest, right), rest)


def _signs_differ(b: Builder, rest: int, divisor: int) -> int:
    """rest != 0 and its sign is not the divisor's; a rest of 0 has no sign bit, so 0 is tested separately."""
    zero = b.constant(b.function.types[rest], 0)
    differ = b.apply("less", b.apply("bitwise_xor", rest, divisor), zero)
    return b.apply("logical_and", differ, b.apply("not_equal", rest, zero))


def _remainder(b: Builder, left: int, right: int, quotient: int) -> int:
    """left - quotient * right, and 0 for a zero divisor."""
    zero = b.constant(b.function.types[left], 0)
    rest = b.apply("subtract", left, b.apply("multiply", quotient, right))
    if b.constant_of(right) is None:
        return b.apply("where", b.apply("equal", right, zero), zero, rest)
    return zero if b.constant_of(right) == 0 else rest


# ---- unsigned -------------------------------------------------------------------------------------------------------


def _divide_unsigned(b: Builder, left: int, right: int) -> int:
    divisor = b.constant_of(right)
    if divisor is not None:
        return _unsigned_by_constant(b, left, divisor)
    type_ = b.function.types[left]
    zero = b.constant(type_, 0)
    quotient = b.emit("quotient", type_, (left, right))
    return b.apply("where", b.apply("equal", right, zero), zero, quotient)


def _unsigned_by_constant(b: Builder, left: int, divisor: int) -> int:
    type_ = b.function.types[left]
    if divisor == 0:
        return b.constant(type_, 0)
    if divisor & (divisor - 1) == 0:
        return _shifted_right(b, left, divisor.bit_length() - 1)
    word = 1 << BITS[type_]
    highest = b.facts.tight_range(left)[1]
    multiplier, shift = unsigned_magic(divisor, highest, BITS[type_])
    if multiplier >= word and divisor % 2 == 0:
        zeros = (divisor & -divisor).bit_length() - 1  # an even divisor: shift first, fewer bits are left
        return _unsigned_by_constant(b, _shifted_right(b, left, zeros), divisor >> zeros)
    high = b.apply("multiply_high", left, b.constant(type_, multiplier % word))
    if multiplier < word:
        return _shifted_right(b, high, shift)
    # left * (word + m) / word without the carry: high + (left - high) / 2, one bit of the shift is used up
    half = _shifted_right(b, b.apply("subtract", left, high), 1)
    return _shifted_right(b, b.apply("add", half, high), shift - 1)


def _shifted_right(b: Builder, value: int, count: int) -> int:
    return b.apply("right_shift", value, b.constant("u32", count))


# ---- signed ---------------------------------------------------------------------------------------------------------


def _retyped(b: Builder, types: dict[str, str], value: int) -> int:
    """The same bits as signed or unsigned."""
    return b.convert("retype", types[b.function.types[value]], value)


def _floor_by_positive(b: Builder, left: int, divisor: int) -> int:
    """Flooring is shifting for powers of two; else ~(~x // d) for a negative x, on magnitudes below the sign bit."""
    if divisor & (divisor - 1) == 0:
        return _shifted_right(b, left, divisor.bit_length() - 1)
    low, high = b.facts.range(left)
    if low >= 0:
        return _retyped(b, SIGNED, _unsigned_by_constant(b, _retyped(b, UNSIGNED, left), divisor))
    sign = _shifted_right(b, left, BITS[b.function.types[left]] - 1)
    magnitude = _retyped(b, UNSIGNED, b.apply("bitwise_xor", left, sign))
    b.facts.set_range(magnitude, 0, max(~low, high))
    quotient = _retyped(b, SIGNED, _unsigned_by_constant(b, magnitude, divisor))
    return b.apply("bitwise_xor", quotient, sign)


def _trunc_by_constant(b: Builder, left: int, divisor: int) -> int:
    zero = b.constant(b.function.types[left], 0)
    if divisor == 0:
        return zero
    if abs(divisor) == 1:
        return left if divisor > 0 else b.apply("negative", left)
    if b.facts.range(left)[0] >= 0:
        quotient = _unsigned_by_constant(b, _retyped(b, UNSIGNED, left), abs(divisor))
    else:
        quotient = _unsigned_by_constant(b, _magnitude(b, left), abs(divisor))
        negated = b.apply("negative", quotient)
        quotient = b.apply("where", b.apply("less", left, zero), negated, quotient)
    signed = _retyped(b, SIGNED, quotient)
    return signed if divisor > 0 else b.apply("negative", signed)


def _magnitude(b: Builder, value: int) -> int:
    """|value| as unsigned; that of MIN is half the modulus."""
    low, high = b.facts.range(value)
    magnitude = _retyped(b, UNSIGNED, b.apply("absolute", value))
    b.facts.set_range(magnitude, 0, max(-low, high))
    return magnitude


def _divide_signed(b: Builder, left: int, right: int) -> int:
    zero = b.constant(b.function.types[left], 0)
    quotient = _divide_unsigned(b, _magnitude(b, left), _magnitude(b, right))
    signed = _retyped(b, SIGNED, quotient)
    negative = b.apply("less", b.apply("bitwise_xor", left, right), zero)
    return b.apply("where", negative, b.apply("negative", signed), signed)
