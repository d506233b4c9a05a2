"""f16 and bf16: numbers of these types are kept as f32, which can represent them, and every op rounds back to the type
once.

Computing + - * / and sqrt in f32 and then rounding is one rounding (Figueroa, 1995: 24 bits are at least twice 11 and
two more; it holds for subnormal results too). Sources that f32 cannot represent exactly are first rounded to odd:
toward zero, with the last bit set if anything was lost, so that the second rounding is the only one that matters.
"""

from __future__ import annotations

from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.types import Type, bf16, f16

_NAN = 0x7FC00000
# Of an f16.
_SIGN, _MAGNITUDE, _INFINITY, _FRACTION = 0x8000, 0x7FFF, 0x7C00, 0x03FF
_INFINITY_F32, _FRACTION_F32 = 0x7F800000, 0x007FFFFF
_NO_BF16_BELOW = 80  # PTX ISA: cvt.rn.bf16.f32 and fma.rn.bf16 need sm_80


def constant(b: Builder, type_: Type, bits: int) -> int:
    """A literal, given by its 16 bits."""
    if type_ is bf16:
        return b.constant("f32", bits << 16)
    if bits & _MAGNITUDE > _INFINITY:
        return b.constant("f32", (bits & _SIGN) << 16 | _INFINITY_F32 | (bits & _FRACTION) << 13)
    return b.constant("f32", _as_f32(bits))


def _as_f32(bits: int) -> int:
    """The bits of an f16 that is not NaN as those of the same f32."""
    sign, magnitude = (bits & _SIGN) << 16, bits & _MAGNITUDE
    if magnitude == _INFINITY:
        return sign | _INFINITY_F32
    if magnitude > _FRACTION:
        return sign | (magnitude << 13) + (112 << 23)  # the exponents' biases are 15 and 127
    if magnitude == 0:
        return sign
    length = magnitude.bit_length()  # a subnormal is so many 2^-24
    return sign | (length + 102) << 23 | (magnitude << 24 - length) & _FRACTION_F32


def rounded(b: Builder, type_: Type, value: int) -> int:
    """An f32 rounded to the type, to nearest even."""
    if type_ is f16:
        function = b.function
        if function.ops[value] == "float.f16":
            return value
        return b.emit("float.f16", "f32", (b.emit("half.f16", "b16", (value,)),))
    if b.target.sm < _NO_BF16_BELOW:
        return _rounded_bits(b, value)
    return _above_zero(b, b.emit("half.bf16", "b16", (value,)))


def _above_zero(b: Builder, half: int) -> int:
    """The f32 whose upper 16 bits are those of a bf16."""
    return b.emit("pair", "f32", (b.zero_half(), half))


def _rounded_bits(b: Builder, value: int) -> int:
    """To bf16 by integers: half a unit is added, a bit less when the last kept bit is 0; a carry may reach infinity."""
    bits = b.convert("bits.u32", "u32", value)
    last = b.apply("bitwise_and", b.apply("right_shift", bits, b.constant("u32", 16)), b.constant("u32", 1))
    moved = b.apply("add", b.apply("add", bits, last), b.constant("u32", 0x7FFF))
    kept = b.apply("bitwise_and", moved, b.constant("u32", 0xFFFF0000))
    number = b.convert("bits.f32", "f32", kept)
    return b.apply("where", b.apply("unordered", value, value), b.constant("f32", _NAN), number)


# ---- bits -----------------------------------------------------------------------------------------------------------


def to_bits(b: Builder, type_: Type, value: int) -> int:
    """The 16 bits of a number of the type, as u32."""
    function = b.function
    if type_ is f16:
        return b.convert("zero_extend", "u32", packed(b, f16, value))
    if function.ops[value] == "pair":
        return b.convert("zero_extend", "u32", function.args[value][1])
    if function.ops[value] == "bits.f32":
        inner = function.args[value][0]
        if function.ops[inner] == "left_shift" and b.constant_of(function.args[inner][1]) == 16:
            return function.args[inner][0]
    return b.apply("right_shift", b.convert("bits.u32", "u32", value), b.constant("u32", 16))


def from_bits(b: Builder, type_: Type, bits: int) -> int:
    """The number of the type that a u32 below 2^16 stands for."""
    if type_ is f16:
        return b.convert("float.f16", "f32", b.convert("short", "b16", b.in_register(bits)))
    return b.convert("bits.f32", "f32", b.apply("left_shift", bits, b.constant("u32", 16)))


