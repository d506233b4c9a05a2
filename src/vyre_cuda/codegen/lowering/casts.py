"""Casts and bitcasts among the thirteen types.

Integers keep low bits; floats go to integers by truncation, saturating, NaN to 0; everything that goes to a float is
rounded once, to nearest even; anything is true when it is not equal to zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.codegen.forms.isel import BITS, MACHINE_TYPE
from vyre_cuda.codegen.lowering.integers import bits_as_unsigned, integer_to_integer, narrowed
from vyre_cuda.codegen.ssa.peephole import Builder
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import Type, bf16, bool_, f16, f32, f64
from vyre_cuda.later import later

if TYPE_CHECKING:
    from vyre_cuda.codegen.lowering import halves
else:
    halves = later("vyre_cuda.codegen.lowering.halves")


def cast(b: Builder, source: Type, target: Type, value: int) -> int:
    """The value of one type as another."""
    if source is target:
        return value
    if target is bool_:
        different = b.apply if source in (f16, bf16) else b.in_mode  # a subnormal bf16 is a subnormal f32
        return different("not_equal", value, b.constant(MACHINE_TYPE[source], 0))
    if source is bool_:
        return b.apply("where", value, *(_number(b, target, number) for number in (1, 0)))
    if target.is_float:
        return _to_float(b, source, target, value)
    if source.is_float:
        return _float_to_integer(b, source, target, value)
    return integer_to_integer(b, source, target, value)


def _number(b: Builder, type_: Type, number: int) -> int:
    if type_ in (f16, bf16):
        return b.constant("f32", bits_of(f32, number))
    return b.constant(MACHINE_TYPE[type_], bits_of(type_, number))


def _to_float(b: Builder, source: Type, target: Type, value: int) -> int:
    if target is f64:
        return _converted(b, source, "f64", value)
    if target is f32:
        if source in (f16, bf16):
            return value
        return _converted(b, source, "f32", value)
    if source.is_float and source is not f64:
        return halves.rounded(b, target, value)
    # Integers that f32 rounds are above the largest f16, and remain above it.
    exact = source.is_integer and (source.bits < 32 or target is f16)
    number = b.convert("cast.f32", "f32", value) if exact else halves.odd_float(b, value)
    return halves.rounded(b, target, number)


def _converted(b: Builder, source: Type, machine: str, value: int) -> int:
    """The one instruction, in the precision of the program when an f32 takes part."""
    op = f"cast.{machine}"
    if source in (f32, f64):
        op = b.modes.get((op, MACHINE_TYPE[source]), op)
    return b.convert(op, machine, value)


def _float_to_integer(b: Builder, source: Type, target: Type, value: int) -> int:
    """PTX ISA, cvt: saturates; NaN gives 0 only from f32 to 32 bits. Narrow types saturate after that."""
    machine, origin = MACHINE_TYPE[target], MACHINE_TYPE[source]
    op = f"cast.{machine}"
    if source is f32:
        op = b.modes.get((op, origin), op)
    number = b.convert(op, machine, value)
    if origin == "f64" or BITS[machine] == 64:
        number = b.apply("where", b.apply("unordered", value, value), b.constant(machine, 0), number)
    if target.bits < 32:
        number = b.apply("minimum", number, b.constant(machine, target.maximum))
        if target.kind == "signed":
            number = b.apply("maximum", number, b.constant(machine, target.minimum))
    return number


def bitcast(b: Builder, source: Type, target: Type, value: int) -> int:
    """The same bits as another type of the same width."""
    if source is target:
        return value
    if source.is_integer and target.is_integer:
        return integer_to_integer(b, source, target, value)
    machine = MACHINE_TYPE[target]
    if source.bits > 16:
        return b.convert(f"bits.{machine}", machine, value)
    bits = halves.to_bits(b, source, value) if source.is_float else bits_as_unsigned(b, source, value)
    if target.is_float:
        return halves.from_bits(b, target, bits)
    return narrowed(b, target, b.convert("retype", machine, bits))
