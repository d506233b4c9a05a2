"""Float instructions of sm_90: f32, f64, halves and the conversions.

Results are rounded once, to nearest even; sums and products of f32 and f16 by way of f64, whose 53 bits make the
second rounding harmless, the others exactly. A NaN that an operation makes has the bits of the hardware's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

from disassembly import Instruction, Operand
from integer_instructions import COMBINATIONS, set_combined
from machine import WORD, Form, Machine, NotExecuted, executes, signed

FLOAT: dict[str, Form] = {}

_NAN = {"F16": 0x7FFF, "BF16": 0x7FFF, "F32": 0x7FFF_FFFF, "F64": 0xFFF8_0000_0000_0000}
_INFINITY = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F80_0000, "F64": 0x7FF0_0000_0000_0000}
_SIGN = {"F16": 1 << 15, "BF16": 1 << 15, "F32": 1 << 31, "F64": 1 << 63}
_CODES = {"F16": ("<e", "<H"), "F32": ("<f", "<I"), "F64": ("<d", "<Q")}
# Bits of a number, and the exponent of the least subnormal.
_DIGITS = {"F16": (11, -24), "BF16": (8, -133), "F32": (24, -149), "F64": (53, -1074)}
_LEAST_NORMAL = 0x0080_0000


def number_of(format_: str, bits: int) -> float:
    """The value of a word."""
    if format_ == "BF16":
        return number_of("F32", bits << 16)
    code, integer = _CODES[format_]
    return float(struct.unpack(code, struct.pack(integer, bits))[0])


def bits_of(format_: str, value: float, *, toward_zero: bool = False) -> int:
    """The word next to a value."""
    if math.isnan(value):
        return _NAN[format_]
    if value == 0 or math.isinf(value):
        size = 0 if value == 0 else _INFINITY[format_]
        return size | (_SIGN[format_] if math.copysign(1, value) < 0 else 0)
    if toward_zero or format_ == "BF16":
        return rounded(format_, Fraction(value), toward_zero=toward_zero)
    code, integer = _CODES[format_]
    try:
        return int(struct.unpack(integer, struct.pack(code, value))[0])
    except OverflowError:
        return _INFINITY[format_] | (_SIGN[format_] if value < 0 else 0)


def rounded(format_: str, exact: Fraction, *, toward_zero: bool = False) -> int:
    """The word next to a value that no float need hold; not of 0, which has a sign."""
    digits, least = _DIGITS[format_]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    place = max(exponent - digits + 1, least)
    count = (math.floor if toward_zero else round)(size / Fraction(2) ** place)
    # A word counts the floats from 0: those below the least normal, and as many for each exponent above it.
    word = (place - least << digits - 1) + count
    word = min(word, _INFINITY[format_] - toward_zero)
    return word | (_SIGN[format_] if exact < 0 else 0)


def fused(format_: str, x: float, y: float, z: float) -> int:
    """x * y + z, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return bits_of(format_, x * y + z)
    if not math.isfinite(z):
        return bits_of(format_, z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        return rounded(format_, exact)
    return bits_of(format_, x * y + z if x == 0 or y == 0 else 0.0)


# ---- operands --------------------------------------------------------------------------------------------------------


def _single(machine: Machine, instruction: Instruction, operand: Operand) -> int:
    """The bits of an f32 operand, its signs done, flushed where the instruction flushes."""
    if operand.part or operand.inverted:
        raise NotExecuted(f"operand {operand.text}")
    bits = _with_sign(machine.bits(operand), operand, 31)
    return _flushed(instruction, bits)


def _flushed(instruction: Instruction, bits: int) -> int:
    return bits & 1 << 31 if "FTZ" in instruction.modifiers and bits & WORD >> 1 < _LEAST_NORMAL else bits


def _with_sign(bits: int, operand: Operand, place: int) -> int:
    if operand.absolute:
        bits &= (1 << place) - 1
    return bits ^ operand.negative << place


def _double(machine: Machine, operand: Operand) -> float:
    """An f64 operand; an immediate is its upper half."""
    if operand.part or operand.inverted:
        raise NotExecuted(f"operand {operand.text}")
    if operand.kind == "float":
        bits = operand.number << 32
    else:
        bits = machine.bits(operand) | machine.upper_bits(operand) << 32
    return number_of("F64", _with_sign(bits, operand, 63))


def _halves(machine: Machine, operand: Operand) -> tuple[int, int]:
    """The lower and the upper half that a packed instruction sees."""
    if operand.inverted or operand.part not in ("", "H0_H0", "H1_H1", "H1_H0"):
        raise NotExecuted(f"operand {operand.text}")
    word = machine.bits(operand)
    low, high = word & 0xFFFF, word >> 16
    if operand.part == "H0_H0":
        high = low
    if operand.part == "H1_H1":
        low = high
    return _with_sign(low, operand, 15), _with_sign(high, operand, 15)


def _singles(machine: Machine, instruction: Instruction, *operands: Operand) -> list[float]:
    return [number_of("F32", _single(machine, instruction, operand)) for operand in operands]


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _set_result(machine: Machine, instruction: Instruction, bits: int) -> None:
    """An f32 result, flushed and saturated as the instruction says."""
    bits = _flushed(instruction, bits)
    if "SAT" in instruction.modifiers:
        value = number_of("F32", bits)
        bits = bits_of("F32", min(value, 1.0)) if value > 0 else 0
    machine.set(instruction.operands[0], bits)


@executes(FLOAT, "FADD", "FTZ SAT")
def add(machine: Machine, instruction: Instruction) -> None:
    x, y = _singles(machine, instruction, *instruction.operands[1:])
    _set_result(machine, instruction, bits_of("F32", x + y))


@executes(FLOAT, "FMUL", "FTZ SAT")
def multiply(machine: Machine, instruction: Instruction) -> None:
    x, y = _singles(machine, instruction, *instruction.operands[1:])
    _set_result(machine, instruction, bits_of("F32", x * y))


@executes(FLOAT, "FFMA", "FTZ SAT")
def multiply_add(machine: Machine, instruction: Instruction) -> None:
    x, y, z = _singles(machine, instruction, *instruction.operands[1:])
    _set_result(machine, instruction, fused("F32", x, y, z))


@executes(FLOAT, "DADD")
def add_double(machine: Machine, instruction: Instruction) -> None:
    target, *sources = instruction.operands
    x, y = (_double(machine, each) for each in sources)
    machine.set_long(target, bits_of("F64", x + y))


@executes(FLOAT, "DMUL")
def multiply_double(machine: Machine, instruction: Instruction) -> None:
    target, *sources = instruction.operands
    x, y = (_double(machine, each) for each in sources)
    machine.set_long(target, bits_of("F64", x * y))


@executes(FLOAT, "DFMA")
def multiply_add_double(machine: Machine, instruction: Instruction) -> None:
    target, *sources = instruction.operands
    machine.set_long(target, fused("F64", *(_double(machine, each) for each in sources)))


@executes(FLOAT, "HADD2", "F32 BF16_V2")
def add_halves(machine: Machine, instruction: Instruction) -> None:
    """F32 is the conversion of the lower half."""
    target, x, y = instruction.operands
    if "F32" not in instruction.modifiers:
        _set_fused(machine, instruction, (1.0, 1.0), *(_numbers(machine, instruction, each) for each in (x, y)))
        return
    if x.kind != "zero" or "BF16_V2" in instruction.modifiers:
        raise NotExecuted(instruction.text)
    machine.set(target, bits_of("F32", number_of("F16", _halves(machine, y)[0])))


@executes(FLOAT, "HMUL2", "BF16_V2")
def multiply_halves(machine: Machine, instruction: Instruction) -> None:
    _, *sources = instruction.operands
    columns = zip(*(_numbers(machine, instruction, each) for each in sources), strict=True)
    _set_packed(machine, instruction, [bits_of(_half(instruction), x * y) for x, y in columns])


@executes(FLOAT, "HFMA2", "MMA BF16_V2")
def multiply_add_halves(machine: Machine, instruction: Instruction) -> None:
    _set_fused(machine, instruction, *(_numbers(machine, instruction, each) for each in instruction.operands[1:]))


def _set_fused(machine: Machine, instruction: Instruction, *sources: tuple[float, float]) -> None:
    """Half by half the product of the first two, plus the third."""
    columns = zip(*sources, strict=True)
    _set_packed(machine, instruction, [fused(_half(instruction), x, y, z) for x, y, z in columns])


def _half(instruction: Instruction) -> str:
    return "BF16" if "BF16_V2" in instruction.modifiers else "F16"


def _numbers(machine: Machine, instruction: Instruction, operand: Operand) -> tuple[float, float]:
    low, high = _halves(machine, operand)
    return number_of(_half(instruction), low), number_of(_half(instruction), high)


def _set_packed(machine: Machine, instruction: Instruction, halves: list[int]) -> None:
    target = instruction.operands[0]
    if target.part:
        raise NotExecuted(instruction.text)
    machine.set(target, halves[0] | halves[1] << 16)


# ---- choices and comparisons -----------------------------------------------------------------------------------------


@executes(FLOAT, "FSEL", "FTZ")
def select(machine: Machine, instruction: Instruction) -> None:
    """Any bits, signs aside."""
    target, x, y, condition = instruction.operands
    machine.set(target, _single(machine, instruction, x if machine.truth(condition) else y))


@executes(FLOAT, "FMNMX", "FTZ NAN")
def least_or_greatest(machine: Machine, instruction: Instruction) -> None:
    """A number wins over a NaN, but with NAN; -0.0 is less than 0.0."""
    target, x, y, least = instruction.operands
    words = [_single(machine, instruction, each) for each in (x, y)]
    numbers = [word for word in words if word & WORD >> 1 <= _INFINITY["F32"]]
    if not numbers or ("NAN" in instruction.modifiers and len(numbers) < 2):
        machine.set(target, _NAN["F32"])
        return
    ordered = sorted(numbers, key=lambda word: word ^ WORD if word >> 31 else word | 1 << 31)
    machine.set(target, ordered[0 if machine.truth(least) else -1])


_ORDERED = ("LT", "EQ", "LE", "GT", "NE", "GE")
_COMPARISONS = "LT EQ LE GT NE GE LTU EQU LEU GTU NEU GEU NUM NAN F T"


def _compared(name: str, x: float, y: float) -> bool:
    """By name; with U also true where an operand is NaN."""
    unordered = math.isnan(x) or math.isnan(y)
    if name in ("F", "T"):
        return name == "T"
    if name in ("NUM", "NAN"):
        return unordered is (name == "NAN")
    if unordered:
        return name not in _ORDERED
    sign = (x > y) - (x < y)
    return {"LT": sign < 0, "EQ": sign == 0, "LE": sign <= 0, "GT": sign > 0, "NE": sign != 0, "GE": sign >= 0}[
        name[:2]
    ]


def _comparison(instruction: Instruction) -> str:
    return next(each for each in instruction.modifiers if each in _COMPARISONS.split())


@executes(FLOAT, "FSETP", f"{_COMPARISONS} AND OR XOR FTZ")
def compare(machine: Machine, instruction: Instruction) -> None:
    x, y = _singles(machine, instruction, *instruction.operands[2:4])
    set_combined(machine, instruction, _compared(_comparison(instruction), x, y), instruction.operands[4])


@executes(FLOAT, "FSET", f"{_COMPARISONS} AND OR XOR FTZ BF")
def compare_to_word(machine: Machine, instruction: Instruction) -> None:
    """1.0 with BF, else all ones."""
    target, x, y, other = instruction.operands
    combine = next(COMBINATIONS[each] for each in instruction.modifiers if each in COMBINATIONS)
    outcome = _compared(_comparison(instruction), *_singles(machine, instruction, x, y))
    true = 0x3F80_0000 if "BF" in instruction.modifiers else WORD
    machine.set(target, true if combine(outcome, machine.truth(other)) else 0)


@executes(FLOAT, "DSETP", f"{_COMPARISONS} AND OR XOR MIN MAX")
def compare_double(machine: Machine, instruction: Instruction) -> None:
    """MIN and MAX tell the choices behind them which operand, and whether it is a NaN to be made quiet."""
    first, second, left, right, other = instruction.operands
    x, y = _double(machine, left), _double(machine, right)
    if {"MIN", "MAX"}.isdisjoint(instruction.modifiers):
        set_combined(machine, instruction, _compared(_comparison(instruction), x, y), other)
        return
    if other.name != "PT" or other.inverted or "AND" not in instruction.modifiers:
        raise NotExecuted(instruction.text)
    machine.set_truth(first, math.isnan(y) or (not math.isnan(x) and _is_first(instruction, x, y)))
    machine.set_truth(second, math.isnan(x) and math.isnan(y))


def _is_first(instruction: Instruction, x: float, y: float) -> bool:
    left, right = (x, math.copysign(1, x)), (y, math.copysign(1, y))
    return left < right if "MIN" in instruction.modifiers else left > right


# ---- conversions -----------------------------------------------------------------------------------------------------


def _toward_zero(instruction: Instruction) -> bool:
    return "RZ" in instruction.modifiers


@executes(FLOAT, "F2FP", "F16 BF16 F32 PACK_AB RELU RZ")
def pack(machine: Machine, instruction: Instruction) -> None:
    """Two f32 to the halves of a word, the first to the upper one; RELU makes 0 of what has a sign, but of NaN."""
    target, high, low = instruction.operands
    format_ = "BF16" if "BF16" in instruction.modifiers else "F16"
    found = []
    for value in _singles(machine, instruction, low, high):
        if "RELU" in instruction.modifiers and math.copysign(1, value) < 0 and not math.isnan(value):
            value = 0.0
        found.append(bits_of(format_, value, toward_zero=_toward_zero(instruction)))
    machine.set(target, found[0] | found[1] << 16)


@executes(FLOAT, "F2F", "F16 BF16 F32 F64 FTZ RZ")
def convert(machine: Machine, instruction: Instruction) -> None:
    """To the first format, from the second."""
    target, source = instruction.operands
    formats = [each for each in instruction.modifiers if each in _DIGITS]
    if len(formats) != 2 or formats[1] in ("F16", "BF16"):
        raise NotExecuted(instruction.name)
    if formats[1] == "F64":
        value = _double(machine, source)
    else:
        (value,) = _singles(machine, instruction, source)
    _set_float(machine, instruction, target, formats[0], value)


def _set_float(machine: Machine, instruction: Instruction, target: Operand, format_: str, value: float) -> None:
    bits = bits_of(format_, value, toward_zero=_toward_zero(instruction))
    if format_ == "F64":
        machine.set_long(target, bits)
    else:
        machine.set(target, _flushed(instruction, bits) if format_ == "F32" else bits)


_ROUNDINGS: dict[str, Callable[[float], int]] = {"TRUNC": math.trunc, "FLOOR": math.floor, "CEIL": math.ceil}


def _whole(instruction: Instruction, value: float) -> int:
    return next((_ROUNDINGS[each] for each in instruction.modifiers if each in _ROUNDINGS), round)(value)


@executes(FLOAT, "FRND", "F64 FTZ TRUNC FLOOR CEIL")
def round_to_whole(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    format_ = "F64" if "F64" in instruction.modifiers else "F32"
    value = _double(machine, source) if format_ == "F64" else _singles(machine, instruction, source)[0]
    if math.isfinite(value):
        value = math.copysign(float(_whole(instruction, value)), value)
    _set_float(machine, instruction, target, format_, value)


def _integer_type(instruction: Instruction) -> tuple[bool, int]:
    """Whether it has a sign, and its bits; S32 is not written."""
    name = next((each for each in instruction.modifiers if each[0] in "US" and each[1:].isdigit()), "S32")
    return name[0] == "S", int(name[1:])


@executes(FLOAT, "I2F", "U8 S8 U16 S16 U32 U64 S64 F16 F64 RZ")
@executes(FLOAT, "I2FP", "F32 S32 U32 RZ")
def from_integer(machine: Machine, instruction: Instruction) -> None:
    target, source = instruction.operands
    has_sign, width = _integer_type(instruction)
    value = machine.long(source) if width == 64 else machine.word(source) & (1 << width) - 1
    if has_sign:
        value = signed(value, width)
    format_ = next((each for each in instruction.modifiers if each in ("F16", "F64")), "F32")
    bits = rounded(format_, Fraction(value), toward_zero=_toward_zero(instruction)) if value else 0
    (machine.set_long if format_ == "F64" else machine.set)(target, bits)


@executes(FLOAT, "F2I", "U8 S8 U16 S16 U32 U64 S64 F64 FTZ NTZ TRUNC FLOOR CEIL")
def to_integer(machine: Machine, instruction: Instruction) -> None:
    """Clamped to the type. A NaN gives 0 with NTZ, else the sign bit alone."""
    target, source = instruction.operands
    has_sign, width = _integer_type(instruction)
    value = _double(machine, source) if "F64" in instruction.modifiers else _singles(machine, instruction, source)[0]
    least, greatest = (-(1 << width - 1), (1 << width - 1) - 1) if has_sign else (0, (1 << width) - 1)
    if math.isnan(value):
        found = 0 if "NTZ" in instruction.modifiers else 1 << width - 1
    elif math.isinf(value):
        found = greatest if value > 0 else least
    else:
        found = min(max(_whole(instruction, value), least), greatest)
    (machine.set_long if width == 64 else machine.set)(target, found)
