"""Integer ops without a single instruction: on narrow types, on 64-bit ones and what the machine lacks.

An 8- or 16-bit integer is a 32-bit number in the range of its type. An op is done on 32 bits and `narrowed` brings the
result back; where facts prove it in range, nothing is emitted. Shift and rotate counts are read as unsigned.
"""

from __future__ import annotations

from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE, UNSIGNED
from vyre_cuda.codegen.ssa.foldable import may_fold
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type


def narrowed(b: Builder, type_: Type, value: int) -> int:
    """The low bits of a 32-bit number as a number of an 8- or 16-bit type; other types are left alone."""
    if type_.bits >= 32:
        return value
    machine = MACHINE_TYPE[type_]
    if b.is_constant(value):
        return b.constant(machine, wrap_to(type_, b.function.attrs[value]))
    low, high = b.facts.tight_range(value)
    if type_.minimum <= low and high <= type_.maximum:
        return b.convert("retype", machine, value)
    if type_.kind == "unsigned":
        return b.apply("bitwise_and", b.convert("retype", "u32", value), b.constant("u32", type_.maximum))
    return b.convert("sign8" if type_.bits == 8 else "sign16", "s32", value)


def wrap_to(type_: Type, value: int) -> int:
    """An exact integer reduced to the range of an IR type."""
    value &= (1 << type_.bits) - 1
    return value - (1 << type_.bits) if value > type_.maximum else value


def bits_as_unsigned(b: Builder, type_: Type, value: int) -> int:
    """The value's bits as an unsigned number of its machine width."""
    machine = UNSIGNED[MACHINE_TYPE[type_]]
    unsigned = b.convert("retype", machine, value)
    if type_.kind == "signed" and type_.bits < 32 and b.facts.range(value)[0] < 0:
        return b.apply("bitwise_and", unsigned, b.constant(machine, (1 << type_.bits) - 1))
    return unsigned


def from_u32(b: Builder, type_: Type, value: int) -> int:
    """A u32 that is in range of the type as a value of it."""
    machine = MACHINE_TYPE[type_]
    wide = b.convert("widen", "u64", value) if BITS[machine] == 64 else value
    return b.convert("retype", machine, wide)


# ---- shifts and rotations -------------------------------------------------------------------------------------------


def _count(b: Builder, type_: Type, count: int) -> int:
    """A shift count as a u32 that is at least the width if the count is. A narrow negative count is far above."""
    if type_.bits < 64:
        return b.convert("retype", "u32", count)
    unsigned = b.convert("retype", "u64", count)
    return b.convert("low", "u32", b.apply("minimum", unsigned, b.constant("u64", 64)))


def shift(b: Builder, op: str, type_: Type, value: int, count: int) -> int:
    """left_shift and right_shift."""
    if op == "right_shift":
        return b.apply(op, value, _count(b, type_, count))
    if type_.bits == 64 and not b.is_constant(count) and may_fold(b.function, count):
        return _left_shift_by_choice(b, value, count)
    return narrowed(b, type_, b.apply(op, value, _count(b, type_, count)))


def _left_shift_by_choice(b: Builder, value: int, count: int) -> int:
    """Shifted, or 0 from the width on: correct whatever the shift itself gives there (docs/compiler-defects.md)."""
    unsigned = b.convert("retype", "u64", count)
    inside = b.apply("less", unsigned, b.constant("u64", 64))
    shifted = b.apply("left_shift", value, b.convert("low", "u32", unsigned))
    return b.apply("where", inside, shifted, b.constant(b.function.types[value], 0))


def rotate(b: Builder, op: str, type_: Type, value: int, count: int) -> int:
    """rotate_left and rotate_right, by a count modulo the width."""
    bits = type_.bits
    constant = b.constant_of(count)
    if constant is not None and constant % bits == 0:
        return value
    turn = b.convert("retype", "u32", count) if bits < 64 else b.convert("low", "u32", count)
    if bits == 32:
        return b.apply(op, value, turn)
    if op == "rotate_right":
        turn = b.apply("subtract", b.constant("u32", 0), turn)
    turn = b.apply("bitwise_and", turn, b.constant("u32", bits - 1))
    pattern = bits_as_unsigned(b, type_, value)
    back = b.apply("subtract", b.constant("u32", bits), turn)  # a turn of 0 shifts everything out
    both = b.apply("bitwise_or", b.apply("left_shift", pattern, turn), b.apply("right_shift", pattern, back))
    return narrowed(b, type_, b.convert("retype", MACHINE_TYPE[type_], both))


# ---- counting and reversing bits ------------------------------------------------------------------------------------


def bitwise_count(b: Builder, type_: Type, value: int) -> int:
    """Ones of the pattern, in the operand's type."""
    ones = b.emit("ones", "u32", (bits_as_unsigned(b, type_, value),))
    b.facts.set_range(ones, 0, type_.bits)
    return from_u32(b, type_, ones)


