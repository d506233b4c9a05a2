"""Integer division with the rules of the IR: a zero divisor gives 0, MIN by -1 wraps, quotients floor or truncate.

A literal divisor becomes a multiplication by its reciprocal (Granlund and Montgomery, 1994), which the assembler does
not do by itself. Signed division by a value is unsigned division of magnitudes, so nothing rests on what the
instruction does with MIN by -1 or with zero.
"""

from __future__ import annotations

from vyre_cuda.ptx.facts import WORD
from vyre_cuda.ptx.peephole import Builder

_HALF = 1 << 31


def trunc_divide(b: Builder, left: int, right: int) -> int:
    """Quotient toward zero."""
    type_ = b.function.types[left]
    divisor = b.constant_of(right)
    if type_ == "u32":
        return _divide_unsigned(b, left, right)
    if divisor is not None:
        return _trunc_by_constant(b, left, divisor)
    return _divide_signed(b, left, right)


def fmod(b: Builder, left: int, right: int) -> int:
    """Remainder with the sign of the dividend."""
    return _remainder(b, left, right, trunc_divide(b, left, right))


def floor_divide(b: Builder, left: int, right: int) -> int:
    """Quotient toward minus infinity."""
    if b.function.types[left] == "u32":
        return _divide_unsigned(b, left, right)
    divisor = b.constant_of(right)
    if divisor is not None and divisor > 0:
        return _floor_by_positive(b, left, divisor)
    quotient = trunc_divide(b, left, right)
    rest = _remainder(b, left, right, quotient)
    below = b.apply("subtract", quotient, b.constant("s32", 1))
    return b.apply("where", _signs_differ(b, rest, right), below, quotient)


def remainder(b: Builder, left: int, right: int) -> int:
    """Remainder with the sign of the divisor."""
    type_ = b.function.types[left]
    divisor = b.constant_of(right)
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        return b.apply("bitwise_and", left, b.constant(type_, divisor - 1))
    if type_ == "u32" or (divisor is not None and divisor > 0):
        return _remainder(b, left, right, floor_divide(b, left, right))
    rest = fmod(b, left, right)
    return b.apply("where", _signs_differ(b, rest, right), b.apply("add", rest, right), rest)


def _signs_differ(b: Builder, rest: int, divisor: int) -> int:
    """rest != 0 and its sign is not the divisor's; a rest of 0 has no sign bit, so 0 is asked for apart."""
    zero = b.constant("s32", 0)
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
    zero = b.constant("u32", 0)
    quotient = b.emit("quotient", "u32", (left, right))
    return b.apply("where", b.apply("equal", right, zero), zero, quotient)


def unsigned_magic(divisor: int, highest: int) -> tuple[int, int]:
    """(multiplier, shift) with n // divisor == n * multiplier >> (32 + shift) for 0 <= n <= highest.

    The multiplier has 33 bits when no shorter one serves.
    """
    shift = 0
    while True:
        power = 1 << (32 + shift)
        multiplier = -(-power // divisor)
        # n * multiplier / power = n / divisor + n * excess / (divisor * power): below the next integer
        if (multiplier * divisor - power) * highest < power:
            return multiplier, shift
        shift += 1


def _unsigned_by_constant(b: Builder, left: int, divisor: int) -> int:
    if divisor == 0:
        return b.constant("u32", 0)
    if divisor & (divisor - 1) == 0:
        return b.apply("right_shift", left, b.constant("u32", divisor.bit_length() - 1))
    highest = b.facts.tight_range(left)[1]
    multiplier, shift = unsigned_magic(divisor, highest)
    if multiplier >= WORD and divisor % 2 == 0:
        zeros = (divisor & -divisor).bit_length() - 1  # an even divisor: shift first, fewer bits are left
        shifted = b.apply("right_shift", left, b.constant("u32", zeros))
        return _unsigned_by_constant(b, shifted, divisor >> zeros)
    high = b.apply("multiply_high", left, b.constant("u32", multiplier % WORD))
    if multiplier < WORD:
        return b.apply("right_shift", high, b.constant("u32", shift))
    # left * (2^32 + m) >> 32 without the carry: high + (left - high) / 2, one bit of the shift is used up
    half = b.apply("right_shift", b.apply("subtract", left, high), b.constant("u32", 1))
    return b.apply("right_shift", b.apply("add", half, high), b.constant("u32", shift - 1))


# ---- signed ---------------------------------------------------------------------------------------------------------


def _floor_by_positive(b: Builder, left: int, divisor: int) -> int:
    """Flooring is shifting for powers of two; else ~(~x // d) for a negative x, on magnitudes below 2^31."""
    if divisor & (divisor - 1) == 0:
        return b.apply("right_shift", left, b.constant("s32", divisor.bit_length() - 1))
    if b.facts.range(left)[0] >= 0:
        unsigned = _unsigned_by_constant(b, b.convert("retype", "u32", left), divisor)
        return b.convert("retype", "s32", unsigned)
    sign = b.apply("right_shift", left, b.constant("s32", 31))
    magnitude = b.convert("retype", "u32", b.apply("bitwise_xor", left, sign))
    b.facts.set_range(magnitude, 0, _HALF - 1)
    quotient = b.convert("retype", "s32", _unsigned_by_constant(b, magnitude, divisor))
    return b.apply("bitwise_xor", quotient, sign)


def _trunc_by_constant(b: Builder, left: int, divisor: int) -> int:
    if divisor == 0:
        return b.constant("s32", 0)
    if abs(divisor) == 1:
        return left if divisor > 0 else b.apply("negative", left)
    if b.facts.range(left)[0] >= 0:
        quotient = _unsigned_by_constant(b, b.convert("retype", "u32", left), abs(divisor))
    else:
        quotient = _unsigned_by_constant(b, _magnitude(b, left), abs(divisor))
        negated = b.apply("negative", quotient)
        quotient = b.apply("where", b.apply("less", left, b.constant("s32", 0)), negated, quotient)
    signed = b.convert("retype", "s32", quotient)
    return signed if divisor > 0 else b.apply("negative", signed)


def _magnitude(b: Builder, value: int) -> int:
    """|value| as u32; that of MIN is 2^31."""
    magnitude = b.convert("retype", "u32", b.apply("absolute", value))
    b.facts.set_range(magnitude, 0, _HALF)
    return magnitude


def _divide_signed(b: Builder, left: int, right: int) -> int:
    zero = b.constant("s32", 0)
    quotient = _divide_unsigned(b, _magnitude(b, left), _magnitude(b, right))
    signed = b.convert("retype", "s32", quotient)
    negative = b.apply("less", b.apply("bitwise_xor", left, right), zero)
    return b.apply("where", negative, b.apply("negative", signed), signed)