def packed(b: Builder, type_: Type, value: int) -> int:
    """A number of the type in a 16-bit register."""
    if type_ is f16:
        return _packed_nan(b, value) if is_nan(b, value) else b.convert("half.f16", "b16", value)
    if b.function.ops[value] == "pair":
        return b.function.args[value][1]
    return b.convert("short", "b16", b.in_register(to_bits(b, bf16, value)))


def is_nan(b: Builder, value: int) -> bool:
    """Whether it is a constant NaN, whose sign and payload conversions do not keep."""
    bits = b.function.attrs[value] if b.is_constant(value) else 0
    return bool(bits & _INFINITY_F32 == _INFINITY_F32 and bits & _FRACTION_F32)


def _packed_nan(b: Builder, value: int) -> int:
    bits = b.function.attrs[value]
    half = bits >> 16 & _SIGN | _INFINITY | (bits & _FRACTION_F32) >> 13
    return b.convert("short", "b16", b.in_register(b.constant("u32", half)))


def _unpacked(b: Builder, type_: Type, half: int) -> int:
    return b.convert("float.f16", "f32", half) if type_ is f16 else _above_zero(b, half)


# ---- moving bits ----------------------------------------------------------------------------------------------------
#
# Converting a NaN to f32 keeps neither sign nor payload. So what only moves bits works on those of the f16, where a NaN
# may come from memory, a scalar or a literal. That of arithmetic has no particular sign.


def _is_moved(b: Builder, value: int) -> bool:
    function = b.function
    if function.ops[value] == "float.f16":
        return function.ops[function.args[value][0]] not in ("half.f16", "fma.f16")
    return is_nan(b, value)


def signbit(b: Builder, value: int) -> int:
    """Of an f16."""
    return b.apply("less", b.convert("sign16", "s32", to_bits(b, f16, value)), b.constant("s32", 0))


def copysign(b: Builder, value: int, sign: int) -> int:
    """Of f16 numbers."""
    if not (_is_moved(b, value) or _is_moved(b, sign)):
        return b.apply("copysign", value, sign)
    magnitude = b.apply("bitwise_and", to_bits(b, f16, value), b.constant("u32", _MAGNITUDE))
    bit = b.apply("bitwise_and", to_bits(b, f16, sign), b.constant("u32", _SIGN))
    return from_bits(b, f16, b.apply("bitwise_or", magnitude, bit))


def where(b: Builder, condition: int, chosen: int, other: int) -> int:
    """Of f16 numbers."""
    if chosen == other or not (_is_moved(b, chosen) or _is_moved(b, other)):
        return b.apply("where", condition, chosen, other)
    return from_bits(b, f16, b.apply("where", condition, to_bits(b, f16, chosen), to_bits(b, f16, other)))


# ---- one rounding ---------------------------------------------------------------------------------------------------


def fma(b: Builder, type_: Type, left: int, right: int, addend: int) -> int:
    """The instruction rounds once; without it f64 holds the product, and the sum is rounded to odd."""
    if type_ is f16 or b.target.sm >= _NO_BF16_BELOW:
        operands = tuple(packed(b, type_, value) for value in (left, right, addend))
        return _unpacked(b, type_, b.emit(f"fma.{type_.name}", "b16", operands))
    x, y, z = (b.convert("cast.f64", "f64", value) for value in (left, right, addend))
    product = b.apply("multiply", x, y)
    below, above = b.apply("add.rm", product, z), b.apply("add.rp", product, z)
    inexact = b.apply("not_equal", below, above)
    bits = b.convert("bits.u64", "u64", b.apply("add.rz", product, z))
    odd = b.apply("bitwise_or", bits, b.apply("where", inexact, b.constant("u64", 1), b.constant("u64", 0)))
    return rounded(b, type_, odd_float(b, b.convert("bits.f64", "f64", odd)))


def odd_float(b: Builder, value: int) -> int:
    """A 32- or 64-bit integer or an f64 as f32, rounded to odd."""
    source = b.function.types[value]
    chopped = b.convert("chop.f32", "f32", value)
    back = b.convert(f"cast.{source}", source, chopped)
    bits = b.convert("bits.u32", "u32", chopped)
    one, none = b.constant("u32", 1), b.constant("u32", 0)
    odd = b.apply("bitwise_or", bits, b.apply("where", b.apply("not_equal", back, value), one, none))
    return b.convert("bits.f32", "f32", odd)