def count_leading_zeros(b: Builder, type_: Type, value: int) -> int:
    """The width for 0."""
    zeros = b.emit("leading_zeros", "u32", (bits_as_unsigned(b, type_, value),))
    machine_bits = BITS[MACHINE_TYPE[type_]]
    b.facts.set_range(zeros, machine_bits - type_.bits, machine_bits)
    return from_u32(b, type_, b.apply("subtract", zeros, b.constant("u32", machine_bits - type_.bits)))


def count_trailing_zeros(b: Builder, type_: Type, value: int) -> int:
    """The leading zeros of the reversed pattern; a one just above a narrow type's top bit stops the count there."""
    pattern = b.convert("retype", UNSIGNED[MACHINE_TYPE[type_]], value)
    if type_.bits < 32:
        pattern = b.apply("bitwise_or", pattern, b.constant("u32", 1 << type_.bits))
    zeros = b.emit("leading_zeros", "u32", (b.apply("reverse_bits", pattern),))
    b.facts.set_range(zeros, 0, type_.bits)
    return from_u32(b, type_, zeros)


def reverse_bits(b: Builder, type_: Type, value: int) -> int:
    """The reversed word, shifted back as a number of the type."""
    reverse = b.apply("reverse_bits", value)
    return b.apply("right_shift", reverse, b.constant("u32", BITS[MACHINE_TYPE[type_]] - type_.bits))


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def multiply_high(b: Builder, type_: Type, left: int, right: int) -> int:
    """The product of narrow numbers has all its bits in a word."""
    if type_.bits >= 32:
        return b.apply("multiply_high", left, right)
    return b.apply("right_shift", b.apply("multiply", left, right), b.constant("u32", type_.bits))


# add.sat and sub.sat are not used: ptxas expands them, and version 13.0 wrongly where an operand is a sum with a
# constant itself: add.sat(x + 1, 2147483647) becomes x + 1 + 2147483647, not saturated (docs/compiler-defects.md).
def add_saturate(b: Builder, type_: Type, left: int, right: int) -> int:
    if type_.bits < 32:
        return _clamped(b, type_, b.apply("add", left, right))
    if type_.kind == "unsigned":  # min(x, ~y) is as much of x as fits on top of y
        return b.apply("add", b.apply("minimum", left, b.apply("invert", right)), right)
    total = b.apply("add", left, right)
    overflow = b.apply("bitwise_and", b.apply("bitwise_xor", left, total), b.apply("bitwise_xor", right, total))
    # Where it overflows both have the same sign; that of a constant needs no instruction.
    return _saturated(b, type_, right if b.is_constant(right) else left, total, overflow)


def subtract_saturate(b: Builder, type_: Type, left: int, right: int) -> int:
    if type_.kind == "unsigned":
        return b.apply("subtract", b.apply("maximum", left, right), right)
    if type_.bits < 32:
        return _clamped(b, type_, b.apply("subtract", left, right))
    rest = b.apply("subtract", left, right)
    overflow = b.apply("bitwise_and", b.apply("bitwise_xor", left, right), b.apply("bitwise_xor", left, rest))
    return _saturated(b, type_, left, rest, overflow)


def _clamped(b: Builder, type_: Type, value: int) -> int:
    machine = MACHINE_TYPE[type_]
    above = b.apply("maximum", value, b.constant(machine, type_.minimum))
    return b.apply("minimum", above, b.constant(machine, type_.maximum))


def _saturated(b: Builder, type_: Type, left: int, result: int, overflow: int) -> int:
    """The result, or the end of the type on the side of `left` where `overflow` has its sign bit."""
    machine = MACHINE_TYPE[type_]
    side = b.apply("right_shift", left, b.constant("u32", type_.bits - 1))
    end = b.apply("bitwise_xor", side, b.constant(machine, type_.maximum))
    return b.apply("where", b.apply("less", overflow, b.constant(machine, 0)), end, result)


def sign(b: Builder, type_: Type, value: int) -> int:
    """-1, 0 or 1."""
    machine = MACHINE_TYPE[type_]
    low = b.apply("minimum", value, b.constant(machine, 1))
    return low if type_.kind == "unsigned" else b.apply("maximum", low, b.constant(machine, -1))


# ---- conversions ----------------------------------------------------------------------------------------------------


def integer_to_integer(b: Builder, source: Type, target: Type, value: int) -> int:
    """The low bits, after extension by the sign of the source's type."""
    machine = MACHINE_TYPE[target]
    if b.is_constant(value):
        return b.constant(machine, wrap_to(target, b.function.attrs[value]))
    if source.bits < 64 <= target.bits:
        wide = b.convert("widen", "s64" if source.kind == "signed" else "u64", value)
        return b.convert("retype", machine, wide)
    if target.bits < 64 <= source.bits:
        value = b.convert("low", "u32", value)
        return narrowed(b, target, b.convert("retype", machine, value))
    if target.bits < 32:
        return narrowed(b, target, value)
    return b.convert("retype", machine, value)
